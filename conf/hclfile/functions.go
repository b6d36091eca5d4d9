package hclfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// functions lists what an expression may call: reading and taking apart what
// deployments hand over (a file, a list in a variable), and little else.
// Nothing here makes a long value from a short file: no range, no format with
// widths, no replace, no product of sets.
func functions(directory string, read func(string) ([]byte, error)) map[string]function.Function {
	return map[string]function.Function{
		"file":       fileFunction(directory, read),
		"jsondecode": stdlib.JSONDecodeFunc,

		"tostring": stdlib.MakeToFunc(cty.String),
		"tonumber": stdlib.MakeToFunc(cty.Number),
		"tobool":   stdlib.MakeToFunc(cty.Bool),

		"lower":      stdlib.LowerFunc,
		"upper":      stdlib.UpperFunc,
		"trimspace":  stdlib.TrimSpaceFunc,
		"trimprefix": stdlib.TrimPrefixFunc,
		"trimsuffix": stdlib.TrimSuffixFunc,
		"split":      stdlib.SplitFunc,
		"join":       stdlib.JoinFunc,

		"length":   stdlib.LengthFunc,
		"concat":   stdlib.ConcatFunc,
		"contains": stdlib.ContainsFunc,
		"distinct": stdlib.DistinctFunc,
		"compact":  stdlib.CompactFunc,
		"sort":     stdlib.SortFunc,
		"keys":     stdlib.KeysFunc,
		"values":   stdlib.ValuesFunc,
		"lookup":   stdlib.LookupFunc,
		"merge":    stdlib.MergeFunc,
		"coalesce": stdlib.CoalesceFunc,

		"min":   stdlib.MinFunc,
		"max":   stdlib.MaxFunc,
		"floor": stdlib.FloorFunc,
		"ceil":  stdlib.CeilFunc,
	}
}

// fileFunction is file("path"): the text of a file without the newline that an
// editor puts at its end. A path is taken from the configuration's directory.
func fileFunction(directory string, read func(string) ([]byte, error)) function.Function {
	return function.New(&function.Spec{
		Description: "The text of a file, without one newline at its end.",
		Params:      []function.Parameter{{Name: "path", Type: cty.String}},
		Type:        function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			path := args[0].AsString()
			if path == "" {
				return cty.UnknownVal(cty.String), function.NewArgErrorf(0, "the path is empty")
			}
			if !filepath.IsAbs(path) {
				path = filepath.Join(directory, path)
			}
			src, err := read(path)
			if err != nil {
				return cty.UnknownVal(cty.String), function.NewArgErrorf(0, "%s", cause(path, err))
			}
			if !utf8.Valid(src) {
				return cty.UnknownVal(cty.String), function.NewArgErrorf(0, "%s is not UTF-8 text", path)
			}
			text := strings.TrimSuffix(string(src), "\n")
			return cty.StringVal(strings.TrimSuffix(text, "\r")), nil
		},
	})
}

// errTooBig is returned by readFile.
var errTooBig = errors.New("too big")

// readFile reads a file of at most limit bytes. It reads pipes as well, so
// that a shell can hand over a configuration or a secret in one.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errDirectory}
	}
	src, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(src)) > limit {
		return nil, fmt.Errorf("%w: the limit is %d KiB", errTooBig, limit>>10)
	}
	return src, nil
}

// errDirectory stands for EISDIR, whose text does not say what to do.
var errDirectory = errors.New("is a directory")

// cause says why a file can't be read and what to look at.
func cause(path string, err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("there is no file %s", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("%s may not be read by this user: see ls -l %s", path, path)
	case errors.Is(err, errDirectory):
		return fmt.Sprintf("%s is a directory: name the file in it", path)
	case errors.Is(err, errTooBig):
		return fmt.Sprintf("%s is %s", path, err)
	}
	return err.Error()
}

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/spf13/cobra"

	"github.com/weirlb/weir/conf/hclfile"
)

// formatter is one run of weir fmt.
type formatter struct {
	write, check bool
	in           io.Reader
	out, err     io.Writer
}

func newFmtCmd() *cobra.Command {
	var f formatter
	cmd := &cobra.Command{
		Use:   "fmt [-w | --check] [FILE...]",
		Short: "format configurations",
		Long: `Fmt formats configurations: indentation, and the spaces around equals signs.
Without a file, or for the file -, it formats standard input. The result goes
to standard output, or with -w back into the files that it changes. With
--check it only lists the files that it would change, and exits with 1 if
there are any. A file with syntax errors is reported and left alone.`,
		Example: "  weir fmt -w weir.hcl\n  weir fmt --check *.hcl",
		RunE: func(cmd *cobra.Command, args []string) error {
			f.in, f.out, f.err = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			return f.run(args)
		},
	}
	cmd.Flags().BoolVarP(&f.write, "write", "w", false, "write the result back to the files")
	cmd.Flags().BoolVar(&f.check, "check", false, "list the files that are not formatted")
	cmd.MarkFlagsMutuallyExclusive("write", "check")
	return cmd
}

// errReported says that a file was at fault and that the reason is written.
var errReported = errors.New("reported")

func (f *formatter) run(paths []string) error {
	if len(paths) == 0 {
		paths = []string{"-"}
	}
	for _, p := range paths {
		if p == "-" && f.write {
			return errors.New("standard input can't be written back: name a file, or leave out -w")
		}
	}
	failed := false
	for _, p := range paths {
		switch err := f.file(p); {
		case err == nil:
			continue
		case !errors.Is(err, errReported):
			fmt.Fprintf(f.err, "format %s: %s\n", p, err)
		}
		failed = true // and on to the next file
	}
	if failed {
		return &exitError{code: exitFailed}
	}
	return nil
}

func (f *formatter) file(path string) error {
	name := path
	var src []byte
	var err error
	if path == "-" {
		name = "<stdin>"
		src, err = io.ReadAll(io.LimitReader(f.in, hclfile.MaxFileBytes+1))
	} else {
		src, err = hclfile.ReadFile(path)
	}
	if err != nil {
		return err
	}
	if r := hclfile.CheckSyntax(src, name); r.Diagnostics.HasErrors() {
		r.WriteDiagnostics(f.err, isColorTerminal(f.err))
		return errReported
	}
	formatted := hclwrite.Format(src)
	switch same := bytes.Equal(src, formatted); {
	case f.check && !same:
		fmt.Fprintln(f.out, name)
		return errReported
	case f.write && !same:
		return replace(path, formatted)
	case f.check || f.write:
		return nil
	}
	_, err = f.out.Write(formatted)
	return err
}

// replace gives a file new content in one step, with its owner and mode as they
// were: a crash leaves the old or the new content, never a part. Who may not give
// it back to its owner is refused: weir's user may be who has to read it. A symbolic link stays
// one, what it points to is replaced.
func replace(path string, content []byte) (err error) {
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			tmp.Close()
			os.Remove(tmp.Name())
		}
	}()
	if _, err = tmp.Write(content); err != nil {
		return err
	}
	made, err := tmp.Stat()
	if err != nil {
		return err
	}
	if old := owner(info); old != owner(made) {
		if err = tmp.Chown(old[0], old[1]); err != nil {
			return err
		}
	}
	if err = tmp.Chmod(info.Mode().Perm()); err != nil {
		return err
	}
	if err = tmp.Sync(); err != nil {
		return err
	}
	if err = tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// owner returns the user and the group that a file belongs to.
func owner(info os.FileInfo) [2]int {
	st := info.Sys().(*syscall.Stat_t)
	return [2]int{int(st.Uid), int(st.Gid)}
}

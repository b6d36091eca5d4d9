package hclfile

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirlb/weir/conf"
)

// same compares configurations. An absent list and an empty one say the same.
var same = cmp.Options{
	cmpopts.EquateEmpty(),
	cmp.Comparer(func(a, b *regexp.Regexp) bool { return a == b || a != nil && b != nil && a.String() == b.String() }),
}

// difference says in what two configurations differ; "" if in nothing.
func difference(a, b *conf.Config) string {
	if reflect.DeepEqual(a, b) { // much the faster way
		return ""
	}
	return cmp.Diff(a, b, same)
}

// goldenOptions reads files from beside the golden file. In what Effective
// writes the paths are absolute and begin at the tests' own directory.
func goldenOptions(path string) Options {
	opts := testOptions()
	opts.ReadFile = func(name string) ([]byte, error) {
		return readFile(filepath.Join(filepath.Dir(path), strings.TrimPrefix(atHome(name), "/")), MaxValueBytes)
	}
	return opts
}

// here is the directory that relative paths of golden files are taken from.
func here(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir + "/"
}

// What Effective writes is read to the same configuration, about which there
// is the same to note.
func TestEffectiveRoundTrip(t *testing.T) {
	for _, path := range files(t, "good") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			r := parseFile(t, path)
			src := Effective(r.Config, true)
			again := Parse(src, filepath.Base(path), goldenOptions(path))
			if again.Config == nil {
				t.Fatalf("refused:\n%s\n%s", text(again), src)
			}
			if diff := difference(r.Config, again.Config); diff != "" {
				t.Errorf("it is another configuration (-file +effective):\n%s\n%s", diff, src)
			}
			if diff := cmp.Diff(notes(r), strings.ReplaceAll(notes(again), here(t), "")); diff != "" {
				t.Errorf("it has other notes (-file +effective):\n%s", diff)
			}
		})
	}
}

// Without secrets the passwords are hidden, and nothing else is different.
func TestEffectiveHidesPasswords(t *testing.T) {
	hidden := 0
	for _, path := range files(t, "good") {
		c := parseFile(t, path).Config
		shown := Effective(c, false)
		before := hidden
		for i := range c.Upstreams {
			for j := range c.Upstreams[i].Checks {
				if h := &c.Upstreams[i].Checks[j]; h.Password != "" {
					if bytes.Contains(shown, []byte(`"`+h.Password+`"`)) && h.Password != h.User {
						t.Errorf("%s: the password %q is shown", path, h.Password)
					}
					h.Password = conf.HidesPassword
					hidden++
				}
			}
		}
		if hidden == before {
			continue
		}
		again := Parse(shown, filepath.Base(path), goldenOptions(path))
		if again.Config == nil {
			t.Fatalf("%s: refused:\n%s", path, text(again))
		}
		if diff := difference(c, again.Config); diff != "" {
			t.Errorf("%s: it is another configuration (-file +effective):\n%s", path, diff)
		}
	}
	if hidden < 3 {
		t.Errorf("only %d passwords were tried", hidden)
	}
}

// TestEffectiveGolden shows what it looks like.
func TestEffectiveGolden(t *testing.T) {
	for _, name := range []string{"minimal", "profile_postgres", "balance_hash_consistent"} {
		path := filepath.Join("testdata", "good", name+".hcl")
		golden(t, filepath.Join("testdata", "effective", name+".hcl"), string(Effective(parseFile(t, path).Config, false)))
	}
}

// Every field of the model is written: in at least one of the golden files the
// text changes when the field does.
func TestEffectiveWritesEveryField(t *testing.T) {
	written := map[string]bool{}
	fieldsOf(reflect.TypeFor[conf.Config](), written)
	written["Server.Host"], written["Server.Origin"] = true, true // of discovered servers, which stand in no file
	for _, path := range files(t, "good") {
		c := parseFile(t, path).Config
		before := Effective(c, true)
		perturb(reflect.ValueOf(c).Elem(), "", func(field string) {
			if !written[field] && !bytes.Equal(before, Effective(c, true)) {
				written[field] = true
			}
		}, written)
	}
	for field, ok := range written {
		if !ok {
			t.Errorf("%s is not written, or no golden file has it", field)
		}
	}
	if len(written) < 140 {
		t.Errorf("only %d fields were found", len(written))
	}
}

// isLeaf reports whether a value is changed as a whole.
func isLeaf(t reflect.Type) bool {
	return t == reflect.TypeFor[*regexp.Regexp]() || t == reflect.TypeFor[[]byte]() ||
		!slices.Contains([]reflect.Kind{reflect.Struct, reflect.Slice, reflect.Pointer}, t.Kind())
}

// fieldsOf notes every field below a type, each by its type and name.
func fieldsOf(t reflect.Type, into map[string]bool) {
	switch {
	case isLeaf(t):
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Type.Kind() != reflect.Struct {
				into[t.Name()+"."+f.Name] = false
			}
			fieldsOf(f.Type, into)
		}
	default:
		fieldsOf(t.Elem(), into)
	}
}

// perturb changes one field after the other, calls changed, and changes it
// back. Fields that are done are left out.
func perturb(v reflect.Value, field string, changed func(field string), done map[string]bool) {
	set := func(to reflect.Value) {
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		v.Set(to)
		changed(field)
		v.Set(old)
	}
	switch {
	case field != "" && !isLeaf(v.Type()) && v.Kind() != reflect.Struct && !v.IsZero():
		set(reflect.Zero(v.Type())) // without the list, or without the block
	case field != "" && isLeaf(v.Type()) && !done[field]:
		set(other(v, field))
	}
	switch {
	case isLeaf(v.Type()):
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			perturb(v.Field(i), v.Type().Name()+"."+v.Type().Field(i).Name, changed, done)
		}
	case v.Kind() == reflect.Pointer && !v.IsNil():
		perturb(v.Elem(), "", changed, done)
	case v.Kind() == reflect.Slice:
		for i := range min(v.Len(), 20) {
			perturb(v.Index(i), "", changed, done)
		}
	}
}

// other is a valid value that differs from v.
func other(v reflect.Value, field string) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	either := func(a, b any) {
		out.Set(reflect.ValueOf(a))
		if v.Interface() == a {
			out.Set(reflect.ValueOf(b))
		}
	}
	switch old := v.Interface().(type) {
	case slog.Level:
		either(slog.LevelInfo, slog.LevelWarn)
	case conf.CheckKind:
		either(conf.CheckTCP, conf.CheckTLS)
	case conf.LimitAlgorithm:
		either(conf.Gradient, conf.Vegas)
	case *regexp.Regexp:
		out.Set(reflect.ValueOf(regexp.MustCompile("other")))
	case []byte:
		out.Set(reflect.ValueOf(append([]byte("other"), old...)))
	case string:
		out.SetString(old + "x")
		switch field {
		case "Balance.Method":
			either(conf.RoundRobin, conf.WeightedRoundRobin)
		case "Balance.By":
			either(conf.LeastConn, conf.LeastTime)
		}
	default:
		switch v.Kind() {
		case reflect.Bool:
			out.SetBool(!v.Bool())
		case reflect.String:
			out.SetString(v.String() + "x")
		case reflect.Float64:
			out.SetFloat(v.Float()/2 + 0.1)
		case reflect.Uint8: // a word of two at least
			out.SetUint(1 - min(v.Uint(), 1))
		case reflect.Uint16:
			out.SetUint(v.Uint() ^ 1)
		default:
			out.SetInt(v.Int() + 1)
		}
	}
	return out
}

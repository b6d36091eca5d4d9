package hclfile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/dynblock"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/weirlb/weir/conf"
)

// Options is what a configuration depends on beside its text. The zero value
// has no environment, reads files from the disk and knows no limits.
type Options struct {
	// Env looks up an environment variable for env.NAME, as os.LookupEnv.
	Env func(name string) (value string, ok bool)
	// ReadFile reads a file for file("path"), and those whose content is
	// checked; nil reads the disk.
	ReadFile func(path string) ([]byte, error)
	// Limits are those of the machine, for lints.
	Limits Limits
}

// Result is what came out of one file.
type Result struct {
	// Config is nil if any diagnostic is an error.
	Config *conf.Config
	// Admin is the admin block, also of a file with mistakes elsewhere: whoever
	// looks for the weir that runs must find it. nil = not known.
	Admin *conf.Admin
	// Diagnostics are sorted by their place in the file.
	Diagnostics hcl.Diagnostics

	filename string
	source   []byte
	notes    []string
}

// Warnings counts the lints.
func (r *Result) Warnings() int {
	n := 0
	for _, d := range r.Diagnostics {
		if d.Severity == hcl.DiagWarning {
			n++
		}
	}
	return n
}

// Notes are facts about the configuration that no file says in so many words,
// one line each: nothing is wrong with them, but an operator may want to know.
// There are none without a configuration.
func (r *Result) Notes() []string {
	if r.Config == nil {
		return nil
	}
	return slices.Concat(failureCosts(r.Config), openToMachine(r.Config), unchecked(r.Config), movingKeys(r.Config), r.notes)
}

// Load reads a configuration file.
func Load(path string, opts Options) *Result {
	src, err := readFile(path, MaxFileBytes)
	if err != nil {
		detail := ""
		if errors.Is(err, fs.ErrNotExist) {
			detail = "Name the file after the command, or write it: a listener and an upstream are all it needs."
		}
		d := diagnostic(hcl.DiagError, hcl.Range{}, "read configuration: "+cause(path, err), detail, related{})
		return &Result{Diagnostics: hcl.Diagnostics{d}, filename: path}
	}
	return Parse(src, path, opts)
}

// Parse reads a configuration from memory. The file name appears in
// diagnostics, and file() takes its directory for relative paths.
func Parse(src []byte, filename string, opts Options) *Result {
	r := &Result{filename: filename, source: src}
	d := &decoder{flawed: map[int]bool{}, spoilt: map[int]bool{}}
	if r.Diagnostics = checkText(src, filename); r.Diagnostics.HasErrors() {
		return r
	}
	file, blanked, diags := parseSyntax(src, filename)
	d.diags, d.partial = diags, diags.HasErrors()
	if file != nil {
		d.file(file, blanked, filename, opts)
	}
	if !d.adminConf.Listen.IsZero() {
		r.Admin = &d.adminConf.Admin
	}
	r.Diagnostics = inOrderOfFile(d.diags)
	if r.Diagnostics.HasErrors() {
		return r
	}
	r.Config, r.notes = d.config(), d.notes
	d.diags = nil
	d.lint(r.Config, opts.Limits)
	r.Diagnostics = inOrderOfFile(append(r.Diagnostics, d.diags...))
	return r
}

// file takes one parsed file through the words, the values and the checks.
func (d *decoder) file(file *hclsyntax.Body, blanked map[int]bool, filename string, opts Options) {
	read := opts.ReadFile
	if read == nil {
		read = func(path string) ([]byte, error) { return readFile(path, MaxValueBytes) }
	}
	d.directory, d.read = filepath.Dir(filename), read
	v := &values{
		decoder:   d,
		lookupEnv: opts.Env,
		functions: functions(d.directory, read),
		locals:    map[string]*local{},
		env:       map[string]cty.Value{},
	}
	empty := len(file.Blocks) == 0 && len(file.Attributes) == 0
	v.declare(file)
	w := &words{decoder: d, values: v, blanked: blanked}
	w.body(rootBlock, file, nil)
	d.ctx = v.context()

	defaults := conf.Default()
	d.workerConf, d.logConf, d.resolverConf = defaults.Worker, defaults.Log, defaults.Resolver
	root := d.open(rootBlock, dynblock.Expand(file, d.ctx))
	if b := root.one(workerBlock); b != nil {
		d.worker(b, &d.workerConf)
	}
	if b := root.one(logBlock); b != nil {
		d.log(b, &d.logConf)
	}
	if b := root.one(adminBlock); b != nil {
		d.admin(b)
	}
	if b := root.one(resolverBlock); b != nil {
		d.resolverAt = b.headerAt
		d.resolver(b, &d.resolverConf)
	}
	for _, b := range root.each(upstreamBlock) {
		d.upstream(b)
	}
	for _, b := range root.each(listenerBlock) {
		d.listener(b)
	}
	d.check(root, empty)
}

// config assembles the model from what was decoded without an error.
func (d *decoder) config() *conf.Config {
	c := &conf.Config{Worker: d.workerConf, Log: d.logConf, Admin: d.adminConf.Admin, Resolver: d.resolverConf}
	for _, u := range d.upstreams {
		c.Upstreams = append(c.Upstreams, u.Upstream)
	}
	for _, l := range d.listeners {
		c.Listeners = append(c.Listeners, l.Listener)
	}
	return c
}

// inOrderOfFile sorts diagnostics by place and drops repetitions, which come
// from dynamic blocks that make the same mistake many times.
func inOrderOfFile(diags hcl.Diagnostics) hcl.Diagnostics {
	start := func(d *hcl.Diagnostic) int {
		if d.Subject == nil {
			return math.MaxInt // about the file as a whole: after its lines
		}
		return d.Subject.Start.Byte
	}
	slices.SortStableFunc(diags, func(a, b *hcl.Diagnostic) int { return cmp.Compare(start(a), start(b)) })
	seen := map[string]bool{}
	return slices.DeleteFunc(diags, func(d *hcl.Diagnostic) bool {
		key := fmt.Sprint(start(d), "\x00", d.Summary, "\x00", d.Detail)
		again := seen[key]
		seen[key] = true
		return again
	})
}

// ReadFile reads a configuration file of at most MaxFileBytes. The text of its
// error is fit to follow the name of what was tried.
func ReadFile(path string) ([]byte, error) {
	src, err := readFile(path, MaxFileBytes)
	if err != nil {
		return nil, errors.New(cause(path, err))
	}
	return src, nil
}

// CheckSyntax looks at the syntax of a file only, not at what its words mean.
// The Result has no configuration.
func CheckSyntax(src []byte, filename string) *Result {
	r := &Result{filename: filename, source: src}
	if r.Diagnostics = checkText(src, filename); !r.Diagnostics.HasErrors() {
		_, _, diags := parseSyntax(src, filename)
		r.Diagnostics = inOrderOfFile(diags)
	}
	return r
}

// Package weir_test holds the rules of the tree that no compiler enforces.
package weir_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/weirlb/weir/"

// allowed lists, for each package, what of this module and of the few guarded
// modules it may import, besides the standard library. A package that is not
// listed fails the test: say where it belongs.
var allowed = map[string][]string{
	"cmd/weir":              {"conf", "conf/hclfile", "ebpf/reuseport", "stream", "stream/admin", "stream/handover", "stream/metrics", "stream/simulate", "stream/stats", "stream/upstream", sysunix},
	"conf":                  {},
	"conf/hclfile":          {"conf"}, // a config check opens no socket
	"stream":                {"conf", "stream/...", sysunix},
	"stream/balance":        {}, // pure: no fds, locks, clock or configuration
	"stream/upstream":       {"conf", "stream/adaptive", "stream/balance", "stream/handover", "stream/latency", "stream/queue", "stream/stats", clockPkg},
	"stream/simulate":       {"conf", "stream/balance", "stream/upstream", clockPkg},
	"stream/metrics":        {"conf", "stream", "stream/balance", "stream/discovery", "stream/health", "stream/stats", "stream/upstream", portPkg, sysPkg, sysunix},
	"stream/admin":          {"conf", "stream", "stream/...", sysunix},
	"stream/discovery":      {"conf"},                                                                              // no groups, sessions, workers or checks
	"stream/history":        {"conf", "stream/accesslog", "stream/decisions", "stream/upstream", sysPkg, clockPkg}, // who reads it is not its business
	"stream/loop":           {sysPkg, clockPkg, sysunix},                                                           // no TCP, UDP or peers
	"stream/latency":        {},                                                                                    // what follows from a latency is not its business
	"stream/queue":          {"conf"},
	"stream/adaptive":       {"conf", "stream/latency", "stream/queue"}, // no clock, sockets, sessions or groups
	"stream/udp":            {"conf", "stream/handover", "stream/loop", "stream/upstream", "stream/decisions", "stream/history", "stream/stats", "stream/accesslog", sysPkg, clockPkg, sysunix},
	"stream/tcp":            {"conf", "stream/adaptive", "stream/handover", "stream/loop", "stream/queue", "stream/refusal", "stream/upstream", "stream/stats", "stream/accesslog", "stream/decisions", "stream/history", sysPkg, clockPkg, sysunix},
	"stream/handover":       {"conf", sysunix},
	"stream/health":         {"conf", clockPkg}, // no sessions, methods, groups or workers
	"stream/accesslog":      {"conf", "stream/stats", sysPkg, clockPkg},
	"stream/decisions":      {"conf", "stream/balance", "stream/upstream", sysPkg, clockPkg},
	"stream/refusal":        {"conf"}, // bytes only: no sockets
	"stream/stats":          {},
	"stream/internal/sys":   {sysunix},
	"stream/internal/clock": {},
	"stream/internal/port":  {sysPkg, sysunix}, // for HTTP: sessions have listeners of their own
	"ebpf/reuseport":        {sysunix},         // takes fds and worker numbers as integers: no stream, no conf
	"bench":                 {"bench/overload", "conf", "stream/admin", sysunix},
	"bench/overload":        {"stream/admin"},
	"integration":           {"..."},
	"integration/dnstest":   {},
	"integration/netns":     {sysunix},
}

const (
	sysunix  = "golang.org/x/sys/unix"
	sysPkg   = "stream/internal/sys"
	portPkg  = "stream/internal/port"
	clockPkg = "stream/internal/clock"
)

// guarded are modules that only the packages which list them may import, with
// the reason.
var guarded = map[string]string{
	"golang.org/x/sys":           "system calls live behind stream/internal/sys; others may name errnos and flags",
	"github.com/hashicorp/hcl":   "only conf/hclfile knows the file format",
	"github.com/cilium/ebpf":     "only ebpf/reuseport loads programs",
	"github.com/spf13/cobra":     "only cmd/weir knows flags",
	"github.com/zclconf/go-cty":  "only conf/hclfile evaluates expressions",
	"github.com/prometheus":      "only stream/metrics speaks to Prometheus",
	"github.com/agext/levenshte": "only conf/hclfile guesses names",
	"gonum.org/v1/plot":          "only bench draws",
	"github.com/miekg/dns":       "only stream/discovery asks DNS servers",
	"github.com/fsnotify":        "only stream/discovery watches files",
}

// guardedAllowed are the exceptions to guarded.
var guardedAllowed = map[string][]string{
	"cmd/weir":       {"github.com/spf13/cobra", "github.com/hashicorp/hcl"},
	"bench":          {"gonum.org/v1/plot"},
	"conf/hclfile":   {"github.com/hashicorp/hcl", "github.com/zclconf/go-cty", "github.com/agext/levenshte"},
	"ebpf/reuseport": {"github.com/cilium/ebpf"},
	"stream/metrics": {"github.com/prometheus/client_golang", "github.com/prometheus/client_model"},

	"stream/discovery":    {"github.com/miekg/dns", "github.com/fsnotify"},
	"integration/dnstest": {"github.com/miekg/dns"},
}

// unsafePackages may import unsafe, in files whose name says so.
var unsafePackages = map[string]bool{"stream/internal/sys": true, "ebpf/reuseport": true, "bench": true}

func TestImports(t *testing.T) {
	imports := map[string]map[string]string{} // package -> import -> file
	forEachFile(t, func(dir, file string) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		if imports[dir] == nil {
			imports[dir] = map[string]string{}
		}
		for _, imp := range f.Imports {
			imports[dir][strings.Trim(imp.Path.Value, `"`)] = file
		}
	})
	for dir, list := range imports {
		rule, known := allowed[dir]
		if !known {
			t.Errorf("package %s has no rule: say in this test what it may import", dir)
			continue
		}
		for path, file := range list {
			if path == "unsafe" {
				if !unsafePackages[dir] || !strings.HasSuffix(file, "_unsafe.go") {
					t.Errorf("%s imports unsafe: that belongs into a file *_unsafe.go of stream/internal/sys or ebpf/reuseport", file)
				}
				continue
			}
			if inner, ok := strings.CutPrefix(path, module); ok {
				if !matches(rule, inner) {
					t.Errorf("%s imports %s: %s may only import %v", file, inner, dir, rule)
				}
				continue
			}
			for g, why := range guarded {
				if strings.HasPrefix(path, g) && !matches(rule, path) && !prefixed(guardedAllowed[dir], path) {
					t.Errorf("%s imports %s: %s", file, path, why)
				}
			}
		}
	}
}

func matches(rule []string, path string) bool {
	for _, r := range rule {
		if r == path || r == "..." || strings.HasSuffix(r, "/...") && strings.HasPrefix(path, strings.TrimSuffix(r, "...")) {
			return true
		}
	}
	return false
}

func prefixed(list []string, path string) bool {
	for _, p := range list {
		if strings.HasPrefix(path, p) {
			return true
		}
	}
	return false
}

// Every package has one doc comment, in doc.go or in its only other place,
// main.go.
func TestEveryPackageHasOneDoc(t *testing.T) {
	docs := map[string][]string{}
	forEachFile(t, func(dir, file string) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		docs[dir] = append(docs[dir], "")[:len(docs[dir])]
		if f.Doc != nil {
			docs[dir] = append(docs[dir], file)
		}
	})
	for dir, files := range docs {
		if len(files) != 1 {
			t.Errorf("package %s has its doc in %v, want exactly one file", dir, files)
		}
	}
}

// forEachFile calls f for every Go file that is not a test.
func forEachFile(t *testing.T, f func(dir, file string)) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != ".") {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			n++
			f(filepath.Dir(path), path)
		}
		return nil
	})
	if err != nil || n < 20 {
		t.Fatalf("read %d files: %v", n, err)
	}
}

// The balancer must build without cgo, so that one file runs everywhere.
func TestBuildsWithoutCgo(t *testing.T) {
	cmd := exec.Command("go", "build", "-o", os.DevNull, "./cmd/weir")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

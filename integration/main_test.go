package integration_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	binary string        // the weir under test
	scale  = 1.0         // of all deadlines
	long   bool          // full durations
	load   time.Duration // how long one load runs
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(runRole(role))
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	long = os.Getenv("WEIR_LONG") == "1"
	load = 2 * time.Second
	if long {
		load = 30 * time.Second
	}
	if raceEnabled {
		scale = 3
		// The race detector has a program sleep for a second before it exits, in
		// case that threads still race. Here that would be minutes in all.
		os.Setenv("GORACE", "atexit_sleep_ms=20 "+os.Getenv("GORACE"))
	}
	if text := os.Getenv("WEIR_TEST_TIMEOUT_SCALE"); text != "" {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || f <= 0 {
			fmt.Fprintf(os.Stderr, "WEIR_TEST_TIMEOUT_SCALE=%q: want a number above 0\n", text)
			return 2
		}
		scale *= f
	}
	dir, err := os.MkdirTemp("", "weir-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	defer os.RemoveAll(dir)
	if binary, err = build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if err := setParallel(3 * runtime.NumCPU()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	// What a test does with many megabytes at once, the race detector does to the
	// end, holding a P. Two that did so kept all others waiting for seconds.
	runtime.GOMAXPROCS(max(8, runtime.GOMAXPROCS(0)))
	before := leftovers()
	code := m.Run()
	if left := waitForLeftovers(before); code == 0 && left != "" {
		fmt.Fprintln(os.Stderr, "left behind: "+left)
		return 1
	}
	return code
}

// setParallel says how many tests may run at a time, unless the command line
// does.
func setParallel(n int) error {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(n))
}

// build returns the path of the binary to test.
func build(dir string) (string, error) {
	if path := os.Getenv("WEIR_TEST_BINARY"); path != "" {
		return filepath.Abs(path)
	}
	if err := lookAtSources(".."); err != nil {
		return "", err
	}
	out := filepath.Join(dir, "weir")
	args := []string{"build", "-o", out}
	if raceEnabled {
		args = append(args, "-race")
	}
	text, err := exec.Command("go", append(args, "../cmd/weir")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build ../cmd/weir: %w\n%s", err, text)
	}
	return out, nil
}

// lookAtSources looks at every source file of the module: go test reuses an old
// result unless a file has changed that the tests themselves looked at.
func lookAtSources(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".go" {
			_, err = os.Stat(path)
		}
		return err
	})
}

// leftover counts what tests must not leave behind in this process.
type leftover struct{ goroutines, sockets, children int }

func leftovers() leftover {
	return leftover{
		goroutines: runtime.NumGoroutine(),
		sockets:    countFDs(os.Getpid(), "socket:"),
		children:   len(children()),
	}
}

// waitForLeftovers says what there is more of than before, after a while.
func waitForLeftovers(before leftover) string {
	for deadline := time.Now().Add(scaled(3 * time.Second)); ; time.Sleep(20 * time.Millisecond) {
		now := leftovers()
		if now.goroutines <= before.goroutines && now.sockets <= before.sockets && now.children <= before.children {
			return ""
		}
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			return fmt.Sprintf("%+v, before %+v, children %v\n%s", now, before, children(), stacks)
		}
	}
}

// children returns the ids of this process's children.
func children() []string {
	var ids []string
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, path := range tasks {
		text, _ := os.ReadFile(path)
		ids = append(ids, strings.Fields(string(text))...)
	}
	return ids
}

func scaled(d time.Duration) time.Duration { return time.Duration(float64(d) * scale) }

// eventually polls until f holds, and fails the test after d.
func eventually(t *testing.T, d time.Duration, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(scaled(d)); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not seen within %v: %s", scaled(d), what)
		}
	}
}

// within reports how long f took, and fails the test if it took longer than d.
func within(t *testing.T, d time.Duration, what string, f func()) time.Duration {
	t.Helper()
	begin := time.Now()
	f()
	took := time.Since(begin)
	if took > scaled(d) {
		t.Errorf("%s took %v, want at most %v", what, took, scaled(d))
	}
	return took
}

// missing skips the test for want of something, or fails it where everything
// is meant to be there.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("needs %s, and CI is set", what)
	}
	t.Skipf("needs %s", what)
}

package health

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
)

// need returns the path of a program, or skips the test and names the Debian
// package that has it.
func need(t *testing.T, program, debianPackage string) string {
	t.Helper()
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.Reverse(dirs) // the newest first; what PATH has are wrappers
	for _, dir := range append(dirs, "", "/usr/sbin") {
		if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return path
		}
	}
	missing(t, fmt.Sprintf("the program %s (Debian package %s)", program, debianPackage))
	return ""
}

// output is what a program has said so far.
type output struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// startProgram runs a server until the test ends, or until stop is called, and
// returns what it says.
func startProgram(t *testing.T, cmd *exec.Cmd) (log *output, stop func()) {
	t.Helper()
	log = new(output)
	cmd.Stdout, cmd.Stderr = log, log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	// SIGTERM and not SIGKILL, because a server that is killed may leave its
	// own children.
	cmd.SysProcAttr.Pdeathsig = syscall.SIGTERM
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		cmd.Wait()
		close(done)
	}()
	stop = sync.OnceFunc(func() {
		signal := syscall.SIGTERM
		if filepath.Base(cmd.Path) == "postgres" {
			signal = syscall.SIGINT // end sessions, and stop
		}
		cmd.Process.Signal(signal)
		select {
		case <-done:
		case <-time.After(scaled(20 * time.Second)):
			t.Errorf("%s does not stop", cmd.Path)
			cmd.Process.Kill()
			<-done
		}
	})
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			text := log.String()
			t.Logf("%s said:\n%s", filepath.Base(cmd.Path), text[max(0, len(text)-3000):])
		}
	})
	return log, stop
}

// freePort returns a port that nobody listens on.
func freePort(t *testing.T) int {
	t.Helper()
	return int(nobody(t).Addr.Port())
}

func loopback(port int) Target {
	return Target{Addr: mustAddr(fmt.Sprintf("127.0.0.1:%d", port)), Host: "127.0.0.1"}
}

// waitListening waits until somebody listens on a port, without connecting.
func waitListening(t *testing.T, port int) {
	t.Helper()
	eventually(t, 30*time.Second, fmt.Sprintf("somebody listens on port %d", port), func() bool {
		text := ""
		for _, path := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			table, _ := os.ReadFile(path)
			text += string(table)
		}
		for line := range strings.Lines(text) {
			f := strings.Fields(line)
			if len(f) > 3 && f[3] == "0A" && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
				return true
			}
		}
		return false
	})
}

// asUser returns the attributes that run a program as an ordinary user, which
// some servers insist on, and gives a directory to that user.
func asUser(t *testing.T, dir string) *syscall.SysProcAttr {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	missing(t, "an ordinary user named postgres or nobody")
	return nil
}

// openDir returns an empty directory that other users may enter, with a path
// short enough for unix sockets. (Those of t.TempDir are neither.)
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "weir-health")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// writePair writes a server's cert.pem and key.pem, for the user that owns the
// directory.
func writePair(t *testing.T, dir string, config *tls.Config) {
	t.Helper()
	pair := config.Certificates[0]
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	for name, text := range map[string][]byte{
		"cert.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		"key.pem":  keyPEM(t, pair.PrivateKey),
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, int(owner.Uid), int(owner.Gid)); err != nil {
			t.Fatal(err)
		}
	}
}

// politely checks that often with each of some checks, each time with a new
// Checker after a quarter of them, and fails the test if one fails. No Checker
// is stopped in the middle of a check.
func politely(t *testing.T, target Target, times int, checks ...conf.HealthCheck) {
	t.Helper()
	for i := range checks {
		checks[i].Interval, checks[i].Timeout = time.Millisecond, scaled(5*time.Second)
	}
	begun := time.Now()
	for range 4 {
		var enough atomic.Bool
		var resting atomic.Int32 // checks whose next one is far off
		c, err := Start(checks, target, Options{Jitter: func(time.Duration) time.Duration {
			if enough.Load() {
				resting.Add(1)
				return time.Hour
			}
			return 0
		}})
		if err != nil {
			t.Fatal(err)
		}
		failed := ""
		eventually(t, 60*time.Second, "a quarter of the checks", func() bool {
			done := true
			for _, s := range c.Checks() {
				if s.Failed > 0 {
					failed = s.Cause
				}
				done = done && s.Passed >= uint64(times/4)
			}
			return done || failed != ""
		})
		enough.Store(true)
		eventually(t, 20*time.Second, "all checks rest", func() bool { return resting.Load() == int32(len(checks)) })
		c.Stop()
		if failed != "" {
			t.Fatalf("a check failed: %s", failed)
		}
	}
	t.Logf("%d times %d checks in %v", times, len(checks), time.Since(begun))
}

package integration_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/integration/netns"
	"github.com/weirlb/weir/stream/admin"
)

// vars are what a configuration's $names stand for. $listen is a free loopback
// address unless it is given, $dir the test's directory.
type vars map[string]string

// proxy is a running weir.
type proxy struct {
	t      *testing.T
	dir    string
	addr   string // $listen
	pid    int
	cmd    *exec.Cmd
	access string // path of the access log
	stderr *output
	done   chan struct{} // closed when the process has been waited for
	base   int           // sockets it had open once it was running
	ended  bool          // by the test, which looked at the exit code

	control *admin.Client // of the control API, if the configuration has it on a unix socket
}

// where says under which circumstances weir is started.
type where struct {
	namespace *netns.Namespace
	nofile    int        // RLIMIT_NOFILE; 0 = as it is
	sockets   []*os.File // that a service manager passes
	contained bool       // as the first process of a PID namespace
}

// start runs weir with a configuration until the test ends, when it must stop
// on SIGTERM with exit code 0.
func start(t *testing.T, config string, v vars) *proxy {
	t.Helper()
	return startAt(t, where{}, config, v)
}

func startAt(t *testing.T, at where, config string, v vars) *proxy {
	t.Helper()
	p := launch(t, at, config, v)
	eventually(t, 10*time.Second, "weir is running", func() bool {
		if p.exited() {
			t.Fatalf("weir did not start, exit code %d", p.cmd.ProcessState.ExitCode())
		}
		return len(p.logged("weir is running")) > 0
	})
	p.base = countFDs(p.pid, "socket:")
	return p
}

// launch starts weir and does not wait for it to run.
func launch(t *testing.T, at where, config string, v vars) *proxy {
	t.Helper()
	p := &proxy{t: t, dir: tempDir(t), addr: v["listen"], stderr: new(output), done: make(chan struct{})}
	if p.addr == "" {
		p.addr = freeAddr(t)
	}
	p.access = filepath.Join(p.dir, "access.log")
	if v["access"] != "" {
		p.access = v["access"]
	}
	if !strings.Contains(config, "log {") {
		config += "\nlog {\n  format = \"json\"\n  access = \"$access\"\n}\n"
	}
	config = os.Expand(config, func(name string) string {
		switch value, ok := v[name]; {
		case ok:
			return value
		case name == "listen":
			return p.addr
		case name == "access":
			return p.access
		case name == "dir":
			return p.dir
		}
		t.Fatalf("the configuration's $%s has no value", name)
		return ""
	})
	if m := controlSocket.FindStringSubmatch(config); m != nil {
		p.control = admin.NewClient(conf.Address{Path: m[1]}, "")
	}
	file := filepath.Join(p.dir, "weir.hcl")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	argv := []string{binary, "run", "-c", file}
	if at.nofile > 0 {
		argv = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$@"`, at.nofile), "sh"}, argv...)
	}
	if len(at.sockets) > 0 {
		argv = append([]string{"sh", "-c", fmt.Sprintf(`LISTEN_FDS=%d LISTEN_PID=$$ exec "$@"`, len(at.sockets)), "sh"}, argv...)
	}
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.ExtraFiles = at.sockets
	p.cmd.Stdout, p.cmd.Stderr = p.stderr, p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if at.contained {
		p.cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID
	}
	var err error
	if at.namespace != nil {
		at.namespace.Do(t, func() { err = p.cmd.Start() })
	} else {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.pid = p.cmd.Process.Pid
	go func() {
		p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(p.finish)
	return p
}

var controlSocket = regexp.MustCompile(`listen += "unix:(.*/admin\.sock)"`)

// finish ends weir after its test, and shows what it said if the test failed.
func (p *proxy) finish() {
	if !p.ended {
		p.stop()
	}
	if !p.exited() {
		p.cmd.Process.Kill()
		<-p.done
	}
	text := p.stderr.String()
	if strings.Contains(text, "DATA RACE") || strings.Contains(text, "panic:") {
		p.t.Error("weir panicked or raced")
	}
	if p.t.Failed() {
		p.t.Logf("weir said:\n%s", text)
		if info, err := os.Stat(p.access); err == nil && info.Mode().IsRegular() {
			lines, _ := os.ReadFile(p.access)
			p.t.Logf("access log ends with:\n%s", lines[max(0, len(lines)-4000):])
		}
	}
}

// stop ends weir, after which its logs are complete.
func (p *proxy) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	p.wantExit(10*time.Second, 0)
}

func (p *proxy) signal(s syscall.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("send %v: %v", s, err)
	}
}

func (p *proxy) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// wantExit waits for the process to end and checks its exit code.
func (p *proxy) wantExit(d time.Duration, code int) {
	p.t.Helper()
	p.ended = true
	select {
	case <-p.done:
		if got := p.cmd.ProcessState.ExitCode(); got != code {
			p.t.Errorf("weir ended with %v, want exit code %d", p.cmd.ProcessState, code)
		}
	case <-time.After(scaled(d)):
		p.t.Errorf("weir still runs after %v, want exit code %d", scaled(d), code)
	}
}

// logged returns the lines of the process log (as JSON) with that message.
func (p *proxy) logged(msg string) []map[string]any {
	var found []map[string]any
	for line := range strings.Lines(p.stderr.String()) {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) == nil && fields["msg"] == msg {
			found = append(found, fields)
		}
	}
	return found
}

// entry is one line of the access log.
type entry struct {
	Listener      string   `json:"listener"`
	Upstream      string   `json:"upstream"`
	UpstreamAddr  string   `json:"upstream_addr"`
	Tries         int      `json:"tries"`
	Status        int      `json:"status"`
	CloseReason   string   `json:"close_reason"`
	BytesReceived int64    `json:"bytes_received"`
	BytesSent     int64    `json:"bytes_sent"`
	ConnectTime   *float64 `json:"upstream_connect_time"`
	SessionTime   float64  `json:"session_time"`
}

// entries returns what the access log holds now.
func (p *proxy) entries() []entry {
	p.t.Helper()
	return accessLog[entry](p)
}

// accessLog returns the lines of the access log, but for one that is still being
// written.
func accessLog[T any](p *proxy) []T {
	p.t.Helper()
	text, err := os.ReadFile(p.access)
	if err != nil {
		p.t.Fatal(err)
	}
	var all []T
	for line := range bytes.Lines(text) {
		var e T
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // still being written
		}
		if err := json.Unmarshal(line, &e); err != nil {
			p.t.Fatalf("access log line %q: %v", line, err)
		}
		all = append(all, e)
	}
	return all
}

// lines counts the lines of the access log, without reading what is in them.
func (p *proxy) lines() int {
	p.t.Helper()
	text, err := os.ReadFile(p.access)
	if err != nil {
		p.t.Fatal(err)
	}
	return bytes.Count(text, []byte("\n"))
}

// waitEntries waits for that many lines in the access log and returns them.
func (p *proxy) waitEntries(d time.Duration, n int) []entry {
	p.t.Helper()
	eventually(p.t, d, fmt.Sprintf("%d lines in the access log", n), func() bool { return p.lines() >= n })
	all := p.entries()
	if len(all) != n {
		p.t.Errorf("%d lines in the access log, want %d", len(all), n)
	}
	return all
}

// wantEnd waits for the only session's line and checks how it ended.
func (p *proxy) wantEnd(d time.Duration, reason string, status int) entry {
	p.t.Helper()
	e := p.waitEntries(d, 1)[0]
	if e.CloseReason != reason || e.Status != status {
		p.t.Errorf("session ended with %s and status %d, want %s and %d", e.CloseReason, e.Status, reason, status)
	}
	return e
}

// pooledPipes is the most descriptors of empty pipes that an idle weir keeps:
// 16 pipes for each worker.
func (p *proxy) pooledPipes() int {
	workers, _ := p.logged("weir is running")[0]["workers"].(float64)
	return 2 * 16 * int(workers)
}

// wantNoSessions waits until weir holds no more sockets than at its start.
func (p *proxy) wantNoSessions(d time.Duration) {
	p.t.Helper()
	eventually(p.t, d, "weir's sockets are back at those of its start", func() bool { return countFDs(p.pid, "socket:") <= p.base })
}

// output collects what a process writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
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

// tempDir returns a directory with a short path, for unix sockets, that other
// users may enter.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// nextPort is where freePort goes on looking. Ports below the ephemeral range
// are never taken by a connection's local end between here and the bind.
var nextPort atomic.Int32

func init() { nextPort.Store(10000 + rand.Int32N(10000)) }

// freePorts returns the first of n adjacent ports on which nobody listens, on
// IPv4 or IPv6, and that no other test was given.
func freePorts(t *testing.T, n int) int {
	t.Helper()
search:
	for range 1000 {
		first := int(nextPort.Add(int32(n))) - n
		if first+n > 32767 {
			nextPort.Store(10000)
			continue
		}
		for port := first; port < first+n; port++ {
			for _, host := range []string{"0.0.0.0", "::"} {
				ln, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
				if errors.Is(err, syscall.EADDRINUSE) {
					continue search
				}
				if err == nil {
					ln.Close()
				}
			}
		}
		return first
	}
	t.Fatal("no free port")
	return 0
}

// freeAddr returns a loopback address on which nobody listens.
func freeAddr(t *testing.T) string {
	t.Helper()
	return "127.0.0.1:" + strconv.Itoa(freePorts(t, 1))
}

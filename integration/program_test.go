package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// need returns the path of a program, or skips the test and names the Debian
// package that has it. PostgreSQL's own directories come first: what PATH has
// are wrappers that look for a configured cluster.
func need(t *testing.T, program, debianPackage string) string {
	t.Helper()
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.Reverse(dirs) // the newest first
	for _, dir := range append(dirs, "", "/usr/sbin") {
		if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return path
		}
	}
	missing(t, fmt.Sprintf("the program %s (Debian package %s)", program, debianPackage))
	return ""
}

// program is a server that a test has started.
type program struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  *output
	last syscall.Signal // that ends it after the test
	done chan struct{}  // closed when the process has been waited for
}

// startProgram runs a server until the test ends, or stops it before.
func startProgram(t *testing.T, cmd *exec.Cmd) *program {
	t.Helper()
	// SIGINT has postgres end its sessions too.
	p := &program{t: t, cmd: cmd, log: new(output), last: syscall.SIGINT, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	// SIGTERM and not SIGKILL, because a server that is killed may leave its
	// own children.
	cmd.SysProcAttr.Pdeathsig = syscall.SIGTERM
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.stop(p.last)
		if t.Failed() {
			text := p.log.String()
			t.Logf("%s said:\n%s", filepath.Base(cmd.Path), text[max(0, len(text)-2000):])
		}
	})
	return p
}

// stop sends a signal, to the whole group of a process that has its own, and
// waits for the end. It may be called again.
func (p *program) stop(s syscall.Signal) {
	p.t.Helper()
	p.send(s)
	select {
	case <-p.done:
	case <-time.After(scaled(10 * time.Second)):
		p.t.Errorf("%s does not stop", p.cmd.Path)
		p.send(syscall.SIGKILL)
		<-p.done
	}
}

func (p *program) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *program) send(s syscall.Signal) {
	if p.ended() {
		return // the id may be another's by now
	}
	pid := p.cmd.Process.Pid
	if p.cmd.SysProcAttr.Setpgid {
		pid = -pid
	}
	syscall.Kill(pid, s)
}

// run runs a program to its end and returns its output, both streams.
func run(t *testing.T, d time.Duration, path string, args ...string) string {
	t.Helper()
	out, err := tryRun(d, path, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(path), strings.Join(args, " "), err, out)
	}
	return out
}

func tryRun(d time.Duration, path string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), scaled(d))
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = scaled(5 * time.Second)
	out, err := cmd.CombinedOutput()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no end after %v", scaled(d))
	}
	return string(out), err
}

// listening reports whether somebody listens on an IPv4 port.
func listening(port string) bool {
	n, _ := strconv.Atoi(port)
	table, _ := os.ReadFile("/proc/net/tcp")
	return strings.Contains(string(table), fmt.Sprintf(":%04X 00000000:0000 0A ", n)) // state LISTEN
}

// waitListening waits until somebody listens on an IPv4 port, without
// connecting to it.
func waitListening(t *testing.T, port string) {
	t.Helper()
	eventually(t, 20*time.Second, "somebody listens on port "+port, func() bool { return listening(port) })
}

// asUser returns the attributes that run a program as an ordinary user, which
// PostgreSQL insists on, and gives the directory to that user.
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

func seconds(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) }

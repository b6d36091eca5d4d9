package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	startTimeout = 10 * time.Second
	stopTimeout  = 3 * time.Second
)

// process is a program that runs until stop. Preconditions of every method: the
// caller is the main goroutine.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string // where its output goes
	end  syscall.Signal
	done chan struct{} // closed when it has been waited for
}

// childAttr makes end the signal that a child also gets when this process dies.
// It is not KILL because an nginx master that is killed leaves its workers.
func childAttr(end syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Setpgid:   true, // a terminal's SIGINT is ours to act on, in order
		Pdeathsig: end,
	}
}

func (e *env) startProcess(name string, argv ...string) (*process, error) {
	return e.startCommand(name, syscall.SIGTERM, exec.Command(argv[0], argv[1:]...))
}

// startCommand starts cmd, which ends at once on the signal end. Of its
// SysProcAttr it keeps the credential.
func (e *env) startCommand(name string, end syscall.Signal, cmd *exec.Cmd) (*process, error) {
	p := &process{name: name, cmd: cmd, log: e.path(name + ".log"), end: end, done: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	if cmd.Stdout == nil {
		cmd.Stdout = out
	}
	cmd.Stderr = out
	credential := cmd.SysProcAttr
	cmd.SysProcAttr = childAttr(end)
	if credential != nil {
		cmd.SysProcAttr.Credential = credential.Credential
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop asks the process to end, and kills it and its descendants if it has not
// within stopTimeout. It is safe to call on nil and twice.
func (p *process) stop() {
	if p == nil || p.exited() {
		return
	}
	pids := processTree(p.pid())
	_ = p.cmd.Process.Signal(p.end)
	select {
	case <-p.done:
		return
	case <-time.After(stopTimeout):
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-p.done
}

// kill ends a process that has nothing to finish: iperf's server takes a second
// to act on SIGTERM.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// waitListening returns when every address is in LISTEN state.
func (p *process) waitListening(ctx context.Context, addrs []string) error {
	return p.waitInTable(ctx, "/proc/net/tcp", stateListen, addrs)
}

// waitBound returns when every address is a UDP socket's.
func (p *process) waitBound(ctx context.Context, addrs []string) error {
	return p.waitInTable(ctx, udpTable, stateUnconnected, addrs)
}

// waitInTable reads the kernel's table instead of connecting: a probe would
// pass through a proxy and reach a backend that serves one client only.
func (p *process) waitInTable(ctx context.Context, file, state string, addrs []string) error {
	deadline := time.Now().Add(startTimeout)
	for {
		if p.exited() {
			return fmt.Errorf("start %s: it exited (%v)%s", p.name, p.cmd.ProcessState, p.logTail())
		}
		table, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		missing := notInState(string(table), state, addrs)
		if len(missing) == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("start %s: not listening on %s after %s%s", p.name, missing[0], startTimeout, p.logTail())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (p *process) logTail() string {
	b, err := os.ReadFile(p.log)
	if err != nil || len(bytes.TrimSpace(b)) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return "\n\t" + strings.Join(lines[max(0, len(lines)-8):], "\n\t")
}

// runTool runs a program to its end and returns what it printed.
func runTool(ctx context.Context, limit time.Duration, argv ...string) (string, error) {
	return runCommand(ctx, limit, nil, argv)
}

func runCommand(ctx context.Context, limit time.Duration, env, argv []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = childAttr(syscall.SIGTERM)
	cmd.Env = env // nil is this process's own
	cmd.WaitDelay = time.Second
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if ctx.Err() == context.DeadlineExceeded {
		return out.String(), fmt.Errorf("%s: no end after %s", argv[0], limit)
	}
	if err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", argv[0], err, lastLine(errOut.String()+out.String()))
	}
	return out.String() + errOut.String(), nil
}

// helper is one of this program's own roles in a process of its own, so that
// its CPU and memory are nobody else's. It answers each line with one line.
type helper struct {
	*process
	in  io.WriteCloser
	out *bufio.Reader
}

func (e *env) startHelper(role string, args ...string) (*helper, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe, append([]string{role}, args...)...)
	cmd.Env = roleEnv()
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// Not StdoutPipe: Wait would close it under a reader.
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = w
	p, err := e.startCommand(role, syscall.SIGTERM, cmd)
	w.Close()
	if err != nil {
		r.Close()
		return nil, err
	}
	return &helper{process: p, in: in, out: bufio.NewReader(r)}, nil
}

// ask sends a line and returns the answer, or an error after limit.
func (h *helper) ask(ctx context.Context, line string, limit time.Duration) (string, error) {
	if _, err := io.WriteString(h.in, line+"\n"); err != nil {
		return "", fmt.Errorf("%s %s: %w", h.name, line, err)
	}
	type answer struct {
		text string
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		text, err := h.out.ReadString('\n')
		got <- answer{strings.TrimSpace(text), err}
	}()
	select {
	case a := <-got:
		if a.err != nil {
			return "", fmt.Errorf("%s %s: %w%s", h.name, line, a.err, h.logTail())
		}
		if msg, bad := strings.CutPrefix(a.text, "error: "); bad {
			return "", errors.New(h.name + " " + line + ": " + msg)
		}
		return a.text, nil
	case <-time.After(limit):
		return "", fmt.Errorf("%s %s: no answer after %s", h.name, line, limit)
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tracing tells whether system calls are to be counted.
func (e *env) tracing() bool { return e.syscalls && !e.untraceable }

// countSyscalls runs a scenario once more for a second, under strace, and
// returns the proxy's system calls for each unit of work, by name and as
// "total". Where strace is missing or not allowed, it says so once and returns
// nil. Its figures are no others' business: strace slows a proxy down.
func countSyscalls(ctx context.Context, e *env, sc scenario, in *instance, round int) (map[string]float64, error) {
	if in.proc == nil {
		return nil, nil
	}
	out := e.path("strace-" + in.name + ".txt")
	tracer, err := e.attachStrace(ctx, in.proc, out)
	if err != nil {
		e.untraceable = true
		fmt.Fprintln(os.Stderr, "bench: system calls are not counted:", err)
		return nil, ctx.Err()
	}
	seconds := e.seconds
	e.seconds, e.traced = 1, true
	s, err := sc.run(ctx, e, in, round)
	e.seconds, e.traced = seconds, false
	tracer.stop() // it detaches, and writes
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil || s.Work == 0 {
		fmt.Fprintf(os.Stderr, "bench: system calls of %s in %s are not counted: %v\n", in.name, sc.name, err)
		return nil, nil
	}
	text, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	calls, err := parseStrace(string(text))
	if err != nil {
		return nil, err
	}
	for name := range calls {
		calls[name] /= s.Work
	}
	return calls, nil
}

// attachStrace returns when every process and thread of p is traced.
func (e *env) attachStrace(ctx context.Context, p *process, out string) (*process, error) {
	if _, err := exec.LookPath("strace"); err != nil {
		return nil, err
	}
	argv := []string{"-c", "-f", "-o", out}
	pids := processTree(p.pid())
	for _, pid := range pids {
		argv = append(argv, "-p", strconv.Itoa(pid))
	}
	tracer, err := e.startCommand(fmt.Sprintf("strace-%d", p.pid()), syscall.SIGINT, exec.Command("strace", argv...))
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(5 * time.Millisecond) {
		log, err := os.ReadFile(tracer.log)
		if err == nil && strings.Count(string(log), " attached") >= len(pids) {
			return tracer, nil
		}
		if tracer.exited() || time.Now().After(deadline) || ctx.Err() != nil {
			tracer.stop()
			return nil, fmt.Errorf("strace does not attach%s", tracer.logTail())
		}
	}
}

// parseStrace reads the table of strace -c: calls by name, and their "total".
func parseStrace(text string) (map[string]float64, error) {
	calls := make(map[string]float64)
	for line := range strings.SplitSeq(text, "\n") {
		f := strings.Fields(line) // % time, seconds, usecs/call, calls, errors if any, name
		if len(f) < 5 || len(f) > 6 || strings.HasPrefix(line, "%") || strings.HasPrefix(line, "-") {
			continue
		}
		n, err := strconv.ParseFloat(f[3], 64)
		if err != nil {
			return nil, fmt.Errorf("parse strace %q: %w", line, err)
		}
		calls[f[len(f)-1]] = n
	}
	if calls["total"] == 0 {
		return nil, fmt.Errorf("parse strace: no total in %q", text)
	}
	return calls, nil
}

package main

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// floor is a contestant outside the comparison: the same system calls in a
// small C program, as a measure of what is left to save around them.
const floor = "floor"

//go:embed floor/relay.c
var floorSource []byte

// newFloor compiles the program, and returns nil where no C compiler is.
func newFloor(e *env) (*contestant, error) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: no C compiler, so no floor to compare with")
		return nil, nil
	}
	source, program := e.path("relay.c"), e.path("relay")
	if err := os.WriteFile(source, floorSource, 0o644); err != nil {
		return nil, err
	}
	if out, err := exec.Command(cc, "-O2", "-o", program, source).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile %s: %w: %s", source, err, lastLine(string(out)))
	}
	return &contestant{
		kinds:  []traffic{messages, bulk},
		tuning: "weir's system calls in C (bench/floor/relay.c), one process; no rival",
		end:    syscall.SIGTERM,
		write: func(_ *env, s site) ([]string, error) {
			argv := []string{program}
			for _, p := range s.parts {
				argv = append(argv, strings.Join(p.listen, ",")+"="+strings.Join(p.servers, ","))
			}
			return argv, nil
		},
	}, nil
}

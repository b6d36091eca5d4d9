package main

import (
	"bytes"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// Under three times the load the server behind the limit is about as fast as the
// target says, where the other one takes more than twice as long, and nothing is
// left of the demo.
func TestDemoOverload(t *testing.T) {
	var out bytes.Buffer
	o := &overload{out: &out}
	if err := o.run(t.Context(), 9*time.Second); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	line := regexp.MustCompile(`(?m)^ *\d+ s \| +(\d+) +(\d+) +(\d+) \| +(\d+) +(\d+) +(\d+) +(\d+) +(\d+)$`)
	lines := line.FindAllStringSubmatch(out.String(), -1)
	if len(lines) < 7 {
		t.Fatalf("%d lines", len(lines))
	}
	last := lines[len(lines)-1]
	figure := func(i int) int {
		n, err := strconv.Atoi(last[i])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	target := int(overloadTarget.Milliseconds())
	if free := figure(1); free < 2*target {
		t.Errorf("without a limit the server's p95 is %d ms", free)
	}
	if limited := figure(6); limited > target*3/2 {
		t.Errorf("with a limit the server's p95 is %d ms", limited)
	}
	if important, others := figure(8), figure(7); important > target*3/2 || others < 2*target {
		t.Errorf("important clients' p95 is %d ms, the others' %d ms", important, others)
	}
	if limit, flight := figure(4), figure(5); limit < 10 || flight > limit+10 {
		t.Errorf("the limit is %d with %d in flight", limit, flight)
	}
}

// What the demo starts it ends.
func TestDemoOverloadLeavesNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	o := &overload{out: new(bytes.Buffer)}
	if err := o.run(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Second); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
		}
	}
}

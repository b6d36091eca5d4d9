package integration_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// countFDs counts a process's descriptors whose target begins with one of the
// prefixes, such as "socket:"; no prefix means all.
func countFDs(pid int, prefixes ...string) int {
	n := 0
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil {
			continue
		}
		if len(prefixes) == 0 {
			n++
		}
		for _, p := range prefixes {
			if strings.HasPrefix(target, p) {
				n++
			}
		}
	}
	return n
}

// socketsAt returns what the kernel has of the TCP sockets that have an IPv4 port
// at either end, without those that only wait (TIME_WAIT): lines of /proc/net/tcp.
func socketsAt(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port)
	table, _ := os.ReadFile("/proc/net/tcp")
	out := ""
	for line := range strings.Lines(string(table)) {
		if out == "" || strings.Contains(line, fmt.Sprintf(":%04X ", n)) && strings.Fields(line)[3] != "06" {
			out += line
		}
	}
	return out
}

// kernelCount returns one of the TCP counters of /proc/net/netstat, -1 if there
// is none.
func kernelCount(name string) int {
	text, _ := os.ReadFile("/proc/net/netstat")
	lines := strings.Split(string(text), "\n")
	for i := 1; i < len(lines); i += 2 { // the names, and below them the values
		if at := slices.Index(strings.Fields(lines[i-1]), name); at >= 0 {
			n, _ := strconv.Atoi(strings.Fields(lines[i])[at])
			return n
		}
	}
	return -1
}

// cpuTime returns the user and system time that a process has used. The unit of
// /proc/PID/stat is 1/100 s on every architecture (man 5 proc, USER_HZ).
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ") // after the name, field 3 is first
	f := strings.Fields(rest)
	ticks := 0
	for _, field := range f[11:13] { // utime and stime, fields 14 and 15
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}

// rss returns a process's resident memory in bytes.
func rss(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

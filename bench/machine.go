package main

import (
	"context"
	"debug/buildinfo"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// machine describes where the figures were taken.
type machine struct {
	CPU       string  `json:"cpu"`
	Cores     int     `json:"cores"`
	Memory    string  `json:"memory"`
	Kernel    string  `json:"kernel"`
	Load      string  `json:"load_at_start"`
	Files     int     `json:"rlimit_nofile"`
	Somaxconn string  `json:"somaxconn"`
	Ports     string  `json:"ip_local_port_range"`
	Rmem      string  `json:"tcp_rmem"`
	Wmem      string  `json:"tcp_wmem"`
	Network   network `json:"network"`
}

func describeMachine(n network) machine {
	return machine{
		CPU:       colonField("/proc/cpuinfo", "model name"),
		Cores:     runtime.NumCPU(),
		Memory:    memorySize(colonField("/proc/meminfo", "MemTotal")),
		Kernel:    readLine("/proc/sys/kernel/osrelease"),
		Load:      firstWord(readLine("/proc/loadavg")),
		Files:     fileLimit(),
		Somaxconn: readLine("/proc/sys/net/core/somaxconn"),
		Ports:     words(readLine("/proc/sys/net/ipv4/ip_local_port_range")),
		Rmem:      words(readLine("/proc/sys/net/ipv4/tcp_rmem")),
		Wmem:      words(readLine("/proc/sys/net/ipv4/tcp_wmem")),
		Network:   n,
	}
}

// colonField is the value of the first "name : value" line with that name.
func colonField(path, name string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		key, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func memorySize(kb string) string {
	n, err := strconv.Atoi(firstWord(kb))
	if err != nil {
		return kb
	}
	return strconv.Itoa(n>>20) + " GiB"
}

func firstWord(s string) string {
	word, _, _ := strings.Cut(s, " ")
	return word
}

func words(s string) string { return strings.Join(strings.Fields(s), " ") }

// versionOrder is the order of the report's version lines.
var versionOrder = []string{weir, "nginx", "haproxy", "iperf3", "iperf", "wrk", "go"}

func describeVersions(ctx context.Context, contestants []*contestant) map[string]string {
	v := map[string]string{
		"nginx":  versionLine(ctx, "nginx", "-v"), // also the HTTP backend
		"iperf3": versionLine(ctx, "iperf3", "--version"),
		"iperf":  versionLine(ctx, "iperf", "-v"),
		"wrk":    versionLine(ctx, "wrk", "-v"),
		"go":     runtime.Version(),
	}
	for _, c := range contestants {
		switch c.name {
		case "haproxy":
			v[c.name] = versionLine(ctx, "haproxy", "-v")
		case weir:
			v[c.name] = versionLine(ctx, c.program, "version") + buildRevision(c.program)
		}
	}
	return v
}

// buildRevision is what the Go toolchain stamped into a binary.
func buildRevision(path string) string {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return ""
	}
	text := ", built with " + info.GoVersion
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			text += " from " + s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			text += " (modified)"
		}
	}
	return text
}

// versionLine is the first line a program prints about itself; several of them
// exit with an error after it, or print it to stderr.
func versionLine(ctx context.Context, argv ...string) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if line == "" {
		return "unknown version (" + errText(err) + ")"
	}
	return strings.TrimSpace(line)
}

func errText(err error) string {
	if err == nil {
		return "no output"
	}
	return err.Error()
}

func describeTuning(contestants []*contestant) map[string]string {
	t := make(map[string]string)
	for _, c := range contestants {
		if c.tuning != "" {
			t[c.name] = c.tuning
		}
	}
	return t
}

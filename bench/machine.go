package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// machine describes where the figures were taken.
type machine struct {
	CPU             string  `json:"cpu"`
	Cores           int     `json:"cores"`
	Memory          string  `json:"memory"`
	Kernel          string  `json:"kernel"`
	Load            string  `json:"load_at_start"`
	Vulnerabilities string  `json:"cpu_vulnerabilities"`
	Files           int     `json:"rlimit_nofile"`
	Somaxconn       string  `json:"somaxconn"`
	Ports           string  `json:"ip_local_port_range"`
	Rmem            string  `json:"tcp_rmem"`
	Wmem            string  `json:"tcp_wmem"`
	Network         network `json:"network"`
}

func describeMachine(n network) machine {
	return machine{
		CPU:             colonField("/proc/cpuinfo", "model name"),
		Cores:           runtime.NumCPU(),
		Memory:          memorySize(colonField("/proc/meminfo", "MemTotal")),
		Kernel:          readLine("/proc/sys/kernel/osrelease"),
		Load:            firstWord(readLine("/proc/loadavg")),
		Files:           fileLimit(),
		Somaxconn:       readLine("/proc/sys/net/core/somaxconn"),
		Ports:           words(readLine("/proc/sys/net/ipv4/ip_local_port_range")),
		Rmem:            words(readLine("/proc/sys/net/ipv4/tcp_rmem")),
		Wmem:            words(readLine("/proc/sys/net/ipv4/tcp_wmem")),
		Vulnerabilities: describeVulnerabilities("/sys/devices/system/cpu/vulnerabilities"),
		Network:         n,
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

// describeVersions asks every program that takes part or could; one that is
// not installed is left out.
func describeVersions(ctx context.Context, contestants []*contestant) map[string]string {
	v := map[string]string{"go": runtime.Version()}
	for name, flag := range map[string]string{
		"nginx": "-v", "haproxy": "-v", "iperf3": "--version", "iperf": "-v", "wrk": "-v",
		"pgbench": "--version", "redis-server": "--version", "redis-benchmark": "--version", "strace": "--version",
	} {
		if _, err := exec.LookPath(name); err == nil {
			v[name] = versionLine(ctx, name, flag)
		}
	}
	for _, c := range contestants {
		if c.program != "" {
			v[productOf(c.name)] = versionLine(ctx, c.program, "version") + buildRevision(c.program)
		}
	}
	return v
}

// describeCommit is the commit of the tree that the bench was started in, which
// is weir's when make built it a moment ago. A build without version control
// information does not know its own.
func describeCommit(ctx context.Context) string {
	commit, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	text := strings.TrimSpace(string(commit))
	changes, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--untracked-files=no").Output()
	if err != nil || len(changes) > 0 {
		text += " with changes"
	}
	return text
}

// describeVulnerabilities sums up what the kernel says about the CPU's vulnerabilities
// and its own countermeasures, some of which cost a system call dearly. Each
// file of dir is one of them.
func describeVulnerabilities(dir string) string {
	files, err := os.ReadDir(dir)
	if err != nil {
		return "unknown"
	}
	var mitigated, open []string
	for _, f := range files {
		text := readLine(dir + "/" + f.Name())
		switch {
		case strings.HasPrefix(text, "Not affected"):
		case strings.HasPrefix(text, "Mitigation: "):
			mitigated = append(mitigated, f.Name()+" ("+strings.TrimPrefix(text, "Mitigation: ")+")")
		default:
			open = append(open, f.Name()+" ("+text+")")
		}
	}
	return fmt.Sprintf("%d known, %d mitigated%s, %d open%s", len(files), len(mitigated), listed(mitigated), len(open), listed(open))
}

func listed(items []string) string {
	if len(items) == 0 {
		return ""
	}
	return ": " + strings.Join(items, ", ")
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

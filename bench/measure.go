package main

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc/PID/stat's times: USER_HZ is 100 on every Linux
// that Go runs on.
const tick = 10 * time.Millisecond

type procStat struct {
	pid, parent int
	cpu         time.Duration // user plus system
	reaped      time.Duration // the same of children that ended and were waited for
}

// parseStat reads /proc/PID/stat (man 5 proc). The name may itself hold spaces
// and parentheses, so fields are counted from the last closing one.
func parseStat(line string) (procStat, error) {
	end := strings.LastIndexByte(line, ')')
	open := strings.IndexByte(line, '(')
	if open < 1 || end < open {
		return procStat{}, fmt.Errorf("parse stat %q: no name", line)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line[:open]))
	if err != nil {
		return procStat{}, fmt.Errorf("parse stat: %w", err)
	}
	fields := strings.Fields(line[end+1:])
	if len(fields) < 15 {
		return procStat{}, fmt.Errorf("parse stat %q: %d fields", line, len(fields))
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return procStat{}, fmt.Errorf("parse stat: %w", err)
	}
	var times [4]time.Duration // user, system, and both of reaped children
	for i := range times {
		ticks, err := strconv.ParseInt(fields[11+i], 10, 64)
		if err != nil {
			return procStat{}, fmt.Errorf("parse stat: %w", err)
		}
		times[i] = time.Duration(ticks) * tick
	}
	return procStat{pid: pid, parent: parent, cpu: times[0] + times[1], reaped: times[2] + times[3]}, nil
}

func readStat(pid int) (procStat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return procStat{}, err
	}
	return parseStat(string(b))
}

// processTree lists pid and its descendants, pid first.
func processTree(pid int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return []int{pid}
	}
	children := make(map[int][]int)
	for _, entry := range entries {
		id, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if st, err := readStat(id); err == nil {
			children[st.parent] = append(children[st.parent], id)
		}
	}
	return descend(pid, children)
}

func descend(pid int, children map[int][]int) []int {
	tree := []int{pid}
	for i := 0; i < len(tree); i++ {
		tree = append(tree, children[tree[i]]...)
	}
	return tree
}

// cpuTime is what the process and its descendants have used so far. A direct
// connection has no process and uses none.
func (p *process) cpuTime() time.Duration {
	if p == nil {
		return 0
	}
	var sum time.Duration
	for _, pid := range processTree(p.pid()) {
		if st, err := readStat(pid); err == nil {
			sum += st.cpu
		}
	}
	return sum
}

// rssBytes is the resident memory of the process and its descendants. Pages
// they share count once for each; differences over time are not touched by it.
func (p *process) rssBytes() (int64, error) {
	var sum int64
	for _, pid := range processTree(p.pid()) {
		// Not statm: its counters are batched per thread.
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
		if err != nil {
			return 0, fmt.Errorf("read memory of %s: %w", p.name, err)
		}
		rss, err := parseRollup(string(b))
		if err != nil {
			return 0, fmt.Errorf("read memory of %s: %w", p.name, err)
		}
		sum += rss
	}
	return sum, nil
}

func parseRollup(text string) (int64, error) {
	for line := range strings.SplitSeq(text, "\n") {
		rest, ok := strings.CutPrefix(line, "Rss:")
		if !ok {
			continue
		}
		kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("parse smaps_rollup: %w", err)
		}
		return kb * 1024, nil
	}
	return 0, fmt.Errorf("parse smaps_rollup: no Rss line")
}

// States in /proc/net/tcp and /proc/net/udp.
const (
	stateListen      = "0A"
	stateUnconnected = "07"
)

// notInState returns those of addrs that the table does not show in a state.
func notInState(table, state string, addrs []string) []string {
	found := make(map[string]bool)
	for line := range strings.SplitSeq(table, "\n") {
		f := strings.Fields(line)
		if len(f) > 3 && f[3] == state {
			found[f[1]] = true
		}
	}
	var missing []string
	for _, addr := range addrs {
		if !found[procAddress(addr)] {
			missing = append(missing, addr)
		}
	}
	return missing
}

// procAddress writes an IPv4 address and port as /proc/net/tcp does: the
// address as a native-endian word of its network-order bytes.
func procAddress(addr string) string {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil || !ap.Addr().Is4() {
		return ""
	}
	ip := ap.Addr().As4()
	return fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(ip[:]), ap.Port())
}

// load is how much CPU the machine and this program's own processes have used
// up to a moment.
type load struct {
	at        time.Time
	all, ours time.Duration
}

func readLoad() (load, error) {
	all, err := machineCPU()
	if err != nil {
		return load{}, err
	}
	l := load{at: time.Now(), all: all}
	for _, pid := range processTree(os.Getpid()) {
		if st, err := readStat(pid); err == nil {
			l.ours += st.cpu + st.reaped // PostgreSQL's sessions are its children, and end
		}
	}
	return l, nil
}

// othersSince is how many cores were busy with anything else, a hypervisor's
// other guests included. The kernel's own threads count as others too.
func (l load) othersSince(before load) float64 {
	others := (l.all - before.all) - (l.ours - before.ours)
	return max(0, others.Seconds()/l.at.Sub(before.at).Seconds())
}

// machineCPU is what all of the machine's cores have used so far.
func machineCPU() (time.Duration, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	return parseBusy(string(b))
}

// parseBusy sums the first line of /proc/stat but for idle and iowait, and for
// the guest times at its end, which user already holds.
func parseBusy(text string) (time.Duration, error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("parse /proc/stat: first line %q", line)
	}
	var sum time.Duration
	for i, field := range fields[1:9] {
		if i == 3 || i == 4 { // idle, iowait
			continue
		}
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("parse /proc/stat: %w", err)
		}
		sum += time.Duration(ticks) * tick
	}
	return sum, nil
}

package main

import (
	"net"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	// A name may hold spaces and parentheses.
	line := "4242 (tmux: (srv) 1) S 77 4242 4242 0 -1 4194560 881 0 0 0 1503 249 9 7 20 0 1 0 8412 12345 900 18446744073709551615"
	got, err := parseStat(line)
	if err != nil {
		t.Fatal(err)
	}
	if want := (procStat{pid: 4242, parent: 77, cpu: (1503 + 249) * 10 * time.Millisecond, reaped: (9 + 7) * 10 * time.Millisecond}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, bad := range []string{"", "1 x S 2", "1 (x) S 2 3", "x (y) S 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1"} {
		if got, err := parseStat(bad); err == nil {
			t.Errorf("parseStat(%q) = %+v, want an error", bad, got)
		}
	}
}

func TestReadOwnStat(t *testing.T) {
	st, err := readStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if st.pid != os.Getpid() || st.parent != os.Getppid() {
		t.Errorf("got pid %d and parent %d, want %d and %d", st.pid, st.parent, os.Getpid(), os.Getppid())
	}
	if tree := processTree(os.Getppid()); !slices.Contains(tree, os.Getpid()) {
		t.Errorf("tree of parent %v lacks %d", tree, os.Getpid())
	}
}

func TestDescend(t *testing.T) {
	children := map[int][]int{1: {2, 9}, 2: {3, 4}, 4: {5}, 7: {8}}
	if got, want := descend(2, children), []int{2, 3, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestParseRollup(t *testing.T) {
	text := "5596f000-7ffd000 ---p 00000000 00:00 0  [rollup]\nRss:               10452 kB\nPss:                5000 kB\n"
	got, err := parseRollup(text)
	if err != nil || got != 10452*1024 {
		t.Errorf("got %d, %v, want %d", got, err, 10452*1024)
	}
	if _, err := parseRollup("Pss: 1 kB\n"); err == nil {
		t.Error("no Rss line: want an error")
	}
}

func TestNotListening(t *testing.T) {
	table := "  sl  local_address rem_address   st tx_queue\n" +
		"   0: 0100007F:4650 00000000:0000 0A 00000000:00000000\n" +
		"   1: 0100007F:4651 0100007F:9000 01 00000000:00000000\n"
	got := notInState(table, stateListen, []string{"127.0.0.1:18000", "127.0.0.1:18001", "127.0.0.2:18000"})
	if want := []string{"127.0.0.1:18001", "127.0.0.2:18000"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := notInState(table, stateUnconnected, []string{"127.0.0.1:18000"}); len(got) != 1 {
		t.Error("a listening socket counts as one for UDP")
	}
}

func TestNotListeningReal(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.9.8:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatalf("read table of sockets: %v", err)
	}
	if missing := notInState(string(table), stateListen, []string{ln.Addr().String()}); len(missing) > 0 {
		t.Errorf("%v not found, but it listens", missing)
	}
}

func TestParseBusy(t *testing.T) {
	// user nice system idle iowait irq softirq steal guest guest_nice
	got, err := parseBusy("cpu  100 20 300 5000 60 7 8 9 50 1\ncpu0 1 2 3\n")
	if want := 444 * 10 * time.Millisecond; err != nil || got != want {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, bad := range []string{"", "cpu 1 2", "cpu a 2 3 4 5 6 7 8 9", "intr 1 2 3 4 5 6 7 8 9"} {
		if got, err := parseBusy(bad); err == nil {
			t.Errorf("parseBusy(%q) = %v, want an error", bad, got)
		}
	}
}

// What a server's children used before they ended is the bench's own too.
func TestLoadOfEndedGrandchildren(t *testing.T) {
	before, err := readLoad()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "(i=0; while [ $i -lt 500000 ]; do i=$((i+1)); done); echo; read wait")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); cmd.Wait() }()
	if _, err := out.Read(make([]byte, 1)); err != nil { // the subshell has ended
		t.Fatal(err)
	}
	after, err := readLoad()
	if err != nil {
		t.Fatal(err)
	}
	used, err := readStat(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if used.reaped < 5*tick || after.ours-before.ours < used.reaped {
		t.Errorf("%v were used by what has ended, and %v counted", used.reaped, after.ours-before.ours)
	}
}

func TestOthersSince(t *testing.T) {
	start := time.Now()
	before := load{at: start, all: 10 * time.Second, ours: time.Second}
	after := load{at: start.Add(2 * time.Second), all: 13 * time.Second, ours: 3 * time.Second}
	if got := after.othersSince(before); got != 0.5 {
		t.Errorf("got %v cores, want 0.5", got)
	}
	after.ours = 9 * time.Second
	if got := after.othersSince(before); got != 0 {
		t.Errorf("rounding below zero: got %v, want 0", got)
	}
}

package integration_test

import (
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hesitant serves connections on an address of which it answers few SYNs: a socket
// filter drops most of them, and clients send them again after a second, and then
// after two and four.
func hesitant(t *testing.T, f func(net.Conn)) string {
	t.Helper()
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 13}, // TCP's flags
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0x12},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 0x02, Jf: 3},    // a SYN and no ACK
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0xfffff000 + 56}, // SKF_AD_RANDOM
		{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, K: 1 << 30, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_RET | unix.BPF_K, K: 1 << 20},
	}
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		if outer := raw.Control(func(fd uintptr) {
			err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program)
		}); outer != nil {
			return outer
		}
		return err
	}}
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return startServerOn(t, ln, f).addr
}

// One of three servers is slow to answer SYNs. Without a hedge a third of the
// clients wait a second for their connection, with one they get another server
// after 20 ms, or after the time that most connects have taken, and no more sessions
// than allowed make a second attempt.
func TestHedge(t *testing.T) {
	t.Parallel()
	const sessions = 300
	healthy := []string{serve(t, greeter("a")), serve(t, greeter("b"))}
	failures := func(p *proxy) (n uint64) {
		for _, peer := range p.peers("u") {
			n += peer.Failures
		}
		return n
	}
	// before is how many failures were charged while it learned.
	run := func(hedge string, learn int) (p99 time.Duration, p *proxy, metrics string, before uint64) {
		metrics = freeAddr(t)
		p = start(t, `
			worker { count = 2 }
			admin {
			  listen  = "unix:$dir/admin.sock"
			  metrics = "$metrics"
			}
			upstream "u" {
			  server "$a" { max_fails = 0 }
			  server "$b" { max_fails = 0 }
			  server "$slow" { max_fails = 0 }
			}
			listener "l" {
			  listen   = ["$listen"]
			  upstream = "u"
			  $hedge
			}
			log {
			  format = "json"
			  access = "$access"
			  fields = ["upstream_addr", "tries", "status", "close_reason", "upstream_connect_time", "session_time"]
			}`, vars{"a": healthy[0], "b": healthy[1], "slow": hesitant(t, greeter("c")), "hedge": hedge, "metrics": metrics})
		var clients sync.WaitGroup
		gate := make(chan struct{}, 20)
		for i := range learn + sessions {
			if i == learn {
				clients.Wait()
				before = failures(p)
			}
			gate <- struct{}{}
			clients.Go(func() {
				defer func() { <-gate }()
				c, err := tryDial(p.addr)
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				c.SetDeadline(time.Now().Add(scaled(10 * time.Second)))
				if _, err := io.ReadFull(c, make([]byte, 2)); err != nil {
					t.Error(err)
				}
			})
		}
		clients.Wait()
		var times []time.Duration
		for _, e := range p.waitEntries(10*time.Second, learn+sessions)[learn:] {
			if e.ConnectTime == nil || e.Status != 200 {
				t.Errorf("a session was not connected: %+v", e)
				continue
			}
			times = append(times, time.Duration(*e.ConnectTime*float64(time.Second)))
		}
		slices.Sort(times)
		return times[len(times)*99/100], p, metrics, before
	}
	before, _, _, _ := run("", 0)
	if before < 900*time.Millisecond {
		t.Errorf("the slow server is not slow: p99 of connects is %v without a hedge", before)
	}
	for _, test := range []struct {
		after, max string
		learn      int // sessions that connect times are known by
	}{{"20ms", "50%", 0}, {"p60", "100%", 150}} {
		after, p, metrics, charged := run(`hedge {
		    after = "`+test.after+`"
		    max   = "`+test.max+`"
		  }`, test.learn)
		won := sample(t, metrics, `weir_upstream_hedges_total{result="won",upstream="u"}`)
		lost := sample(t, metrics, `weir_upstream_hedges_total{result="lost",upstream="u"}`)
		denied := sample(t, metrics, `weir_upstream_hedges_total{result="denied",upstream="u"}`)
		var whole []float64
		for _, e := range p.entries()[test.learn:] {
			whole = append(whole, e.SessionTime)
		}
		slices.Sort(whole)
		t.Logf("after = %s: p99 of connects %v, without a hedge %v; %v hedges won, %v lost, %v denied, of %d sessions; p99 of sessions %.3f s",
			test.after, after, before, won, lost, denied, test.learn+sessions, whole[len(whole)*99/100])
		if after > scaled(100*time.Millisecond) {
			t.Errorf("after = %s: p99 of connects is %v", test.after, after)
		}
		if won == 0 || test.max == "50%" && won+lost > sessions/2 {
			t.Errorf("after = %s: %v hedges won and %v lost of %d sessions, max is %s", test.after, won, lost, sessions, test.max)
		}
		if charged = failures(p) - charged; float64(charged) > denied { // who was denied a hedge may wait for connect_timeout
			t.Errorf("after = %s: %d failures are charged, with %v hedges denied", test.after, charged, denied)
		}
	}
}

// sample returns a value of /metrics.
func sample(t *testing.T, addr, name string) float64 {
	t.Helper()
	_, body, err := askMetrics(addr, "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(body) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), name+" "); found {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

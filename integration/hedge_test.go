package integration_test

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hesitant is a server that is slow to answer SYNs: its accept queue holds one
// connection, and is emptied now and then. The kernel drops the SYNs that come in
// between, and clients send them again after a second.
func hesitant(t *testing.T, f func(net.Conn)) string {
	t.Helper()
	ln := startServer(t, "tcp", "127.0.0.1:0", f) // for what it accepts in the end
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", sa.(*unix.SockaddrInet4).Port)
	_ = unix.SetNonblock(fd, true)
	var running sync.WaitGroup
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop); running.Wait() })
	running.Go(func() {
		tick := time.NewTicker(150 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			c, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			if err != nil {
				continue
			}
			running.Go(func() { pass(c, ln.addr, stop) })
		}
	})
	return addr
}

// pass answers on a connection as the server at addr does: a greeting.
func pass(fd int, addr string, stop <-chan struct{}) {
	defer unix.Close(fd)
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer c.Close()
	buf := make([]byte, 64)
	n, _ := c.Read(buf)
	unix.Write(fd, buf[:n])
	select { // until the client has read it
	case <-stop:
	case <-time.After(100 * time.Millisecond):
	}
}

// One of three servers is slow to answer SYNs. Without a hedge a third of the
// clients wait a second for their connection, with one they get another server
// after 20 ms, and no more sessions than allowed make a second attempt.
func TestHedge(t *testing.T) {
	t.Parallel()
	const sessions = 300
	healthy := []string{serve(t, greeter("a")), serve(t, greeter("b"))}
	run := func(hedge string) (p99 time.Duration, p *proxy, metrics string) {
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
		for range sessions {
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
		for _, e := range p.waitEntries(10*time.Second, sessions) {
			if e.ConnectTime == nil || e.Status != 200 {
				t.Errorf("a session was not connected: %+v", e)
				continue
			}
			times = append(times, time.Duration(*e.ConnectTime*float64(time.Second)))
		}
		slices.Sort(times)
		return times[len(times)*99/100], p, metrics
	}
	before, _, _ := run("")
	after, p, metrics := run(`hedge {
	    after = "20ms"
	    max   = "50%"
	  }`)
	won := sample(t, metrics, `weir_upstream_hedges_total{result="won",upstream="u"}`)
	lost := sample(t, metrics, `weir_upstream_hedges_total{result="lost",upstream="u"}`)
	denied := sample(t, metrics, `weir_upstream_hedges_total{result="denied",upstream="u"}`)
	var whole []float64
	for _, e := range p.entries() {
		whole = append(whole, e.SessionTime)
	}
	slices.Sort(whole)
	t.Logf("p99 of connects: %v without a hedge, %v with one; %v hedges won, %v lost, %v denied, of %d sessions; p99 of sessions %.3f s",
		before, after, won, lost, denied, sessions, whole[len(whole)*99/100])
	if before < 900*time.Millisecond {
		t.Errorf("the slow server is not slow: p99 of connects is %v without a hedge", before)
	}
	if after > scaled(100*time.Millisecond) {
		t.Errorf("p99 of connects is %v with a hedge", after)
	}
	if won == 0 || won+lost > sessions/2 {
		t.Errorf("%v hedges won and %v lost of %d sessions, at most half of which may have one", won, lost, sessions)
	}
	for _, peer := range p.peers("u") {
		if peer.Failures != 0 {
			t.Errorf("%s is charged with %d failures", peer.Address, peer.Failures)
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

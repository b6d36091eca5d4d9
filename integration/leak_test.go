package integration_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"
)

// After sessions of every kind have ended, weir holds what it held at its start.
func TestNothingIsLeftOfManySessions(t *testing.T) {
	p := start(t, `
		upstream "u" {
		  server "$refusing" {
		    max_fails = 0
		  }
		  server "$server" {
		    max_fails = 0
		  }
		}
		listener "l" {
		  listen             = ["$listen"]
		  upstream           = "u"
		  idle_timeout       = "300ms"
		  half_close_timeout = "200ms"
		}`, vars{"refusing": freeAddr(t), "server": serve(t, whimsical)})
	dial(t, p.addr).Close()
	p.wantNoSessions(5 * time.Second)
	base := countFDs(p.pid)

	var clients sync.WaitGroup
	for range 32 {
		clients.Go(func() {
			for begin := time.Now(); time.Since(begin) < load; {
				c, err := tryDial(p.addr)
				if errors.Is(err, syscall.ECONNRESET) {
					continue // the peer's reset came before Go had looked at the connect
				}
				if err != nil {
					t.Errorf("connect: %v", err)
					return
				}
				whimsical(c)
				c.Close()
			}
		})
	}
	clients.Wait()
	p.wantNoSessions(10 * time.Second)
	if n := countFDs(p.pid); n > base+p.pooledPipes() {
		t.Errorf("%d descriptors are open, before the load there were %d", n, base)
	}
	reasons := map[string]int{}
	p.stop()
	for _, e := range p.entries() {
		reasons[e.CloseReason]++
	}
	t.Logf("sessions ended with %v", reasons)
	for _, want := range []string{"client_closed", "peer_closed", "client_reset", "peer_reset", "idle_timeout", "half_close_timeout"} {
		if reasons[want] == 0 {
			t.Errorf("no session ended with %s, so the load did not test it", want)
		}
	}
}

// A pipe with bytes inside when its session ends is closed: they must never
// meet another session.
func TestNoPipeIsLeftOfStalledReaders(t *testing.T) {
	const clients = 60
	p := start(t, `
		worker {
		  count = 1
		}`+oneServer, vars{"server": serve(t, func(c net.Conn) { c.Write(make([]byte, 8<<20)) })})
	dial(t, p.addr).Close()
	p.wantNoSessions(5 * time.Second)
	base := countFDs(p.pid)

	d := net.Dialer{Control: smallReceiveBuffer}
	var stalled []net.Conn
	for range clients {
		c, err := d.Dial("tcp", p.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		stalled = append(stalled, c)
	}
	eventually(t, 10*time.Second, "every session has a pipe", func() bool { return countFDs(p.pid, "pipe:") >= 2*clients })
	for _, c := range stalled {
		reset(c)
	}
	p.wantNoSessions(5 * time.Second)
	if n := countFDs(p.pid); n > base+p.pooledPipes() {
		t.Errorf("%d descriptors are open, before the load there were %d", n, base)
	}
}

// whimsical does something with a connection: it asks, echoes, sends bulk, ends
// its output, resets, or does nothing for longer than the timeouts.
func whimsical(c net.Conn) {
	c.SetDeadline(time.Now().Add(time.Second))
	switch rand.N(7) {
	case 0:
		io.WriteString(c, "ping")
		io.CopyN(io.Discard, c, 4)
	case 1:
		c.Write(make([]byte, 1<<20))
	case 2:
		io.Copy(io.Discard, c)
	case 3:
		c.(stream).CloseWrite()
		io.Copy(io.Discard, c)
	case 4:
		time.Sleep(500 * time.Millisecond)
	case 5:
		c.Write(make([]byte, 100<<10))
		reset(c)
	case 6:
		io.Copy(c, c)
	}
}

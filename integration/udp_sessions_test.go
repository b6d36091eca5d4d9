package integration_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// slowEcho answers some datagrams late and some twice, the second answer late;
// none later than most.
func slowEcho(running *atomic.Int64, most time.Duration) func(c *net.UDPConn, b []byte, from netip.AddrPort) {
	later := func(c *net.UDPConn, b []byte, from netip.AddrPort) {
		copied := append([]byte(nil), b...)
		running.Add(1)
		time.AfterFunc(rand.N(most), func() {
			c.WriteToUDPAddrPort(copied, from)
			running.Add(-1)
		})
	}
	return func(c *net.UDPConn, b []byte, from netip.AddrPort) {
		switch n := rand.N(100); {
		case n < 2:
			later(c, b, from)
			return
		case n < 12:
			later(c, b, from)
		case n < 15:
			c.WriteToUDPAddrPort(b, from)
		}
		c.WriteToUDPAddrPort(b, from)
	}
}

// askers is clients that ask, one question at a time each, and look whether
// answers are theirs.
type askers struct {
	t        *testing.T
	addr     string
	left     atomic.Int64
	answered atomic.Int64
	wrong    atomic.Int64 // answers to another client or question
	lost     atomic.Int64
}

// ask has clients ask questions, of which the last ends it.
func (a *askers) ask(clients int, questions int64) {
	a.t.Helper()
	a.left.Store(questions)
	var running sync.WaitGroup
	for id := range clients {
		running.Go(func() { a.client(id) })
	}
	running.Wait()
}

func (a *askers) client(id int) {
	c, err := net.Dial("udp", a.addr)
	if err != nil {
		a.t.Error(err)
		return
	}
	defer c.Close()
	var question []byte
	answer := make([]byte, 64)
	for sequence := 0; a.left.Add(-1) >= 0; sequence++ {
		question = fmt.Appendf(question[:0], "client %d question %d", id, sequence)
		if _, err := c.Write(question); err != nil {
			a.t.Error(err)
			return
		}
		c.SetReadDeadline(time.Now().Add(scaled(3 * time.Second)))
		n, err := c.Read(answer)
		switch {
		case err != nil:
			a.lost.Add(1)
		case string(answer[:n]) != string(question):
			a.wrong.Add(1)
			a.t.Errorf("client %d asked %q and got %q", id, question, answer[:n])
			return
		default:
			a.answered.Add(1)
		}
		time.Sleep(20 * time.Millisecond) // at most 5000 sessions a second: idle sockets shall stay below their bound
	}
}

// Tens of thousands of short sessions: every answer reaches who asked, and
// sockets and memory stay what they are, also where servers answer late and
// twice.
func TestUDPShortSessions(t *testing.T) {
	const clients = 100
	first, all := int64(8_000), int64(20_000)
	switch {
	case long:
		first, all = 10_000, 50_000
	case raceEnabled:
		first, all = 5_000, 12_000 // memory is not looked at
	}
	// A leak shall not hide in what the collector has not looked at yet.
	t.Setenv("GOGC", "10")
	var late atomic.Int64
	var servers [2]string
	for i := range servers {
		servers[i], _ = serveUDP(t, slowEcho(&late, 300*time.Millisecond))
	}
	p := startUDP(t, `
		worker {
		  count            = 2
		  shutdown_timeout = "100ms"
		}
		upstream "u" {
		  server "$a" {}
		  server "$b" {}
		}
		listener "l" {
		  listen   = ["$listen"]
		  protocol = "udp"
		  upstream = "u"
		  udp {
		    responses = 1
		  }
		}`+udpLog, vars{"a": servers[0], "b": servers[1]})
	a := &askers{t: t, addr: p.addr}
	type figures struct{ sockets, memory int }
	measure := func() figures {
		return figures{countFDs(p.pid, "socket:") - p.base, rssAnon(t, p.pid)}
	}
	begin := time.Now()
	a.ask(clients, first)
	before := measure()
	t.Logf("after %d sessions (%v): %d sockets to servers, RssAnon %.1f MiB", first, time.Since(begin).Round(time.Millisecond), before.sockets, float64(before.memory)/(1<<20))
	a.ask(clients, all-first)
	after := measure()
	t.Logf("after %d sessions (%v): %d sockets to servers, RssAnon %.1f MiB", all, time.Since(begin).Round(time.Millisecond), after.sockets, float64(after.memory)/(1<<20))
	eventually(t, 5*time.Second, "no answer is late any more", func() bool { return late.Load() == 0 })
	t.Logf("%d answered, %d lost, %d wrong", a.answered.Load(), a.lost.Load(), a.wrong.Load())
	if a.answered.Load() != all || a.wrong.Load() != 0 {
		t.Errorf("%d of %d questions were answered, %d wrongly", a.answered.Load(), all, a.wrong.Load())
	}
	// Idle sockets are as many as there are sessions in a quarantine, a rate
	// that varies.
	if limit := 2*before.sockets + clients; after.sockets > limit {
		t.Errorf("%d sockets after %d sessions, %d after %d: they pile up", after.sockets, all, before.sockets, first)
	}
	if !raceEnabled && after.memory > before.memory+4<<20 {
		t.Errorf("RssAnon is %d after %d sessions, %d after %d: it grows", after.memory, all, before.memory, first)
	}
	eventually(t, 5*time.Second, "every session has ended", func() bool { return p.lines() >= int(all) })
	if entries := p.udpEntries(); len(entries) != int(all) || reasonsOf(entries)["answered"] != int(all) {
		t.Errorf("%d sessions ended, with %v; want %d answered", len(entries), reasonsOf(entries), all)
	}
}

// A session that had to make room was owed an answer. When that comes, it meets
// a closed port, unless the kernel has given the port to another session to the
// same server, which it does at random: as many wrong answers as that makes,
// and no more.
func TestUDPAnswersToEvictedSessions(t *testing.T) {
	t.Parallel()
	const sessions = 50
	rounds := 3000
	if long {
		rounds = 20000
	}
	var late atomic.Int64
	server, _ := serveUDP(t, func(c *net.UDPConn, b []byte, from netip.AddrPort) {
		copied := append([]byte(nil), b...)
		late.Add(1)
		time.AfterFunc(100*time.Millisecond, func() {
			c.WriteToUDPAddrPort(copied, from)
			late.Add(-1)
		})
	})
	p := startUDP(t, oneUDPServer+udpLog, vars{"server": server, "udp": fmt.Sprintf("responses = 1\nmax_sessions = %d", sessions)})
	var clients []*net.UDPConn
	for range 500 {
		clients = append(clients, dialUDP(t, p.addr))
	}
	var wrong atomic.Int64
	var reading sync.WaitGroup
	for id, c := range clients {
		reading.Go(func() {
			for buf := make([]byte, 64); ; {
				n, err := c.Read(buf)
				if err != nil {
					return
				}
				if string(buf[:n]) != fmt.Sprint("client ", id) {
					wrong.Add(1)
				}
			}
		})
	}
	for i := range rounds {
		id := i % len(clients)
		fmt.Fprint(clients[id], "client ", id)
		if i%20 == 0 {
			time.Sleep(4 * time.Millisecond)
		}
	}
	eventually(t, 5*time.Second, "no answer is late any more", func() bool { return late.Load() == 0 })
	time.Sleep(50 * time.Millisecond)
	for _, c := range clients {
		c.Close()
	}
	reading.Wait()
	reasons := reasonsOf(p.udpEntries())
	t.Logf("%d datagrams, sessions ended with %v, %d answers to a wrong client", rounds, reasons, wrong.Load())
	if reasons["evicted"] < rounds/2 {
		t.Errorf("%d sessions were evicted of %d, so that nothing was tested", reasons["evicted"], rounds)
	}
	if n := int(wrong.Load()); n > rounds/100 {
		t.Errorf("%d answers reached a wrong client", n)
	}
}

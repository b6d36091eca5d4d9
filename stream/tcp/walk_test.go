package tcp

import (
	"bytes"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/stats"
)

// queueOf lets one session have the peer, and so many wait for a second.
func queueOf(most int) func(l *conf.Listener, u *conf.Upstream) {
	return func(l *conf.Listener, u *conf.Upstream) {
		u.Servers[0].MaxConns = 1
		u.Queue = &conf.Queue{Max: most, Timeout: time.Second}
	}
}

func (h *harness) waiting() int { return h.group.Load(h.clock.Now()).Waiting }

// queue connects a client that has to wait.
func (h *harness) queue() *net.TCPConn {
	h.t.Helper()
	n := h.waiting()
	c := h.client()
	h.turnUntil("the session waits", func() bool { return h.waiting() == n+1 })
	return c
}

// accept returns the next connection to a peer.
func (h *harness) accept(i int) (peer *net.TCPConn) {
	h.t.Helper()
	h.turnUntil("a peer is connected", func() bool {
		h.peers[i].SetDeadline(time.Now().Add(time.Millisecond))
		c, err := h.peers[i].AcceptTCP()
		if err == nil {
			peer = c
			h.t.Cleanup(func() { c.Close() })
		}
		return err == nil
	})
	return peer
}

func TestQueue(t *testing.T) {
	h := newHarness(t, setup{edit: queueOf(2)})
	first, _ := h.dial()
	second := h.queue()
	second.Write([]byte("early"))
	third := h.queue()
	h.client()
	h.wantClosed(stats.QueueFull)

	h.clock.Advance(300 * time.Millisecond)
	reset(first)
	p := h.accept(0)
	got := make([]byte, 5)
	h.turnUntil("what the client has said in the queue arrives", func() bool {
		p.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, err := io.ReadFull(p, got)
		return err == nil
	})
	if string(got) != "early" {
		t.Errorf("got %q", got)
	}

	// One whose client goes away frees its place at once.
	third.Close()
	h.turnUntil("the place is free", func() bool { return h.waiting() == 0 })
	h.queue()
	h.clock.Advance(time.Second + time.Millisecond)
	h.turnUntil("the wait is over", func() bool { return h.closed(stats.QueueTimeout) == 1 })
	var waits stats.Durations
	waits.Add(&h.group.Stats(0).QueueWait)
	n := uint64(0)
	for _, c := range waits.Counts {
		n += c
	}
	if n != 3 || waits.Sum < 1300*time.Millisecond || waits.Sum > 1700*time.Millisecond {
		t.Errorf("%d waits of together %v", n, waits.Sum)
	}
}

// A refused client without words is reset, one with words hears them.
func TestRefusal(t *testing.T) {
	for profile, says := range map[conf.Profile]string{"": "", conf.ProfileRedis: "-ERR", conf.ProfileMySQL: "\xff\x10\x04"} {
		t.Run(string(profile), func(t *testing.T) {
			h := newHarness(t, setup{edit: func(l *conf.Listener, u *conf.Upstream) {
				queueOf(1)(l, u)
				l.Profile = profile
			}})
			h.dial()
			h.queue()
			c := h.client()
			c.Write([]byte("PING\r\n"))
			r := h.wait(readAll(c))
			if says == "" && (r.err == nil || len(r.bytes) > 0) || says != "" && (r.err != nil || !strings.Contains(string(r.bytes), says)) {
				t.Errorf("the client got %q, %v", r.bytes, r.err)
			}
			c.Close()
			h.wantClosed(stats.QueueFull)
		})
	}
}

// A client that does not listen to its refusal does not stay for long.
func TestRefusalIsNotForEver(t *testing.T) {
	h := newHarness(t, setup{edit: func(l *conf.Listener, u *conf.Upstream) {
		queueOf(1)(l, u)
		l.Profile = conf.ProfilePostgres
	}})
	h.dial()
	h.queue()
	h.client()
	h.turnUntil("it is refused", func() bool { return h.last().phase == refusing })
	h.clock.Advance(refusalPatience + time.Millisecond)
	h.wantClosed(stats.QueueFull)
}

// A client that asks for encryption again and again, and never for a session, holds up
// nobody.
func TestRefusalTakesTurns(t *testing.T) {
	h := newHarness(t, setup{edit: func(l *conf.Listener, u *conf.Upstream) {
		queueOf(1)(l, u)
		l.Profile = conf.ProfilePostgres
	}})
	h.dial()
	h.queue()
	c := h.client()
	c.Write(bytes.Repeat([]byte{0, 0, 0, 8, 4, 210, 22, 47}, 200))
	for end := time.Now().Add(10 * time.Second); outQueue(t, c) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it has not come")
		}
	}
	waiting := h.last()
	for before := uint64(0); before < 200; {
		h.w.Loop.Turn(time.Second)
		s := h.last()
		if s == waiting {
			continue
		}
		if n := s.flow[up].sent - before; n > roundsPerTurn {
			t.Fatalf("%d answers in one turn", n)
		}
		before = s.flow[up].sent
	}
	h.clock.Advance(refusalPatience + time.Millisecond)
	h.wantClosed(stats.QueueFull)
}

func TestBackoff(t *testing.T) {
	h := newHarness(t, setup{peers: -1, extra: []conf.Server{refused(t), refused(t), refused(t), refused(t)}, edit: func(l *conf.Listener, _ *conf.Upstream) {
		l.NextUpstream.Backoff = time.Minute
	}})
	h.client()
	h.turnUntil("it waits", func() bool { return h.last() != nil && h.last().phase == pausing })
	if n := h.last().tries; n != 2 {
		t.Fatalf("it waits after %d attempts, want 2: the first retry is at once", n)
	}
	h.settle()
	for h.ended() == 0 {
		at, ok := h.w.Loop.Timers.Armed(h.last().slot + timerSession)
		if !ok || at > h.clock.Now().Add(longestBackoff).Millis()+1 {
			t.Fatalf("the next attempt is at %d, %v", at, ok)
		}
		h.clock.Advance(time.Second)
		h.w.Loop.Turn(time.Millisecond)
	}
	h.wantClosed(stats.ConnectFailed)
	if n := h.group.Stats(0).Retries.Load(); n != 3 {
		t.Errorf("%d retries, want 3", n)
	}
}

// Full jitter: any time up to the span, which doubles.
func TestBackoffSpan(t *testing.T) {
	s := &session{listener: &Listener{Backoff: 100 * time.Millisecond}}
	for tries, span := range map[uint16]time.Duration{1: 0, 2: 100 * time.Millisecond, 3: 200 * time.Millisecond, 5: 800 * time.Millisecond, 40: longestBackoff} {
		s.tries = tries
		least, most := time.Hour, time.Duration(0)
		for range 2000 {
			d := s.backoff()
			least, most = min(least, d), max(most, d)
		}
		if most > span || most < span*9/10 || least > span/10 {
			t.Errorf("before attempt %d it waits %v to %v, want 0 to %v", tries+1, least, most, span)
		}
	}
}

func holding(l *conf.Listener, _ *conf.Upstream) { l.NextUpstream.BeforeFirstByte = true }

func TestBeforeFirstByte(t *testing.T) {
	for name, end := range map[string]func(*net.TCPConn){"end": func(p *net.TCPConn) { p.Close() }, "reset": reset} {
		for _, size := range []int{1, 6 << 10, 60 << 10} {
			t.Run(name, func(t *testing.T) {
				h := newHarness(t, setup{peers: 2, edit: holding})
				c, bad := h.dial()
				question := payload(size)
				c.Write(question)
				c.CloseWrite()
				if r := h.wait(readAll(bad)); !bytes.Equal(r.bytes, question) {
					t.Fatalf("the first peer got %d bytes, %v", len(r.bytes), r.err)
				}
				end(bad)
				other := 0
				if bad.LocalAddr().String() == h.peers[0].Addr().String() {
					other = 1
				}
				good := h.accept(other)
				if r := h.wait(readAll(good)); !bytes.Equal(r.bytes, question) || r.err != nil {
					t.Fatalf("the second peer got %d bytes, %v; want %d", len(r.bytes), r.err, size)
				}
				good.Write([]byte("answer"))
				good.Close()
				if r := h.wait(readAll(c)); string(r.bytes) != "answer" || r.err != nil {
					t.Fatalf("the client got %q, %v", r.bytes, r.err)
				}
				h.wantClosed(stats.ClientClosed) // it was the first to end
			})
		}
	}
}

// After the peer's first byte, or beyond what is held, the session is bound to its
// peer.
func TestBoundToItsPeer(t *testing.T) {
	for name, talk := range map[string]func(h *harness, c, p *net.TCPConn){
		"spoke": func(h *harness, c, p *net.TCPConn) {
			p.Write([]byte("x"))
			h.turnUntil("that is seen", func() bool { return h.last().flow[up].read == 1 })
		},
		"too much": func(h *harness, c, p *net.TCPConn) {
			go c.Write(payload(100 << 10))
			h.turnUntil("that is read", func() bool { return h.last().flow[down].read > bufferBytes })
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, setup{peers: 2, edit: holding})
			c, p := h.dial()
			talk(h, c, p)
			if h.last().walk != nil || h.last().holds() {
				t.Error("it could still begin anew")
			}
			reset(p)
			h.wantClosed(stats.PeerReset)
		})
	}
}

// Sessions that have said nothing hold no buffer, and still begin anew.
func TestBeforeFirstByteOfSilentClient(t *testing.T) {
	h := newHarness(t, setup{peers: 2, edit: holding})
	c, p := h.dial()
	if !h.last().holds() || h.w.large.lent+h.w.small.lent != 0 {
		t.Errorf("holding is %v, with %d buffers", h.last().holds(), h.w.large.lent+h.w.small.lent)
	}
	p.Close()
	other := 0
	if p.LocalAddr().String() == h.peers[0].Addr().String() {
		other = 1
	}
	q := h.accept(other)
	c.Write([]byte("late"))
	h.hears(q, "late")
	h.wantNoFails()
}

// Who has asked for nothing, or for what is not answered, needs no other peer, and
// no peer has failed.
func TestBeforeFirstByteOfNothingAsked(t *testing.T) {
	for name, test := range map[string]struct {
		says   int
		closes bool
		end    stats.CloseReason
	}{
		"probe":  {closes: true, end: stats.ClientClosed},
		"cancel": {says: cancelBytes, end: stats.PeerClosed},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, setup{peers: 2, edit: func(l *conf.Listener, u *conf.Upstream) {
				holding(l, u)
				l.Profile = conf.ProfilePostgres
			}})
			c, p := h.dial()
			c.Write(payload(test.says))
			if test.closes {
				c.CloseWrite()
			}
			h.turnUntil("it has arrived", func() bool {
				s := h.last()
				return s.flow[down].sent == uint64(test.says) && s.half[up].shut == test.closes
			})
			p.Read(make([]byte, 64)) // or Close would reset
			p.Close()
			h.wait(readAll(c))
			c.Close()
			h.wantClosed(test.end)
			if n := h.stats.UpstreamConnections.Load(); n != 1 {
				t.Errorf("%d connections to peers, want 1", n)
			}
			h.wantNoFails()
		})
	}
}

func (h *harness) wantNoFails() {
	h.t.Helper()
	for _, p := range h.group.Snapshot(nil, h.clock.Now()) {
		if p.Failures != 0 || p.Balance.Fails != 0 {
			h.t.Errorf("%s is charged with a failure", p.Addr)
		}
	}
}

// The client's bytes and the peer's reset come together: what is left to be told of
// the old connection does not end a session that waits for another.
func TestBeforeFirstByteThenQueue(t *testing.T) {
	h := newHarness(t, setup{peers: 2, edit: func(l *conf.Listener, u *conf.Upstream) {
		holding(l, u)
		for i := range u.Servers {
			u.Servers[i].MaxConns = 1
		}
		u.Queue = &conf.Queue{Max: 2, Timeout: time.Minute}
	}})
	c, p := h.dial()
	other := 0
	if p.LocalAddr().String() == h.peers[0].Addr().String() {
		other = 1
	}
	second, _ := h.dial()
	third := h.queue()
	c.Write([]byte("question"))
	reset(p)
	h.turnUntil("it waits too", func() bool { return h.waiting() == 2 })
	reset(second)
	h.accept(other)
	reset(third)
	h.hears(h.accept(other), "question")
}

// A session that is connected makes no attempt, even if it could begin anew.
func TestBeforeFirstByteKeepsNoRetry(t *testing.T) {
	h := newHarness(t, setup{extra: []conf.Server{refused(t)}, edit: func(l *conf.Listener, u *conf.Upstream) {
		holding(l, u)
		u.Breaker = &conf.CircuitBreaker{MaxRetries: 1}
		u.Servers[0].MaxFails = 0
		u.Servers[0].Weight = 100 // everybody begins there
	}})
	for range 2 {
		h.dial()
		if s := h.last(); s.tries != 2 || !s.holds() {
			t.Errorf("it is connected after %d attempts, holding is %v", s.tries, s.holds())
		}
		if n := h.group.Load(h.clock.Now()).Retries; n != 0 {
			t.Errorf("%d retries under way", n)
		}
	}
}

// A connect to a unix socket is over at once.
func TestBeforeFirstByteOverUnixSockets(t *testing.T) {
	dir := t.TempDir()
	listen := func(name string) *net.UnixListener {
		ln, err := net.Listen("unix", filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		return ln.(*net.UnixListener)
	}
	bad, good := listen("bad"), listen("good")
	go func() {
		for {
			c, err := bad.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	go func() {
		for {
			c, err := good.Accept()
			if err != nil {
				return
			}
			io.Copy(c, c)
			c.Close()
		}
	}()
	server := func(ln *net.UnixListener) conf.Server {
		return conf.NewServer(conf.Address{Path: ln.Addr().String()})
	}
	h := newHarness(t, setup{peers: -1, extra: []conf.Server{server(bad), server(good)}, edit: holding})
	for range 4 {
		c := h.client()
		c.Write([]byte("question"))
		c.CloseWrite()
		if r := h.wait(readAll(c)); string(r.bytes) != "question" || r.err != nil {
			t.Fatalf("the client got %q, %v", r.bytes, r.err)
		}
	}
}

// Without anybody left the client is told as the last peer has ended it.
func TestBeforeFirstByteEndsWithTheLast(t *testing.T) {
	h := newHarness(t, setup{peers: 2, edit: holding})
	c, p := h.dial()
	c.Write([]byte("question"))
	reset(p)
	other := 0
	if p.LocalAddr().String() == h.peers[0].Addr().String() {
		other = 1
	}
	reset(h.accept(other))
	h.wantClosed(stats.PeerReset)
}

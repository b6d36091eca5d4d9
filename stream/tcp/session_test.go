package tcp

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/stats"
)

// readAll reads c on another goroutine until its end.
func readAll(c net.Conn) <-chan result {
	out := make(chan result, 1)
	go func() {
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		b, err := io.ReadAll(c)
		out <- result{b, err}
	}()
	return out
}

type result struct {
	bytes []byte
	err   error
}

// wait turns the loop until the result is there.
func (h *harness) wait(c <-chan result) (r result) {
	h.t.Helper()
	h.turnUntil("the reader ends", func() bool {
		select {
		case r = <-c:
			return true
		default:
			return false
		}
	})
	return r
}

func payload(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// ends are the two ways round that every closing rule must hold.
var ends = []struct {
	name          string
	first, second func(client, peer *net.TCPConn) *net.TCPConn
	closed, reset stats.CloseReason
}{
	{"client", func(c, _ *net.TCPConn) *net.TCPConn { return c }, func(_, p *net.TCPConn) *net.TCPConn { return p }, stats.ClientClosed, stats.ClientReset},
	{"peer", func(_, p *net.TCPConn) *net.TCPConn { return p }, func(c, _ *net.TCPConn) *net.TCPConn { return c }, stats.PeerClosed, stats.PeerReset},
}

func TestEndIsPassedOnPerDirection(t *testing.T) {
	for _, end := range ends {
		for _, relay := range []Relay{Auto, Copy, Splice} {
			t.Run(end.name, func(t *testing.T) {
				h := newHarness(t, setup{relay: relay})
				c, p := h.dial()
				a, b := end.first(c, p), end.second(c, p)
				question, answer := payload(300<<10), payload(700<<10)
				fromA := readAll(b)
				go func() { a.Write(question); a.CloseWrite() }()
				if r := h.wait(fromA); r.err != nil || !bytes.Equal(r.bytes, question) {
					t.Fatalf("got %d bytes, %v; want %d and the end", len(r.bytes), r.err, len(question))
				}
				// The other direction still stands, for as long as it needs.
				fromB := readAll(a)
				go func() { b.Write(answer); b.Close() }()
				if r := h.wait(fromB); r.err != nil || !bytes.Equal(r.bytes, answer) {
					t.Fatalf("got %d bytes, %v; want %d and the end", len(r.bytes), r.err, len(answer))
				}
				h.wantClosed(end.closed)
			})
		}
	}
}

func TestResetIsPassedOnAfterTheBytesBeforeIt(t *testing.T) {
	for _, end := range ends {
		for _, relay := range []Relay{Auto, Copy, Splice} {
			t.Run(end.name, func(t *testing.T) {
				h := newHarness(t, setup{relay: relay})
				c, p := h.dial()
				a, b := end.first(c, p), end.second(c, p)
				want := payload(1 << 20)
				fromA := readAll(b)
				sent := make(chan struct{})
				go func() { a.Write(want); close(sent) }()
				h.turnUntil("all is written", func() bool {
					select {
					case <-sent:
						return outQueue(t, a) == 0 // and has reached weir
					default:
						return false
					}
				})
				reset(a)
				r := h.waitAdvancing(fromA)
				if !errors.Is(r.err, unix.ECONNRESET) {
					t.Errorf("the other side saw %v, want a reset", r.err)
				}
				if !bytes.Equal(r.bytes, want) {
					t.Errorf("the other side got %d bytes, want %d", len(r.bytes), len(want))
				}
				h.wantClosed(end.reset)
			})
		}
	}
}

// A reset must not overtake bytes that a slow reader has not taken yet.
func TestResetWaitsForASlowReader(t *testing.T) {
	for _, end := range ends {
		t.Run(end.name, func(t *testing.T) {
			h := newHarness(t, setup{})
			c, p := h.dial()
			a, b := end.first(c, p), end.second(c, p)
			b.SetReadBuffer(16 << 10)
			want := payload(200 << 10)
			a.Write(want)
			h.turnUntil("weir has it all", func() bool { return outQueue(t, a) == 0 })
			reset(a)
			h.settle()
			if h.ended() != 0 {
				t.Fatal("the session ended while its last bytes were on their way")
			}
			r := h.waitAdvancing(readAll(b))
			if !errors.Is(r.err, unix.ECONNRESET) || !bytes.Equal(r.bytes, want) {
				t.Errorf("got %d bytes and %v, want %d and a reset", len(r.bytes), r.err, len(want))
			}
			h.wantClosed(end.reset)
		})
	}
}

// waitAdvancing is wait with the clock moving along.
func (h *harness) waitAdvancing(c <-chan result) (r result) {
	h.t.Helper()
	h.turnUntil("the reader ends", func() bool {
		h.clock.Advance(10 * time.Millisecond)
		select {
		case r = <-c:
			return true
		default:
			return false
		}
	})
	return r
}

// A client that gives up is noticed even if its peer reads and says nothing.
func TestResetIsSeenWhileTheOtherSideStalls(t *testing.T) {
	for _, end := range ends {
		t.Run(end.name, func(t *testing.T) {
			h := newHarness(t, setup{edit: func(l *conf.Listener, _ *conf.Upstream) { l.HalfCloseTimeout = 3 * time.Second }})
			c, p := h.dial()
			a := end.first(c, p)
			fill(t, h, a) // the second side reads nothing
			reset(a)
			h.turnUntil("the reset is noticed", func() bool { return h.last().halfClosed || h.ended() == 1 })
			h.clock.Advance(2 * time.Second)
			h.settle()
			if h.ended() != 0 {
				t.Fatal("ended before half_close_timeout, though bytes were undelivered")
			}
			h.clock.Advance(2 * time.Second)
			h.wantClosed(end.reset)
		})
	}
}

func TestStalledReaderStopsItsWriter(t *testing.T) {
	for _, end := range ends {
		for _, relay := range []Relay{Auto, Copy, Splice} {
			t.Run(end.name, func(t *testing.T) {
				h := newHarness(t, setup{relay: relay})
				c, p := h.dial()
				a, b := end.first(c, p), end.second(c, p)
				took := fill(t, h, a)
				s := h.last()
				for i := range s.flow {
					if f := &s.flow[i]; f.pending > pipeBytes {
						t.Errorf("%d bytes pending, more than a pipe", f.pending)
					}
				}
				// What was taken comes out again once the reader reads.
				out := readAll(b)
				a.CloseWrite()
				b.CloseWrite()
				if r := h.wait(out); r.err != nil || len(r.bytes) != took {
					t.Fatalf("got %d bytes, %v; want %d", len(r.bytes), r.err, took)
				}
			})
		}
	}
}

func TestIdleTimeout(t *testing.T) {
	for _, end := range ends {
		t.Run(end.name, func(t *testing.T) {
			h := newHarness(t, setup{edit: func(l *conf.Listener, _ *conf.Upstream) { l.IdleTimeout = 10 * time.Second }})
			c, p := h.dial()
			talker, listener := end.first(c, p), end.second(c, p)
			for range 5 { // either direction feeds the session's one clock
				h.clock.Advance(9 * time.Second)
				h.settle()
				talker.Write([]byte("x"))
				listener.SetReadDeadline(time.Now().Add(5 * time.Second))
				h.turnUntil("the byte arrives", func() bool { return h.last() != nil && h.last().active == h.clock.Now() })
			}
			h.clock.Advance(9 * time.Second)
			h.settle()
			if h.ended() != 0 {
				t.Fatal("ended before idle_timeout")
			}
			out := readAll(talker)
			h.clock.Advance(2 * time.Second)
			h.wantClosed(stats.IdleTimeout)
			if r := <-out; r.err != nil {
				t.Errorf("nothing was cut, but the talker saw %v", r.err)
			}
		})
	}
}

func TestIdleTimeoutOffNeverEnds(t *testing.T) {
	h := newHarness(t, setup{edit: func(l *conf.Listener, _ *conf.Upstream) { l.IdleTimeout = conf.Off }})
	h.dial()
	h.clock.Advance(100 * 24 * time.Hour)
	h.settle()
	if h.ended() != 0 {
		t.Fatal("the session ended")
	}
}

func TestHalfCloseTimeoutIsItsOwn(t *testing.T) {
	for _, end := range ends {
		t.Run(end.name, func(t *testing.T) {
			h := newHarness(t, setup{edit: func(l *conf.Listener, _ *conf.Upstream) {
				l.IdleTimeout, l.HalfCloseTimeout = time.Hour, 20*time.Second
			}})
			c, p := h.dial()
			end.first(c, p).CloseWrite()
			h.turnUntil("half-closed", func() bool { return h.last().halfClosed })
			h.clock.Advance(19 * time.Second)
			h.settle()
			end.second(c, p).Write([]byte("x")) // a byte starts it anew
			h.turnUntil("the byte moves", func() bool { return h.last().active == h.clock.Now() })
			h.clock.Advance(19 * time.Second)
			h.settle()
			if h.ended() != 0 {
				t.Fatal("ended before half_close_timeout")
			}
			h.clock.Advance(2 * time.Second)
			h.wantClosed(stats.HalfCloseTimeout)
		})
	}
}

// Without it idle_timeout holds for half-closed sessions too.
func TestHalfCloseTimeoutOff(t *testing.T) {
	h := newHarness(t, setup{edit: func(l *conf.Listener, _ *conf.Upstream) {
		l.IdleTimeout, l.HalfCloseTimeout = 10*time.Second, conf.Off
	}})
	c, _ := h.dial()
	c.CloseWrite()
	h.turnUntil("half-closed", func() bool { return h.last().halfClosed })
	h.clock.Advance(11 * time.Second)
	h.wantClosed(stats.IdleTimeout)
}

// What is due before half_close_timeout is done in time: the guard of a young
// session, and the look at an older one that ends with bytes under way.
func TestHalfCloseDelaysNothing(t *testing.T) {
	h := newHarness(t, setup{edit: func(l *conf.Listener, _ *conf.Upstream) { l.HalfCloseTimeout = 10 * time.Minute }})
	young, _ := h.dial()
	young.CloseWrite()
	h.turnUntil("half-closed", func() bool { return h.last().halfClosed })
	h.clock.Advance(3 * time.Second)
	h.settle()
	if !h.last().guarded {
		t.Error("the young session is not guarded")
	}

	_, p := h.dial()
	for range 2 { // until it is quiet and no longer looked at
		h.clock.Advance(20 * time.Second)
		h.settle()
	}
	p.Write([]byte("x"))
	p.CloseWrite()
	h.turnUntil("half-closed", func() bool { return h.last().halfClosed })
	at, ok := h.w.Loop.Timers.Armed(h.last().slot + timerSession)
	if in := clock.AtMillis(at).Sub(h.clock.Now()); !ok || in > 16*time.Second {
		t.Errorf("the older session is looked at in %v, %v", in, ok)
	}
}

// What is cut must not look like what is whole.
func TestTimeoutWithUndeliveredBytesResets(t *testing.T) {
	for _, end := range ends {
		t.Run(end.name, func(t *testing.T) {
			h := newHarness(t, setup{})
			c, p := h.dial()
			a, b := end.first(c, p), end.second(c, p)
			fill(t, h, a)
			h.clock.Advance(11 * time.Minute)
			h.wantClosed(stats.IdleTimeout)
			if r := <-readAll(b); !errors.Is(r.err, unix.ECONNRESET) {
				t.Errorf("the cut stream ended with %v, want a reset", r.err)
			}
		})
	}
}

func TestNextUpstreamAfterRefusal(t *testing.T) {
	h := newHarness(t, setup{extra: []conf.Server{refused(t), refused(t)}})
	_, p := h.dial()
	p.Write([]byte("hello"))
	s := h.last()
	if s.tries != 3 || strings.Count(s.tried, ", ") != 2 {
		t.Fatalf("%d tries at %q, want 3", s.tries, s.tried)
	}
	snap := h.group.Snapshot(nil, h.clock.Now())
	if snap[0].Balance.Fails != 1 || snap[1].Balance.Fails != 1 || snap[2].Balance.Fails != 0 || snap[2].Balance.Conns != 1 {
		t.Fatalf("peers are %+v", snap)
	}
}

func TestNextUpstreamAfterTimeout(t *testing.T) {
	h := newHarness(t, setup{extra: []conf.Server{blackHole(t)}})
	c := h.client()
	c.Write([]byte("early"))
	h.turnUntil("connecting", func() bool { return h.last() != nil })
	if s := h.last(); s.phase != connecting {
		t.Fatalf("the session is %v", s.phase)
	}
	h.clock.Advance(2 * time.Second)
	h.settle()
	if s := h.last(); s.tries != 1 {
		t.Fatal("gave up before connect_timeout")
	}
	h.clock.Advance(2 * time.Second)
	var p net.Conn
	h.turnUntil("the next peer is connected", func() bool {
		h.peers[0].SetDeadline(time.Now().Add(time.Millisecond))
		conn, err := h.peers[0].Accept()
		p = conn
		return err == nil
	})
	defer p.Close()
	// The bytes that came early were kept.
	buf := make([]byte, 5)
	h.turnUntil("the early bytes arrive", func() bool {
		p.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, err := io.ReadFull(p, buf)
		return err == nil
	})
}

func TestEveryAttemptFails(t *testing.T) {
	h := newHarness(t, setup{peers: -1, extra: []conf.Server{refused(t), refused(t)}})
	out := readAll(h.client())
	h.wantClosed(stats.ConnectFailed)
	if r := <-out; len(r.bytes) != 0 {
		t.Errorf("the client got %q", r.bytes)
	}
	h.client()
	h.turnUntil("the second session ends", func() bool { return h.ended() == 2 })
	if h.closed(stats.NoPeer) != 1 {
		t.Error("both peers are unavailable, but the reason is not no_peer")
	}
}

func TestConnectTimeoutIsTheLastReason(t *testing.T) {
	h := newHarness(t, setup{peers: -1, extra: []conf.Server{refused(t), blackHole(t)}})
	h.client()
	h.turnUntil("the second attempt", func() bool { return h.last() != nil && h.last().tries == 2 })
	h.clock.Advance(4 * time.Second)
	h.wantClosed(stats.ConnectTimeout)
}

// As in nginx, a client that leaves does not cancel the attempt.
func TestClientGoneDuringConnect(t *testing.T) {
	h := newHarness(t, setup{extra: []conf.Server{blackHole(t)}})
	c := h.client()
	h.turnUntil("connecting", func() bool { return h.last() != nil })
	reset(c)
	h.settle()
	if s := h.last(); s == nil || s.phase != connecting {
		t.Fatal("the attempt was cancelled")
	}
	h.clock.Advance(4 * time.Second)
	h.wantClosed(stats.ClientReset)
	if snap := h.group.Snapshot(nil, h.clock.Now()); snap[0].Balance.Fails != 1 || snap[1].Balance.Fails != 0 {
		t.Errorf("fails are %d and %d, want 1 and 0", snap[0].Balance.Fails, snap[1].Balance.Fails)
	}
}

func TestRoomIsNeverExceeded(t *testing.T) {
	h := newHarness(t, setup{room: 2})
	a, _ := h.dial()
	h.dial()
	h.client()
	h.client()
	h.settle()
	if n := h.w.sessions.Len(); n != 2 {
		t.Fatalf("%d sessions in a room for 2", n)
	}
	turns := h.w.Loop.Stats.Turns.Load()
	h.w.Loop.Turn(50 * time.Millisecond)
	if h.w.Loop.Stats.Turns.Load() != turns+1 || h.w.sessions.Len() != 2 {
		t.Fatal("the loop is woken while it can't accept")
	}
	if len(h.notices) != 1 {
		t.Errorf("notices are %q, want one", h.notices)
	}
	reset(a)
	h.turnUntil("one that waited is served", func() bool { return h.ended() == 1 && h.w.sessions.Len() == 2 })
	if len(h.notices) != 1 {
		t.Errorf("notices are %q, want one", h.notices)
	}
}

func TestAcceptResumesAfterEMFILE(t *testing.T) {
	h := newHarness(t, setup{})
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	c := h.client()
	var fds []int
	defer func() {
		unix.Setrlimit(unix.RLIMIT_NOFILE, &old)
	}()
	low := old
	low.Cur = uint64(countFDs(t)) + 8
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	for {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		fds = append(fds, fd)
	}
	h.turnUntil("accepting pauses", func() bool { return h.w.paused })
	for _, fd := range fds {
		unix.Close(fd)
	}
	unix.Setrlimit(unix.RLIMIT_NOFILE, &old)
	h.clock.Advance(resumeAfter + time.Millisecond)
	h.turnUntil("the client is served", func() bool { return h.w.sessions.Len() == 1 })
	if len(h.notices) != 1 || !strings.Contains(h.notices[0], "too many open files") {
		t.Errorf("notices are %q", h.notices)
	}
	_ = c
}

func TestDrainTakesWhatWaits(t *testing.T) {
	h := newHarness(t, setup{})
	h.client()
	h.client()
	h.w.Drain()
	if n := h.w.sessions.Len(); n != 2 {
		t.Fatalf("%d sessions, want the 2 that waited", n)
	}
	if c, err := net.Dial("tcp", h.addr); err == nil {
		c.Close()
		t.Fatal("still accepting")
	}
}

// pour has a client send, and its peer take, as much as they can. It returns the
// session and what ends it.
func (h *harness) pour() (s *session, end func()) {
	c, p := h.dial()
	c.SetWriteBuffer(16 << 20)
	var both sync.WaitGroup
	both.Go(func() { io.Copy(io.Discard, p) })
	both.Go(func() {
		chunk := make([]byte, 1<<20)
		for {
			if _, err := c.Write(chunk); err != nil {
				return
			}
		}
	})
	return h.last(), func() {
		c.Close()
		p.Close()
		both.Wait()
	}
}

// One turn of one bulk session is bounded, so that others get theirs.
func TestTurnIsBounded(t *testing.T) {
	for _, relay := range []Relay{Auto, Copy, Splice} {
		h := newHarness(t, setup{relay: relay})
		s, end := h.pour()
		most := bulkPerTurn + spliceBytes
		if relay == Copy {
			// Each time: what was put off, and an event of either half.
			most = 3 * (bytesPerFlow + bufferBytes)
		}
		for range 200 {
			before := s.flow[down].read
			h.w.Loop.Turn(time.Millisecond)
			if moved := s.flow[down].read - before; moved > uint64(most) {
				t.Fatalf("relay %d: %d bytes in one turn", relay, moved)
			}
		}
		end()
	}
}

// Many bulk sessions share what one turn may move.
func TestBulkSharesTheTurn(t *testing.T) {
	h := newHarness(t, setup{})
	var all []*session
	for range 20 {
		s, end := h.pour()
		defer end()
		all = append(all, s)
	}
	h.turnUntil("all of them are spliced", func() bool {
		return !slices.ContainsFunc(all, func(s *session) bool { return !s.flow[down].splice })
	})
	before := make([]uint64, len(all))
	moves := func() (total uint64) {
		for i, s := range all {
			total += s.flow[down].read - before[i]
			before[i] = s.flow[down].read
		}
		return total
	}
	moves()
	for range 300 {
		h.w.Loop.Turn(time.Millisecond)
		if moved := moves(); moved > bulkPerTurn+spliceBytes {
			t.Fatalf("%d bytes in one turn", moved)
		}
	}
}

// Who had nothing of what a turn may move is the first in the next.
func TestBulkTakesTurns(t *testing.T) {
	h := newHarness(t, setup{})
	all := make([]*session, 3)
	for i := range all {
		s, end := h.pour()
		defer end()
		all[i] = s
	}
	passedOver := make([]int, len(all)) // turns in which others moved something while it was put off
	contested := 0
	deadline := time.Now().Add(10 * time.Second)
	for contested < 100 {
		if time.Now().After(deadline) {
			t.Fatalf("they have waited for one another only in %d turns", contested)
		}
		waits := make([]bool, len(all))
		before := make([]uint64, len(all))
		for i, s := range all {
			waits[i], before[i] = s.putOff, s.flow[down].read
		}
		h.w.bulk = 1
		h.w.Loop.Turn(time.Millisecond)
		got := func(i int) bool { return all[i].flow[down].read > before[i] }
		moved := got(0) || got(1) || got(2)
		for i, s := range all {
			switch {
			case got(i), !waits[i], !s.putOff:
				passedOver[i] = 0
			case moved:
				passedOver[i]++
				contested++
			}
			if passedOver[i] == len(all) {
				t.Fatalf("session %d got nothing in %d turns", i, passedOver[i])
			}
		}
	}
}

// Beside messages bulk leaves off sooner.
func TestBulkBesideMessages(t *testing.T) {
	h := newHarness(t, setup{})
	c, p := h.dial()
	s, end := h.pour()
	defer end()
	h.turnUntil("the bulk is spliced", func() bool { return s.flow[down].splice })
	for range 100 {
		c.Write([]byte("?"))
		h.hears(p, "?")
		before := s.flow[down].read
		h.w.Loop.Turn(time.Millisecond)
		if moved := s.flow[down].read - before; moved > bytesPerFlow+spliceBytes {
			t.Fatalf("%d bytes in one turn", moved)
		}
	}
}

func TestUnixSocketsOnBothSides(t *testing.T) {
	for _, relay := range []Relay{Auto, Copy, Splice} {
		path := t.TempDir() + "/peer"
		ln, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		h := newHarness(t, setup{relay: relay, unix: true, peers: -1, extra: []conf.Server{conf.NewServer(conf.Address{Path: path})}})
		c, err := net.Dial("unix", h.addr)
		if err != nil {
			t.Fatal(err)
		}
		accepted := make(chan net.Conn, 1)
		go func() { p, _ := ln.Accept(); accepted <- p }()
		var p net.Conn
		h.turnUntil("the peer is connected", func() bool {
			select {
			case p = <-accepted:
				return true
			default:
				return false
			}
		})
		want := payload(3 << 20)
		out := readAll(p)
		go func() { c.Write(want); c.(*net.UnixConn).CloseWrite() }()
		if r := h.wait(out); r.err != nil || !bytes.Equal(r.bytes, want) {
			t.Fatalf("relay %d: got %d bytes, %v; want %d", relay, len(r.bytes), r.err, len(want))
		}
		back := readAll(c)
		go func() { p.Write(want); p.Close() }()
		if r := h.wait(back); r.err != nil || !bytes.Equal(r.bytes, want) {
			t.Fatalf("relay %d: got %d bytes back, %v; want %d", relay, len(r.bytes), r.err, len(want))
		}
		h.wantClosed(stats.ClientClosed)
		c.Close()
		ln.Close()
	}
}

func TestNoPipesMeansCopying(t *testing.T) {
	h := newHarness(t, setup{pipes: -1})
	c, p := h.dial()
	want := payload(2 << 20)
	out := readAll(p)
	go func() { c.Write(want); c.CloseWrite() }()
	if r := h.wait(out); r.err != nil || !bytes.Equal(r.bytes, want) {
		t.Fatalf("got %d bytes, %v", len(r.bytes), r.err)
	}
	if h.moved(stats.Spliced) != 0 || h.stats.SpliceFallbacks.Load() == 0 {
		t.Error("bytes were spliced without a pipe, or the fallback was not counted")
	}
}

func TestSmallIsCopiedAndBigIsSpliced(t *testing.T) {
	h := newHarness(t, setup{})
	c, p := h.dial()
	for range 10 {
		c.Write(payload(500))
		buf := make([]byte, 500)
		h.turnUntil("it arrives", func() bool {
			p.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, err := io.ReadFull(p, buf)
			return err == nil
		})
	}
	if h.moved(stats.Copied) != 5000 || h.moved(stats.Spliced) != 0 || h.stats.Pipes.Load() != 0 {
		t.Errorf("copied %d and spliced %d of 5000 small bytes", h.moved(stats.Copied), h.moved(stats.Spliced))
	}
	out := readAll(p)
	go func() { c.Write(payload(8 << 20)); c.CloseWrite() }()
	h.wait(out)
	if h.moved(stats.Spliced) < 4<<20 {
		t.Errorf("spliced only %d of 8 MiB", h.moved(stats.Spliced))
	}
}

func TestDeadPeerOptionsAreSet(t *testing.T) {
	h := newHarness(t, setup{})
	h.dial()
	s := h.last()
	h.clock.Advance(guardAfter + (guardSpread+10)*time.Millisecond)
	h.settle()
	for _, d := range []side{down, up} {
		for option, want := range map[int]int{unix.TCP_KEEPIDLE: 10, unix.TCP_KEEPINTVL: 5, unix.TCP_KEEPCNT: 4, unix.TCP_USER_TIMEOUT: 30000} {
			if got, err := unix.GetsockoptInt(int(s.half[d].fd), unix.IPPROTO_TCP, option); err != nil || got != want {
				t.Errorf("half %d: option %d is %d (%v), want %d", d, option, got, err, want)
			}
		}
		if got, _ := unix.GetsockoptInt(int(s.half[d].fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE); got != 1 {
			t.Errorf("half %d: no keepalive", d)
		}
	}
}

// Sessions that came together are not all guarded in the same turn.
func TestGuardsAreSpread(t *testing.T) {
	h := newHarness(t, setup{})
	const n = 12
	for range n {
		h.dial()
	}
	guarded := func() (sum int) {
		h.settle()
		h.w.sessions.All(func(_ int32, s *session) {
			if s.guarded {
				sum++
			}
		})
		return sum
	}
	h.clock.Advance(guardAfter + n/2*time.Millisecond)
	if got := guarded(); got == 0 || got == n {
		t.Errorf("%d of %d sessions are guarded at once", got, n)
	}
	h.clock.Advance(n * time.Millisecond)
	if got := guarded(); got != n {
		t.Errorf("%d of %d sessions are guarded", got, n)
	}
}

func TestEverySessionHasADeadline(t *testing.T) {
	h := newHarness(t, setup{extra: []conf.Server{blackHole(t)}})
	h.client() // connecting
	h.settle()
	h.dial()   // relaying
	h.client() // connecting
	h.settle()
	c, _ := h.dial()
	c.CloseWrite() // half-closed
	h.settle()
	n := 0
	h.w.sessions.All(func(slot int32, s *session) {
		n++
		if _, ok := h.w.Loop.Timers.Armed(slot + timerSession); !ok {
			t.Errorf("session %d (%v) has no deadline", slot, s.phase)
		}
	})
	if n != 4 {
		t.Errorf("%d sessions, want 4", n)
	}
}

func TestPhasesOnlyFollowTheDrawing(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a session went from closed to relaying")
		}
	}()
	s := session{phase: closed}
	s.setPhase(relaying)
}

// The relay path must not allocate: neither for small messages nor for big ones.
func TestRelayAllocatesNothing(t *testing.T) {
	for _, size := range []int{64, 256 << 10} {
		h := newHarness(t, setup{})
		c, p := h.dial()
		cf, pf := rawFD(t, c), rawFD(t, p)
		msg, buf := payload(size), make([]byte, size)
		roundTrip := func() {
			for sent, got := 0, 0; got < size; {
				if sent < size {
					if n, err := unix.Write(cf, msg[sent:]); err == nil {
						sent += n
					}
				}
				h.w.Loop.Turn(0)
				if n, err := unix.Read(pf, buf); err == nil {
					got += n
				}
			}
		}
		for range 20 {
			roundTrip()
		}
		if n := testing.AllocsPerRun(200, roundTrip); n != 0 {
			t.Errorf("%d bytes: %v allocations a message", size, n)
		}
	}
}

func rawFD(t *testing.T, c *net.TCPConn) (fd int) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(f uintptr) { fd = int(f) })
	return fd
}

func outQueue(t *testing.T, c *net.TCPConn) int {
	t.Helper()
	n, err := unix.IoctlGetInt(rawFD(t, c), unix.SIOCOUTQ)
	if err != nil && !errors.Is(err, os.ErrClosed) {
		t.Fatal(err)
	}
	return n
}

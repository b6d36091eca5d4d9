package tcp

import (
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/upstream"
)

// oneTurn lets one turn be under way.
func oneTurn(_ *conf.Listener, u *conf.Upstream) {
	c := conf.DefaultAdaptiveLimit(conf.AIMD)
	c.Min, c.Initial, c.Max, c.Target = 1, 1, 1, 200*time.Millisecond
	u.Limit = &c
	u.Queue = &conf.Queue{Max: 1, Timeout: 2 * time.Second}
}

// hears turns the loop until c has read that.
func (h *harness) hears(c net.Conn, want string) {
	h.t.Helper()
	got := make([]byte, len(want))
	n := 0
	h.turnUntil("reading "+want, func() bool {
		c.SetReadDeadline(time.Now().Add(time.Millisecond))
		m, err := io.ReadFull(c, got[n:])
		n += m
		return err == nil
	})
	if string(got) != want {
		h.t.Fatalf("got %q, want %q", got, want)
	}
}

// silent checks that nothing comes.
func (h *harness) silent(c net.Conn) {
	h.t.Helper()
	h.settle()
	c.SetReadDeadline(time.Now().Add(time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); n > 0 || err == io.EOF {
		h.t.Fatalf("%d bytes came, %v", n, err)
	}
}

func TestTurnsTakeTurns(t *testing.T) {
	h := newHarness(t, setup{edit: oneTurn})
	a, pa := h.dial()
	b, pb := h.dial()
	pb.Write([]byte("hello ")) // what the peer says by itself is no turn, and passes
	h.hears(b, "hello ")
	a.Write([]byte("one "))
	h.hears(pa, "one ")
	b.Write([]byte("two "))
	h.silent(pb)
	a.Write([]byte("more ")) // of the same turn
	h.hears(pa, "more ")
	h.clock.Advance(100 * time.Millisecond)
	pa.Write([]byte("ONE"))
	h.hears(a, "ONE")
	h.hears(pb, "two ")

	// Now the other one waits.
	a.Write([]byte("three"))
	h.silent(pa)
	pb.Write([]byte("TWO"))
	h.hears(b, "TWO")
	h.hears(pa, "three")
	pa.Write([]byte("THREE"))
	h.hears(a, "THREE")
	if r := h.group.Limiter().Read(); r.InFlight != 0 || r.Waiting != 0 {
		t.Errorf("%+v", r)
	}
}

func TestTurnWaitsNotForEver(t *testing.T) {
	h := newHarness(t, setup{edit: oneTurn})
	a, pa := h.dial()
	b, _ := h.dial()
	a.Write([]byte("one"))
	h.hears(pa, "one")
	b.Write([]byte("two"))
	h.turnUntil("it waits", func() bool { return h.group.Limiter().Read().Waiting == 1 })
	h.clock.Advance(2 * time.Second)
	h.wantClosed(stats.QueueTimeout)
}

// Clients that go away while they wait, or in their turn, leave nothing behind.
func TestTurnOfOneThatLeaves(t *testing.T) {
	h := newHarness(t, setup{edit: oneTurn})
	a, pa := h.dial()
	b, _ := h.dial()
	c, pc := h.dial()
	a.Write([]byte("one"))
	h.hears(pa, "one")
	for i, x := range []*net.TCPConn{b, c} {
		x.Write([]byte("more"))
		h.turnUntil("it waits", func() bool { return h.group.Limiter().Read().Waiting == i+1 })
	}
	reset(b)
	h.turnUntil("it has left", func() bool { return h.group.Limiter().Read().Waiting == 1 })
	h.silent(pc)
	reset(a)
	h.hears(pc, "more")
}

// The end of a client's input is no turn, and is passed on.
func TestTurnThatIsNone(t *testing.T) {
	h := newHarness(t, setup{edit: oneTurn})
	a, pa := h.dial()
	b, pb := h.dial()
	a.CloseWrite()
	if r := h.wait(readAll(pa)); r.err != nil || len(r.bytes) > 0 {
		t.Fatalf("the peer saw %v", r.err)
	}
	b.Write([]byte("two"))
	h.hears(pb, "two")
}

// A turn that is not answered does not keep its slot.
func TestTurnWithoutAnswer(t *testing.T) {
	h := newHarness(t, setup{edit: func(l *conf.Listener, u *conf.Upstream) {
		oneTurn(l, u)
		u.Queue.Timeout = time.Minute
	}})
	a, pa := h.dial()
	b, pb := h.dial()
	a.Write([]byte("one"))
	h.hears(pa, "one")
	a.CloseWrite() // changes nothing
	b.Write([]byte("two"))
	h.silent(pb)
	h.clock.Advance(turnPatience)
	h.hears(pb, "two")
	if n := h.group.Stats(0).Unanswered.Load(); n != 1 {
		t.Errorf("%d turns unanswered", n)
	}
}

// A session that another process takes over leaves its slot and its place in line.
func TestTurnOfPackedSession(t *testing.T) {
	h := newHarness(t, setup{edit: oneTurn})
	a, pa := h.dial()
	b, pb := h.dial()
	a.Write([]byte("one"))
	h.hears(pa, "one")
	b.Write([]byte("two"))
	h.silent(pb)
	parcels := h.w.Pack(2)
	if r := h.group.Limiter().Read(); r.InFlight != 0 || r.Waiting != 0 || len(parcels) != 2 {
		t.Fatalf("%+v with %d packed", r, len(parcels))
	}
	for _, p := range parcels {
		h.w.Keep(p)
	}
	pa.Write([]byte("ONE"))
	h.hears(a, "ONE")
	h.hears(pb, "two")
}

// A limit that a reload brings while a session is in the queue holds for it too.
func TestTurnsOfOneThatWasInTheQueue(t *testing.T) {
	var u conf.Upstream
	h := newHarness(t, setup{edit: func(l *conf.Listener, c *conf.Upstream) { queueOf(1)(l, c); u = *c }})
	a, pa := h.dial()
	b := h.queue()
	oneTurn(nil, &u)
	u.Servers = slices.Clone(u.Servers)
	u.Servers[0].MaxConns = 0
	peers, err := upstream.Resolve(t.Context(), &u, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := h.group.Plan(&u, peers, 1)
	if err != nil {
		t.Fatal(err)
	}
	h.group.Update(plan)
	h.w.Reconsider()
	pb := h.accept(0)
	a.Write([]byte("one"))
	h.hears(pa, "one")
	b.Write([]byte("two"))
	h.silent(pb)
	pa.Write([]byte("ONE"))
	h.hears(pb, "two")
}

func TestRelayWithLimitsAllocatesNothing(t *testing.T) {
	h := newHarness(t, setup{edit: func(l *conf.Listener, u *conf.Upstream) {
		oneTurn(l, u)
		l.Limits.UploadRate, l.Limits.DownloadRate = 1<<30, 1<<30
	}})
	a, pa := h.dial()
	af, pf := rawFD(t, a), rawFD(t, pa)
	var b [64]byte
	pass := func(from, to int) {
		unix.Write(from, b[:])
		for {
			h.w.Loop.Turn(0)
			if n, err := unix.Read(to, b[:]); err == nil && n == len(b) {
				return
			}
		}
	}
	trip := func() {
		pass(af, pf)
		pass(pf, af)
		h.clock.Advance(time.Millisecond)
	}
	for range 20 {
		trip()
	}
	if n := testing.AllocsPerRun(200, trip); n > 0 {
		t.Errorf("%v allocations for a round trip", n)
	}
}

// A session is given its slot in the very turn of the loop in which its peer leaves
// it for the queue: what calls it is for the slot that it has given up, and not for
// its place in the queue.
func TestSlotOfOneThatMustQueue(t *testing.T) {
	h := newHarness(t, setup{peers: 2, edit: func(l *conf.Listener, u *conf.Upstream) {
		oneTurn(l, u)
		l.NextUpstream.BeforeFirstByte = true
		for i := range u.Servers {
			u.Servers[i].MaxConns = 1
		}
	}})
	a, pa := h.dial()
	b, pb := h.dial()
	s := h.last()
	a.Write([]byte("one"))
	h.hears(pa, "one")
	b.Write([]byte("two"))
	h.turnUntil("it waits", func() bool { return h.group.Limiter().Read().Waiting == 1 })
	pa.Write([]byte("ONE"))
	pb.Close()
	h.turnUntil("it is in the queue", func() bool { return s.phase == queued })
	h.hears(a, "ONE")
	h.settle()
	if n := h.waiting(); n != 1 || s.phase != queued {
		t.Fatalf("it is %s, with %d in the queue", s.phase, n)
	}
	pa.Close()
	a.Close()
	free := 0
	if pa.LocalAddr().String() == h.peers[1].Addr().String() {
		free = 1
	}
	h.hears(h.accept(free), "two")
}

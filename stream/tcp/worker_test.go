package tcp

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/decisions"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/internal/sys"
	"github.com/weirlb/weir/stream/loop"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/upstream"
)

// harness is one worker that the test turns by hand, on a clock that moves by
// hand, between real sockets on loopback.
type harness struct {
	t        *testing.T
	clock    clock.Fake
	w        *Worker
	group    *upstream.Group
	peers    []*net.TCPListener
	addr     string // where clients connect
	room     *Room
	notices  []string
	stats    stats.Worker
	counted  stats.Listener
	listener *Listener
	writer   *decisions.Writer // nil if off
	decided  bytes.Buffer      // what it wrote, once closed
}

type setup struct {
	relay Relay
	peers int // listening peers; default 1, -1 = none
	room  int // default 100
	pipes int // default 16, -1 = none
	edit  func(l *conf.Listener, u *conf.Upstream)
	extra []conf.Server // in front of the listening peers
	unix  bool          // listen on a unix socket

	decisions conf.Decisions // in h.decided
}

func newHarness(t *testing.T, s setup) *harness {
	t.Helper()
	h := &harness{t: t}
	switch s.peers {
	case 0:
		s.peers = 1
	case -1:
		s.peers = 0
	}
	if s.room == 0 {
		s.room = 100
	}
	if s.pipes == 0 {
		s.pipes = 16
	}
	u := conf.NewUpstream("u")
	u.Servers = s.extra
	for range s.peers {
		ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		h.peers = append(h.peers, ln)
		u.Servers = append(u.Servers, conf.NewServer(conf.Address{Host: "127.0.0.1", Port: uint16(ln.Addr().(*net.TCPAddr).Port)}))
	}
	lc := conf.NewListener("l")
	if s.edit != nil {
		s.edit(&lc, &u)
	}
	peers, err := upstream.Resolve(t.Context(), &u, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if h.group, err = upstream.NewGroup(&u, peers, 1, 1); err != nil {
		t.Fatal(err)
	}
	h.room = NewRoom(s.room)
	h.writer = decisions.Open(&conf.Log{Decisions: s.decisions}, slog.New(slog.NewTextHandler(&h.decided, nil)))
	late := new(handler)
	l, err := loop.New(late, h.clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	var serial uint64
	h.w = NewWorker(l, Options{
		Serial: func() uint64 { serial++; return serial },
		Room:   h.room, Pipes: s.pipes, Relay: s.relay, Stats: &h.stats,
		Notify: func(msg string, args ...any) { h.notices = append(h.notices, fmt.Sprint(msg, args)) },
	})
	h.w.SetLogs(nil, false, h.writer)
	late.Handler = h.w
	h.listener = NewListener(&lc, h.group, []*stats.Listener{&h.counted}, NewClientele())
	a := conf.Address{Host: "127.0.0.1"}
	if s.unix {
		a = conf.Address{Path: t.TempDir() + "/sock"}
	}
	fd, bound, err := h.listener.Listen(a, false)
	if err != nil {
		t.Fatal(err)
	}
	h.addr = bound.String()
	if s.unix {
		h.addr = bound.Path
	}
	if errno := h.w.Serve(h.listener, fd, false); errno != 0 {
		t.Fatal(errno)
	}
	t.Cleanup(h.settled)
	return h
}

// handler is a loop's handler that is made after the loop.
type handler struct{ loop.Handler }

func countFDs(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// turnUntil turns the loop until f holds.
func (h *harness) turnUntil(what string, f func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !f(); {
		if time.Now().After(deadline) {
			h.t.Fatalf("not seen in time: %s", what)
		}
		h.w.Loop.Turn(time.Millisecond)
	}
}

// settle turns the loop until it has had nothing to do for a while.
func (h *harness) settle() {
	for range 20 {
		h.w.Loop.Turn(time.Millisecond)
	}
}

// dial connects a client and turns the loop until its session has a peer
// connection, which it returns too.
func (h *harness) dial() (client, peer *net.TCPConn) {
	h.t.Helper()
	client = h.client()
	h.turnUntil("the peer is connected", func() bool {
		for _, ln := range h.peers {
			ln.SetDeadline(time.Now().Add(time.Millisecond))
			if c, err := ln.AcceptTCP(); err == nil {
				peer = c
				h.t.Cleanup(func() { c.Close() })
				return true
			}
		}
		return false
	})
	h.turnUntil("relaying", func() bool { return h.last() != nil && h.last().phase == relaying })
	return client, peer
}

// client connects a client and does nothing more.
func (h *harness) client() *net.TCPConn {
	h.t.Helper()
	c, err := net.DialTimeout("tcp", h.addr, 5*time.Second)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

// last returns the youngest session, or nil.
func (h *harness) last() (youngest *session) {
	h.w.sessions.All(func(_ int32, s *session) {
		if youngest == nil || s.serial > youngest.serial {
			youngest = s
		}
	})
	return youngest
}

func (h *harness) closed(r stats.CloseReason) uint64 { return h.counted.Closed[r].Load() }

// moved returns the bytes that took a path.
func (h *harness) moved(p stats.Path) uint64 {
	return h.counted.Bytes[p][stats.ToPeer].Load() + h.counted.Bytes[p][stats.ToClient].Load()
}

// wantClosed turns the loop until one session has ended, for that reason.
func (h *harness) wantClosed(r stats.CloseReason) {
	h.t.Helper()
	h.turnUntil("a session ends with "+r.String(), func() bool { return h.ended() == 1 })
	if h.closed(r) != 1 {
		for i := range h.counted.Closed {
			if h.counted.Closed[i].Load() > 0 {
				h.t.Fatalf("the session ended with %s, want %s", stats.CloseReason(i), r)
			}
		}
	}
}

func (h *harness) ended() (n uint64) {
	for i := range h.counted.Closed {
		n += h.counted.Closed[i].Load()
	}
	return n
}

// settled checks that everything is back at its base: it runs after each test.
func (h *harness) settled() {
	t := h.t
	h.w.CloseAll(stats.Shutdown)
	h.w.EndTurn()
	h.writer.Close()
	if n := h.w.sessions.Len(); n != 0 {
		t.Errorf("%d sessions left", n)
	}
	if n := h.room.Used(); n != 0 {
		t.Errorf("%d places in the room left taken", n)
	}
	if n, m := h.stats.DownstreamActive.Load(), h.counted.Active.Load(); n != 0 || m != 0 {
		t.Errorf("%d and %d sessions counted active", n, m)
	}
	if n := h.ended(); n != h.stats.DownstreamConnections.Load() || n != h.counted.Sessions.Load() {
		t.Errorf("%d sessions ended, %d began", n, h.stats.DownstreamConnections.Load())
	}
	for _, p := range h.group.Snapshot(nil, h.clock.Now()) {
		if p.Balance.Conns != 0 {
			t.Errorf("peer %s still has %d connections", p.Addr, p.Balance.Conns)
		}
	}
	l := h.group.Load(h.clock.Now())
	if l.Sessions+l.Pending+l.Retries+l.Waiting != 0 || l.Limit != nil && l.Limit.InFlight+l.Limit.Waiting != 0 {
		t.Errorf("the upstream is left with the load %+v, limit %+v", l, l.Limit)
	}
	if n := h.listener.Clients.sessions.Load(); n != 0 {
		t.Errorf("%d sessions left among the listener's clients", n)
	}
	if n := h.w.Loop.Timers.Len(); n > 2 {
		t.Errorf("%d timers armed, want at most housekeeping and resume", n)
	}
	if got, want := h.w.pipes.open, len(h.w.pipes.free); got != want {
		t.Errorf("%d pipes open, %d free", got, want)
	}
	if got, want := int(h.stats.Buffers.Load()), len(h.w.small.free)+len(h.w.large.free); got != want {
		t.Errorf("%d buffers made, %d free", got, want)
	}
	h.w.Close()
	h.w.Loop.Close()
	for _, ln := range h.peers {
		ln.Close()
	}
	if n := h.stats.Pipes.Load(); n != 0 {
		t.Errorf("%d pipes left", n)
	}
}

// fill writes to a socket that nobody reads from until it takes no more, and
// returns how much it took.
func fill(t *testing.T, h *harness, c *net.TCPConn) int {
	t.Helper()
	total, idle := 0, 0
	chunk := make([]byte, 64<<10)
	for idle < 20 {
		c.SetWriteDeadline(time.Now().Add(5 * time.Millisecond))
		n, err := c.Write(chunk)
		total += n
		h.w.Loop.Turn(0)
		if err != nil && n == 0 {
			idle++
		} else {
			idle = 0
		}
	}
	c.SetWriteDeadline(time.Time{})
	return total
}

// reset makes c's Close send a RST.
func reset(c *net.TCPConn) {
	c.SetLinger(0)
	c.Close()
}

// blackHole returns the address of a listener whose accept queue is full, so
// that the kernel drops SYNs.
func blackHole(t *testing.T) conf.Server {
	t.Helper()
	fd, s := bound(t)
	if errno := sys.Listen(fd, 0); errno != 0 {
		t.Fatal(errno)
	}
	for range 4 { // more than the queue takes
		d := net.Dialer{Timeout: 50 * time.Millisecond}
		if c, err := d.Dial("tcp", s.Address.String()); err == nil {
			t.Cleanup(func() { c.Close() })
		}
	}
	return s
}

// refused returns the address of a port that is taken and on which nobody
// listens.
func refused(t *testing.T) conf.Server {
	t.Helper()
	_, s := bound(t)
	return s
}

// bound returns a bound socket that lives as long as the test.
func bound(t *testing.T) (int32, conf.Server) {
	t.Helper()
	fd, errno := sys.StreamSocket(unix.AF_INET)
	if errno != 0 {
		t.Fatal(errno)
	}
	t.Cleanup(func() { sys.Close(fd) })
	var sa sys.Sockaddr
	sa.SetInet(netip.MustParseAddrPort("127.0.0.1:0"))
	if errno := sys.Bind(fd, &sa); errno != 0 {
		t.Fatal(errno)
	}
	sys.LocalAddr(fd, &sa)
	e := sa.Endpoint()
	return fd, conf.NewServer(conf.Address{Host: "127.0.0.1", Port: e.Port})
}

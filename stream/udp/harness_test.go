package udp

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/accesslog"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/loop"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/upstream"
)

// room lets everybody in, up to max if that is not 0.
type room struct{ used, max int }

func (r *room) Enter() bool {
	if r.max > 0 && r.used == r.max {
		return false
	}
	r.used++
	return true
}

func (r *room) Leave() { r.used-- }
func (r *room) Force() { r.used++ }

// harness is a worker with a listener, whose loop the test turns by hand.
type harness struct {
	t        *testing.T
	clock    clock.Fake
	loop     *loop.Loop
	w        *Worker
	listener *Listener
	group    *upstream.Group
	addr     netip.AddrPort // of the listener
	room     room
	stats    stats.Worker
	counted  stats.Listener
}

// The harness is the loop's handler.
func (h *harness) OnEvent(t loop.Token, events uint32) { h.w.OnEvent(t, events) }
func (h *harness) OnTimer(int32)                       { h.w.OnTimer() }
func (h *harness) EndTurn()                            { h.w.EndTurn() }

type setup struct {
	listen    string // default 127.0.0.1
	edit      func(*conf.Listener, *conf.Upstream)
	noOffload bool
	room      int
	log       *accesslog.Ring
}

func newHarness(t *testing.T, s setup, peers ...netip.AddrPort) *harness {
	t.Helper()
	h := &harness{t: t, room: room{max: s.room}}
	u := conf.NewUpstream("u")
	for _, p := range peers {
		u.Servers = append(u.Servers, conf.NewServer(conf.Address{Host: p.Addr().String(), Port: p.Port()}))
	}
	c := conf.NewListener("l")
	c.Protocol = conf.UDP
	if s.edit != nil {
		s.edit(&c, &u)
	}
	list, err := upstream.Resolve(t.Context(), &u, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if h.group, err = upstream.NewGroup(&u, list, 1, 1); err != nil {
		t.Fatal(err)
	}
	h.listener = NewListener(&c, h.group, 1, []*stats.Listener{&h.counted})
	if h.loop, err = loop.New(h, h.clock.Now); err != nil {
		t.Fatal(err)
	}
	serial := uint64(0)
	h.w = NewWorker(h.loop, Options{
		Room: &h.room, Pooled: 100, Stats: &h.stats, NoOffload: s.noOffload,
		Serial: func() uint64 { serial++; return serial },
	})
	h.w.SetLogs(s.log, false, nil)
	host := s.listen
	if host == "" {
		host = "127.0.0.1"
	}
	fd, bound, err := h.listener.Listen(conf.Address{Host: host}, false)
	if err != nil {
		t.Fatal(err)
	}
	if errno := h.w.Serve(h.listener, bound, fd); errno != 0 {
		t.Fatal(errno)
	}
	ip := netip.MustParseAddr(bound.Host)
	h.addr = netip.AddrPortFrom(ip, bound.Port)
	t.Cleanup(func() {
		h.w.CloseAll(stats.Shutdown)
		h.w.EndTurn()
		h.w.Close()
		h.loop.Close()
		if h.room.used != 0 {
			t.Errorf("%d places are still taken", h.room.used)
		}
		for _, p := range h.group.Snapshot(nil, h.clock.Now()) {
			if p.Balance.Conns != 0 {
				t.Errorf("%s still has %d connections", p.Addr, p.Balance.Conns)
			}
		}
		if n := h.w.conns.Len(); n != 0 {
			t.Errorf("%d sockets to peers are still open", n)
		}
		if len(h.w.table) != 0 {
			t.Errorf("%d sessions are still in the table", len(h.w.table))
		}
	})
	return h
}

// socket opens a UDP socket on that address with any port.
func socketOn(t *testing.T, ip string) *net.UDPConn {
	t.Helper()
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(ip), 0)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func addrOf(c *net.UDPConn) netip.AddrPort { return c.LocalAddr().(*net.UDPAddr).AddrPort() }

// client is a socket that sends to the listener.
func (h *harness) client() *net.UDPConn { return h.clientTo(h.addr) }

func (h *harness) clientTo(addr netip.AddrPort) *net.UDPConn {
	h.t.Helper()
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(addr))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { c.Close() })
	return c
}

func (h *harness) send(c *net.UDPConn, text string) {
	h.t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		h.t.Fatal(err)
	}
}

// turn lets the worker do what there is to do.
func (h *harness) turn() {
	for range 5 {
		h.loop.Turn(time.Millisecond)
	}
}

// receive turns the loop until the socket has a datagram and returns it with
// its sender.
func (h *harness) receive(c *net.UDPConn) (string, netip.AddrPort) {
	h.t.Helper()
	buf := make([]byte, 1<<16)
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		h.loop.Turn(time.Millisecond)
		c.SetReadDeadline(time.Now().Add(time.Millisecond))
		if n, from, err := c.ReadFromUDPAddrPort(buf); err == nil {
			return string(buf[:n]), netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		}
	}
	h.t.Fatal("no datagram came")
	return "", netip.AddrPort{}
}

// nothing checks that the socket has no datagram.
func (h *harness) nothing(c *net.UDPConn) {
	h.t.Helper()
	h.turn()
	buf := make([]byte, 1<<16)
	c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if n, err := c.Read(buf); err == nil {
		h.t.Errorf("got %q, want nothing", buf[:n])
	}
}

func (h *harness) closed(reason stats.CloseReason, want uint64) {
	h.t.Helper()
	if got := h.counted.Closed[reason].Load(); got != want {
		h.t.Errorf("%d sessions ended with %s, want %d", got, reason, want)
	}
}

func (h *harness) sessions(want int) {
	h.t.Helper()
	if got := h.w.Sessions(); got != want {
		h.t.Errorf("%d sessions, want %d", got, want)
	}
}

// exchange has a datagram go to the peer and an answer come back.
func (h *harness) exchange(c, peer *net.UDPConn, text string) {
	h.t.Helper()
	h.send(c, text)
	got, from := h.receive(peer)
	if got != text {
		h.t.Fatalf("the peer got %q, want %q", short(got), short(text))
	}
	answer := "re:" + text
	if len(answer) > 65507 {
		answer = text
	}
	if _, err := peer.WriteToUDPAddrPort([]byte(answer), from); err != nil {
		h.t.Fatal(err)
	}
	back, _ := h.receive(c)
	if back != answer {
		h.t.Fatalf("the client got %q, want %q", short(back), short(answer))
	}
}

func short(s string) string {
	if len(s) < 40 {
		return s
	}
	return fmt.Sprintf("%s... (%d bytes)", s[:20], len(s))
}

func repeat(b byte, n int) string { return string(bytes.Repeat([]byte{b}, n)) }

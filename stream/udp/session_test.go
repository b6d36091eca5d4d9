package udp

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/sys"
	"github.com/weirlb/weir/stream/stats"
)

func TestExchange(t *testing.T) {
	for _, ip := range []string{"127.0.0.1", "::1"} {
		for _, no := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s no offload %v", ip, no), func(t *testing.T) {
				peer := socketOn(t, ip)
				h := newHarness(t, setup{listen: ip, noOffload: no}, addrOf(peer))
				c := h.client()
				for _, n := range []int{0, 1, 512, 1472, 9000, 65000, 65507} {
					h.exchange(c, peer, repeat('x', n))
				}
				h.sessions(1)
				snap := h.group.Snapshot(nil, h.clock.Now())
				if snap[0].Sessions != 1 || snap[0].Sent != 0+1+512+1472+9000+65000+65507 {
					t.Errorf("the peer has %d sessions and %d bytes", snap[0].Sessions, snap[0].Sent)
				}
				h.clock.Advance(time.Minute + 10*time.Millisecond)
				h.turn()
				h.sessions(0)
				h.closed(stats.IdleTimeout, 1)
			})
		}
	}
}

// Whatever comes in one batch arrives, in order for each client.
func TestBatches(t *testing.T) {
	for _, no := range []bool{false, true} {
		t.Run(fmt.Sprintf("no offload %v", no), func(t *testing.T) {
			peer := socketOn(t, "127.0.0.1")
			h := newHarness(t, setup{noOffload: no}, addrOf(peer))
			const clients, each = 7, 20
			var cs []*net.UDPConn
			for range clients {
				cs = append(cs, h.client())
			}
			sizes := []int{100, 100, 100, 50, 100, 100, 300, 300, 1, 100}
			for k := range each {
				for i, c := range cs {
					h.send(c, fmt.Sprintf("%d %02d %s", i, k, repeat('.', sizes[k%len(sizes)])))
				}
			}
			next := map[int]int{}
			for range clients * each {
				got, from := h.receive(peer)
				var i, k int
				fmt.Sscanf(got, "%d %d", &i, &k)
				if k != next[i] {
					t.Fatalf("client %d: datagram %d came when %d was due", i, k, next[i])
				}
				next[i]++
				if want := len(fmt.Sprintf("%d %02d ", i, k)) + sizes[k%len(sizes)]; len(got) != want {
					t.Fatalf("datagram of %d bytes, want %d", len(got), want)
				}
				peer.WriteToUDPAddrPort([]byte(got), from)
			}
			for i, c := range cs {
				for k := range each {
					got, _ := h.receive(c)
					if want := fmt.Sprintf("%d %02d %s", i, k, repeat('.', sizes[k%len(sizes)])); got != want {
						t.Fatalf("client %d got %q, want %q", i, short(got), short(want))
					}
				}
			}
			if n := h.stats.LostDatagrams.Load(); n != 0 {
				t.Errorf("%d datagrams were lost", n)
			}
			if segmented := h.stats.SegmentedDatagrams.Load(); (segmented == 0) != no {
				t.Errorf("%d datagrams went out in one piece with others", segmented)
			}
			if in, out := h.stats.DatagramsIn.Load(), h.stats.DatagramsOut.Load(); in != 2*clients*each || out != in {
				t.Errorf("%d datagrams in and %d out, want %d", in, out, 2*clients*each)
			}
		})
	}
}

// On a wildcard address the answer comes from where the client has asked.
func TestAnswerComesFromTheAddressAsked(t *testing.T) {
	peer := socketOn(t, "127.0.0.1")
	h := newHarness(t, setup{listen: "0.0.0.0"}, addrOf(peer))
	c := socketOn(t, "127.0.0.1") // not connected: it takes answers from anybody
	for _, ip := range []string{"127.0.0.1", "127.0.0.2", "127.1.2.3"} {
		to := netip.AddrPortFrom(netip.MustParseAddr(ip), h.addr.Port())
		if _, err := c.WriteToUDPAddrPort([]byte(ip), to); err != nil {
			t.Fatal(err)
		}
		got, from := h.receive(peer)
		peer.WriteToUDPAddrPort([]byte(got), from)
		got, from = h.receive(c)
		if got != ip || from != to {
			t.Errorf("asked %s, the answer to %q came from %s", to, got, from)
		}
	}
	h.sessions(3) // each local address is a session
}

func responses(n int) func(*conf.Listener, *conf.Upstream) {
	return func(l *conf.Listener, _ *conf.Upstream) { l.UDP.Responses = n }
}

// A session with its answer is over, and its socket is used again once it has
// rested.
func TestResponsesEndASession(t *testing.T) {
	peer := socketOn(t, "127.0.0.1")
	h := newHarness(t, setup{edit: responses(1)}, addrOf(peer))
	a, b, c := h.client(), h.client(), h.client()
	from := map[string]bool{}
	ask := func(c *net.UDPConn) netip.AddrPort {
		h.send(c, "?")
		_, at := h.receive(peer)
		peer.WriteToUDPAddrPort([]byte("!"), at)
		h.receive(c)
		h.sessions(0)
		from[at.String()] = true
		return at
	}
	first := ask(a)
	// What comes late is dropped.
	peer.WriteToUDPAddrPort([]byte("late"), first)
	h.nothing(a)
	if n := h.stats.LateDatagrams.Load(); n != 1 {
		t.Errorf("%d late datagrams, want 1", n)
	}
	second := ask(b)
	if second == first {
		t.Error("a socket was used again before its quarantine was over")
	}
	peer.WriteToUDPAddrPort([]byte("late too"), first)
	h.nothing(b)
	if n := h.stats.LateDatagrams.Load(); n != 2 {
		t.Errorf("%d late datagrams, want 2", n)
	}
	h.clock.Advance(time.Second)
	peer.WriteToUDPAddrPort([]byte("later"), first) // the loop has not heard of it yet
	if third := ask(c); third != first {
		t.Errorf("the socket was not used again: %s, then %s", first, third)
	}
	h.nothing(c)
	if n := h.stats.LateDatagrams.Load(); n != 3 {
		t.Errorf("%d late datagrams, want 3", n)
	}
	if n := h.stats.UpstreamSocketsReused.Load(); n != 1 || len(from) != 2 || h.w.conns.Len() != 2 {
		t.Errorf("sockets were used again %d times, with %d ports, and there are %d; want 1, 2 and 2", n, len(from), h.w.conns.Len())
	}
	h.closed(stats.Answered, 3)
}

// A socket that was owed an answer is never used again.
func TestOwedSocketIsClosed(t *testing.T) {
	peer := socketOn(t, "127.0.0.1")
	h := newHarness(t, setup{edit: responses(1)}, addrOf(peer))
	h.send(h.client(), "?")
	_, from := h.receive(peer)
	h.clock.Advance(time.Minute + 10*time.Millisecond)
	h.turn()
	h.closed(stats.NoAnswer, 1)
	if n := h.w.conns.Len(); n != 1 {
		t.Errorf("%d sockets rest, want 1", n)
	}
	peer.WriteToUDPAddrPort([]byte("late"), from)
	h.turn()
	if n := h.stats.LateDatagrams.Load(); n != 1 {
		t.Errorf("%d late datagrams, want 1", n)
	}
	h.clock.Advance(1010 * time.Millisecond)
	h.turn()
	if n := h.w.conns.Len(); n != 0 {
		t.Errorf("%d sockets are still open after the quarantine", n)
	}
	if snap := h.group.Snapshot(nil, h.clock.Now()); snap[0].Balance.Conns != 0 {
		t.Error("the peer was not given back")
	}
}

func TestSilentPeerFails(t *testing.T) {
	silent, other := socketOn(t, "127.0.0.1"), socketOn(t, "127.0.0.1")
	h := newHarness(t, setup{edit: responses(1)}, addrOf(silent), addrOf(other))
	h.send(h.client(), "?")
	h.receive(silent)
	h.clock.Advance(time.Minute + 10*time.Millisecond)
	h.turn()
	if snap := h.group.Snapshot(nil, h.clock.Now()); snap[0].Balance.Fails != 1 {
		t.Errorf("the silent peer has %d failures, want 1", snap[0].Balance.Fails)
	}
}

// deadPort returns the address of a port that nobody listens on.
func deadPort(t *testing.T) netip.AddrPort {
	c := socketOn(t, "127.0.0.1")
	defer c.Close()
	return addrOf(c)
}

// A refusal counts as an answer and as the peer's failure, which is accounted
// when the session ends.
func TestRefusalIsAnAnswer(t *testing.T) {
	other := socketOn(t, "127.0.0.1")
	h := newHarness(t, setup{edit: responses(1)}, deadPort(t), addrOf(other))
	c := h.client()
	h.send(c, "?")
	h.turn()
	h.sessions(0)
	h.closed(stats.PeerRefused, 1)
	if snap := h.group.Snapshot(nil, h.clock.Now()); snap[0].Balance.Fails != 1 {
		t.Errorf("the peer has %d failures, want 1", snap[0].Balance.Fails)
	}
	h.exchange(c, other, "again")
}

// Without a number of responses the refused session stays, and its end
// accounts for the failure; but the client's next datagram ends it.
func TestRefusedSessionMovesOn(t *testing.T) {
	other := socketOn(t, "127.0.0.1")
	h := newHarness(t, setup{}, deadPort(t), addrOf(other))
	c := h.client()
	h.send(c, "lost")
	h.turn()
	h.sessions(1)
	if snap := h.group.Snapshot(nil, h.clock.Now()); snap[0].Balance.Fails != 0 {
		t.Error("the failure was accounted before the session's end")
	}
	h.exchange(c, other, "moves on")
	h.closed(stats.PeerRefused, 1)
	if snap := h.group.Snapshot(nil, h.clock.Now()); snap[0].Balance.Fails != 1 {
		t.Error("the failure was not accounted at the session's end")
	}
}

func TestRefusedSessionFailsAtItsTimeout(t *testing.T) {
	h := newHarness(t, setup{}, deadPort(t), addrOf(socketOn(t, "127.0.0.1")))
	h.send(h.client(), "lost")
	h.turn()
	h.clock.Advance(time.Minute + 10*time.Millisecond)
	h.turn()
	h.sessions(0)
	if snap := h.group.Snapshot(nil, h.clock.Now()); snap[0].Balance.Fails != 1 {
		t.Error("the failure was not accounted")
	}
}

func TestRequestsBoundASession(t *testing.T) {
	a, b := socketOn(t, "127.0.0.1"), socketOn(t, "127.0.0.1")
	h := newHarness(t, setup{edit: func(l *conf.Listener, _ *conf.Upstream) { l.UDP.Requests, l.UDP.Responses = 1, 1 }}, addrOf(a), addrOf(b))
	c := h.client()
	// Two in one batch: two sessions, two picks.
	h.send(c, "1")
	h.send(c, "2")
	got, fromA := h.receive(a)
	gotB, fromB := h.receive(b)
	if got != "1" || gotB != "2" {
		t.Errorf("the peers got %q and %q", got, gotB)
	}
	h.sessions(2)
	b.WriteToUDPAddrPort([]byte("two"), fromB)
	a.WriteToUDPAddrPort([]byte("one"), fromA)
	seen := map[string]bool{}
	for range 2 {
		text, _ := h.receive(c)
		seen[text] = true
	}
	if !seen["one"] || !seen["two"] {
		t.Errorf("the client got %v", seen)
	}
	h.sessions(0)
	h.closed(stats.Answered, 2)
}

func TestNoResponsesEndAtOnce(t *testing.T) {
	peer := socketOn(t, "127.0.0.1")
	h := newHarness(t, setup{edit: responses(conf.NoResponses)}, addrOf(peer))
	c := h.client()
	for range 3 {
		h.send(c, "log line")
		h.receive(peer)
		h.sessions(0)
	}
	h.closed(stats.Answered, 3)
}

func TestNoPeer(t *testing.T) {
	peer := socketOn(t, "127.0.0.1")
	h := newHarness(t, setup{edit: func(_ *conf.Listener, u *conf.Upstream) { u.Servers[0].Down = true }}, addrOf(peer))
	h.send(h.client(), "?")
	h.nothing(peer)
	h.closed(stats.NoPeer, 1)
	if n := h.stats.RefusedDatagrams.Load(); n != 1 {
		t.Errorf("%d datagrams were refused, want 1", n)
	}
}

// The first to go is who has had one datagram and no answer; who was active in
// the last second stays.
func TestMaxSessions(t *testing.T) {
	peer := socketOn(t, "127.0.0.1")
	h := newHarness(t, setup{edit: func(l *conf.Listener, _ *conf.Upstream) { l.UDP.MaxSessions = 4 }}, addrOf(peer))
	talker, syslog := h.client(), h.client()
	h.exchange(talker, peer, "hello") // answered
	h.send(syslog, "1")
	h.send(syslog, "2") // a second datagram
	h.receive(peer)
	h.receive(peer)
	for range 50 { // one datagram each
		h.send(h.client(), "flood")
		h.receive(peer)
	}
	h.sessions(4)
	h.closed(stats.Evicted, 48)
	h.exchange(talker, peer, "still here")
	if n := h.stats.DownstreamConnections.Load(); n != 52 {
		t.Errorf("%d sessions, want 52: an active one was evicted", n)
	}
	// Now all are active, and nobody goes.
	for range 2 {
		c := h.client()
		h.exchange(c, peer, "a")
	}
	h.send(syslog, "3")
	h.receive(peer)
	h.exchange(talker, peer, "b")
	h.send(h.client(), "late comer")
	h.nothing(peer)
	if n := h.stats.RefusedDatagrams.Load(); n != 1 {
		t.Errorf("%d datagrams were refused, want 1", n)
	}
	// A second later the longest idle one makes room.
	h.clock.Advance(time.Second)
	h.exchange(talker, peer, "c")
	h.exchange(h.client(), peer, "d")
	h.sessions(4)
	h.exchange(talker, peer, "e")
	h.closed(stats.Evicted, 51)
}

// When the process has no room, a listener's sessions make it among
// themselves.
func TestRoomIsShared(t *testing.T) {
	peer := socketOn(t, "127.0.0.1")
	h := newHarness(t, setup{room: 2}, addrOf(peer))
	for range 5 {
		h.send(h.client(), "x")
		h.receive(peer)
	}
	h.sessions(2)
	h.closed(stats.Evicted, 3)
}

func TestDownPeerLosesItsSessions(t *testing.T) {
	a, b := socketOn(t, "127.0.0.1"), socketOn(t, "127.0.0.1")
	h := newHarness(t, setup{}, addrOf(a), addrOf(b))
	c := h.client()
	h.exchange(c, a, "1")
	h.group.SetAdmin(h.group.Peers()[0], 2, "test", h.w.loop.Now()) // balance.Down
	h.exchange(c, b, "2")
	h.closed(stats.PeerDown, 1)
}

// Nothing is allocated for a datagram, nor for a session once the memory is
// there.
func TestDatagramsAllocateNothing(t *testing.T) {
	peer := socketOn(t, "127.0.0.1")
	h := newHarness(t, setup{edit: responses(1)}, addrOf(peer))
	c := h.client()
	buf := make([]byte, 100)
	exchange := func() {
		if _, err := c.Write(buf); err != nil {
			t.Fatal(err)
		}
		h.loop.Turn(time.Second)
		n, from, err := peer.ReadFromUDPAddrPort(buf)
		if err != nil {
			t.Fatal(err)
		}
		peer.WriteToUDPAddrPort(buf[:n], from)
		h.loop.Turn(time.Second)
		if _, err := c.Read(buf); err != nil {
			t.Fatal(err)
		}
		h.clock.Advance(2 * time.Second) // sockets rest in that time
	}
	for range 5 {
		exchange()
	}
	if n := testing.AllocsPerRun(100, exchange); n > 0 {
		t.Errorf("%v allocations for a session", n)
	}
	h.sessions(0)
	if n := h.stats.UpstreamSocketsReused.Load(); n < 100 {
		t.Errorf("%d sockets were used again", n)
	}
}

// That a datagram was too large for the path is no refusal.
func TestOnlyRefusalsAreThePeersFault(t *testing.T) {
	for errno, want := range map[unix.Errno]bool{
		unix.ECONNREFUSED: true, unix.EHOSTUNREACH: true, unix.EMSGSIZE: false, unix.ENOBUFS: false, unix.ENOMEM: false,
	} {
		peer := socketOn(t, "127.0.0.1")
		h := newHarness(t, setup{}, addrOf(peer))
		c := h.client()
		h.exchange(c, peer, "x")
		var s *session
		for _, s = range h.w.table {
		}
		h.w.onPeerError(s.conn, errno)
		if s.refused != want {
			t.Errorf("%v: refused is %v", errno, s.refused)
		}
	}
}

// A server that answers one question many times is heard once, by its client,
// and the rest reaches nobody.
func TestSurplusAnswersAreDropped(t *testing.T) {
	peer := socketOn(t, "127.0.0.1")
	h := newHarness(t, setup{edit: responses(1)}, addrOf(peer))
	c := h.client()
	h.send(c, "?")
	_, from := h.receive(peer)
	for i := range 20 {
		peer.WriteToUDPAddrPort(fmt.Appendf(nil, "answer %d", i), from)
	}
	if got, _ := h.receive(c); got != "answer 0" {
		t.Errorf("got %q", got)
	}
	h.nothing(c)
	if n := h.stats.LateDatagrams.Load(); n != 19 {
		t.Errorf("%d late datagrams, want 19", n)
	}
}

// Listeners' sessions end in their own time, however long others' last.
func TestEachListenerHasItsTimeout(t *testing.T) {
	peer := socketOn(t, "127.0.0.1")
	h := newHarness(t, setup{}, addrOf(peer))
	l := *h.listener
	l.IdleTimeout = time.Second
	fd, bound, err := l.Listen(conf.Address{Host: "127.0.0.1"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if errno := h.w.Serve(&l, bound, fd); errno != 0 {
		t.Fatal(errno)
	}
	h.exchange(h.client(), peer, "long")
	h.exchange(h.clientTo(netip.AddrPortFrom(h.addr.Addr(), bound.Port)), peer, "short")
	h.clock.Advance(1100 * time.Millisecond)
	h.turn()
	h.sessions(1)
	h.closed(stats.IdleTimeout, 1)
}

// Where nearly as many sockets rest as may, a quarter of the quarantine is enough,
// as a new socket's port may not have rested at all.
func TestCrowdedSocketsRestShorter(t *testing.T) {
	peer := socketOn(t, "127.0.0.1")
	h := newHarness(t, setup{edit: responses(1)}, addrOf(peer))
	c := h.client()
	ask := func(n int) (reused uint64) {
		before := h.stats.UpstreamSocketsReused.Load()
		for range n {
			h.send(c, "?")
			_, at := h.receive(peer)
			peer.WriteToUDPAddrPort([]byte("!"), at)
			h.receive(c)
		}
		return h.stats.UpstreamSocketsReused.Load() - before
	}
	ask(80) // of the 100 that may
	h.clock.Advance(h.listener.Quarantine - time.Millisecond)
	if n := ask(8); n != 0 {
		t.Errorf("%d sockets were used again before their quarantine was over", n)
	}
	if n := ask(5); n != 5 {
		t.Errorf("with 88 of 100 resting %d of 5 were used again after most of the quarantine", n)
	}
	h.clock.Advance(h.listener.Quarantine/4 - 2*time.Millisecond)
	ask(75) // the rest of the first ones
	if n := ask(5); n != 0 {
		t.Errorf("%d sockets were used again after less than a quarter of the quarantine", n)
	}
	h.closed(stats.Answered, 80+8+5+75+5)
}

// Sessions from before a reload make room for new ones as they would without it,
// and count.
func TestRoomIsMadeAcrossReloads(t *testing.T) {
	for name, set := range map[string]setup{
		"process":  {room: 2},
		"listener": {edit: func(l *conf.Listener, _ *conf.Upstream) { l.UDP.MaxSessions = 2 }},
	} {
		t.Run(name, func(t *testing.T) {
			peer := socketOn(t, "127.0.0.1")
			h := newHarness(t, set, addrOf(peer))
			for _, text := range []string{"first", "second"} {
				h.send(h.client(), text)
				h.receive(peer)
			}
			for i, text := range []string{"third", "fourth"} {
				l := *h.listener
				h.w.Swap(h.w.sockets[0].fd, &l)
				h.clock.Advance(time.Millisecond)
				h.send(h.client(), text)
				if got, _ := h.receive(peer); got != text {
					t.Errorf("the peer got %q, want %q", got, text)
				}
				h.sessions(2)
				h.closed(stats.Evicted, uint64(i+1))
			}
			l := *h.listener
			h.w.Swap(h.w.sockets[0].fd, &l)
			if n := len(h.w.sockets[0].book.former); n != 2 { // the last two clients'
				t.Errorf("%d books from before are kept, want 2", n)
			}
		})
	}
}

// The sessions of listeners that become one again are counted once.
func TestSessionsAreCountedOnceAcrossReloads(t *testing.T) {
	peer := socketOn(t, "127.0.0.1")
	h := newHarness(t, setup{}, addrOf(peer))
	h.send(h.client(), "first")
	h.receive(peer)
	one := h.w.sockets[0].fd
	two, _, err := h.listener.Listen(conf.Address{Host: "127.0.0.1"}, true)
	if err != nil {
		t.Fatal(err)
	}
	h.w.Serve(h.listener, conf.Address{Host: "127.0.0.1"}, two)
	for range 2 { // apart, and together
		a, b := *h.listener, *h.listener
		h.w.Swap(one, &a)
		h.w.Swap(two, &b)
		c := *h.listener
		h.w.Swap(one, &c)
		h.w.Swap(two, &c)
	}
	if n := h.w.sockets[0].book.sessions(); n != 1 {
		t.Errorf("%d sessions are counted, want 1", n)
	}
}

// Resting sockets do not pile up under a listener's max_sessions, nor over
// reloads.
func TestRestingSocketsAreBounded(t *testing.T) {
	peer := socketOn(t, "127.0.0.1")
	h := newHarness(t, setup{edit: func(l *conf.Listener, _ *conf.Upstream) { l.UDP.MaxSessions = 5 }}, addrOf(peer))
	for range 100 {
		h.send(h.client(), "flood")
		h.receive(peer)
	}
	if n := h.w.conns.Len(); n > 10 {
		t.Errorf("%d sockets to the peer, max_sessions is 5", n)
	}
	fd := h.w.sockets[0].fd
	for range 20 {
		l := *h.w.sockets[0].book.listener
		l.Responses = 1
		h.w.Swap(fd, &l)
		c := h.client()
		h.send(c, "?")
		_, from := h.receive(peer)
		peer.WriteToUDPAddrPort([]byte("!"), from)
		h.receive(c)
		h.clock.Advance(trimEvery + time.Second)
		h.turn()
	}
	h.clock.Advance(2 * time.Minute)
	h.turn()
	h.clock.Advance(trimEvery + time.Second)
	h.turn()
	if len(h.w.books) > 2 || len(h.w.pools) > 2 || h.w.conns.Len() > 2 {
		t.Errorf("%d books, %d pools and %d sockets after 20 reloads", len(h.w.books), len(h.w.pools), h.w.conns.Len())
	}
}

// A session on its way to another process may be ended meanwhile: what becomes of
// the parcel then does not matter, and its socket, of which the loop no longer
// tells, is not used again.
func TestEndOfPackedSession(t *testing.T) {
	peer := socketOn(t, "127.0.0.1")
	h := newHarness(t, setup{edit: func(l *conf.Listener, _ *conf.Upstream) {
		l.UDP.Requests, l.UDP.Responses, l.UDP.Quarantine = 2, 1, 0
	}}, addrOf(peer))
	for _, settle := range []func(*Parcel){h.w.Sent, h.w.Keep} {
		c := h.client()
		h.exchange(c, peer, "hello")
		h.w.Pause()
		p := h.w.Pack(1)
		if len(p) != 1 || !h.w.CloseOne(p[0].session.slot, p[0].serial, stats.ClosedByOperator) {
			t.Fatalf("%d sessions were packed, or the first can't be closed", len(p))
		}
		settle(p[0])
		h.w.Resume()
		h.turn()
		h.exchange(c, peer, "again")
		h.w.CloseAll(stats.Shutdown)
		h.turn()
	}
}

// A socket that was put off says nothing when its session has been packed.
func TestPackedSessionStandsStill(t *testing.T) {
	peer := socketOn(t, "127.0.0.1")
	h := newHarness(t, setup{edit: func(l *conf.Listener, _ *conf.Upstream) { l.UDP.Responses = 1 }}, addrOf(peer))
	c := h.client()
	h.send(c, "hello")
	_, from := h.receive(peer)
	h.w.Pause()
	p := h.w.Pack(1)
	if _, err := peer.WriteToUDPAddrPort([]byte("answer"), from); err != nil {
		t.Fatal(err)
	}
	h.loop.Later(p[0].session.conn.token())
	h.nothing(c)
	h.w.Keep(p[0])
	if got, _ := h.receive(c); got != "answer" {
		t.Errorf("got %q", got)
	}
	h.w.Resume()
}

// sendTogether sends so many datagrams of 100 bytes in one piece.
func sendTogether(t *testing.T, c *net.UDPConn, n int) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	out := sys.NewSendBatch(1, 1)
	out.Add(make([]byte, 100*n), 100, nil, nil)
	raw.Control(func(fd uintptr) {
		if sent, errno := out.Send(int32(fd), 0); sent != 1 {
			t.Fatal(errno)
		}
	})
}

// Where a reload or an upgrade begins to count datagrams, they no longer come put
// together, and what has come so before is not passed on as one.
func TestDatagramsAreCountedFromNowOn(t *testing.T) {
	for name, change := range map[string]func(h *harness, l *Listener){
		"reload": func(h *harness, l *Listener) { h.w.Swap(h.w.sockets[0].fd, l) },
		"upgrade": func(h *harness, l *Listener) {
			h.w.Pause()
			s := h.w.sockets[0]
			fd, err := unix.Dup(int(s.fd))
			if err != nil {
				t.Fatal(err)
			}
			h.w.Release()
			h.turn()
			h.w.Serve(l, s.bound, int32(fd))
			h.w.Resume()
		},
	} {
		t.Run(name, func(t *testing.T) {
			peer := socketOn(t, "127.0.0.1")
			h := newHarness(t, setup{}, addrOf(peer))
			if !h.w.coalesce || !h.w.segment {
				t.Fatal("needs Linux 5.0 (UDP_GRO)")
			}
			sendTogether(t, h.client(), 3)
			l := *h.listener
			l.Requests, l.Responses = 1, 1
			change(h, &l)
			for range 3 {
				if got, _ := h.receive(peer); len(got) != 100 {
					t.Fatalf("the peer got %d bytes, want 100", len(got))
				}
			}
			sendTogether(t, h.client(), 5)
			for range 5 {
				h.receive(peer)
			}
			h.sessions(6)
		})
	}
}

package tcp

import (
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/upstream"
)

// listed returns the sessions in a peer's list, which must be linked both ways.
func (h *harness) listed(p *upstream.Peer) map[*session]bool {
	h.t.Helper()
	out := map[*session]bool{}
	before := int32(-1)
	slot, ok := h.w.first[p]
	for ok && slot >= 0 {
		s := h.w.sessions.At(slot)
		if s == nil || out[s] || s.before != before {
			h.t.Fatalf("the list of %s is broken at slot %d: %+v", p, slot, s)
		}
		out[s] = true
		before, slot = slot, s.after
	}
	return out
}

// wantListed checks that each peer's list has the sessions that have the peer.
func (h *harness) wantListed() {
	h.t.Helper()
	for _, p := range h.group.Peers() {
		listed := h.listed(p)
		n := 0
		h.w.sessions.All(func(_ int32, s *session) {
			if s.peer == p {
				n++
				if !listed[s] {
					h.t.Errorf("session %d of %s is not in its list", s.serial, p)
				}
			}
		})
		if n != len(listed) {
			h.t.Errorf("%s has %d sessions and %d in its list", p, n, len(listed))
		}
	}
}

// The sessions of a peer are known whatever comes and goes, and Dismiss ends those
// and no others.
func TestSessionsOfAPeer(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	h := newHarness(t, setup{peers: 3})
	var clients []*net.TCPConn
	for range 60 {
		c, _ := h.dial()
		clients = append(clients, c)
		if r.IntN(3) == 0 {
			i := r.IntN(len(clients))
			clients[i].SetLinger(0)
			clients[i].Close()
			before := h.ended()
			clients = append(clients[:i], clients[i+1:]...)
			h.turnUntil("the session ends", func() bool { return h.ended() > before })
		}
		h.wantListed()
	}
	peers := h.group.Peers()
	all := len(h.listed(peers[1]))
	others := h.w.sessions.Len() - all
	n, more := h.w.Dismiss(peers[1], h.clock.Now(), 3, stats.PeerStandby)
	if n != 3 || !more || len(h.listed(peers[1])) != all-3 {
		t.Fatalf("of %d sessions %d were ended (more: %v)", all, n, more)
	}
	h.wantListed()
	h.clock.Advance(time.Second)
	h.w.Loop.Turn(time.Millisecond)
	late := 0
	for late == 0 { // one that is placed later is not meant
		h.dial()
		late = len(h.listed(peers[1])) - (all - 3)
	}
	n, more = h.w.Dismiss(peers[1], h.clock.Now().Add(-time.Millisecond), 1000, stats.PeerStandby)
	if n != all-3 || more || len(h.listed(peers[1])) != late {
		t.Errorf("then %d more (more: %v), and %d are left", n, more, len(h.listed(peers[1])))
	}
	h.wantListed()
	if got := int(h.closed(stats.PeerStandby)); got != all {
		t.Errorf("%d sessions ended as peer_standby, want %d", got, all)
	}
	if got := h.w.sessions.Len(); got < others {
		t.Errorf("%d sessions are left, %d were others'", got, others)
	}
}

// A session that is dismissed while it connects goes on to another peer.
func TestDismissedWhileConnecting(t *testing.T) {
	h := newHarness(t, setup{extra: []conf.Server{blackHole(t)}})
	h.client()
	h.turnUntil("a session connects", func() bool { return h.last() != nil && h.last().phase == connecting })
	s := h.last()
	dead := s.peer
	if n, more := h.w.Dismiss(dead, h.clock.Now(), 10, stats.PeerUnhealthy); n != 1 || more {
		t.Fatalf("%d sessions were dismissed (more: %v)", n, more)
	}
	h.turnUntil("it relays", func() bool { return h.last().phase == relaying })
	if s.peer == dead || len(h.listed(dead)) != 0 {
		t.Errorf("the session has %v", s.peer)
	}
	h.wantListed()
	for _, p := range h.group.Snapshot(nil, h.clock.Now()) {
		if p.Failures != 0 {
			t.Errorf("%s is charged with %d failures", p.Addr, p.Failures)
		}
	}
}

// A session that was on its way to another process when its peer was dismissed ends
// if it stays.
func TestDismissedWhilePacked(t *testing.T) {
	for name, stay := range map[string]func(*Worker, *Parcel){"kept": (*Worker).Keep, "refused": (*Worker).Refused} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, setup{})
			h.dial()
			parcels := h.w.Pack(1)
			if n, more := h.w.Dismiss(h.group.Peers()[0], h.clock.Now(), 10, stats.PeerStandby); n != 0 || more {
				t.Errorf("%d sessions were dismissed (more: %v)", n, more)
			}
			stay(h.w, parcels[0])
			h.wantClosed(stats.PeerStandby)
		})
	}
}

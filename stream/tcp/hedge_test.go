package tcp

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/decisions"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/upstream"
)

func hedged(share float64) func(l *conf.Listener, u *conf.Upstream) {
	return func(l *conf.Listener, u *conf.Upstream) {
		l.Hedge = &conf.Hedge{After: 20 * time.Millisecond, Max: share}
	}
}

// slowFirst has the first session go to a peer that does not answer.
func slowFirst(t *testing.T, share float64) *harness {
	h := newHarness(t, setup{extra: []conf.Server{blackHole(t)}, edit: hedged(share)})
	h.client()
	h.turnUntil("it connects", func() bool { return h.last() != nil && h.last().phase == connecting })
	return h
}

func TestHedgeWins(t *testing.T) {
	h := slowFirst(t, 1)
	h.clock.Advance(21 * time.Millisecond)
	h.accept(0)
	h.turnUntil("it relays", func() bool { return h.last().phase == relaying })
	s := h.last()
	if c := h.group.Stats(0); c.Hedges.Load() != 1 || c.HedgesWon.Load() != 1 || c.HedgesLost.Load() != 0 || s.tries != 2 {
		t.Errorf("%d hedges, %d won, %d lost, %d tries", c.Hedges.Load(), c.HedgesWon.Load(), c.HedgesLost.Load(), s.tries)
	}
	for _, p := range h.group.Snapshot(nil, h.clock.Now()) {
		if p.Failures != 0 || p.Balance.Fails != 0 {
			t.Errorf("%s is charged with a failure", p.Addr)
		}
	}
	if n := h.stats.UpstreamFailures.Load(); n != 0 {
		t.Errorf("%d failures", n)
	}
}

// The first attempt has come about and ended in the turn in which the second won:
// its event says nothing of the winner.
func TestHedgeWinsBeforeTheLastOfTheLoser(t *testing.T) {
	h := slowFirst(t, 1)
	s := h.last()
	h.w.startHedge(s)
	h.w.OnEvent(h.w.hedgeToken(s), unix.EPOLLOUT)
	h.w.OnEvent(s.token(up), unix.EPOLLIN|unix.EPOLLOUT|unix.EPOLLRDHUP)
	if u := &s.half[up]; u.readable || u.finished || u.hungUp || s.phase != connecting {
		t.Errorf("it is %s, and its upstream half %+v", s.phase, *u)
	}
	h.accept(0)
	h.turnUntil("it relays", func() bool { return s.phase == relaying })
	if u := &s.half[up]; u.finished || u.hungUp {
		t.Errorf("its upstream half is %+v", *u)
	}
}

// The second attempt is reset as soon as it stands, which is no failure of its peer:
// the first goes on.
func TestHedgeIsReset(t *testing.T) {
	h := slowFirst(t, 1)
	s := h.last()
	h.w.startHedge(s)
	h.peers[0].SetDeadline(time.Now().Add(10 * time.Second))
	p, err := h.peers[0].AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	reset(p)
	h.turnUntil("the second attempt is given up", func() bool { return h.group.Stats(0).HedgesLost.Load() == 1 })
	if s.phase != connecting || s.hasHedge() {
		t.Errorf("it is %s", s.phase)
	}
	if n := h.stats.UpstreamFailures.Load(); n != 0 {
		t.Errorf("%d failures are counted", n)
	}
	h.wantNoFails()
}

// The second attempt fails while the first is under way: that one goes on, and the
// failure is told, and charged to whom it belongs.
func TestHedgeFails(t *testing.T) {
	slow, bad := blackHole(t), refused(t)
	bad.Name = "bad"
	h := newHarness(t, setup{peers: -1, extra: []conf.Server{slow, bad}, edit: hedged(1), decisions: conf.DecisionsAll})
	h.client()
	h.turnUntil("it connects", func() bool { return h.last() != nil && h.last().phase == connecting })
	h.clock.Advance(21 * time.Millisecond)
	h.turnUntil("the second attempt has failed", func() bool { return h.group.Stats(0).HedgesLost.Load() == 1 })
	if s := h.last(); s.phase != connecting || s.peer.Name != slow.Address.String() || s.hasHedge() {
		t.Errorf("it is %s, with %s", s.phase, s.peer.Name)
	}
	snap := h.group.Snapshot(nil, h.clock.Now())
	if snap[0].Failures != 0 || snap[1].Failures != 1 || snap[1].Balance.Conns != 0 {
		t.Errorf("the peers are %+v", snap)
	}
	h.w.CloseAll(stats.Shutdown)
	h.writer.Close()
	h.writer = nil
	for _, want := range []string{"picked bad", "second attempt beside the first", "connecting to bad (" + bad.Address.String() + ") failed: connection refused"} {
		if !strings.Contains(h.decided.String(), want) {
			t.Errorf("it is not told that %s:\n%s", want, h.decided.String())
		}
	}
}

// The first attempt fails while the second is under way: that one goes on.
func TestHedgeGoesOnAlone(t *testing.T) {
	h := newHarness(t, setup{peers: -1, extra: []conf.Server{blackHole(t), blackHole(t)}, edit: func(l *conf.Listener, u *conf.Upstream) {
		hedged(1)(l, u)
		l.ConnectTimeout = time.Second
	}})
	h.client()
	h.turnUntil("it connects", func() bool { return h.last() != nil && h.last().phase == connecting })
	h.clock.Advance(21 * time.Millisecond)
	h.turnUntil("a second attempt", func() bool { return h.last().hasHedge() })
	h.clock.Advance(980 * time.Millisecond)
	h.turnUntil("the first is given up", func() bool { return !h.last().hasHedge() })
	if s := h.last(); s.phase != connecting || s.half[up].fd < 0 {
		t.Fatalf("it is %s", s.phase)
	}
	h.settle()
	if h.ended() != 0 {
		t.Fatal("the second attempt was not given its time")
	}
	h.clock.Advance(21 * time.Millisecond)
	h.wantClosed(stats.ConnectTimeout)
}

func TestHedgeIsLimited(t *testing.T) {
	h := slowFirst(t, 0.5)
	h.clock.Advance(21 * time.Millisecond)
	h.settle()
	if c := h.group.Stats(0); c.Hedges.Load() != 0 || c.HedgesDenied.Load() != 1 {
		t.Errorf("%d hedges and %d denied after one session, at most half of which may have one", c.Hedges.Load(), c.HedgesDenied.Load())
	}
	if s := h.last(); s.phase != connecting {
		t.Errorf("it is %s", s.phase)
	}
}

// A client that goes away while two attempts are under way leaves nothing behind;
// the harness checks that.
func TestHedgeAndClose(t *testing.T) {
	h := slowFirst(t, 1)
	s := h.last()
	h.w.startHedge(s)
	if !s.hasHedge() {
		t.Fatal("no hedge")
	}
	h.w.CloseOne(s.slot, s.serial, stats.ClosedByOperator)
	h.wantClosed(stats.ClosedByOperator)
}

// The percentile is of what connects take here.
func TestHedgeAfterPercentile(t *testing.T) {
	h := newHarness(t, setup{edit: func(l *conf.Listener, _ *conf.Upstream) {
		l.Hedge = &conf.Hedge{Percentile: 0.9, Max: 1}
	}})
	s := &session{listener: h.listener, tries: 1, extras: newExtras(h.w)}
	if _, ok := h.w.expectHedge(s); ok {
		t.Error("a hedge, though nothing is known of connect times")
	}
	for i := range 1000 {
		h.group.Slow(time.Duration(i+1) * 100 * time.Microsecond)
	}
	at, ok := h.w.expectHedge(s)
	if d := at.Sub(s.picked); !ok || d < 85*time.Millisecond || d > 95*time.Millisecond {
		t.Errorf("a hedge after %v, %v; want some 90 ms", d, ok)
	}
}

// onTrial has a session connect to a peer that does not answer, after it has been
// unavailable. The other peer answers.
func onTrial(t *testing.T, edit func(l *conf.Listener, u *conf.Upstream)) *harness {
	h := newHarness(t, setup{extra: []conf.Server{blackHole(t)}, edit: func(l *conf.Listener, u *conf.Upstream) {
		u.Balance = conf.DefaultBalance(conf.First)
		edit(l, u)
	}})
	h.client()
	h.turnUntil("it connects", func() bool { return h.last() != nil && h.last().phase == connecting })
	s := h.last()
	h.w.nextUpstream(s, upstream.Failed, stats.ConnectTimeout, decisions.TimedOut)
	h.w.close(s, stats.ConnectTimeout)
	h.clock.Advance(11 * time.Second)
	h.client()
	h.turnUntil("it is tried again", func() bool { return h.last() != nil && h.last().phase == connecting })
	return h
}

// An attempt that was given up shows nothing of its peer.
func TestAbandonedAttemptForgivesNobody(t *testing.T) {
	for name, abandon := range map[string]func(h *harness, s *session){
		"another was faster": func(h *harness, s *session) {
			h.clock.Advance(21 * time.Millisecond)
			h.turnUntil("it relays", func() bool { return s.phase == relaying })
		},
		"its peer is not wanted": func(h *harness, s *session) { h.w.Dismiss(s.peer, h.clock.Now(), 1, stats.PeerStandby) },
		"its session is closed":  func(h *harness, s *session) { h.w.close(s, stats.ClosedByOperator) },
	} {
		t.Run(name, func(t *testing.T) {
			h := onTrial(t, hedged(1))
			abandon(h, h.last())
			p := h.group.Snapshot(nil, h.clock.Now())[0]
			if passive := p.Axes[upstream.AxisPassive]; p.Balance.Fails != 1 || p.Balance.Conns != 0 || passive.Value != upstream.OutOfUse {
				t.Errorf("it has %d connections and %d failures, and is %s: %s", p.Balance.Conns, p.Balance.Fails, passive.Value, passive.Cause)
			}
		})
	}
}

// Nor is the time until then how long the peer takes.
func TestAbandonedAttemptIsNoSample(t *testing.T) {
	h := newHarness(t, setup{extra: []conf.Server{blackHole(t)}, edit: func(l *conf.Listener, u *conf.Upstream) {
		hedged(1)(l, u)
		u.Balance = conf.DefaultBalance(conf.LeastTime)
		u.Balance.Time = conf.TimeLastByte
	}})
	h.client()
	h.turnUntil("it connects", func() bool { return h.last() != nil && h.last().phase == connecting })
	h.clock.Advance(21 * time.Millisecond)
	h.turnUntil("it relays", func() bool { return h.last().phase == relaying })
	if b := h.group.Snapshot(nil, h.clock.Now())[0].Balance; b.Average != (balance.Times{}) {
		t.Errorf("it takes %v ms", b.Average)
	}
}

// A second attempt that is given up as the first has connected shows nothing of its
// peer: the session can go there when the first ends it without a word.
func TestPeerOfAbandonedHedgeIsLeft(t *testing.T) {
	h := newHarness(t, setup{peers: 2, edit: func(l *conf.Listener, u *conf.Upstream) {
		hedged(1)(l, u)
		holding(l, u)
	}})
	c := h.client()
	h.turnUntil("it connects", func() bool { return h.last() != nil && h.last().phase == connecting })
	s := h.last()
	h.w.startHedge(s)
	h.w.OnEvent(s.token(up), unix.EPOLLOUT)
	if s.phase != relaying || h.group.Stats(0).HedgesLost.Load() != 1 {
		t.Fatalf("it is %s", s.phase)
	}
	first := h.accept(0)
	h.accept(1).Close() // what was given up
	c.Write([]byte("question"))
	h.hears(first, "question")
	first.Close()
	second := h.accept(1)
	h.hears(second, "question")
	second.Close() // and not a third time
	h.wantClosed(stats.PeerClosed)
}

// A second attempt at a peer that is demoted meanwhile does not become the
// session's own.
func TestHedgeLeavesDemotedPeer(t *testing.T) {
	for name, end := range map[string]func(h *harness, s *session){
		"it connects": func(h *harness, s *session) { h.settle() },
		"the first fails": func(h *harness, s *session) {
			if h.w.nextUpstream(s, upstream.Failed, stats.ConnectFailed, decisions.TimedOut) {
				h.w.connect(s)
			}
		},
		"the first is dismissed": func(h *harness, s *session) { h.w.Dismiss(s.peer, h.clock.Now(), 10, stats.PeerDrained) },
	} {
		t.Run(name, func(t *testing.T) {
			h := slowFirst(t, 1)
			s := h.last()
			h.w.startHedge(s)
			demoted := s.extras.hedge.peer
			h.group.SetAdmin(demoted, balance.Down, "test", h.clock.Now())
			h.w.Dismiss(demoted, h.clock.Now(), 10, stats.PeerDrained)
			end(h, s)
			if n := h.group.Snapshot(nil, h.clock.Now())[1].Balance.Conns; n != 0 {
				t.Errorf("the demoted peer has %d sessions", n)
			}
		})
	}
}

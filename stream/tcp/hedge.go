package tcp

import (
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

// This file makes a second attempt to connect, to another peer, while the first
// takes longer than it should ("The Tail at Scale", J. Dean and L. A. Barroso,
// CACM 2013, hedged requests). The first to connect wins; the other is closed, and
// is neither a failure nor a success of its peer. If that is the second, its peer can
// still be given the session should it begin anew (hold.go).

// hedge is a second attempt to connect.
type hedge struct {
	fd     int32 // -1 = none is under way
	unix   bool
	done   bool // the session has had one
	peer   *upstream.Peer
	stats  *stats.Peer
	picked clock.Time
	turn   uint64 // of the loop, in which it was promoted
}

func (w *Worker) hedgeToken(s *session) loop.Token {
	return loop.MakeToken(loop.KindHedge, s.generation, s.slot, 0)
}

// hedgeBudget is how many hedges a worker may make for a listener: each session
// adds hedge.max to it. The worker owns it.
type hedgeBudget struct {
	credit float64
	_      [56]byte // workers' share no cache line
}

// longestCredit bounds what a calm leaves for later: some hedges, not a flood.
const longestCredit = 10

// expectHedge returns when a session that begins to connect should make a second
// attempt, and false if it should not.
func (w *Worker) expectHedge(s *session) (clock.Time, bool) {
	c := s.listener.Hedge
	if c == nil || s.extras.hedge.done {
		return 0, false
	}
	if s.tries == 1 {
		b := &s.listener.hedges[w.opt.ID]
		b.credit = min(b.credit+c.Max, longestCredit)
	}
	after := c.After
	if after == 0 {
		var ok bool
		if after, ok = s.listener.Group.ConnectTime(c.Percentile); !ok {
			return 0, false
		}
	}
	if after >= s.listener.ConnectTimeout {
		return 0, false
	}
	return s.picked.Add(max(after, time.Millisecond)), true
}

// hedgeDue reports whether it is time for the second attempt.
func (w *Worker) hedgeDue(s *session) bool {
	return s.extras != nil && s.listener.Hedge != nil && !s.extras.hedge.done && w.Loop.Now() < s.picked.Add(s.listener.ConnectTimeout)
}

// startHedge makes the second attempt, if that is allowed and there is another
// peer.
func (w *Worker) startHedge(s *session) {
	h, g := &s.extras.hedge, s.listener.Group
	h.done = true
	b := &s.listener.hedges[w.opt.ID]
	if b.credit < 1 {
		g.Stats(w.opt.ID).HedgesDenied.Add(1)
		return
	}
	now := w.Loop.Now()
	p := g.Beside(&s.walk.Attempts, now)
	if p == nil {
		g.Stats(w.opt.ID).HedgesDenied.Add(1)
		return
	}
	b.credit--
	g.Stats(w.opt.ID).Hedges.Add(1)
	h.peer, h.stats, h.picked = p, p.Stats(w.opt.ID), now
	s.tries++
	h.stats.Sessions.Add(1)
	w.stats.UpstreamConnections.Add(1)
	if w.logs.explain == conf.DecisionsAll {
		w.tell(s, decisions.Record{Decision: &upstream.Decision{Upstream: g.Name, Method: g.Method(), Attempt: int(s.tries), Peer: p, By: upstream.Hedged}, Attempt: int(s.tries)})
	}
	half, errno, local := w.dialTo(s, p)
	h.fd, h.unix = half.fd, half.unix
	if errno == 0 || errno == unix.EINPROGRESS {
		if errno = w.Loop.Add(h.fd, sessionEvents, w.hedgeToken(s)); errno == 0 {
			return // an event will tell, of a success too
		}
		local = true
	}
	w.failHedge(s, errno, local)
}

// onHedge is told that the second attempt has succeeded or failed.
func (w *Worker) onHedge(s *session, events uint32) {
	h := &s.extras.hedge
	if h.fd < 0 || s.phase != connecting || events&(unix.EPOLLOUT|unix.EPOLLHUP|unix.EPOLLERR) == 0 {
		return
	}
	if events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		if errno := sys.SocketError(h.fd); errno != 0 {
			if stood(errno) { // it is no failure, and nothing was asked there: the first goes on
				w.endHedge(s, upstream.Abandoned, decisions.NoFailure)
				return
			}
			w.failHedge(s, errno, false)
			return
		}
	}
	if !w.hedgeStands(s) {
		return
	}
	g := s.listener.Group
	g.Stats(w.opt.ID).HedgesWon.Add(1)
	g.Slow(w.Loop.Now().Sub(s.picked))
	w.release(s, upstream.Abandoned, decisions.NoFailure)
	w.promote(s)
}

// promote makes the second attempt the session's only one. Its socket tells again
// what it is ready for.
func (w *Worker) promote(s *session) {
	h := &s.extras.hedge
	s.half[up] = half{fd: h.fd, unix: h.unix, writable: true, nagle: !h.unix}
	s.peer, s.stats, s.picked = h.peer, h.stats, h.picked
	h.fd, h.peer, h.turn = -1, nil, w.Loop.Stats.Turns.Load()
	w.link(s)
	w.setTimer(s, s.picked.Add(s.listener.ConnectTimeout))
	if w.Loop.Rename(s.half[up].fd, sessionEvents, s.token(up)) != 0 {
		w.close(s, stats.LocalError)
	}
}

// ofFormer reports whether an event of this turn is not of the session's upstream half
// but of the one that was there before the second attempt was promoted.
func (w *Worker) ofFormer(s *session, d side) bool {
	return s.extras != nil && d == up && s.extras.hedge.turn == w.Loop.Stats.Turns.Load()
}

// failHedge settles a second attempt that has failed. The first goes on. local says
// that this machine lacks something, and the peer is not to blame.
func (w *Worker) failHedge(s *session, errno unix.Errno, local bool) {
	o := upstream.Failed
	if local || errno == unix.EADDRNOTAVAIL {
		o = upstream.Abandoned
	}
	w.stats.UpstreamFailures.Add(1)
	w.endHedge(s, o, decisions.Cause(errno))
}

// dropHedge gives up a second attempt that is no longer wanted.
func (w *Worker) dropHedge(s *session) {
	if s.extras.hedge.peer != nil {
		w.endHedge(s, upstream.Abandoned, decisions.NoFailure)
	}
	s.extras.hedge.done = false // for the next session
}

// endHedge gives the peer of the second attempt back, after a failure if there is a
// cause.
func (w *Worker) endHedge(s *session, o upstream.Outcome, cause decisions.Cause) {
	h, g := &s.extras.hedge, s.listener.Group
	g.Stats(w.opt.ID).HedgesLost.Add(1)
	if h.fd >= 0 {
		sys.Close(h.fd)
		h.fd = -1
	}
	w.giveBack(s, h.peer, upstream.Took{Connect: -1, FirstByte: -1, Whole: w.Loop.Now().Sub(h.picked), Pending: true}, o, cause)
	h.peer = nil
}

// hedgeStands reports whether a second attempt is under way that may become the
// session's only one. One whose peer was demoted meanwhile is given up: Dismiss
// did not see it.
func (w *Worker) hedgeStands(s *session) bool {
	if s.hasHedge() && s.extras.hedge.peer.IsForsaken() {
		w.endHedge(s, upstream.Abandoned, decisions.NoFailure)
	}
	return s.hasHedge()
}

// hasHedge reports whether a second attempt is under way.
func (s *session) hasHedge() bool { return s.extras != nil && s.extras.hedge.peer != nil }

package udp

import (
	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/decisions"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/upstream"
)

// This file has the reasons behind picks and failures told to the operator who
// asked for them. For the others it costs one comparison.

// pick picks the session's peer.
func (w *Worker) pick(s *session) *upstream.Peer {
	g := s.book.listener.Group
	if w.logs.explain == conf.DecisionsOff {
		return g.Pick(&w.attempts, s.start)
	}
	if w.logs.explain == conf.DecisionsAll || s.tries > 0 {
		p, why := g.Explain(&w.attempts, s.start)
		w.tell(s, decisions.Record{Decision: why, Attempt: why.Attempt})
		return p
	}
	p := g.Pick(&w.attempts, s.start)
	if p == nil {
		why := g.Inspect(&w.attempts, s.start)
		w.tell(s, decisions.Record{Decision: why, Attempt: why.Attempt})
	}
	return p
}

// release gives the session's peer back, after a failure if there is a cause.
func (w *Worker) release(s *session, cause decisions.Cause) {
	g, now := s.book.listener.Group, w.loop.Now()
	o := upstream.Succeeded
	if cause != decisions.NoFailure {
		o = upstream.Failed
		w.stats.UpstreamFailures.Add(1)
	}
	if cause == decisions.NoFailure || w.logs.explain == conf.DecisionsOff {
		g.Release(s.peer, o, s.took(now), now)
	} else {
		f := g.ExplainFailure(s.peer, o, s.took(now), now)
		w.tell(s, decisions.Record{Failure: f, Cause: cause, Attempt: int(s.tries), Timeout: s.book.listener.IdleTimeout})
	}
	s.peer = nil
}

// took returns what the session has measured of its use of its peer.
func (s *session) took(now clock.Time) upstream.Took {
	t := upstream.Took{FirstByte: -1, Whole: now.Sub(s.start)}
	if s.firstByte != 0 {
		t.FirstByte = s.firstByte.Sub(s.start)
	}
	return t
}

// tell hands a record over, with what is known of its session.
func (w *Worker) tell(s *session, r decisions.Record) {
	r.At, r.Session, r.Client = w.loop.Now(), s.serial, s.key.client
	r.Listener, r.Upstream = s.book.listener.Name, s.book.listener.Group.Name
	s.trail = w.opt.History.Note(s.trail, r)
	w.logs.decisions.Put(r)
}

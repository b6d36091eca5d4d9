package tcp

import (
	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/decisions"
	"github.com/weirlb/weir/stream/upstream"
)

// This file has the reasons behind picks and failures told to the operator who
// asked for them. For the others it costs one comparison.

// pick picks the peer of the session's next attempt.
func (w *Worker) pick(s *session) *upstream.Peer {
	g, now := s.listener.Group, w.Loop.Now()
	if w.logs.explain == conf.DecisionsOff {
		return g.Pick(&s.walk.Attempts, now)
	}
	if w.logs.explain == conf.DecisionsAll || s.tries > 0 {
		p, why := g.Explain(&s.walk.Attempts, now)
		w.tell(s, decisions.Record{Decision: why, Attempt: why.Attempt})
		return p
	}
	p := g.Pick(&s.walk.Attempts, now)
	if p == nil {
		why := g.Inspect(&s.walk.Attempts, now)
		w.tell(s, decisions.Record{Decision: why, Attempt: why.Attempt})
	}
	return p
}

// giveBack gives a peer of the session back, after a failed attempt if there is a
// cause.
func (w *Worker) giveBack(s *session, p *upstream.Peer, took upstream.Took, o upstream.Outcome, cause decisions.Cause) {
	g, now := s.listener.Group, w.Loop.Now()
	if w.logs.explain == conf.DecisionsOff || cause == decisions.NoFailure {
		g.Release(p, o, took, now)
		return
	}
	f := g.ExplainFailure(p, o, took, now)
	w.tell(s, decisions.Record{Failure: f, Cause: cause, Attempt: int(s.tries), Timeout: s.listener.ConnectTimeout})
}

// tell hands a record over, with what is known of its session.
func (w *Worker) tell(s *session, r decisions.Record) {
	r.At, r.Session, r.Client = w.Loop.Now(), s.serial, s.client
	r.Listener, r.Upstream = s.listener.Name, s.listener.Group.Name
	s.trail = w.opt.History.Note(s.trail, r)
	w.logs.decisions.Put(r)
}

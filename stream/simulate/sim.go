package simulate

import (
	"time"

	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/upstream"
)

// session is a client's way from peer to peer.
type session struct {
	attempts upstream.Attempts
	peer     *upstream.Peer // nil = none is held
	since    clock.Time     // when it was picked
	took     upstream.Took  // of the peer
	picked   []*upstream.Peer
	status   int // nginx's; 0 = not known yet
	busy     bool
}

// answer is how a server takes a connection: whether it stands, and what a
// session with it takes.
type answer struct {
	connected bool
	took      upstream.Took
}

// world is what happens to a session from outside.
type world struct {
	now     func() clock.Time
	explain func(*upstream.Decision) // of each pick; nil = nobody asks
	failed  func(*upstream.Failure)  // of each failed attempt; nil = nobody asks
	before  func(attempt int)        // a pick; nil = nothing happens
	connect func(attempt int, p *upstream.Peer) answer
}

// walk picks and attempts peers until one connects or there is no going on. It
// does what stream/tcp's session does between accept and relaying.
func walk(g *upstream.Group, s *session, attempt int, w world) {
	for ; ; attempt++ {
		if w.before != nil {
			w.before(attempt)
		}
		if !pick(g, s, w) {
			return
		}
		if a := w.connect(attempt, s.peer); a.connected {
			stand(g, s, a.took, w.now)
			return
		}
		if !fail(g, s, w) {
			return
		}
	}
}

// pick picks the session's next peer and reports whether there was one.
func pick(g *upstream.Group, s *session, w world) bool {
	if w.explain != nil {
		var d *upstream.Decision
		s.peer, d = g.Explain(&s.attempts, w.now())
		w.explain(d)
	} else {
		s.peer = g.Pick(&s.attempts, w.now())
	}
	if s.peer == nil {
		s.status, s.busy = 502, true
		return false
	}
	s.since = w.now()
	s.picked = append(s.picked, s.peer)
	return true
}

// stand notes that the session's connection stands.
func stand(g *upstream.Group, s *session, took upstream.Took, now func() clock.Time) {
	s.status, s.took = 200, took
	g.Connected(s.peer, took.Connect, now().Add(max(took.Connect, 0)))
	if took.FirstByte >= 0 && g.WantsFirstByte() {
		g.FirstByte(s.peer, true, took.FirstByte, now().Add(took.FirstByte))
	}
}

// fail settles a failed attempt and reports whether there may be another.
func fail(g *upstream.Group, s *session, w world) bool {
	now := w.now()
	took := upstream.Took{Connect: -1, FirstByte: -1, Whole: now.Sub(s.since)}
	if w.failed != nil {
		w.failed(g.ExplainFailure(s.peer, upstream.Failed, took, now))
	} else {
		g.Release(s.peer, upstream.Failed, took, now)
	}
	s.peer, s.status = nil, 502
	return s.attempts.Again(now)
}

// end gives the session's peer back.
func end(g *upstream.Group, s *session, o upstream.Outcome, now clock.Time) {
	if s.peer == nil {
		return
	}
	s.took.Whole = now.Sub(s.since)
	g.Release(s.peer, o, s.took, now)
	s.peer = nil
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

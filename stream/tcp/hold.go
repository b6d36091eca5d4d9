package tcp

import (
	"github.com/weirlb/weir/stream/decisions"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/upstream"
)

// This file has a session begin anew with another peer when one has ended it
// before it said anything (next_upstream.before_first_byte): what the client has
// sent until then is held, as far as one buffer goes, and sent again.

// held are the client's first bytes.
type held struct {
	wanted bool // hold them when a peer is connected, until it says something
	on     bool // that is so now
	buf    []byte
	n      int
}

// hold begins to hold, when a peer is connected. What the client has said before
// is on its way. No attempt is under way until the session begins anew.
func (w *Worker) hold(s *session) {
	s.listener.Group.Settle(&s.walk.Attempts)
	s.extras.held.on = true
	w.holdMore(s, s.flow[down].rest())
}

// holdMore holds what was read from the client too. If it is too much, the session
// is bound to its peer. While the client has said nothing, nothing is lent.
func (w *Worker) holdMore(s *session, b []byte) {
	h := &s.extras.held
	n := h.n + len(b)
	switch {
	case n > bufferBytes:
		w.bind(s)
		return
	case n > len(h.buf):
		larger := w.buffersFor(n).get()
		copy(larger, h.buf[:h.n])
		if h.buf != nil {
			w.buffersFor(len(h.buf)).put(h.buf)
		}
		h.buf = larger
	}
	h.n += copy(h.buf[h.n:], b)
}

// holds reports whether the session could still begin anew.
func (s *session) holds() bool { return s.extras != nil && s.extras.held.on }

// bind binds a session to its peer.
func (w *Worker) bind(s *session) {
	w.letGo(s)
	w.endWalk(s)
}

// letGo holds no longer.
func (w *Worker) letGo(s *session) {
	h := &s.extras.held
	h.wanted, h.on, h.n = false, false, 0
	if h.buf != nil {
		w.buffersFor(len(h.buf)).put(h.buf)
		h.buf = nil
	}
}

// unheardOf reports whether the peer has ended a session in which it has said
// nothing and that can begin anew.
func (s *session) unheardOf() bool {
	return s.holds() && s.flow[up].read == 0 && (s.half[up].ended || s.half[up].broken()) && !s.half[down].broken() && !s.asksNothing()
}

// asksNothing reports whether no peer could do more for the client: it has ended
// without a word, as a probe does, or has sent what is not answered.
func (s *session) asksNothing() bool {
	return s.flow[down].read == 0 && s.half[down].ended || s.cancels()
}

// startOver gives a session to another peer, with all that its client has sent, in
// the next turn: in this one there may be an event left of the half that is closed
// here. If there is no peer left, the session is closed.
func (w *Worker) startOver(s *session) {
	w.abandonTurn(s)
	why := stats.PeerClosed
	if s.half[up].broken() {
		why = s.reason
	}
	h, f, o := &s.extras.held, &s.flow[down], upstream.Failed
	if f.read == 0 {
		o = upstream.Succeeded // a connection that waits for its client may be ended: nothing was asked
	}
	buf, n := h.buf, h.n
	h.buf, h.n, h.on = nil, 0, false
	w.discard(f)
	f.buf, f.off, f.pending, f.done = buf, 0, int32(n), false
	s.flow[up].done = false
	s.halfClosed, s.guarded, s.firstByte, s.reason = false, false, 0, why
	if w.nextUpstream(s, o, why, decisions.EndedUnheard) {
		s.setPhase(pausing)
		s.anew = true
		w.putOff(s)
	}
}

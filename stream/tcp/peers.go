package tcp

import (
	"github.com/weirlb/weir/stream/decisions"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/upstream"
)

// This file knows which sessions a peer has, so that a verdict on the peer finds
// them without looking at all others. All of it runs on the loop's thread.

// links are the slots of a session's neighbours in the list of its peer's; -1 =
// none.
type links struct{ before, after int32 }

// link adds a session to its peer's list.
func (w *Worker) link(s *session) {
	first, ok := w.first[s.peer]
	if !ok {
		first = -1
	}
	s.links = links{-1, first}
	if first >= 0 {
		w.sessions.At(first).before = s.slot
	}
	w.first[s.peer] = s.slot
}

func (w *Worker) unlink(s *session) {
	if s.before >= 0 {
		w.sessions.At(s.before).after = s.after
	} else {
		w.first[s.peer] = s.after
	}
	if s.after >= 0 {
		w.sessions.At(s.after).before = s.before
	}
}

// Dismiss ends at most so many sessions that were given to a peer until that
// instant, for that reason, and returns how many it was and whether there are
// more. Those that are not connected yet go on to another peer. Those that are on
// their way to another process end, uncounted, if they stay. Its time is in proportion
// to the peer's sessions.
func (w *Worker) Dismiss(p *upstream.Peer, until clock.Time, most int, reason stats.CloseReason) (n int, more bool) {
	slot, ok := w.first[p]
	for ok && slot >= 0 {
		s := w.sessions.At(slot)
		slot = s.after
		if s.picked > until {
			continue
		}
		if s.packed {
			s.dismissed = reason // it may be another process's already
			continue
		}
		if n == most {
			return n, true
		}
		n++
		if s.phase != connecting {
			w.close(s, reason)
			continue
		}
		w.release(s, upstream.Abandoned, decisions.NoFailure)
		switch again, _ := s.listener.Group.Again(&s.walk.Attempts, 0, w.Loop.Now()); {
		case w.hedgeStands(s):
			w.promote(s)
		case again:
			w.connect(s)
		default:
			w.close(s, reason)
		}
	}
	return n, false
}

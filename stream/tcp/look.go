package tcp

import (
	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/history"
	"github.com/weirlb/weir/stream/stats"
)

// This file has sessions looked at, and closed one by one, for an operator. All
// of it runs on the loop's thread, and a bounded part at a time.

// Look copies the sessions in as many slots as out has room for, and returns how
// many there were and the slot to go on from, -1 after the last.
func (w *Worker) Look(from int32, out []history.Live) (n int, next int32) {
	next = w.sessions.Scan(from, len(out), func(slot int32, s *session) {
		out[n] = s.live(slot)
		n++
	})
	return n, next
}

func (s *session) live(slot int32) history.Live {
	v := history.Live{
		ID:               s.serial,
		Slot:             slot,
		Protocol:         conf.TCP,
		Listener:         s.listener.Name,
		Upstream:         s.listener.Group.Name,
		Client:           s.client,
		Peer:             s.peer,
		Phase:            s.phase.String(),
		Tries:            int(s.tries),
		Start:            s.start,
		Active:           s.active,
		Received:         s.flow[down].read,
		Sent:             s.flow[up].sent,
		UpstreamSent:     s.flow[down].sent,
		UpstreamReceived: s.flow[up].read,
		Trail:            s.trail.Copy(),
	}
	if s.halfClosed && s.phase == relaying {
		v.Phase = "half-closed"
	}
	if v.Active == 0 {
		v.Active = s.start
	}
	return v
}

// CloseOne ends the session of that number for that reason, if it is still in
// that slot.
func (w *Worker) CloseOne(slot int32, id uint64, reason stats.CloseReason) bool {
	s := w.sessions.At(slot)
	if s == nil || s.serial != id {
		return false
	}
	w.close(s, reason)
	return true
}

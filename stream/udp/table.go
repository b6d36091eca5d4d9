package udp

import (
	"time"

	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/internal/sys"
	"github.com/weirlb/weir/stream/stats"
)

// key is what makes datagrams belong together.
type key struct {
	client sys.Endpoint
	local  sys.PacketInfo // zero but on wildcard sockets
	socket int32
}

// active is how long a session that has had an answer, or a second datagram,
// is safe from making room.
const active = time.Second

// order is sessions by the time when something last moved in them.
type order struct{ oldest, newest *session }

func (o *order) add(s *session) {
	s.older, s.newer = o.newest, nil
	if o.newest != nil {
		o.newest.newer = s
	} else {
		o.oldest = s
	}
	o.newest = s
	s.order = o
}

func (o *order) remove(s *session) {
	if s.older != nil {
		s.older.newer = s.newer
	} else {
		o.oldest = s.newer
	}
	if s.newer != nil {
		s.newer.older = s.older
	} else {
		o.newest = s.older
	}
	s.older, s.newer, s.order = nil, nil, nil
}

// book is the sessions of one listener on one worker, since the last reload.
type book struct {
	listener *Listener
	stats    *stats.Listener // the listener's, of this worker
	fresh    order           // one datagram, no answer
	proven   order
	n        int     // sessions
	resting  int     // sockets to peers without one
	former   []*book // its sockets' from before reloads: their sessions count, and make room
	stale    bool    // no listening socket is its any more: a reload has made another
}

// touch notes that something has moved in a session.
func (w *Worker) touch(s *session) {
	now := w.loop.Now()
	if s.proven() && s.order == &s.book.fresh {
		s.order.remove(s)
		s.book.proven.add(s)
	} else if s.active != now {
		o := s.order
		o.remove(s)
		o.add(s)
	}
	s.active = now
}

// proven reports whether the session is more than one datagram from an address
// that may be nobody's.
func (s *session) proven() bool { return s.requests > 1 || s.responses > 0 }

// sessions returns how many the listener has, those from before reloads included.
func (b *book) sessions() int {
	n := b.n
	for _, f := range b.former {
		n += f.n
	}
	return n
}

// makeRoom ends the session that is missed least, and reports whether there was
// one.
func (w *Worker) makeRoom(b *book) bool {
	s, proven := b.fresh.oldest, b.proven.oldest
	for _, f := range b.former {
		s, proven = idler(f.fresh.oldest, s), idler(f.proven.oldest, proven)
	}
	if s == nil || s.first >= 0 { // what has datagrams in the batch at hand stays
		s = proven
		if s == nil || w.loop.Now().Sub(s.active) < active {
			return false
		}
	}
	w.evict(s)
	return true
}

// idler returns which of two sessions, or none, has been idle for longer.
func idler(a, b *session) *session {
	if a == nil || b != nil && b.active < a.active {
		return b
	}
	return a
}

// nextExpiry returns when the first session may have to end, or 0 if there is
// none.
func (w *Worker) nextExpiry() clock.Time {
	var first clock.Time
	for _, b := range w.books {
		for _, s := range [...]*session{b.fresh.oldest, b.proven.oldest} {
			if s == nil {
				continue
			}
			if at := s.active.Add(b.listener.IdleTimeout); first == 0 || at < first {
				first = at
			}
		}
	}
	return first
}

// expire ends the sessions in which nothing has moved for idle_timeout.
func (w *Worker) expire() {
	now := w.loop.Now()
	for _, b := range w.books {
		for _, o := range [...]*order{&b.fresh, &b.proven} {
			for s := o.oldest; s != nil && !s.packed && now.Sub(s.active) >= b.listener.IdleTimeout; s = o.oldest {
				w.onIdle(s)
			}
		}
	}
}

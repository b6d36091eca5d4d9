package history

import (
	"slices"

	"github.com/weirlb/weir/stream/accesslog"
	"github.com/weirlb/weir/stream/decisions"
)

const (
	// Sessions is how many finished sessions a worker remembers.
	Sessions = 4096
	// Places is how many candidates and steps the trails of a worker may hold.
	Places = 1 << 16
)

// Trail is what was decided in one session, in order.
type Trail struct {
	Records []decisions.Record
	Lost    int // further records that there was no room for
	places  int
}

// Session is one that has ended.
type Session struct {
	accesslog.Record
	Trail     Trail // without records: none were made
	Forgotten bool  // they were, and others needed the room
}

// Ring is one worker's memory.
type Ring struct {
	ids    []uint64 // of sessions, beside them: a search stays within these
	ended  []ended
	next   uint64 // where the next one goes
	oldest uint64 // of those that may have a trail
	places int    // that all trails take
}

// ended is a session as the ring keeps it.
type ended struct {
	facts     accesslog.Record
	trail     *Trail // nil = none
	forgotten bool
}

// New returns an empty ring.
func New() *Ring {
	return &Ring{ids: make([]uint64, Sessions), ended: make([]ended, Sessions)}
}

// Note adds a record to the trail of a running session, which is nil before the
// first one, and returns it. It allocates.
func (r *Ring) Note(t *Trail, rec decisions.Record) *Trail {
	if r == nil {
		return nil
	}
	if t == nil {
		t = new(Trail)
	}
	n := places(&rec)
	for r.places+n > Places && r.oldest < r.next {
		r.forget()
	}
	if r.places+n > Places {
		t.Lost++
		return t
	}
	t.Records = append(t.Records, rec)
	t.places += n
	r.places += n
	return t
}

// places is what a record counts for.
func places(r *decisions.Record) int {
	if r.Decision == nil {
		return 1
	}
	return 1 + len(r.Decision.Candidates) + len(r.Decision.Probes)
}

// forget drops the oldest trail.
func (r *Ring) forget() {
	e := &r.ended[r.oldest%Sessions]
	if e.trail != nil {
		r.places -= e.trail.places
		e.trail, e.forgotten = nil, true
	}
	r.oldest++
}

// Put remembers a session that has ended.
func (r *Ring) Put(facts *accesslog.Record, t *Trail) {
	if r == nil {
		return
	}
	if r.next-r.oldest == Sessions {
		r.forget() // its place is taken
	}
	i := r.next % Sessions
	r.ids[i] = facts.Connection
	e := &r.ended[i]
	e.facts, e.trail, e.forgotten = *facts, t, false
	r.next++
}

// Find returns the finished session of that number.
func (r *Ring) Find(id uint64) (Session, bool) {
	i := slices.Index(r.ids, id)
	if i < 0 || id == 0 {
		return Session{}, false
	}
	return r.ended[i].view(), true
}

// Latest copies the sessions that ended last into out, the last one first, and
// returns how many there were. It passes over the first skip of them.
func (r *Ring) Latest(skip int, out []Session) int {
	kept := int(min(r.next, Sessions))
	n := max(min(kept-skip, len(out)), 0)
	for k := range n {
		out[k] = r.ended[(r.next-1-uint64(skip+k))%Sessions].view()
	}
	return n
}

func (e *ended) view() Session {
	s := Session{Record: e.facts, Forgotten: e.forgotten}
	if e.trail != nil {
		s.Trail = *e.trail
	}
	return s
}

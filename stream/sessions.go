package stream

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/history"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/stats"
)

// This file has an operator see and close single sessions. Workers are asked
// through their mailboxes, for so many slots at a time that no session notices.

// lookSlots is how many slots of sessions a worker is asked for at a time: copying
// them takes it some tens of microseconds.
const lookSlots = 256

// Filter chooses sessions. Its zero value chooses all.
type Filter struct {
	Listener string        // name
	Peer     string        // name or address, also as UPSTREAM/PEER
	Older    time.Duration // began at least this long ago
	Limit    int           // at most so many, the oldest; 0 = no limit
}

// Listing is the sessions that a filter has chosen.
type Listing struct {
	Sessions []history.Live // the oldest first
	Total    int            // chosen, those beyond the limit included
	Now      clock.Time
}

// Explanation is what is known of one session.
type Explanation struct {
	Live  *history.Live    // it runs; or
	Ended *history.Session // it has ended
	Now   clock.Time
}

// all returns the workers, those included that have to finish their sessions.
func (s *Server) all() []*worker {
	s.reading.RLock()
	defer s.reading.RUnlock()
	return append(slices.Clone(s.workers), s.leaving...)
}

// Responsive reports whether every worker answers within that time.
func (s *Server) Responsive(within time.Duration) bool {
	workers := s.all()
	answers := make(chan struct{}, len(workers))
	for _, w := range workers {
		if !w.loop.Mailbox.Post(func() { answers <- struct{}{} }) {
			answers <- struct{}{} // it has ended, as it should
		}
	}
	late := time.NewTimer(within)
	defer late.Stop()
	for range workers {
		select {
		case <-answers:
		case <-late.C:
			return false
		}
	}
	return true
}

// ask has the worker do something on its own thread and returns when it has. What
// a retired worker has left behind can be asked for after its end too. It returns
// false if the worker is ending.
func (w *worker) ask(f func()) bool {
	done := make(chan struct{})
	if w.loop.Mailbox.Post(func() { f(); close(done) }) {
		<-done
		return true
	}
	if w.hasEnded() {
		f()
		return true
	}
	return false
}

// look calls f for every session of the workers, until f returns false or ctx is
// done.
func (s *Server) look(ctx context.Context, workers []*worker, f func(*worker, *history.Live) bool) {
	buf := make([]history.Live, lookSlots)
	for _, w := range workers {
		for _, half := range [...]func(int32, []history.Live) (int, int32){w.tcp.Look, w.udp.Look} {
			for next := int32(0); next >= 0; {
				n := 0
				if ctx.Err() != nil || !w.ask(func() { n, next = half(next, buf) }) {
					break
				}
				for i := range buf[:n] {
					if !f(w, &buf[i]) {
						return
					}
				}
			}
		}
	}
}

// ListSessions returns the sessions that run now. It is not one moment's picture:
// workers go on while it looks.
func (s *Server) ListSessions(ctx context.Context, f Filter) (*Listing, error) {
	out := &Listing{Now: clock.Now()}
	latest := clock.Time(math.MaxInt64)
	if f.Older > 0 {
		latest = out.Now.Add(-f.Older)
	}
	s.look(ctx, s.all(), func(_ *worker, v *history.Live) bool {
		if v.Start > latest || f.Listener != "" && v.Listener != f.Listener || f.Peer != "" && !isPeer(v, f.Peer) {
			return true
		}
		out.Total++
		out.Sessions = append(out.Sessions, *v)
		if f.Limit > 0 && len(out.Sessions) >= 2*f.Limit+lookSlots {
			out.shorten(f.Limit)
		}
		return true
	})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out.shorten(f.Limit)
	if out.Total == 0 {
		if err := s.checkFilter(f); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// shorten keeps the n oldest sessions, in order; 0 = all.
func (l *Listing) shorten(n int) {
	slices.SortFunc(l.Sessions, func(a, b history.Live) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.ID, b.ID))
	})
	if n > 0 && len(l.Sessions) > n {
		clear(l.Sessions[n:]) // they may hold trails
		l.Sessions = l.Sessions[:n]
	}
}

// isPeer reports whether a session is with the peer of that name or address.
func isPeer(v *history.Live, name string) bool {
	p := v.Peer
	return p != nil && (p.Name == name || p.String() == name || v.Upstream+"/"+p.Name == name || v.Upstream+"/"+p.String() == name)
}

// find returns the running session of that number and its worker, or nil.
func (s *Server) find(ctx context.Context, id uint64) (at *worker, found *history.Live) {
	s.look(ctx, s.all(), func(w *worker, v *history.Live) bool {
		if v.ID == id {
			at, found = w, new(history.Live)
			*found = *v
		}
		return found == nil
	})
	return at, found
}

// ended returns the finished session of that number, if a worker remembers it.
func (s *Server) ended(id uint64) *history.Session {
	for _, w := range s.all() {
		var e history.Session
		found := false
		w.ask(func() { e, found = w.history.Find(id) })
		if found {
			return &e
		}
	}
	return nil
}

// LatestSessions returns the sessions of a listener, or of all if it is "", that
// ended last, the last one first. At most so many; 0 = all that are remembered.
func (s *Server) LatestSessions(ctx context.Context, listener string, limit int) []history.Session {
	var out []history.Session
	buf := make([]history.Session, lookSlots)
	for _, w := range s.all() {
		for skip := 0; ctx.Err() == nil; skip += len(buf) {
			n := 0
			w.ask(func() { n = w.history.Latest(skip, buf) })
			for _, e := range buf[:n] {
				if listener == "" || e.Listener == listener {
					out = append(out, e)
				}
			}
			if n < len(buf) || limit > 0 && skip+n >= limit && listener == "" {
				break
			}
		}
	}
	slices.SortStableFunc(out, func(a, b history.Session) int { return cmp.Compare(b.End, a.End) })
	if limit > 0 {
		out = out[:min(limit, len(out))]
	}
	return out
}

// CloseSession ends a session at once: both its sides are reset.
func (s *Server) CloseSession(ctx context.Context, id uint64) error {
	w, v := s.find(ctx, id)
	if v != nil {
		half := w.tcp.CloseOne
		if v.Protocol == conf.UDP {
			half = w.udp.CloseOne
		}
		closed := false
		w.ask(func() { closed = half(v.Slot, id, stats.ClosedByOperator) })
		if closed {
			s.logger.Info("session closed by operator", "session", id, "listener", v.Listener, "client", v.Client.String(), "upstream", v.Upstream)
			return nil
		}
	}
	return s.noSession(ctx, id)
}

// noSession says why there is no session of that number to be closed.
func (s *Server) noSession(ctx context.Context, id uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e := s.ended(id); e != nil {
		return &RequestError{NotFound, fmt.Sprintf("session %d has ended already: %s", id, e.Reason)}
	}
	return &RequestError{NotFound, fmt.Sprintf("there is no session %d", id)}
}

// Explain tells what is known of a session, which runs or has ended lately.
func (s *Server) Explain(ctx context.Context, id uint64) (*Explanation, error) {
	if _, v := s.find(ctx, id); v != nil {
		return &Explanation{Live: v, Now: clock.Now()}, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if e := s.ended(id); e != nil {
		return &Explanation{Ended: e, Now: clock.Now()}, nil
	}
	return nil, &RequestError{NotFound, fmt.Sprintf("there is no session %d among those that run, nor among the last %d that ended on each worker", id, history.Sessions)}
}

// recording is whether all decisions are remembered with their sessions, besides
// those that are logged.
type recording struct {
	on atomic.Bool // workers look at it when they are told to

	mu    sync.Mutex
	until time.Time   // guarded by mu; zero = until it is switched off
	timer *time.Timer // guarded by mu; nil = none
}

// Record has all decisions remembered with their sessions for that long, with 0
// until it is called again, or no more.
func (s *Server) Record(on bool, d time.Duration) {
	r := &s.recording
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Stop()
	}
	r.timer, r.until = nil, time.Time{}
	if on && d > 0 {
		until := time.Now().Add(d)
		r.until = until
		r.timer = time.AfterFunc(d, func() { s.recordingEnds(until) })
	}
	s.setRecording(on)
}

// recordingEnds ends the recording until then, if no other order came between.
func (s *Server) recordingEnds(until time.Time) {
	s.recording.mu.Lock()
	defer s.recording.mu.Unlock()
	if s.recording.until.Equal(until) {
		s.recording.until, s.recording.timer = time.Time{}, nil
		s.setRecording(false)
	}
}

// setRecording tells the workers. A reload waits meanwhile, so that its new
// workers are told as well.
func (s *Server) setRecording(on bool) {
	s.reading.RLock()
	defer s.reading.RUnlock()
	s.recording.on.Store(on)
	for _, w := range append(slices.Clone(s.workers), s.leaving...) {
		w.ask(w.setRecording)
	}
}

// Recording reports whether all decisions are remembered, and until when; zero is
// until further notice.
func (s *Server) Recording() (on bool, until time.Time) {
	s.recording.mu.Lock()
	defer s.recording.mu.Unlock()
	return s.recording.on.Load(), s.recording.until
}

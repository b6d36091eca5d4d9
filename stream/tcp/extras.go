package tcp

import (
	"github.com/weirlb/weir/stream/internal/clock"
)

// extras are what only sessions of some listeners and upstreams have. The worker
// lends them.
type extras struct {
	hedge hedge
	held  held
	rates [2]bucket // by the side they read from; rate 0 = no limit
	turn  turn
	next  *extras // in the worker's list of unused ones
}

// extrasFor lends a session its extras, if its listener or upstream has something
// that needs them.
func (w *Worker) extrasFor(s *session) {
	l := s.listener
	limiter := l.Group.Limiter()
	if !l.needsExtras && (limiter == nil || !followsTurns(limiter)) {
		return
	}
	x := w.extras
	if x == nil {
		x = newExtras(w)
	} else {
		w.extras, x.next = x.next, nil
	}
	x.hedge.fd = -1
	x.rates[down].start(l.UploadRate, s.start)
	x.rates[up].start(l.DownloadRate, s.start)
	x.held.wanted = l.Hold
	x.turn.begin(s)
	s.extras = x
}

// Reconsider has sessions that are there take part in what a reload has begun: an
// adaptive limit of turns. It runs on the loop's thread.
func (w *Worker) Reconsider() {
	w.sessions.All(func(_ int32, s *session) {
		if s.extras == nil {
			w.extrasFor(s)
		}
	})
}

func newExtras(w *Worker) *extras {
	x := new(extras)
	x.turn.place.Wake = func() {
		x.turn.granted.Store(true)
		w.rouse(x.turn.token)
	}
	return x
}

// returnExtras gives everything back that a session's extras hold.
func (w *Worker) returnExtras(s *session) {
	x := s.extras
	if x == nil {
		return
	}
	w.dropHedge(s)
	w.letGo(s)
	w.abandonTurn(s)
	x.turn.limiter = nil
	x.next, w.extras = w.extras, x
	s.extras = nil
}

// mayTake returns how many bytes may be read from side d now; 0 = none.
func (w *Worker) mayTake(s *session, d side) int {
	most := w.allowance(s, d, maxTake)
	if most > 0 && d == down && !w.mayRead(s) {
		return 0
	}
	return most
}

// onMoved takes in that bytes were read from side d.
func (w *Worker) onMoved(s *session, d side, n int) {
	x := s.extras
	x.rates[d].spend(n)
	if d == up {
		w.onAnswer(s)
	} else {
		x.turn.empty = false
	}
}

// due returns when the extras of a relaying session want to be looked at, and
// false for never.
func (x *extras) due(s *session, now clock.Time) (at clock.Time, ok bool) {
	for i := range x.rates {
		if t := x.rates[i].resume; t > now && (!ok || t < at) {
			at, ok = t, true
		}
	}
	if t, waits := x.turn.due(s); waits && (!ok || t < at) {
		at, ok = t, true
	}
	return at, ok
}

// wakeBy has the session's timer fire no later than that.
func (w *Worker) wakeBy(s *session, at clock.Time) {
	if armed, ok := w.Loop.Timers.Armed(s.slot + timerSession); !ok || armed > at.Millis()+1 {
		w.setTimer(s, at)
	}
}

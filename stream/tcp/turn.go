package tcp

import (
	"sync/atomic"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/adaptive"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/loop"
	"github.com/weirlb/weir/stream/queue"
	"github.com/weirlb/weir/stream/stats"
)

// This file measures turns, and delays them where an adaptive limit says so. A
// turn begins with a client's first bytes after an answer and ends with the peer's
// first byte after them. That is a request's latency in any protocol in which the
// two sides take turns. Where the limit is reached, the bytes that would begin a
// turn stay in the client's socket.

// turn is where a session stands.
type turn struct {
	limiter *adaptive.Limiter // of the turn that is under way or waits; nil = turns are not followed
	place   queue.Place       // in the limiter's line
	token   loop.Token        // of the session
	began   clock.Time        // 0 = no turn is under way
	waiting clock.Time        // in line since; 0 = not
	granted atomic.Bool       // one that waits has been given its slot
	slot    bool              // the turn counts against the limit
	empty   bool              // nothing was read since it began
}

// turnPatience is how long a turn may go without an answer before it is given up:
// so many times the target, and no less than that. What is under way for longer
// may be something that is not answered at all.
const (
	turnPatience        = 10 * time.Second
	turnPatienceTargets = 20
)

func followsTurns(l *adaptive.Limiter) bool { return l.Conf().Measure == conf.MeasureTurn }

func (t *turn) begin(s *session) {
	t.token, t.began, t.waiting, t.slot = s.token(down), 0, 0, false
	t.aim(s)
}

// aim has the next turn follow the upstream's present limit, which a reload may have
// changed.
func (t *turn) aim(s *session) {
	if t.limiter = s.listener.Group.Limiter(); t.limiter != nil && !followsTurns(t.limiter) {
		t.limiter = nil
	}
}

// mayRead reports whether the client's bytes may be read, and begins a turn if so.
func (w *Worker) mayRead(s *session) bool {
	t := &s.extras.turn
	switch {
	case t.began != 0:
		return true
	case s.half[down].broken() && t.waiting != 0:
		// The client has given up. What it has asked for is not asked of the server.
		w.abandonTurn(s)
		s.half[down].ended = true
		return false
	case s.half[down].broken():
		return true // to find its end
	case t.waiting != 0:
		return false
	}
	t.aim(s)
	switch {
	case t.limiter == nil:
		return true
	case t.limiter.Conf().ApplyTo == conf.LimitSessions:
		w.startTurn(s, false)
		return true
	case t.limiter.Enter() || w.getInLine(s):
		w.startTurn(s, true)
		return true
	}
	t.waiting = w.Loop.Now()
	w.wakeBy(s, t.waiting.Add(s.listener.Group.QueueTimeout()))
	return false
}

// getInLine returns true if there is a slot after all.
func (w *Worker) getInLine(s *session) bool {
	t := &s.extras.turn
	t.granted.Store(false)
	return t.limiter.Wait(&t.place, s.listener.Priority)
}

func (w *Worker) startTurn(s *session, slot bool) {
	t := &s.extras.turn
	t.began, t.slot, t.empty = w.Loop.Now(), slot, true
	w.wakeBy(s, t.began.Add(t.patience()))
}

func (t *turn) patience() time.Duration {
	return max(turnPatience, turnPatienceTargets*t.limiter.Conf().Target)
}

// onTurnGranted has a session read whose turn has come in the line.
func (w *Worker) onTurnGranted(s *session) {
	x := s.extras
	if x == nil || x.turn.waiting == 0 || !x.turn.granted.Load() {
		return // it has left meanwhile
	}
	w.endTurnWait(s)
	w.startTurn(s, true)
	if !s.packed && !s.putOff {
		w.advance(s)
	}
}

func (w *Worker) endTurnWait(s *session) {
	t := &s.extras.turn
	s.listener.Group.Stats(w.opt.ID).TurnWait.Observe(w.Loop.Now().Sub(t.waiting))
	t.waiting = 0
}

// readNothing ends a turn that has turned out to be none: there was nothing to
// read.
func (w *Worker) readNothing(s *session) {
	if t := &s.extras.turn; t.began != 0 && t.empty {
		w.endTurn(s)
	}
}

// onAnswer ends the turn that is under way: the peer has said something.
func (w *Worker) onAnswer(s *session) {
	t := &s.extras.turn
	if t.began == 0 {
		return
	}
	took := w.Loop.Now().Sub(t.began)
	if t.slot {
		t.limiter.Answered(took)
	} else {
		t.limiter.Observe(took, s.listener.Group.Conns())
	}
	w.endTurn(s)
}

func (w *Worker) endTurn(s *session) {
	t := &s.extras.turn
	t.began = 0
	if t.slot {
		t.slot = false
		t.limiter.Leave()
	}
}

// abandonTurn ends whatever the session has to do with turns, but for what it may
// begin later.
func (w *Worker) abandonTurn(s *session) {
	t := &s.extras.turn
	if t.limiter == nil {
		return
	}
	if t.waiting != 0 {
		w.endTurnWait(s)
		if t.limiter.Cancel(&t.place) {
			t.limiter.Leave()
		}
	}
	if t.began != 0 {
		w.endTurn(s)
	}
}

// due returns when a turn, or the wait for it, is to be given up.
func (t *turn) due(s *session) (at clock.Time, ok bool) {
	switch {
	case t.waiting != 0:
		return t.waiting.Add(s.listener.Group.QueueTimeout()), true
	case t.began != 0:
		return t.began.Add(t.patience()), true
	}
	return 0, false
}

// onTurnDue gives up what is due, and returns false if the session was closed.
func (w *Worker) onTurnDue(s *session) bool {
	t := &s.extras.turn
	at, ok := t.due(s)
	if !ok || w.Loop.Now() < at {
		return true
	}
	if t.waiting != 0 {
		w.close(s, stats.QueueTimeout)
		return false
	}
	s.listener.Group.Stats(w.opt.ID).Unanswered.Add(1)
	if t.slot {
		t.limiter.Unanswered()
	}
	w.endTurn(s)
	return true
}

package adaptive

import (
	"math"

	"github.com/weirlb/weir/stream/queue"
)

// Turns under way and turns that wait are counted in one word: the lower half holds
// the slots that are taken, the upper half the length of the line.
//
// That one word is why no wake-up is lost. A waiter gets in line by an addition to
// the word, a slot comes back by a subtraction from it, and one of both is first. If
// it is the slot, the waiter's addition returns a count without it, and he takes it
// himself. If it is the waiter, the subtraction returns a word with a line, and who
// gives back the slot hands it on. The limit is another variable: who raises it
// stores it first and looks at the word then, a waiter gets in line first and looks
// at the limit then. Go's atomics are in one order for all, so that at least one of
// them sees what the other has done. Handing on is done under the mutex and takes
// what is free then; who comes second finds nothing to do.

const (
	oneTurn   = 1
	oneWaiter = 1 << 32
)

func inFlight(s uint64) int { return int(uint32(s)) }
func waiting(s uint64) int  { return int(s >> 32) }

// Enter takes a slot, if one is free and nobody waits for it. While the limit is not
// enforced it always does.
func (l *Limiter) Enter() bool {
	for {
		s, limit := l.slots.Load(), l.Limit()
		if inFlight(s) >= limit || waiting(s) > 0 && limit != math.MaxInt {
			return false
		}
		if l.slots.CompareAndSwap(s, s+oneTurn) {
			return true
		}
	}
}

// Wait puts p in line for a slot. It returns true if p has one at once, and is not in
// line then. Otherwise p.Wake is called as soon as a slot is p's, by another
// goroutine, with a mutex held: it must neither block nor call the limiter. If it
// is not to wait any longer, Cancel must be called.
func (l *Limiter) Wait(p *queue.Place, priority int) (entered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line.Push(p, priority)
	l.slots.Add(oneWaiter)
	l.handOnLocked(p)
	return !p.In()
}

// Cancel takes p out of the line. It returns true if p has been given a slot in the
// meantime, which the caller must Leave. Preconditions: Wait has returned false, and
// nobody has acted on Wake since.
func (l *Limiter) Cancel(p *queue.Place) (entered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.line.Remove(p) {
		return true
	}
	l.slots.Add(^uint64(oneWaiter - 1))
	return false
}

// Leave gives a slot back, and hands on what is free to those who wait: nothing, if
// the limit has shrunk below what is under way.
func (l *Limiter) Leave() {
	s := l.slots.Add(^uint64(0))
	if uint32(s) == math.MaxUint32 {
		panic("adaptive: more turns have left than entered")
	}
	if waiting(s) > 0 {
		l.handOn()
	}
}

// handOn gives the free slots to those who wait.
func (l *Limiter) handOn() {
	if waiting(l.slots.Load()) == 0 {
		return
	}
	l.mu.Lock()
	l.handOnLocked(nil)
	l.mu.Unlock()
}

// handOnLocked gives the free slots to those who wait, and wakes them, but for self.
// Preconditions: mu is held.
func (l *Limiter) handOnLocked(self *queue.Place) {
	for l.line.Len() > 0 {
		s := l.slots.Load()
		if inFlight(s) >= l.Limit() {
			return
		}
		if !l.slots.CompareAndSwap(s, s-oneWaiter+oneTurn) {
			continue
		}
		if p := l.line.Pop(); p != self {
			p.Wake()
		}
	}
}

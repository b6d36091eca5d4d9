package tcp

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/loop"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/upstream"
)

// This file has sessions wait for a peer: in the upstream's queue until there is
// room, and between two attempts (next_upstream.backoff).

// walk is what a session needs on its way to a peer: its attempts, and how it is
// found when its turn in the queue has come. The worker lends it.
type walk struct {
	upstream.Attempts
	token   loop.Token
	waiting clock.Time  // in the queue since; 0 = not in it
	called  atomic.Bool // its turn has come, and it has not gone on yet
}

// roused are the sessions that shall go on: their turn in a queue has come. Other
// workers put them there.
type roused struct {
	mu    sync.Mutex
	list  []loop.Token // guarded by mu
	spare []loop.Token // owned by the loop's thread
	post  func()       // made once
}

// rouse has a session of this worker go on, soon and on its own thread. Any
// goroutine may call it; it does not block.
func (w *Worker) rouse(t loop.Token) {
	r := &w.roused
	r.mu.Lock()
	r.list = append(r.list, t)
	first := len(r.list) == 1
	r.mu.Unlock()
	if first {
		w.Loop.Mailbox.Post(r.post)
	}
}

// goOn has roused sessions go on.
func (w *Worker) goOn() {
	r := &w.roused
	r.mu.Lock()
	list := r.list
	r.list = r.spare[:0]
	r.mu.Unlock()
	for _, t := range list {
		s := w.sessions.Get(t.Slot(), t.Generation())
		switch {
		case s == nil: // gone, and its place with it
		case s.phase == queued:
			if s.walk.called.Swap(false) { // else it was for a turn that it has given up
				w.connect(s)
			}
		case s.phase == relaying:
			w.onTurnGranted(s)
		}
	}
	r.spare = list
}

// borrowWalk lends what a session needs until it is connected.
func (w *Worker) borrowWalk(s *session) *walk {
	var k *walk
	if n := len(w.walks); n > 0 {
		k, w.walks = w.walks[n-1], w.walks[:n-1]
	} else {
		k = new(walk)
		k.OnTurn(func() {
			k.called.Store(true)
			w.rouse(k.token)
		})
	}
	k.token, k.waiting = s.token(down), 0
	k.called.Store(false)
	return k
}

// await has a session stay in the queue, into which its pick has put it.
func (w *Worker) await(s *session) {
	now := w.Loop.Now()
	if s.walk.waiting == 0 {
		s.walk.waiting = now
	}
	s.setPhase(queued)
	if s.half[down].hungUp {
		w.leaveEarly(s)
		return
	}
	w.setTimer(s, s.walk.waiting.Add(s.listener.Group.QueueTimeout()))
}

// endWait counts how long a session has been in the queue.
func (w *Worker) endWait(s *session) {
	if k := s.walk; k.waiting != 0 {
		s.listener.Group.Stats(w.opt.ID).QueueWait.Observe(w.Loop.Now().Sub(k.waiting))
		k.waiting = 0
	}
}

// leaveQueue takes a session out of the queue that is not going to pick any more.
func (w *Worker) leaveQueue(s *session) {
	if s.phase == queued {
		s.listener.Group.Leave(&s.walk.Attempts)
		w.endWait(s)
	}
}

// leaveEarly ends a session whose client goes away while it waits for a peer. An
// end of input counts as that: of a client that was killed there is nothing else
// to see, and its place is wanted.
func (w *Worker) leaveEarly(s *session) {
	r := stats.ClientClosed
	if s.half[down].broken() {
		r = stats.ClientReset
	}
	w.close(s, r)
}

// longestBackoff bounds the growing waits.
const longestBackoff = time.Minute

// backoff returns how long the session waits before its next attempt: nothing
// before its second, then a random part of a span that doubles ("full jitter" in
// M. Brooker, "Exponential Backoff And Jitter", 2015).
func (s *session) backoff() time.Duration {
	first := s.listener.Backoff
	if first == 0 || s.tries < 2 {
		return 0
	}
	span := longestBackoff
	if doublings := int(s.tries) - 2; doublings < 16 {
		span = min(first<<doublings, max(longestBackoff, first))
	}
	return rand.N(span + 1)
}

package adaptive

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/queue"
)

func TestSlotsGoByPriorityInOrder(t *testing.T) {
	l := New(fixed(2), nil)
	for i := range 3 {
		if l.Enter() != (i < 2) {
			t.Fatalf("the limit is not 2: turn %d", i)
		}
	}
	var order []int
	var places [5]queue.Place
	for i, priority := range []int{3, 1, 3, 0, 1} {
		places[i].Wake = func() { order = append(order, i) }
		if l.Wait(&places[i], priority) {
			t.Fatal("a slot for one who waits")
		}
	}
	if l.Cancel(&places[4]) || l.Read().Waiting != 4 {
		t.Errorf("one has left the line: %+v", l.Read())
	}
	for range 3 {
		l.Leave()
		if r := l.Read(); r.InFlight != 2 {
			t.Errorf("a slot is handed on, and %d are taken", r.InFlight)
		}
	}
	if fmt.Sprint(order) != "[3 1 0]" {
		t.Errorf("woken in the order %v", order)
	}
	if !l.Cancel(&places[0]) {
		t.Error("one who has been given a slot does not get to know it")
	}
	l.Leave()
	l.Leave()
	l.Leave()
	if r := l.Read(); r.InFlight != 0 || r.Waiting != 0 || fmt.Sprint(order) != "[3 1 0 2]" {
		t.Errorf("at the end %+v, woken %v", r, order)
	}
}

func TestNobodyOvertakesWhoWaits(t *testing.T) {
	c := settings(conf.AIMD)
	c.Initial = 1
	l := New(c, nil)
	l.Enter()
	var p queue.Place
	woken := false
	p.Wake = func() { woken = true }
	l.Wait(&p, 5)
	l.set(2) // nobody has been told yet
	if l.Enter() {
		t.Error("Enter takes the slot of one who waits")
	}
	l.handOn()
	if !woken {
		t.Error("one who waits is not woken")
	}
}

func TestShrunkenLimitHandsNothingOn(t *testing.T) {
	c := settings(conf.AIMD)
	c.Window = 10
	l := New(c, nil)
	for range 20 {
		l.Enter()
	}
	woken := 0
	var places [30]queue.Place
	for i := range places {
		places[i].Wake = func() { woken++ }
		l.Wait(&places[i], 1)
	}
	for range 10 {
		l.Answered(time.Second)
	}
	if l.Limit() != 18 {
		t.Fatalf("the limit is %d, want 18", l.Limit())
	}
	l.Leave()
	l.Leave()
	if r := l.Read(); woken != 0 || r.InFlight != 18 {
		t.Errorf("%d are woken beyond the limit: %+v", woken, r)
	}
	l.Leave()
	if r := l.Read(); woken != 1 || r.InFlight != 18 {
		t.Errorf("%d are woken at the limit: %+v", woken, r)
	}
	// The limit grows while all slots are taken: the new one goes to the line. The
	// first 20 were in flight when it shrank.
	for range 20 + 30 {
		l.Answered(ms)
	}
	if r := l.Read(); r.Limit != 21 || woken != 4 || r.InFlight != 21 || r.Waiting != 26 {
		t.Errorf("%d are woken after the limit has grown: %+v", woken, r)
	}
}

func TestLeaveWithoutEnterPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	New(fixed(1), nil).Leave()
}

// crowd has goroutines take turns, some of which lose their patience, and returns
// how many were under way at most. It fails the test if some do not end: a lost
// wake-up.
func crowd(t *testing.T, l *Limiter, answer func(*rand.Rand)) int {
	t.Helper()
	const goroutines, each = 8, 10_000
	var under, most, waited atomic.Int64
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 9))
			woken := make(chan struct{}, 1)
			p := &queue.Place{Wake: func() { woken <- struct{}{} }}
			for range each {
				if !l.Enter() && !l.Wait(p, rng.IntN(conf.Priorities)) {
					waited.Add(1)
					if rng.IntN(4) > 0 {
						<-woken
					} else if !l.Cancel(p) {
						continue
					} else {
						<-woken // was told, and leaves all the same
						l.Leave()
						continue
					}
				}
				n := under.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				if rng.IntN(4) == 0 {
					runtime.Gosched() // others find the slots taken
				}
				answer(rng)
				under.Add(-1)
				l.Leave()
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("some wait for ever: %+v", l.Read())
	}
	if r := l.Read(); r.InFlight != 0 || r.Waiting != 0 {
		t.Errorf("at the end: %+v", r)
	}
	if waited.Load() < 100 {
		t.Errorf("only %d turns had to wait", waited.Load())
	}
	return int(most.Load())
}

// The race that loses wake-ups: the last slot comes back while somebody gets in line,
// and nobody else comes who could put it right. Both sides poll, so that they do
// meet.
func TestLastSlotComesBackWhileSomebodyGetsInLine(t *testing.T) {
	const rounds = 10_000
	l := New(fixed(1), nil)
	var begun, left, woken atomic.Int64 // rounds
	p := &queue.Place{Wake: func() { woken.Store(begun.Load()) }}
	go func() {
		rng := rand.New(rand.NewPCG(11, 11))
		for round := int64(1); round <= rounds && reaches(&begun, round); round++ {
			spin(rng.IntN(100))
			l.Leave()
			left.Store(round)
		}
	}()
	rng := rand.New(rand.NewPCG(10, 10))
	waited := 0
	for round := int64(1); round <= rounds; round++ {
		if !l.Enter() {
			t.Fatalf("round %d: no slot: %+v", round, l.Read())
		}
		begun.Store(round)
		spin(rng.IntN(100))
		if !l.Enter() && !l.Wait(p, 1) {
			waited++
			if !reaches(&woken, round) {
				t.Fatalf("round %d: waits for ever: %+v", round, l.Read())
			}
		}
		if !reaches(&left, round) {
			t.Fatalf("round %d: the other one does not leave", round)
		}
		l.Leave()
	}
	t.Logf("%d of %d had to wait", waited, rounds)
}

// reaches polls until n is at least want, and returns false if that takes too long.
func reaches(n *atomic.Int64, want int64) bool {
	var deadline time.Time
	for i := 1; n.Load() < want; i++ {
		if i%1000 > 0 {
			continue
		}
		if deadline.IsZero() {
			deadline = time.Now().Add(20 * time.Second)
		} else if time.Now().After(deadline) {
			return false
		}
		runtime.Gosched()
	}
	return true
}

// spin takes a few nanoseconds for each n.
func spin(n int) {
	var x atomic.Int32
	for range n {
		x.Add(1)
	}
}

func TestNoSlotIsLost(t *testing.T) {
	for _, limit := range []int{1, 2, 7} {
		most := crowd(t, New(fixed(limit), nil), func(*rand.Rand) {})
		if most > limit {
			t.Errorf("%d were under way at once, the limit is %d", most, limit)
		}
	}
}

// The limit moves all the time.
func TestNoSlotIsLostWhileTheLimitMoves(t *testing.T) {
	c := settings(conf.AIMD)
	c.Window, c.Initial, c.Max = 3, 1, 6
	l := New(c, nil)
	crowd(t, l, func(rng *rand.Rand) {
		l.Answered(time.Duration(rng.IntN(220)) * ms)
	})
	if r := l.Read(); r.Windows < 1000 {
		t.Errorf("%d windows", r.Windows)
	}
}

// Enforcement comes and goes.
func TestNoSlotIsLostWhileTheGuardActs(t *testing.T) {
	var told atomic.Int64
	last := true
	l := New(fixed(2), func(enforced bool) {
		told.Add(1)
		if enforced == last {
			t.Errorf("told %v twice", enforced)
		}
		last = enforced
	})
	var n atomic.Int64
	crowd(t, l, func(*rand.Rand) {
		if n.Add(1)/100%2 == 0 {
			l.Answered(ms)
		} else {
			l.Unanswered()
		}
	})
	if told.Load() < 10 {
		t.Errorf("told %d times", told.Load())
	}
}

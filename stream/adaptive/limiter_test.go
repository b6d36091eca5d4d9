package adaptive

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/queue"
)

// fixed is a limit that does not move.
func fixed(n int) conf.AdaptiveLimit {
	c := settings(conf.AIMD)
	c.Min, c.Initial, c.Max = n, n, n
	return c
}

func TestWindowDecides(t *testing.T) {
	l := New(settings(conf.AIMD), nil)
	for i := range 300 {
		if got, want := l.Read(), i/100; int(got.Windows) != want || got.Limit != 20+want {
			t.Fatalf("after %d samples: %+v", i, got)
		}
		inflight := 3
		if i%100 == 50 {
			inflight = 15 // the peak of the window counts
		}
		l.Observe(50*ms, inflight)
	}
	for range 100 {
		l.Observe(300*ms, 3)
	}
	r := l.Read()
	if r.Limit != 20 || r.Windows != 4 || r.Latency < 295*ms || r.Latency > 305*ms || !r.Enforced {
		t.Errorf("after a slow window: %+v", r)
	}
	for range 3 { // in flight when the limit shrank
		l.Observe(300*ms, 3)
	}
	for range 1000 {
		l.Observe(50*ms, 9) // of 20: not used
	}
	if r := l.Read(); r.Limit != 20 || r.Windows != 14 {
		t.Errorf("after a calm: %+v", r)
	}
}

func TestLatencyOfTheOthersIsTheMean(t *testing.T) {
	c := settings(conf.Gradient)
	l := New(c, nil)
	for i := range c.Window {
		l.Observe(time.Duration(50+i%2*100)*ms, 1)
	}
	if r := l.Read(); r.Latency < 97*ms || r.Latency > 103*ms {
		t.Errorf("the mean of 50 and 150 ms is %v", r.Latency)
	}
}

func TestBounds(t *testing.T) {
	for _, algorithm := range algorithms {
		c := settings(algorithm)
		c.Min, c.Max = 15, 25
		l := New(c, nil)
		for range 50 * c.Window {
			l.Observe(50*ms, 50)
		}
		if got := l.Limit(); got != 25 {
			t.Errorf("%s: the limit grows to %d", algorithm, got)
		}
		for range 50 * c.Window {
			l.Observe(5000*ms, 50)
		}
		if got := l.Limit(); got != 15 {
			t.Errorf("%s: the limit shrinks to %d", algorithm, got)
		}
	}
}

func TestBeginTakesOverTheLimit(t *testing.T) {
	for _, tt := range []struct{ old, min, max, want int }{{70, 1, 1000, 70}, {70, 1, 50, 50}, {70, 80, 1000, 80}} {
		c := settings(conf.Gradient)
		c.Min, c.Initial, c.Max = tt.min, tt.min, tt.max
		l := New(c, nil)
		l.Begin(New(fixed(tt.old), nil))
		if got := l.Limit(); got != tt.want {
			t.Errorf("%d within %d..%d is %d", tt.old, tt.min, tt.max, got)
		}
	}
	l := New(fixed(5), nil)
	l.Begin(nil)
	if l.Limit() != 5 {
		t.Errorf("no earlier one, and the limit is %d", l.Limit())
	}
}

func TestGuardIsTakenOver(t *testing.T) {
	old := New(fixed(5), nil)
	for range 20 {
		old.Unanswered()
	}
	told := 0
	l := New(fixed(5), func(enforced bool) {
		if told++; !enforced {
			t.Error("told that it is not enforced")
		}
	})
	l.Begin(old)
	if l.Limit() != math.MaxInt {
		t.Error("the limit of an upstream without turns is enforced")
	}
	for range 60 {
		l.Answered(ms)
	}
	if l.Limit() != 5 || told != 1 {
		t.Errorf("with turns the limit is %d, told %d times", l.Limit(), told)
	}
	c := fixed(5)
	c.Measure = conf.MeasureConnect
	connects := New(c, nil)
	connects.Begin(old)
	if connects.Limit() != 5 {
		t.Error("a limit by connects is not enforced, for want of turns")
	}
}

func TestGuard(t *testing.T) {
	var told []bool
	l := New(fixed(1), func(enforced bool) { told = append(told, enforced) })
	if !l.Enter() || l.Enter() {
		t.Fatal("the limit is not 1")
	}
	woken := 0
	var places [3]queue.Place
	for i := range places {
		places[i].Wake = func() { woken++ }
		if l.Wait(&places[i], 1) {
			t.Fatal("a slot for one who waits")
		}
	}
	n := 0
	for l.Read().Enforced {
		l.Unanswered()
		n++
	}
	if n != 14 { // 0.95^14 is the first under a half
		t.Errorf("not enforced after %d unanswered turns, want 14", n)
	}
	if woken != 3 {
		t.Errorf("%d of 3 who wait are woken", woken)
	}
	if r := l.Read(); r.InFlight != 4 || r.Waiting != 0 || r.Limit != 1 || l.Limit() != math.MaxInt {
		t.Errorf("not enforced: %+v, limit %d", r, l.Limit())
	}
	if !l.Enter() || l.Read().InFlight != 5 {
		t.Error("not enforced, and a turn may not enter or is not counted")
	}
	var extra queue.Place
	if !l.Wait(&extra, 1) {
		t.Error("not enforced, and a turn waits")
	}
	n = 0
	for !l.Read().Enforced {
		l.Answered(ms)
		n++
	}
	if n < 15 || n > 20 { // 1 - 0.512*0.95^n is above 0.8 from n = 19 on
		t.Errorf("enforced again after %d answered turns", n)
	}
	if l.Limit() != 1 || l.Enter() {
		t.Error("enforced again, and a turn enters beyond the limit")
	}
	if len(told) != 2 || told[0] || !told[1] {
		t.Errorf("notify was told %v", told)
	}
}

// In between nothing changes: the state has a memory.
func TestGuardHysteresis(t *testing.T) {
	var g guard
	g.trust()
	changes := 0
	for range 1000 {
		for i := range 3 {
			if g.turn(i != 0) {
				changes++
			}
		}
	}
	if g.off() || changes != 0 {
		t.Errorf("two of three are answered: off %v after %d changes", g.off(), changes)
	}
	for range 30 {
		g.turn(false)
	}
	for range 1000 {
		for i := range 3 {
			g.turn(i != 0)
		}
	}
	if !g.off() {
		t.Error("two of three are answered, which is not enough to begin anew")
	}
}

func TestNotEnforcedTheLimitRests(t *testing.T) {
	l := New(settings(conf.AIMD), nil)
	for range 20 {
		l.Unanswered()
	}
	for range 500 {
		l.sample(5*time.Second, 100)
	}
	if r := l.Read(); r.Limit != 20 || r.Windows != 5 || r.Enforced {
		t.Errorf("%+v", r)
	}
}

// Several goroutines complete windows at once: none is lost or decided twice.
func TestObserveFromManyGoroutines(t *testing.T) {
	const goroutines, each = 4, 25_000
	c := settings(conf.AIMD)
	l := New(c, nil)
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range each {
				l.Observe(50*ms, 1000)
			}
		})
	}
	wg.Wait()
	r := l.Read()
	if most := goroutines * each / c.Window; int(r.Windows) > most || r.Windows < 10 {
		t.Errorf("%d windows of %d samples", r.Windows, goroutines*each)
	}
	if r.Limit != min(20+int(r.Windows), c.Max) {
		t.Errorf("limit %d after %d windows", r.Limit, r.Windows)
	}
	if n := l.window.Count(); n >= 2*c.Window {
		t.Errorf("%d samples are left", n)
	}
}

func TestNothingIsAllocated(t *testing.T) {
	for _, algorithm := range algorithms {
		c := settings(algorithm)
		c.Window = 10
		l := New(c, nil)
		var p queue.Place
		for name, f := range map[string]func(){
			"Observe":          func() { l.Observe(50*ms, 10) },
			"Enter, Leave":     func() { l.Enter(); l.Leave() },
			"Answered":         func() { l.Answered(50 * ms) },
			"Unanswered":       func() { l.Unanswered(); l.Answered(50 * ms) },
			"Limit, Read":      func() { l.Limit(); l.Read() },
			"Wait when it may": func() { l.Wait(&p, 1); l.Leave() },
		} {
			if n := testing.AllocsPerRun(1000, f); n != 0 {
				t.Errorf("%s: %s allocates %v times", algorithm, name, n)
			}
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	l := New(settings(conf.AIMD), nil)
	b.ReportAllocs()
	for b.Loop() {
		l.Observe(50*ms, 10)
	}
}

func BenchmarkEnterLeave(b *testing.B) {
	l := New(settings(conf.AIMD), nil)
	b.ReportAllocs()
	for b.Loop() {
		l.Enter()
		l.Leave()
	}
}

// A whole turn.
func BenchmarkEnterAnsweredLeave(b *testing.B) {
	l := New(settings(conf.AIMD), nil)
	b.ReportAllocs()
	for b.Loop() {
		l.Enter()
		l.Answered(50 * ms)
		l.Leave()
	}
}

// A turn that has to wait, and one that makes room for it.
func BenchmarkWaitLeave(b *testing.B) {
	l := New(fixed(1), nil)
	l.Enter()
	p := queue.Place{Wake: func() {}}
	b.ReportAllocs()
	for b.Loop() {
		l.Wait(&p, 1)
		l.Leave()
	}
}

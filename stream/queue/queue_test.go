package queue

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirlb/weir/conf"
)

func TestOrder(t *testing.T) {
	var q Queue
	var a, b, c, d, e Place
	q.Push(&a, 3)
	q.Push(&b, 1)
	q.Push(&c, 3)
	q.Push(&d, 1)
	if p, ok := q.First(); p != 1 || !ok || q.Len() != 4 {
		t.Fatalf("First() = %d, %v of %d", p, ok, q.Len())
	}
	if got := q.Pop(); got != &b || b.In() {
		t.Fatal("the first one of the lowest number is not popped")
	}
	q.Push(&e, 3)
	for _, p := range []*Place{&c, &e, &a, &b} { // could not use it
		q.Remove(p)
		q.Return(p)
	}
	for i, p := range []*Place{&b, &d, &a, &c} {
		if want := []*Place{&d, &a, &c, &e}[i]; q.Behind(p) != want {
			t.Errorf("the wrong one is behind number %d", i)
		}
	}
	if q.Behind(&e) != nil {
		t.Error("somebody is behind the last")
	}
	for i, want := range []*Place{&b, &d, &a, &c, &e} {
		if got := q.Pop(); got != want {
			t.Errorf("the wrong one is popped as number %d", i)
		}
	}
	if q.Pop() != nil || q.Len() != 0 {
		t.Error("an empty queue pops somebody")
	}
	if _, ok := q.First(); ok {
		t.Error("an empty queue has a first one")
	}
}

func TestRemove(t *testing.T) {
	var q, other Queue
	var a, b, c Place
	for _, p := range []*Place{&a, &b, &c} {
		q.Push(p, conf.Priorities-1)
	}
	if other.Remove(&b) || !b.In() {
		t.Error("removed from a queue that it is not in")
	}
	if !q.Remove(&b) || b.In() || q.Remove(&b) {
		t.Error("Remove does not tell what it did")
	}
	if q.Pop() != &a || q.Pop() != &c || q.Pop() != nil {
		t.Error("the others are not in order")
	}
}

func TestPushedTwicePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	var q Queue
	var a Place
	q.Push(&a, 0)
	q.Push(&a, 1)
}

// The lists are compared with slices.
func TestAgainstSlices(t *testing.T) {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, seed))
	var q Queue
	var lines [conf.Priorities][]*Place
	places := make([]Place, 60)
	first := func() *Place {
		for _, l := range lines {
			if len(l) > 0 {
				return l[0]
			}
		}
		return nil
	}
	drop := func(p *Place) {
		for i := range lines {
			lines[i] = slices.DeleteFunc(lines[i], func(x *Place) bool { return x == p })
		}
	}
	for step := range 50_000 {
		p := &places[rng.IntN(len(places))]
		priority := rng.IntN(conf.Priorities)
		in := slices.ContainsFunc(lines[:], func(l []*Place) bool { return slices.Contains(l, p) })
		if p.In() != in {
			t.Fatalf("seed %d step %d: In() = %v", seed, step, p.In())
		}
		switch op := rng.IntN(4); {
		case op == 0:
			want := first()
			if got := q.Pop(); got != want {
				t.Fatalf("seed %d step %d: the wrong one is popped", seed, step)
			}
			drop(want)
		case op == 1:
			if q.Remove(p) != in {
				t.Fatalf("seed %d step %d: Remove returned %v", seed, step, !in)
			}
			drop(p)
		case in:
		case op == 2:
			q.Push(p, priority)
			lines[priority] = append(lines[priority], p)
		case p.number == 0: // it has not been there yet
		default:
			i := p.priority
			q.Return(p)
			lines[i] = append(lines[i], p)
			slices.SortStableFunc(lines[i], func(a, b *Place) int { return cmp.Compare(a.number, b.number) })
		}
		n := 0
		for _, l := range lines {
			n += len(l)
		}
		if q.Len() != n {
			t.Fatalf("seed %d step %d: Len() = %d, want %d", seed, step, q.Len(), n)
		}
	}
}

func TestNothingIsAllocated(t *testing.T) {
	var q Queue
	var a, b Place
	n := testing.AllocsPerRun(1000, func() {
		q.Push(&a, 2)
		q.Push(&b, 2)
		q.Remove(&a)
		q.Return(&a)
		q.Pop()
		q.Pop()
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPushPop(b *testing.B) {
	var q Queue
	places := make([]Place, 1000)
	for i := range places {
		q.Push(&places[i], i%conf.Priorities)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		q.Push(q.Pop(), i%conf.Priorities)
		i++
	}
}

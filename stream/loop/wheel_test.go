package loop

import (
	"math/rand/v2"
	"sort"
	"testing"
	"time"
)

// The wheel is held against an obvious model: a map of deadlines.
func TestWheelAgainstModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	now := int64(1) << 41
	w := NewWheel(now)
	model := map[int32]int64{}
	reach := []int64{1, 5, 63, 64, 65, 5000, 300_000, 1 << 30, 1 << 37}
	for range 20_000 {
		id := rnd.Int32N(200)
		switch rnd.IntN(4) {
		case 0, 1:
			at := now + rnd.Int64N(reach[rnd.IntN(len(reach))]) - 2
			w.Set(id, at)
			model[id] = min(max(at, now+1), now+wheelSpan)
		case 2:
			w.Cancel(id)
			delete(model, id)
		case 3:
			if next, ok := w.Next(); ok != (len(model) > 0) {
				t.Fatalf("Next says armed=%v, model has %d", ok, len(model))
			} else if ok {
				for id, at := range model {
					if at < next {
						t.Fatalf("Next is %d, but %d is due at %d", next, id, at)
					}
				}
			}
			now += rnd.Int64N(reach[rnd.IntN(len(reach)-1)])
			var got []int32
			w.Advance(now, func(id int32) {
				if model[id] > now {
					t.Fatalf("%d fired at %d, due at %d", id, now, model[id])
				}
				got = append(got, id)
			})
			want := 0
			for id, at := range model {
				if at <= now {
					want++
					delete(model, id)
				}
			}
			if len(got) != want {
				t.Fatalf("%d fired, want %d", len(got), want)
			}
		}
		if w.Len() != len(model) {
			t.Fatalf("wheel holds %d, model %d", w.Len(), len(model))
		}
		for id, at := range model {
			if got, ok := w.Armed(id); !ok || got != at {
				t.Fatalf("%d armed at %d (%v), want %d", id, got, ok, at)
			}
		}
	}
}

func TestWheelFireMaySetAndCancel(t *testing.T) {
	w := NewWheel(1000)
	for id := range int32(10) {
		w.Set(id, 1005)
	}
	var fired []int
	w.Advance(1005, func(id int32) {
		fired = append(fired, int(id))
		for other := range int32(10) { // each cancels its neighbours to the left
			if other < id {
				w.Cancel(other)
			}
		}
		if id == 9 {
			w.Set(9, 1007)
		}
	})
	if len(fired) == 0 || w.Len() != 1 {
		t.Fatalf("fired %v, %d armed, want one re-armed", fired, w.Len())
	}
	fired = nil
	w.Advance(1006, func(id int32) { fired = append(fired, int(id)) })
	if len(fired) != 0 {
		t.Fatalf("fired %v a millisecond early", fired)
	}
	w.Advance(1007, func(id int32) { fired = append(fired, int(id)) })
	if len(fired) != 1 || fired[0] != 9 {
		t.Fatalf("fired %v, want [9]", fired)
	}
}

func TestWheelFiresInOrderOfTime(t *testing.T) {
	w := NewWheel(0)
	at := []int64{70_000, 3, 64, 4096, 65, 4097, 300_000, 1}
	for id, ms := range at {
		w.Set(int32(id), ms)
	}
	var got []int64
	w.Advance(1<<20, func(id int32) { got = append(got, at[id]) })
	if len(got) != len(at) || !sort.SliceIsSorted(got, func(i, j int) bool { return got[i] < got[j] }) {
		t.Fatalf("fired at %v", got)
	}
}

func TestWheelAllocatesNothing(t *testing.T) {
	w := NewWheel(0)
	w.Set(1000, 1)
	now := int64(0)
	if n := testing.AllocsPerRun(100, func() {
		for id := range int32(1000) {
			w.Set(id, now+int64(id)*7+1)
			w.Set(id, now+int64(id)*3+1)
		}
		now += 10_000
		w.Advance(now, func(int32) {})
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkWheelRearm(b *testing.B) {
	w := NewWheel(0)
	for id := range int32(10_000) {
		w.Set(id, int64(id)+1000)
	}
	id := int32(0)
	for b.Loop() {
		w.Set(id%10_000, int64(id)+600_000)
		id++
	}
}

package stats

import (
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	var h Histogram
	last := len(Bounds)
	for _, c := range []struct {
		took time.Duration
		want int // bucket
	}{
		{-time.Nanosecond, 0}, {0, 0}, {100 * time.Microsecond, 0}, {100*time.Microsecond + 1, 1}, {time.Millisecond, 3},
		{3 * time.Millisecond, 5}, {10 * time.Second, last - 1}, {10*time.Second + 1, last}, {time.Hour, last},
	} {
		var before, after Durations
		before.Add(&h)
		h.Observe(c.took)
		after.Add(&h)
		if after.Counts[c.want] != before.Counts[c.want]+1 || after.Sum-before.Sum != c.took {
			t.Errorf("%v is not in bucket %d: %v", c.took, c.want, after)
		}
	}
	for i := 1; i < last; i++ {
		if Bounds[i] <= Bounds[i-1] {
			t.Errorf("bound %d is not above the one before", i)
		}
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for p := range Path(Paths) {
		seen[p.String()] = true
	}
	for d := range Direction(Directions) {
		seen[d.String()] = true
	}
	for r := range CloseReason(Reasons) {
		seen[r.String()] = true
	}
	if seen[""] || len(seen) != Paths+Directions+Reasons {
		t.Errorf("a name is missing or twice there: %v", seen)
	}
}

func BenchmarkObserve(b *testing.B) {
	var h Histogram
	b.ReportAllocs()
	for b.Loop() {
		h.Observe(700 * time.Microsecond)
	}
}

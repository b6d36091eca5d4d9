package latency

import (
	"sync/atomic"
	"time"
)

const (
	generation = 1000 // samples after which the next one begins
	fewest     = 50   // samples that a percentile needs
	stale      = 64   // samples after which an answer is worked out anew
)

// Recent holds the latest 1000 to 2000 samples.
//
// They are counted in generations of 1000: a percentile is that of the present one
// and the one before. The third is empty and waits to be the next. It was emptied
// when the present one began, so that nobody counts in what somebody else empties.
type Recent struct {
	n       atomic.Uint64 // samples since ever; tells the present generation
	cells   [3]cells
	answers [4]atomic.Pointer[answer] // for as many different quantiles
}

// answer is a percentile that was worked out.
type answer struct {
	q  float64
	at uint64 // samples since ever
	d  time.Duration
}

// Observe adds a sample.
func (r *Recent) Observe(d time.Duration) {
	n := r.n.Add(1) - 1
	g := n / generation
	if n%generation == 0 {
		next := &r.cells[(g+1)%3]
		for i := range next {
			next[i].Store(0)
		}
	}
	r.cells[g%3][bucket(d)].Add(1)
}

// Quantile returns the value at q of the recent samples, as it was at most 64
// samples ago, and false if there are fewer than 50. Working it out takes some
// microseconds and allocates; four different quantiles are remembered, more are
// right but slow.
func (r *Recent) Quantile(q float64) (d time.Duration, ok bool) {
	n := r.n.Load()
	if n < fewest {
		return 0, false
	}
	place := &r.answers[n%uint64(len(r.answers))] // that of another one, if all are taken
	for i := range r.answers {
		a := r.answers[i].Load()
		if a == nil {
			place = &r.answers[i]
			break
		}
		if a.q == q {
			// The difference is negative if somebody has just worked it out.
			if int64(n-a.at) < stale {
				return a.d, true
			}
			place = &r.answers[i]
			break
		}
	}
	var both counts
	total := 0
	g := (n - 1) / generation
	for _, c := range []*cells{&r.cells[g%3], &r.cells[(g+2)%3]} {
		for i := range c {
			k := c[i].Load()
			both[i] += k
			total += int(k)
		}
	}
	if total == 0 {
		return 0, false // all are on their way into the buckets
	}
	d = both.quantile(q, total)
	place.Store(&answer{q, n, d})
	return d, true
}

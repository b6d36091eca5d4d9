package latency

import (
	"sync/atomic"
	"time"
)

// Window collects samples until they are taken out.
type Window struct {
	n     atomic.Int64 // of samples; follows cells, see Take
	cells cells
}

// Observe adds a sample.
func (w *Window) Observe(d time.Duration) {
	w.cells[bucket(d)].Add(1)
	w.n.Add(1)
}

// Count returns how many samples there are, without those whose Observe has not
// returned yet.
func (w *Window) Count() int { return max(int(w.n.Load()), 0) }

// Take empties the window and returns the quantile q and the mean of its samples,
// and their number. Without any, all are 0. A sample that comes meanwhile is in
// this window or in the next one: each bucket is emptied in one step.
func (w *Window) Take(q float64) (quantile, mean time.Duration, n int) {
	var taken counts
	var sum float64
	for i := range w.cells {
		if w.cells[i].Load() == 0 {
			continue // most are; a load is cheaper than a swap
		}
		k := w.cells[i].Swap(0)
		taken[i] = k
		n += int(k)
		sum += float64(k) * float64(middle(i))
	}
	if n == 0 {
		return 0, 0, 0
	}
	// This may go below 0, until the Observe whose sample was taken counts it.
	w.n.Add(int64(-n))
	return taken.quantile(q, n), time.Duration(sum / float64(n)), n
}

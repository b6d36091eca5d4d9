package stats

import (
	"sync/atomic"
	"time"
)

// Upstream is what one worker counts of one upstream.
type Upstream struct {
	NoPeer  atomic.Uint64 // picks that found no eligible peer
	Connect Histogram     // from pick to connected; TCP

	Retries       atomic.Uint64 // attempts after the first
	RetriesDenied atomic.Uint64 // that circuit_breaker.max_retries did not allow
	Hedges        atomic.Uint64 // second attempts beside one that was not done
	HedgesWon     atomic.Uint64 // of these, those that connected first
	HedgesLost    atomic.Uint64 // and those that did not
	HedgesDenied  atomic.Uint64 // that hedge.max did not allow, or for which there was no peer
	QueueWait     Histogram     // of the sessions that waited in the queue, however that ended
	TurnWait      Histogram     // of turns that adaptive_limit made wait
	Unanswered    atomic.Uint64 // turns given up for want of an answer

	_ [64]byte
}

// Bounds are the upper bounds of a Histogram's buckets. A duration that is above
// the last falls into one more bucket.
var Bounds = [...]time.Duration{
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
}

// Histogram counts durations by size.
type Histogram struct {
	counts [len(Bounds) + 1]atomic.Uint64
	sum    atomic.Int64 // nanoseconds
}

// Observe counts one duration.
func (h *Histogram) Observe(d time.Duration) {
	i := 0
	for i < len(Bounds) && d > Bounds[i] { // most connects end in the first few
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// Durations is the sum of histograms at one moment.
type Durations struct {
	Counts [len(Bounds) + 1]uint64 // by bucket, each on its own
	Sum    time.Duration
}

// Add adds what a histogram holds.
func (d *Durations) Add(h *Histogram) {
	for i := range h.counts {
		d.Counts[i] += h.counts[i].Load()
	}
	d.Sum += time.Duration(h.sum.Load())
}

package latency

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	perOctaveBits = 5
	perOctave     = 1 << perOctaveBits // buckets for each power of two: 3.1 % wide at its begin
	lowest        = 10                 // the first octave begins at 2^10 ns
	octaves       = 26                 // and the last one ends at 2^36 ns
	buckets       = octaves * perOctave
)

// cells are the buckets, counted in by any goroutine.
type cells [buckets]atomic.Uint32

// counts are what was read from cells.
type counts [buckets]uint32

// bucket returns the number of the bucket that d belongs to.
func bucket(d time.Duration) int {
	v := uint64(max(d, 1<<lowest))
	octave := bits.Len64(v) - 1 - lowest
	if octave >= octaves {
		return buckets - 1
	}
	// The bits below the highest one tell the place within the octave.
	return octave<<perOctaveBits | int(v>>(octave+lowest-perOctaveBits))&(perOctave-1)
}

// middle returns the middle of a bucket.
func middle(i int) time.Duration {
	width := time.Duration(1) << (i/perOctave + lowest - perOctaveBits)
	return time.Duration(perOctave+i%perOctave)*width + width/2
}

// quantile returns the value at q of the n samples that were counted, by nearest
// rank. Preconditions: n is their sum and above 0.
func (c *counts) quantile(q float64, n int) time.Duration {
	const rounding = 1e-9 // 0.07 * 100 is more than 7 in binary
	rank := max(int(math.Ceil(q*float64(n)-rounding)), 1)
	for i, k := range c {
		if rank -= int(k); rank <= 0 {
			return middle(i)
		}
	}
	return middle(buckets - 1)
}

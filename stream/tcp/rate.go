package tcp

import (
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/clock"
)

// This file slows a flow down to upload_rate or download_rate: nothing is read
// from its socket until its bucket holds enough, so that TCP slows the sender
// down. An idle session costs nothing, a waiting one a timer for each refill.

const (
	// burstTime is how much of a rate a bucket holds: what a flow may move at once
	// after it was idle, and at its begin.
	burstTime = 100 * time.Millisecond
	// refillTime is how much it waits for when it is empty: a flow is looked at 20
	// times a second, whatever its rate.
	refillTime = burstTime / 2
)

// bucket is a token bucket of bytes; one that holds less than one byte of credit is
// empty.
type bucket struct {
	rate   conf.ByteRate // 0 = no limit
	credit float64       // bytes
	filled clock.Time    // when credit was last reckoned
	resume clock.Time    // the flow stands still until then; 0 = it does not
}

func (b *bucket) start(rate conf.ByteRate, now clock.Time) {
	*b = bucket{rate: rate, filled: now}
	b.credit = b.most()
}

// most is what the bucket holds when it is full, and refill what an empty one waits
// for: whole bytes at the lowest rates.
func (b *bucket) most() float64   { return max(float64(b.rate)*burstTime.Seconds(), 2) }
func (b *bucket) refill() float64 { return max(float64(b.rate)*refillTime.Seconds(), 1) }

// allow returns how many bytes may move now; 0 = none before b.resume.
func (b *bucket) allow(now clock.Time) int {
	if b.resume > now {
		return 0
	}
	b.resume = 0
	b.credit = min(b.credit+float64(b.rate)*now.Sub(b.filled).Seconds(), b.most())
	b.filled = now
	if b.credit >= 1 {
		return int(min(b.credit, 1<<30))
	}
	lacks := b.refill() - b.credit
	b.resume = now.Add(max(time.Duration(lacks/float64(b.rate)*float64(time.Second)), time.Millisecond))
	return 0
}

// spend takes bytes out that have moved.
func (b *bucket) spend(n int) { b.credit -= float64(n) }

// allowance returns how many bytes the flow from side d may move now, no more than
// so many. If it is none, the session is looked at again when some may.
func (w *Worker) allowance(s *session, d side, most int) int {
	b := &s.extras.rates[d]
	if b.rate == 0 {
		return most
	}
	waited := b.resume != 0
	n := b.allow(w.Loop.Now())
	if n == 0 {
		if !waited {
			s.counted.Slowed[d.to()].Add(1)
		}
		w.wakeBy(s, b.resume)
	}
	return min(n, most)
}

// slowed reports whether the flow from side d stands still until its rate allows
// more: the session's timer will tell.
func (s *session) slowed(d side) bool { return s.extras != nil && s.extras.rates[d].resume != 0 }

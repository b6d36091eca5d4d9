package adaptive

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/latency"
	"github.com/weirlb/weir/stream/queue"
)

// algorithm decides on a limit after each window. It is called by one goroutine at
// a time.
type algorithm interface {
	// decide returns the next limit, which the caller bounds. The limit has a
	// fraction, for steps that are smaller than 1.
	decide(limit float64, m measured) float64
}

// measured is a window of samples.
type measured struct {
	n        int           // samples
	quantile time.Duration // at the configured percentile
	mean     time.Duration
	peak     int // the most that any sample has seen in flight
}

// Limiter is one adaptive limit.
type Limiter struct {
	// Immutable.
	conf      conf.AdaptiveLimit
	notify    func(enforced bool) // nil = nobody wants to know
	algorithm algorithm           // its state belongs to who has set deciding

	// Atomic, any goroutine.
	window   latency.Window
	peak     atomic.Int64 // the most in flight since the last decision
	before   atomic.Int64 // samples to come of those who were in flight when the limit shrank
	deciding atomic.Bool  // somebody is; he owns exact
	limit    atomic.Int64
	latency  atomic.Int64 // nanoseconds
	windows  atomic.Uint64
	guard    guard
	slots    atomic.Uint64 // see turns.go

	exact float64 // limit with its fraction

	mu     sync.Mutex
	line   queue.Queue // guarded by mu
	silent bool        // guarded by mu; notify was told that the limit is not enforced
}

// New returns a limiter that begins with c.Initial. Preconditions: the bounds in c are
// as conf says. notify is told when the limit is
// not enforced any more, and when it is again; it may be nil. It is called by the
// goroutine that finds out, with a mutex held: it must neither block nor call the
// limiter.
func New(c conf.AdaptiveLimit, notify func(enforced bool)) *Limiter {
	l := &Limiter{conf: c, notify: notify}
	switch c.Algorithm {
	case conf.AIMD:
		l.algorithm = aimd{target: c.Target, backoff: c.Backoff}
	case conf.Gradient:
		l.algorithm = &gradient{}
	case conf.Vegas:
		l.algorithm = &vegas{lot: rand.Float64}
	default:
		panic("adaptive: no such algorithm: " + string(c.Algorithm))
	}
	l.guard.trust()
	l.set(float64(c.Initial))
	return l
}

// Begin makes the present limit of an earlier limiter this one's, within its own
// bounds. What the earlier one knew of latencies is not taken over; what its guard
// knew is, if both measure turns. Turns under way stay with the limiter that they
// have entered. Preconditions: l is not in use yet. A nil old changes nothing.
func (l *Limiter) Begin(old *Limiter) {
	if old == nil {
		return
	}
	l.set(float64(old.limit.Load()))
	if l.conf.Measure == conf.MeasureTurn && old.conf.Measure == conf.MeasureTurn {
		l.guard.word.Store(old.guard.word.Load())
		l.silent = l.guard.off()
	}
}

// Start makes limit the present one, within the bounds. Preconditions: l is not in use
// yet.
func (l *Limiter) Start(limit int) { l.set(float64(limit)) }

// Conf returns what the limiter was made from.
func (l *Limiter) Conf() conf.AdaptiveLimit { return l.conf }

// Limit returns how many sessions or turns may be in flight now: math.MaxInt while
// the limit is not enforced.
func (l *Limiter) Limit() int {
	if l.guard.off() {
		return math.MaxInt
	}
	return int(l.limit.Load())
}

// Observe takes in a latency, and how many sessions or turns were in flight then,
// the observed one included. Where turns are measured, it is an answered one.
// Whoever completes a window decides on the limit, and may wake those who wait for
// a slot; nobody else waits for that.
func (l *Limiter) Observe(took time.Duration, inflight int) {
	if l.conf.Measure == conf.MeasureTurn {
		l.judge(true)
	}
	l.sample(took, inflight)
}

// Answered takes in that a turn had its answer. Preconditions: the turn has not left
// yet.
func (l *Limiter) Answered(took time.Duration) {
	l.judge(true)
	l.sample(took, inFlight(l.slots.Load()))
}

// Unanswered takes in that a turn was given up without an answer.
func (l *Limiter) Unanswered() { l.judge(false) }

// sample takes in a latency.
func (l *Limiter) sample(took time.Duration, inflight int) {
	// Who was in flight when the limit shrank tells of the load before. Without this
	// every step down would be at least two, as TCP's would if it did not shrink its
	// window once in a round trip only (RFC 5681, RFC 6582).
	if l.before.Load() > 0 && l.before.Add(-1) >= 0 {
		return
	}
	for {
		peak := l.peak.Load()
		if int64(inflight) <= peak || l.peak.CompareAndSwap(peak, int64(inflight)) {
			break
		}
	}
	l.window.Observe(took)
	grown := false
	// Samples that come while somebody decides are in the next window. He looks
	// again afterwards, for those who have completed it and found him deciding.
	complete := max(l.conf.Window, 1)
	for l.window.Count() >= complete && l.deciding.CompareAndSwap(false, true) {
		if l.window.Count() >= complete && l.decide() { // nobody has taken it in between
			grown = true
		}
		l.deciding.Store(false)
	}
	if grown {
		l.handOn()
	}
}

// decide takes the window and sets the limit. It reports whether that has grown.
// Preconditions: the caller has set deciding, and the window is complete.
func (l *Limiter) decide() (grown bool) {
	// The peak first: samples that come in between may count in a peak too many, and
	// never in none.
	peak := int(l.peak.Swap(0))
	quantile, mean, n := l.window.Take(l.conf.Percentile)
	m := measured{n, quantile, mean, peak}
	l.windows.Add(1)
	if l.conf.Algorithm == conf.AIMD {
		l.latency.Store(int64(quantile))
	} else {
		l.latency.Store(int64(mean))
	}
	if l.guard.off() {
		return false // a latency that the limit has no part in says nothing about it
	}
	old := l.limit.Load()
	l.set(l.algorithm.decide(l.exact, m))
	limit := l.limit.Load()
	if limit < old {
		l.before.Store(int64(m.peak))
	}
	return limit > old
}

// set sets the limit, within its bounds.
func (l *Limiter) set(limit float64) {
	l.exact = min(max(limit, float64(l.conf.Min)), float64(l.conf.Max))
	l.limit.Store(int64(l.exact))
}

// judge takes the end of a turn into the guard.
func (l *Limiter) judge(answered bool) {
	if !l.guard.turn(answered) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// Two changes in quick succession may come here in any order. The first one
	// tells the outcome, and the second has nothing to say.
	if off := l.guard.off(); off != l.silent {
		l.silent = off
		if l.notify != nil {
			l.notify(!off)
		}
	}
	l.handOnLocked(nil)
}

// Reading is a limiter at one moment.
type Reading struct {
	Limit    int           // as decided; not what Limit returns while it is not enforced
	InFlight int           // turns under way; sessions are counted by the upstream
	Waiting  int           // turns that wait for a slot
	Latency  time.Duration // of the last window: the percentile of aimd, the mean of the others; 0 = no window yet
	Windows  uint64        // since New
	Enforced bool
}

// Read returns the state. Its parts are read one after the other.
func (l *Limiter) Read() Reading {
	s := l.slots.Load()
	return Reading{
		Limit:    int(l.limit.Load()),
		InFlight: inFlight(s),
		Waiting:  waiting(s),
		Latency:  time.Duration(l.latency.Load()),
		Windows:  l.windows.Load(),
		Enforced: !l.guard.off(),
	}
}

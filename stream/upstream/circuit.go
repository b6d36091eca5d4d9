package upstream

import (
	"fmt"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/clock"
)

// The circuit breaker is M. Nygard's ("Release It!", 2007): so many failures
// within a window open it, and then sessions are refused at once, which gives the
// servers time and the clients an answer. After a while a few sessions try (half
// open): if so many go well it closes, if one fails it opens again, for twice as
// long.
//
// A failure is an attempt to connect that failed, a session that its peer ended
// before it had said anything, and one that ended, whoever ended it, after its
// client had sent something and the peer had never said anything: a server that
// accepts and does not answer. The last is not held against peers of a group that
// has never been heard to say anything: in some protocols servers do not speak.
// That a session goes well is known with the peer's first byte, or, in such a
// group, when it is connected.
//
// What sessions tell that began before the breaker was half open neither opens it
// again nor closes it: it is old news, and a server that is slow to answer them may
// be as slow as before.

// longestOpen bounds the growing times, unless open_for is longer by itself.
const longestOpen = 5 * time.Minute

// circuitSlots is in how many parts the window moves on.
const circuitSlots = 10

// circuit is a circuit breaker. The group's mu guards it.
type circuit struct {
	state  CircuitState
	opened uint64 // how often it has

	// closed
	failures [circuitSlots]int // by part of the window
	slot     int64             // the part that is being counted, since the clock's beginning
	inRow    int               // how often it has opened since it was last closed for a window
	closed   clock.Time        // when it last did

	until  clock.Time // open: when to try
	tried  clock.Time // half open: when it became so, or last let sessions try
	trying int        // half open: sessions that were let in since
	good   int        // half open: that went well
	since  clock.Time // half open
}

// refuses reports whether a session may not pass.
func (c *circuit) refuses(cb *conf.CircuitBreaker, now clock.Time) bool {
	switch {
	case cb.Failures == 0:
		return false
	case c.state == CircuitOpen:
		return now < c.until
	}
	// Sessions that say nothing for long must not keep it half open for ever.
	return c.state == CircuitHalfOpen && c.trying >= cb.Probes && now.Sub(c.tried) < cb.OpenFor
}

// admit takes in that a session passes, which it may.
func (c *circuit) admit(cb *conf.CircuitBreaker, now clock.Time, g *Group) {
	if cb.Failures == 0 || c.state == CircuitClosed {
		return
	}
	if c.state == CircuitOpen {
		c.state, c.since, c.tried, c.trying, c.good = CircuitHalfOpen, now, now, 0, 0
		g.tell(Event{Alarm: CircuitTries, Transition: Transition{At: now, Cause: fmt.Sprintf("%d sessions try", cb.Probes)}})
	}
	if c.trying >= cb.Probes {
		c.tried, c.trying = now, 0
	}
	c.trying++
}

// fail takes in a failure of a session that was given its peer at that time.
func (c *circuit) fail(cb *conf.CircuitBreaker, picked, now clock.Time, g *Group) {
	switch {
	case cb.Failures == 0 || c.state == CircuitOpen:
	case c.state == CircuitHalfOpen:
		if picked >= c.since {
			c.open(cb, now, g, "a session that tried has failed")
		}
	default:
		c.turn(cb, now)
		c.failures[c.slot%circuitSlots]++
		sum := 0
		for _, n := range c.failures {
			sum += n
		}
		if sum >= cb.Failures {
			c.open(cb, now, g, fmt.Sprintf("%d failures within %s", sum, formatSpan(cb.Window)))
		}
	}
}

// turn moves the window on.
func (c *circuit) turn(cb *conf.CircuitBreaker, now clock.Time) {
	at := int64(now) / max(int64(cb.Window)/circuitSlots, 1)
	if at-c.slot >= circuitSlots {
		clear(c.failures[:])
	} else {
		for c.slot < at {
			c.slot++
			c.failures[c.slot%circuitSlots] = 0
		}
	}
	c.slot = at
}

func (c *circuit) open(cb *conf.CircuitBreaker, now clock.Time, g *Group, cause string) {
	if c.state == CircuitClosed && now.Sub(c.closed) > cb.Window {
		c.inRow = 0
	}
	span := cb.OpenFor << min(c.inRow, 20)
	if span > longestOpen || span <= 0 {
		span = max(longestOpen, cb.OpenFor)
	}
	c.inRow++
	c.opened++
	clear(c.failures[:])
	c.state, c.until = CircuitOpen, now.Add(span)
	g.tell(Event{Alarm: CircuitOpened, Transition: Transition{At: now, Cause: fmt.Sprintf("%s; for %s", cause, formatSpan(span))}})
	g.callToRefuseLocked()
}

// succeed takes in that a session went well that was given its peer at that time.
func (c *circuit) succeed(cb *conf.CircuitBreaker, picked, now clock.Time, g *Group) {
	if c.state != CircuitHalfOpen || picked < c.since {
		return
	}
	c.good++
	if c.good < cb.Probes {
		return
	}
	c.state, c.closed = CircuitClosed, now
	g.tell(Event{Alarm: CircuitClosedAgain, Transition: Transition{At: now, Cause: fmt.Sprintf("%d sessions went well", c.good)}})
}

// stands returns the state, and how long an open one stays so.
func (c *circuit) stands(now clock.Time) (CircuitState, time.Duration) {
	if c.state == CircuitOpen {
		return c.state, max(c.until.Sub(now), 0)
	}
	return c.state, 0
}

func formatSpan(d time.Duration) string { return conf.FormatDuration(d.Round(time.Millisecond)) }

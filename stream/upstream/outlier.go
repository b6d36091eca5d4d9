package upstream

import (
	"fmt"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/internal/clock"
)

// Outlier detection compares a peer with the others by what live sessions meet.
// The terms are Envoy's: a peer that fails so often in a row, or so much more
// often than the others, is ejected for a while, each time for longer.

const (
	// leastSessions is how many sessions a peer must have had in an interval for
	// its success rate to mean something.
	leastSessions = 10
	// longestEjection bounds what grows with the number of ejections, unless the
	// configuration's time is longer by itself.
	longestEjection = 5 * time.Minute
)

// record is what outlier detection keeps of a peer.
type record struct {
	streak       int // failures in a row
	good, bad    int // sessions in this interval
	ejected      bool
	ejections    int // lowered by one for each interval without
	ejectedUntil clock.Time
}

// outliers is what it keeps of a group.
type outliers struct {
	until clock.Time // the end of the interval
}

// observeLocked takes in how a session fared with a peer. Preconditions: mu is
// held.
func (g *Group) observeLocked(p *Peer, ok bool, now clock.Time) {
	sh := g.shape.Load()
	o := sh.rules.outlier
	if o == nil {
		return
	}
	if ok {
		p.good++
		p.streak = 0
		return
	}
	p.bad++
	p.streak++
	if o.ConsecutiveFailures > 0 && p.streak >= o.ConsecutiveFailures && !p.ejected {
		g.ejectLocked(sh, p, fmt.Sprintf("%d sessions in a row failed or ended before the peer's first byte", p.streak), now)
	}
}

// ejectLocked ejects a peer, unless too many are already, or it is the last one
// that the operator's word and the verdicts leave in use.
func (g *Group) ejectLocked(sh *shape, p *Peer, cause string, now clock.Time) {
	all, out, others := 0, 0, false
	for _, tier := range sh.peers {
		for _, q := range tier {
			all++
			if q.ejected {
				out++
			}
			others = others || q != p && q.balance.Admin == balance.Up && q.left() == balance.Eligible
		}
	}
	o := sh.rules.outlier
	if !others || out+1 > max(int(o.MaxEjection*float64(all)), 1) {
		return
	}
	p.ejections++
	span := o.BaseEjectionTime * time.Duration(p.ejections)
	span = min(span, max(longestEjection, o.BaseEjectionTime))
	p.ejected, p.ejectedUntil = true, now.Add(span)
	g.turnLocked(p, AxisPassive, Ejected, fmt.Sprintf("%s; for %s", cause, conf.FormatDuration(span)), now)
	g.judgeLocked(now)
}

// readmitLocked ends a peer's ejection.
func (g *Group) readmitLocked(p *Peer, cause string, now clock.Time) {
	p.ejected, p.streak = false, 0
	g.passiveLocked(p, cause, now)
	g.judgeLocked(now)
	g.callAllLocked(now)
}

// DetectsOutliers reports whether Tick does anything.
func (g *Group) DetectsOutliers() bool { return g.shape.Load().rules.outlier != nil }

// Tick ends the ejections and the interval whose time is over. It is to be
// called some times a second while DetectsOutliers.
func (g *Group) Tick(now clock.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	sh := g.shape.Load()
	o := sh.rules.outlier
	if o == nil {
		return
	}
	for _, tier := range sh.peers {
		for _, p := range tier {
			if p.ejected && now >= p.ejectedUntil {
				g.readmitLocked(p, "its ejection is over", now)
			}
		}
	}
	if now < g.outliers.until {
		return
	}
	if g.outliers.until != 0 {
		g.compareLocked(sh, now)
	}
	g.outliers.until = now.Add(o.Interval)
}

// compareLocked ejects whoever has had much less success than the group, at the
// end of an interval, and begins another.
func (g *Group) compareLocked(sh *shape, now clock.Time) {
	o := sh.rules.outlier
	var sum float64
	counted := 0
	for _, tier := range sh.peers {
		for _, p := range tier {
			if rate, ok := p.successRate(); ok {
				sum += rate
				counted++
			}
		}
	}
	for _, tier := range sh.peers {
		for _, p := range tier {
			rate, ok := p.successRate()
			if !p.ejected && p.ejections > 0 && now.Sub(p.ejectedUntil) >= o.Interval {
				p.ejections--
			}
			mean := sum / float64(max(counted, 1))
			if ok && counted > 1 && o.MinSuccessRate > 0 && !p.ejected && rate < o.MinSuccessRate*mean {
				g.ejectLocked(sh, p, fmt.Sprintf("%.0f%% of %d sessions went well, where the mean of the peers is %.0f%%", 100*rate, p.good+p.bad, 100*mean), now)
			}
			p.good, p.bad = 0, 0
		}
	}
}

func (r *record) successRate() (rate float64, ok bool) {
	n := r.good + r.bad
	if n < leastSessions {
		return 0, false
	}
	return float64(r.good) / float64(n), true
}

package upstream

import (
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/internal/clock"
)

// Outcome is how a session's use of a peer ended.
type Outcome uint8

// The outcomes of an attempt. Nothing that happens after the connection stands
// is a failure of the peer.
const (
	Succeeded Outcome = iota // connected, whatever came after; or this machine lacked something, as in nginx
	Failed                   // refused, unreachable, or not connected in time
	Abandoned                // given up before it was connected: it shows nothing of the peer
)

// Connected notes that the session's connection to p stands
// (ngx_stream_upstream_notify_round_robin_peer), took after the pick.
func (g *Group) Connected(p *Peer, took time.Duration, now clock.Time) {
	g.connects.Observe(took)
	g.mu.Lock()
	g.pending--
	b := &g.shape.Load().bounds
	if b.measures(conf.MeasureConnect) {
		b.limiter.Observe(took, int(g.conns.Load()))
	}
	if !g.spoken {
		g.thriveLocked(took, now)
	}
	g.succeedLocked(p, now)
	if t := g.trackerLocked(p); t != nil {
		t.Connected(&p.balance, millis(took), balance.Millis(now.Millis()))
	}
	g.mu.Unlock()
}

// WantsFirstByte reports whether FirstByte does anything.
func (g *Group) WantsFirstByte() bool {
	sh := g.shape.Load()
	return sh.timed[primary] != nil || sh.rules.outlier != nil || sh.bounds.circuit != nil || sh.bounds.measures(conf.MeasureFirstByte)
}

// trackerLocked returns the method of the peer's tier if it follows sessions,
// else nil.
func (g *Group) trackerLocked(p *Peer) balance.Tracker { return g.shape.Load().timed[p.tier] }

// FirstByte notes that the peer's first byte, or if it has not spoken its end of
// input without one, came took after the pick.
func (g *Group) FirstByte(p *Peer, spoke bool, took time.Duration, now clock.Time) {
	g.mu.Lock()
	if spoke {
		g.observeLocked(p, true, now)
		g.spoken = true
		g.thriveLocked(took, now)
		if b := &g.shape.Load().bounds; b.measures(conf.MeasureFirstByte) {
			b.limiter.Observe(took, int(g.conns.Load()))
		}
	}
	if t := g.trackerLocked(p); t != nil {
		t.FirstByte(&p.balance, millis(took), balance.Millis(now.Millis()))
	}
	g.mu.Unlock()
}

// Answered notes that the first answer of a UDP peer came, took after the
// pick. Its failures are forgiven at Release only, as in nginx.
func (g *Group) Answered(p *Peer, took time.Duration, now clock.Time) {
	g.mu.Lock()
	g.observeLocked(p, true, now)
	if t := g.trackerLocked(p); t != nil {
		t.Connected(&p.balance, 0, balance.Millis(now.Millis()))
		t.FirstByte(&p.balance, millis(took), balance.Millis(now.Millis()))
	}
	g.mu.Unlock()
}

// Took is what a session has measured of its use of a peer, each from the pick
// on; negative = it did not come to that.
type Took struct {
	Connect, FirstByte time.Duration
	Whole              time.Duration // until now
	Word               Word
	Pending            bool // the attempt was picked for a session that can be made to wait, and has not connected
}

func (t *Took) times() balance.Times {
	return balance.Times{balance.Connect: millis(t.Connect), balance.FirstByte: millis(t.FirstByte), balance.LastByte: millis(t.Whole)}
}

// Word is what came from the peer in a session, for outlier detection.
type Word uint8

// What can come.
const (
	NotKnown Word = iota // or noted before, by FirstByte or Answered
	NoNeed               // nothing, and it was not the peer that ended the session
	Silence              // the same, though its client had said something
	Broke                // nothing but the end, or a reset
)

// Release gives p back (ngx_stream_upstream_free_round_robin_peer_locked).
func (g *Group) Release(p *Peer, o Outcome, took Took, now clock.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.releaseLocked(p, o, took, now)
}

// Failure is a failed attempt and what it has left of its peer.
type Failure struct {
	Peer        *Peer
	Charged     bool // it counts against the peer
	Only        bool // no failure does, since the peer is the upstream's only one
	Fails       int
	MaxFails    int
	Weight      int
	Before      int // effective weight before the attempt was charged
	After       int // and after it
	Unavailable bool
	Until       balance.Seconds // first instant at which it is tried again, if unavailable
}

// ExplainFailure gives p back as Release does, after a failed attempt, and
// tells what that has left of it. Nobody comes between the two. It allocates.
func (g *Group) ExplainFailure(p *Peer, o Outcome, took Took, now clock.Time) *Failure {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := &p.balance
	single := g.shape.Load().single
	f := &Failure{Peer: p, Charged: o == Failed && !single, Only: single, Before: b.Effective}
	g.releaseLocked(p, o, took, now)
	f.Fails, f.MaxFails, f.Weight, f.After = b.Fails, b.MaxFails, b.Weight, b.Effective
	f.Unavailable = !b.Available(balance.Seconds(now.Seconds()))
	f.Until = b.Checked + b.FailTimeout + 1
	return f
}

func (g *Group) releaseLocked(p *Peer, o Outcome, took Took, now clock.Time) {
	if took.Pending {
		g.pending--
	}
	if o == Failed {
		p.failures++
	}
	switch {
	case o == Failed, took.Word == Broke:
		g.observeLocked(p, false, now)
		g.sufferLocked(took, now)
	case took.Word == Silence && g.spoken:
		g.sufferLocked(took, now) // for outlier detection there is no telling who is to blame
	case took.Word == NoNeed, took.Word == Silence:
		g.observeLocked(p, true, now)
	}
	switch {
	case g.shape.Load().single:
		p.balance.Fails = 0
	case o == Failed:
		g.settleLocked()
		p.failLocked(balance.Seconds(now.Seconds()))
		g.passiveLocked(p, "max_fails failures within fail_timeout", now)
	case o == Succeeded:
		g.succeedLocked(p, now)
	}
	if t := g.trackerLocked(p); t != nil {
		t.Released(&p.balance, balance.Use{Took: took.times(), Failed: o == Failed}, balance.Millis(now.Millis()))
	}
	g.vacateLocked(p, now) // last: whoever waits may be called, and shall find all this done
}

// sufferLocked has the circuit breaker know of a failure.
func (g *Group) sufferLocked(took Took, now clock.Time) {
	if c := g.shape.Load().bounds.circuit; c != nil {
		g.circuit.fail(c, now.Add(-took.Whole), now, g)
	}
}

// thriveLocked has the circuit breaker know that a session went well, so long after
// its pick.
func (g *Group) thriveLocked(took time.Duration, now clock.Time) {
	if c := g.shape.Load().bounds.circuit; c != nil {
		g.circuit.succeed(c, now.Add(-took), now, g)
	}
}

func millis(d time.Duration) balance.Millis {
	if d < 0 {
		return balance.None
	}
	return balance.Millis(d.Milliseconds())
}

// Again counts an attempt that did not succeed and reports whether the session
// may try another peer (ngx_stream_proxy_next_upstream). The time is looked at
// after the attempt, so a running one is never cut short.
func (a *Attempts) Again(now clock.Time) bool {
	a.left--
	return a.left > 0 && (a.deadline == 0 || now < a.deadline)
}

// failLocked charges a failure: the peer loses weight/max_fails of its
// effective weight, by integer division, so that a weight below max_fails
// loses nothing. Only time and walks bring the weight back.
func (p *Peer) failLocked(now balance.Seconds) {
	b := &p.balance
	b.Fails++
	b.Accessed = now
	b.Checked = now
	if b.MaxFails > 0 {
		b.Effective = max(b.Effective-b.Weight/b.MaxFails, 0)
	}
}

// succeedLocked forgives the peer's failures if a pick came more than
// fail_timeout after the last of them; that pick has moved Checked past
// Accessed. The condition looks at the peer and not at the session, so an old
// session that ends while a probe is still connecting forgives too.
func (g *Group) succeedLocked(p *Peer, now clock.Time) {
	if b := &p.balance; b.Accessed < b.Checked && b.Fails > 0 {
		b.Fails = 0
		g.passiveLocked(p, "a session on trial has connected", now)
	}
}

// passiveLocked notes where live traffic has left a peer. One that comes back
// begins its slow start.
func (g *Group) passiveLocked(p *Peer, cause string, now clock.Time) {
	b, value := &p.balance, Available
	switch {
	case p.ejected:
		value = Ejected
	case b.MaxFails > 0 && b.Fails >= b.MaxFails && !g.shape.Load().single:
		value = OutOfUse
	}
	if was := p.axes[AxisPassive].Value; was == OutOfUse && value == Available {
		g.chillLocked(p, now)
	}
	g.turnLocked(p, AxisPassive, value, cause, now)
}

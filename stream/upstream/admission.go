package upstream

import (
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/adaptive"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/internal/clock"
)

// This file lets sessions in: it stands before the pick, and knows nothing of
// which peer it will be. A session that may not be woken (UDP, a rehearsal) is
// never asked to wait and never refused.

// Denial is why a pick came to nobody.
type Denial uint8

// The denials.
const (
	NotEligible    Denial = iota // nobody may be picked
	Waits                        // the session is in the queue: OnTurn says when to pick again
	QueueIsFull                  // it should be, but the queue is full
	NoQueue                      // it should be, but there is none: all peers are at max_conns
	CircuitIsOpen                // the circuit breaker is open
	TooMany                      // circuit_breaker.max_sessions
	TooManyPending               // circuit_breaker.max_pending
	OverLimit                    // as NoQueue: the adaptive limit is reached
)

// mayWait reports whether a session that is denied for that can wait, where there is
// a queue.
func (d Denial) mayWait() bool { return d == NoQueue || d == OverLimit }

// String tells the denial to a person.
func (d Denial) String() string {
	return [...]string{
		NotEligible:    "no peer is eligible",
		Waits:          "waits in the queue",
		QueueIsFull:    "the queue is full",
		NoQueue:        "no peer is eligible",
		CircuitIsOpen:  "the circuit breaker is open",
		TooMany:        "the upstream has as many sessions as it may have (max_sessions)",
		TooManyPending: "as many sessions are connecting as may (max_pending)",
		OverLimit:      "the adaptive limit is reached",
	}[d]
}

// beforePick reports whether nobody was looked for at all.
func (d Denial) beforePick() bool { return d >= CircuitIsOpen }

// OnTurn has wake be called when the session, which waits, shall pick again. From
// then on the session can be made to wait, and be refused. wake is called with the
// group's mutex held, by any goroutine: it must not block, nor call the group.
func (a *Attempts) OnTurn(wake func()) {
	a.place.Wake = func() {
		a.called, a.recalled = true, true
		wake()
	}
}

// wakes reports whether the session can be made to wait.
func (a *Attempts) wakes() bool { return a.place.Wake != nil }

// bounds are what a configuration says of the load: immutable.
type bounds struct {
	queue   *conf.Queue // nil = nobody new may wait
	circuit *conf.CircuitBreaker
	limit   *conf.AdaptiveLimit
	limiter *adaptive.Limiter // nil = no adaptive limit; goes on from shape to shape while its settings are the same

	patience  time.Duration // queue.timeout, also of a queue that is no longer there
	disbanded bool          // nobody is let in
}

func boundsOf(u *conf.Upstream) bounds {
	b := bounds{queue: u.Queue, circuit: u.Breaker, limit: u.Limit}
	if u.Queue != nil {
		b.patience = u.Queue.Timeout
	}
	return b
}

// measures reports whether the adaptive limit follows that latency.
func (b *bounds) measures(m conf.Measure) bool { return b.limiter != nil && b.limit.Measure == m }

// setLimiterLocked gives a new shape its limiter: the former one, if nothing has
// been changed about it. Preconditions: mu is held, or nobody else has the group.
func (g *Group) setLimiterLocked(sh, was *shape) {
	limit := sh.bounds.limit
	var old *adaptive.Limiter
	if was != nil {
		old = was.bounds.limiter
	}
	switch {
	case limit == nil:
	case old != nil && old.Conf() == *limit:
		sh.bounds.limiter = old
	default:
		sh.bounds.limiter = adaptive.New(*limit, func(enforced bool) {
			a := LimitUnenforced
			if enforced {
				a = LimitEnforced
			}
			g.tell(Event{Alarm: a})
		})
		if old != nil {
			sh.bounds.limiter.Begin(old)
		}
	}
}

// Limiter returns the adaptive limit, nil if there is none.
func (g *Group) Limiter() *adaptive.Limiter { return g.shape.Load().bounds.limiter }

// Conns returns how many sessions hold a peer.
func (g *Group) Conns() int { return int(g.conns.Load()) }

// QueueTimeout returns how long a session, or a client's bytes under a limit of
// turns, may wait; 0 = there has been no queue.
func (g *Group) QueueTimeout() time.Duration { return g.shape.Load().bounds.patience }

// limited reports whether the adaptive limit lets no more sessions in than the
// peers have.
func (b *bounds) limited(conns int) bool {
	l := b.limiter
	return l != nil && b.limit.ApplyTo == conf.LimitSessions && conns >= l.Limit()
}

// admitLocked decides whether a session may pick now. If not, a.Denial says why.
// Preconditions: the session can be made to wait.
func (g *Group) admitLocked(a *Attempts, now clock.Time) bool {
	b, called := &a.shape.bounds, a.called
	if called { // it has waited, and now is its turn
		a.called = false
		g.called--
	} else if len(a.tried) > 0 {
		return true // it was let in before
	}
	d, denied := g.obstacleLocked(b, called, now)
	switch {
	case denied && d.mayWait():
		g.waitLocked(a, d)
	case denied:
		a.Denial = d
	case b.circuit != nil:
		g.circuit.admit(b.circuit, now, g)
	}
	return !denied
}

// obstacleLocked tells what keeps a session from being let in, and changes nothing.
// called says that it comes from the queue, as its turn has come.
func (g *Group) obstacleLocked(b *bounds, called bool, now clock.Time) (Denial, bool) {
	c, conns := b.circuit, int(g.conns.Load())
	switch {
	case b.disbanded:
		return NotEligible, true
	case c != nil && g.circuit.refuses(c, now):
		return CircuitIsOpen, true
	case c != nil && c.MaxSessions > 0 && conns >= c.MaxSessions:
		return TooMany, true
	case c != nil && c.MaxPending > 0 && g.pending >= c.MaxPending:
		return TooManyPending, true
	case b.limited(conns + g.called):
		return OverLimit, true
	case !called && b.queue != nil && g.waiting.Len()+g.called > 0:
		// What is free, or about to be, is for those who came before.
		return NoQueue, true
	}
	return NotEligible, false
}

// foreseeLocked tells of a forecast without a peer what would become of its session.
func (g *Group) foreseeLocked(b *bounds, d Denial) Denial {
	switch {
	case !d.mayWait() || b.queue == nil:
		return d
	case g.waiting.Len() >= b.queue.Max:
		return QueueIsFull
	}
	return Waits
}

// waitLocked puts a session into the queue, or says why not: otherwise, if there
// is none.
func (g *Group) waitLocked(a *Attempts, otherwise Denial) {
	q := a.shape.bounds.queue
	switch {
	case a.recalled:
		g.waiting.Return(&a.place)
		a.Denial = Waits
	case q == nil:
		a.Denial = otherwise
	case g.waiting.Len() >= q.Max:
		a.Denial = QueueIsFull
	default:
		g.waiting.Push(&a.place, a.Priority)
		a.Denial = Waits
	}
}

// turnedAwayLocked says what becomes of a session for which nobody could be
// picked: it waits if a peer would do but for its max_conns.
func (g *Group) turnedAwayLocked(a *Attempts, now balance.Seconds) {
	if a.Denial = NotEligible; a.shape.lacksRoom(a, now) {
		g.waitLocked(a, NoQueue)
	}
}

// givenOut returns the peers of a tier that its method gives to sessions.
func (sh *shape) givenOut(tier int, now balance.Seconds) []*Peer {
	switch i, sole := balance.Sole(sh.methods[tier], now); {
	case !sole:
		return sh.peers[tier]
	case i < 0:
		return nil
	default:
		return sh.peers[tier][i : i+1]
	}
}

// lacksRoom reports whether a peer would do for the session but for its max_conns.
func (sh *shape) lacksRoom(a *Attempts, now balance.Seconds) bool {
	for tier := range sh.peers {
		for _, p := range sh.givenOut(tier, now) {
			b := &p.balance
			if b.Full() && b.Admin == balance.Up && b.Withheld == balance.Eligible && b.Available(now) && !a.hasTried(p) {
				return true
			}
		}
	}
	return false
}

// callLocked has the first in the queue pick, as many of them as there is room
// for, at most so many. It is O(1) for each.
func (g *Group) callLocked(most int) {
	b := &g.shape.Load().bounds
	for ; most > 0 && g.waiting.Len() > 0; most-- {
		if b.limited(int(g.conns.Load()) + g.called) {
			return
		}
		g.called++
		g.waiting.Pop().Wake()
	}
}

// callNextLocked has another session pick instead of one that was called and found
// nobody, if there still is room: it has tried whoever has it. The one behind it is
// next, or the first if it waits no longer.
func (g *Group) callNextLocked(a *Attempts, now clock.Time) {
	if g.roomLocked(g.called+1, now) <= g.called {
		return
	}
	if !a.place.In() {
		g.callLocked(1)
		return
	}
	next := g.waiting.Behind(&a.place)
	if next == nil || g.shape.Load().bounds.limited(int(g.conns.Load())+g.called) {
		return
	}
	g.waiting.Remove(next)
	g.called++
	next.Wake()
}

// callToRefuseLocked has all that wait pick, and so hear that they get nobody: the
// circuit breaker is open, or the group is disbanded.
func (g *Group) callToRefuseLocked() {
	for g.waiting.Len() > 0 {
		g.called++
		g.waiting.Pop().Wake()
	}
}

// roomLocked returns how many sessions the eligible peers could still take; no
// more than that many are of interest.
func (g *Group) roomLocked(most int, now clock.Time) int {
	sh, room, at := g.shape.Load(), 0, balance.Seconds(now.Seconds())
	for tier := range sh.peers {
		for _, p := range sh.givenOut(tier, at) {
			b := &p.balance
			switch {
			case b.Admin != balance.Up || b.Withheld != balance.Eligible || !b.Available(at):
			case b.MaxConns == 0:
				return most
			default:
				room += max(b.MaxConns-b.Conns, 0)
			}
		}
	}
	return min(room, most)
}

// callAllLocked has as many waiting sessions pick as the peers have room for,
// after something other than the end of a session has made room.
func (g *Group) callAllLocked(now clock.Time) {
	if n := g.waiting.Len(); n > 0 {
		g.callLocked(g.roomLocked(n+g.called, now) - g.called)
	}
}

// MoveQueue has waiting sessions pick for which there is room that no session has
// left behind: the adaptive limit has grown, or a peer's fail_timeout is over. It
// reports whether sessions can wait for a peer, or still do: while that is so it is
// to be called some times a second.
func (g *Group) MoveQueue(now clock.Time) (needed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.callAllLocked(now)
	return g.shape.Load().bounds.queue != nil || g.waiting.Len()+g.called > 0
}

// Leave takes a session out of the queue that is not going to pick any more. If
// it was its turn, another one gets it.
func (g *Group) Leave(a *Attempts) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting.Remove(&a.place)
	if a.called {
		a.called = false
		g.called--
		g.callLocked(1)
	}
}

// Again counts an attempt that did not succeed and reports whether the session
// may try another peer after that wait (ngx_stream_proxy_next_upstream). The time
// is looked at after the attempt, so a running one is never cut short. denied
// says that it is circuit_breaker.max_retries that does not allow it.
func (g *Group) Again(a *Attempts, wait time.Duration, now clock.Time) (again, denied bool) {
	if !a.Again(now.Add(wait)) {
		return false, false
	}
	c := a.shape.bounds.circuit
	if c == nil || c.MaxRetries == 0 || !a.wakes() {
		return true, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case a.retrying:
	case g.retries >= c.MaxRetries:
		return false, true
	default:
		a.retrying = true
		g.retries++
	}
	return true, false
}

// Settle notes that a session makes no attempt now. It may be called any number of
// times; Again, after it, begins anew.
func (g *Group) Settle(a *Attempts) {
	if a.retrying {
		a.retrying = false
		g.mu.Lock()
		g.retries--
		g.mu.Unlock()
	}
}

// Beside picks another peer for an attempt that begins while one is under way, or
// returns nil. It never waits, and never goes to the backups if the other attempt
// has not. A peer that it returns is given back as one of Pick.
func (g *Group) Beside(a *Attempts, now clock.Time) *Peer {
	g.mu.Lock()
	defer g.mu.Unlock()
	sh := g.shape.Load()
	if sh != a.shape || sh.single {
		return nil
	}
	if c := sh.bounds.circuit; c != nil && c.MaxPending > 0 && g.pending >= c.MaxPending {
		return nil
	}
	p := g.takeLocked(a, balance.Millis(now.Millis()), nil)
	if p != nil {
		g.pending++
		g.picked = max(g.picked, now)
		a.tried = append(a.tried, p)
	}
	return p
}

// ConnectTime returns a percentile (0..1) of the latest connect times, false if
// there were too few to tell.
func (g *Group) ConnectTime(percentile float64) (time.Duration, bool) {
	return g.connects.Quantile(percentile)
}

// Slow takes in that a connect, which was then given up, took at least that long.
func (g *Group) Slow(took time.Duration) { g.connects.Observe(took) }

// Load returns how much the group has to do, and what bounds it.
func (g *Group) Load(now clock.Time) Load {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := &g.shape.Load().bounds
	l := Load{
		Sessions: int(g.conns.Load()), Pending: g.pending, Retries: g.retries,
		Queue: b.queue, Waiting: g.waiting.Len(),
		Circuit: b.circuit, Opened: g.circuit.opened,
	}
	l.CircuitState, l.CircuitFor = g.circuit.stands(now)
	if a := b.limiter; a != nil {
		r := a.Read()
		l.Limit = &Limit{AdaptiveLimit: a.Conf(), Limit: r.Limit, InFlight: r.InFlight, Waiting: r.Waiting, Latency: r.Latency, Windows: r.Windows, Enforced: r.Enforced}
		if l.Limit.ApplyTo == conf.LimitSessions {
			l.Limit.InFlight = l.Sessions
		}
	}
	return l
}

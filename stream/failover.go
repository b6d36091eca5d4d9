package stream

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/upstream"
)

// This file has the consequences of what happens on the peers' axes: the log
// says so, and the sessions of a peer that is no longer the right one are ended
// as on_state says.

// events are transitions on their way from whoever caused them, with a group's
// mutex held, to the goroutine that sees to the consequences.
type events struct {
	mu   sync.Mutex
	list []upstream.Event // guarded by mu
	wake chan struct{}    // holds one
}

func (q *events) put(e upstream.Event) {
	q.mu.Lock()
	q.list = append(q.list, e)
	q.mu.Unlock()
	q.nudge()
}

// nudge wakes the goroutine.
func (q *events) nudge() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *events) take() []upstream.Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.list
	q.list = nil
	return list
}

// tickEvery is how often outlier detection and queues look at the time.
const tickEvery = 100 * time.Millisecond

// govern sees to the consequences of events until the server stops. A server
// whose groups need no ticks makes none, so that it sleeps when it is idle.
func (s *Server) govern() {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	ticks := true
	for {
		select {
		case <-s.life.Done():
			return
		case <-s.events.wake:
			for _, e := range s.events.take() {
				s.follow(e)
			}
		case <-tick.C:
		}
		needed := s.tick()
		switch {
		case needed && !ticks:
			tick.Reset(tickEvery)
		case !needed && ticks:
			tick.Stop()
		}
		ticks = needed
	}
}

// tick lets outlier detection and queues look at the time, and reports whether
// any group needs that again.
func (s *Server) tick() (needed bool) {
	s.reading.RLock()
	groups := s.groups
	s.reading.RUnlock()
	for _, g := range groups {
		if g.DetectsOutliers() {
			needed = true
			g.Tick(clock.Now())
		}
		if g.MoveQueue(clock.Now()) {
			needed = true
		}
	}
	return needed
}

// follow sees to the consequences of one event.
func (s *Server) follow(e upstream.Event) {
	g := e.Group
	if e.Alarm != upstream.NoAlarm {
		s.alarm(e)
		return
	}
	p := e.Peer
	args := []any{"upstream", g.Name, "peer", p.Name, "address", p.String(), "axis", e.Axis.String(), "from", e.From, "to", e.To, "cause", e.Cause}
	fate := g.Fate(e.Axis, e.To)
	if fate == conf.CloseFate || fate == conf.DrainFate {
		args = append(args, "sessions", fate.String())
	}
	if e.Axis != upstream.AxisAdmin { // else it was said already
		s.logger.Log(context.Background(), levelOf(e), "peer turned", args...)
	}
	s.dismiss(&dismissal{group: g, peer: p, fate: fate, before: e.At, reason: reasonOf(e.Axis, e.To), off: func() bool {
		switch e.Axis {
		case upstream.AxisRole:
			// A demoted server is the wrong one for the sessions that it had then,
			// also if it is the right one again. A replica that has caught up is as
			// right as before.
			return e.To == upstream.Lagging && g.HasCome(p, e.Axis, upstream.IsReplica, e.At)
		case upstream.AxisAdmin:
			return g.Turns(p, e.Axis) != e.Turn
		}
		return g.Turns(p, e.Axis) != e.Turn || g.State().Panic
	}})
}

// calm ends the sessions that a panic has left with the sick.
func (s *Server) calm(e upstream.Event) {
	for _, p := range e.Group.Snapshot(nil, e.At) {
		for _, a := range [...]upstream.Axis{upstream.AxisActive, upstream.AxisPassive} {
			at := p.Axes[a]
			if at.Value != upstream.Unhealthy && at.Value != upstream.Ejected {
				continue
			}
			s.dismiss(&dismissal{
				group: e.Group, peer: p.Peer, fate: e.Group.Fate(a, at.Value), before: e.At, reason: reasonOf(a, at.Value),
				off: func() bool { return e.Group.Turns(p.Peer, a) != p.Turns[a] || e.Group.State().Panic },
			})
		}
	}
}

func (s *Server) alarm(e upstream.Event) {
	g := e.Group
	switch e.Alarm {
	case upstream.ConflictBegun:
		s.logger.Error("several peers claim what only one may have: the one that has it keeps it", "upstream", g.Name, "keeps", g.State().Incumbent)
	case upstream.ConflictEnded:
		s.logger.Warn("one peer claims what only one may have", "upstream", g.Name, "has", g.State().Incumbent)
	case upstream.Succession:
		epoch, level := g.State().Epoch, slog.LevelWarn
		if epoch == 1 {
			level = slog.LevelInfo // the first to have it
		}
		s.logger.Log(context.Background(), level, "another peer has what only one may have", "upstream", g.Name, "peer", e.Peer.Name, "address", e.Peer.String(), "epoch", epoch)
	case upstream.CircuitOpened:
		s.logger.Error("the circuit breaker has opened: new sessions are refused", "upstream", g.Name, "cause", e.Cause)
	case upstream.CircuitTries:
		s.logger.Warn("the circuit breaker lets some sessions try", "upstream", g.Name, "cause", e.Cause)
	case upstream.CircuitClosedAgain:
		s.logger.Warn("the circuit breaker has closed: sessions pass", "upstream", g.Name, "cause", e.Cause)
	case upstream.LimitUnenforced:
		s.logger.Error("the adaptive limit is not enforced: what clients send is mostly not answered, so that turns are not seen", "upstream", g.Name)
	case upstream.LimitEnforced:
		s.logger.Warn("the adaptive limit is enforced again: turns are seen", "upstream", g.Name)
	case upstream.PanicBegun:
		s.logger.Error("too few peers are healthy: the sick are used too (panic_threshold)", "upstream", g.Name)
	case upstream.PanicEnded:
		s.logger.Warn("enough peers are healthy: only these are used", "upstream", g.Name)
		s.calm(e)
	}
}

// levelOf tells what an operator should look at from what is as it should be.
func levelOf(e upstream.Event) slog.Level {
	switch e.To {
	case upstream.Unhealthy, upstream.Ejected, upstream.Conflict, upstream.OutOfUse:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// reasonOf says why the sessions of a peer end that has come to that value.
func reasonOf(a upstream.Axis, value string) stats.CloseReason {
	switch {
	case a == upstream.AxisAdmin:
		return stats.PeerDrained
	case value == upstream.Lagging:
		return stats.PeerLagging
	case a == upstream.AxisRole:
		return stats.PeerStandby
	}
	return stats.PeerUnhealthy
}

// dismissal is the order to end sessions of a peer.
type dismissal struct {
	group  *upstream.Group
	peer   *upstream.Peer
	fate   conf.Fate
	before clock.Time // sessions that were given to it later are not meant
	reason stats.CloseReason
	off    func() bool // the order no longer stands: the peer has turned, also if it has turned back
}

// batchesPerSecond is how many times a second sessions are ended. At each they
// are few enough that their clients do not come back all at once.
const batchesPerSecond = 20

// dismiss carries out a dismissal, aside.
func (s *Server) dismiss(d *dismissal) {
	if d.fate != conf.CloseFate && d.fate != conf.DrainFate {
		return
	}
	s.aside.Go(func() {
		ctx := s.life
		if d.fate == conf.DrainFate && !s.waitToDrain(ctx) {
			return
		}
		limiter := rate.NewLimiter(rate.Inf, 0)
		batch := 1 << 10
		if pace := d.group.Pace(); pace > 0 {
			limiter, batch = s.limiterOf(d.group), max(int(pace/batchesPerSecond), 1)
		}
		ended := 0
		for ctx.Err() == nil && !d.off() {
			n, more := s.dismissSome(d, batch)
			ended += n
			if !more {
				break
			}
			if limiter.Limit() != rate.Inf {
				jitter := time.Duration(rand.Int64N(int64(time.Second) / batchesPerSecond / 2))
				if limiter.WaitN(ctx, n) != nil || !sleep(ctx, jitter) {
					break
				}
			}
		}
		if ended > 0 {
			s.logger.Info("sessions ended", "upstream", d.group.Name, "peer", d.peer.Name, "address", d.peer.String(), "reason", d.reason.String(), "sessions", ended)
		}
	})
}

// waitToDrain waits for as long as sessions may take to end by themselves.
func (s *Server) waitToDrain(ctx context.Context) bool {
	s.reading.RLock()
	patience := s.cfg.Worker.ShutdownTimeout
	s.reading.RUnlock()
	if patience == conf.Off {
		return false // they have for ever
	}
	return sleep(ctx, patience)
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// dismissSome ends at most so many sessions over all workers, and reports whether
// there are more.
func (s *Server) dismissSome(d *dismissal, most int) (n int, more bool) {
	for _, w := range s.all() {
		w.ask(func() {
			ended, rest := w.tcp.Dismiss(d.peer, d.before, most-n, d.reason)
			n += ended
			more = more || rest
		})
	}
	return n, more
}

// limiterOf returns what paces the dismissals of all peers of a group.
func (s *Server) limiterOf(g *upstream.Group) *rate.Limiter {
	s.pacing.mu.Lock()
	defer s.pacing.mu.Unlock()
	pace := rate.Limit(g.Pace())
	l := s.pacing.of[g]
	if l == nil || l.Limit() != pace {
		l = rate.NewLimiter(pace, max(int(pace/batchesPerSecond), 1))
		s.pacing.of[g] = l
	}
	return l
}

// keep forgets the limiters of other groups.
func (p *pacing) keep(groups []*upstream.Group) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.of, func(g *upstream.Group, _ *rate.Limiter) bool { return !slices.Contains(groups, g) })
}

// pacing holds the limiters of dismissals.
type pacing struct {
	mu sync.Mutex
	of map[*upstream.Group]*rate.Limiter // guarded by mu
}

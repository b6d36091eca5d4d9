package health

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/clock"
)

// Target is the peer that is checked.
type Target struct {
	Addr netip.AddrPort // not valid for a unix socket
	Path string         // of a unix socket
	Host string         // the server's name or IP address, for TLS and HTTP's Host; "" = a unix socket
}

// Options are how a Checker starts, and whom it tells.
type Options struct {
	// Report is called with the first verdict, and whenever Health or Role
	// changes: in order, never twice at once, and not after Stop has returned.
	// It must not call Stop. nil = nobody is told.
	Report func(Verdict)

	// Begin is what was known before, by another process or before a reload. It
	// stays until results say otherwise, as they would have without the change:
	// a healthy peer is unhealthy after `fall` failures. nil = as `initial` says.
	Begin *Verdict

	// For tests; nil = the real ones.
	Clock  clock.Source
	Jitter func(time.Duration) time.Duration // from 0 to its argument
}

// A Checker runs all checks of one peer, each on a goroutine of its own. Its
// methods may be called by any goroutine.
type Checker struct {
	// immutable
	report func(Verdict)
	now    clock.Source
	jitter func(time.Duration) time.Duration
	ctx    context.Context // done = stopping: no check is begun any more
	stop   context.CancelFunc
	all    context.Context // done = those that still run are cut off; parent of the checks' own
	cut    context.CancelFunc
	checks []*check

	running sync.WaitGroup

	// reporting is held while a result is counted and reported, so that reports
	// come in the order of the results.
	reporting sync.Mutex
	told      bool // guarded by reporting: the first verdict was reported

	mu      sync.Mutex // guards what follows, and the checks' judge and state
	verdict Verdict
}

// A check is one health_check of the peer.
type check struct {
	conf.HealthCheck
	at    *endpoint
	probe probe
	judge *judge     // guarded by Checker.mu
	state CheckState // guarded by Checker.mu
}

// CheckState is how one check of a peer is going.
type CheckState struct {
	Kind           conf.CheckKind
	Health         Health        // by this check alone
	OK             bool          // the last result
	Cause          string        // of the last result: why it failed, or what was seen; may be empty
	Took           time.Duration // the last check, without its goodbye
	At             clock.Time    // when the last result came; 0 = none yet
	Passed, Failed uint64
	InRow          int // results like the last one, that one included
}

// firstWithin is the time in which a Checker starts its checks, so that many
// that start together are spread and still come up fast.
const firstWithin = 50 * time.Millisecond

// Start begins to check a peer. Its errors are mistakes of the configuration,
// such as a certificate that cannot be read, and name the check.
func Start(checks []conf.HealthCheck, t Target, opt Options) (*Checker, error) {
	var list []*check
	for _, h := range checks {
		at, err := newEndpoint(&h, t)
		if err != nil {
			return nil, fmt.Errorf("health_check %q: %w", h.Kind, err)
		}
		p, err := newProbe(&h, at)
		if err != nil {
			return nil, fmt.Errorf("health_check %q: %w", h.Kind, err)
		}
		list = append(list, &check{HealthCheck: h, at: at, probe: p})
	}
	if list == nil {
		return nil, errors.New("no health_check")
	}
	return start(list, opt), nil
}

func start(list []*check, opt Options) *Checker {
	c := &Checker{report: opt.Report, now: opt.Clock, jitter: opt.Jitter, checks: list}
	if c.now == nil {
		c.now = clock.Now
	}
	if c.jitter == nil {
		c.jitter = func(d time.Duration) time.Duration { return rand.N(d + 1) }
	}
	c.all, c.cut = context.WithCancel(context.Background())
	c.ctx, c.stop = context.WithCancel(c.all)
	for _, k := range list {
		k.judge = newJudge(&k.HealthCheck, opt.Begin)
	}
	c.verdict = agree(c.judges())
	c.verdict.Cause, c.verdict.At = "not checked yet", c.now()
	switch {
	case opt.Begin != nil:
		c.verdict.Cause, c.verdict.At = opt.Begin.Cause, opt.Begin.At
	case c.verdict.Health == Healthy:
		c.verdict.Cause = "initial is up"
	}
	for _, k := range list {
		c.running.Go(func() { c.run(k) })
	}
	return c
}

// Stop ends the checks and returns when their goroutines and connections have
// ended: at once if no check is running. One that runs is given a tenth of a
// second, because servers log clients that leave in the middle, and its goodbye
// another.
func (c *Checker) Stop() {
	c.stop()
	defer c.cut()
	defer time.AfterFunc(goodbye, c.cut).Stop()
	c.running.Wait()
}

// Verdict returns what the checks have come to so far.
func (c *Checker) Verdict() Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.verdict
}

// Checks returns how each check is going, in the configuration's order.
func (c *Checker) Checks() []CheckState {
	c.mu.Lock()
	defer c.mu.Unlock()
	states := make([]CheckState, len(c.checks))
	for i, k := range c.checks {
		states[i] = k.state
		states[i].Kind, states[i].Health = k.Kind, k.judge.health
	}
	return states
}

func (c *Checker) run(k *check) {
	defer k.at.close()
	defer k.probe.end(true)
	timer := time.NewTimer(c.jitter(min(firstWithin, k.Interval)))
	defer timer.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-timer.C:
		}
		start := c.now()
		ctx, cancel := context.WithTimeout(c.all, k.Timeout)
		r, err := try(ctx, k.probe)
		failure := ""
		if err != nil {
			failure = cause(ctx, err, k.Timeout, k.Password)
		}
		cancel()
		if c.ctx.Err() != nil {
			return // and if it was cut off, that is no fault of the server's
		}
		now := c.now()
		r.note = line(r.note)
		c.count(k, r, failure, now, now.Sub(start))
		k.probe.end(false)
		timer.Reset(k.Interval + c.jitter(k.Interval/10) - c.now().Sub(start))
	}
}

// count takes the result of a check; failure is "" for a success.
func (c *Checker) count(k *check, r reading, failure string, now clock.Time, took time.Duration) {
	c.reporting.Lock()
	defer c.reporting.Unlock()
	v, changed := c.settle(k, r, failure, now, took)
	if first := !c.told && v.Health != Unknown; !first && !changed {
		return
	}
	c.told = true
	if c.report != nil {
		c.report(v)
	}
}

// settle returns the verdict with that result, and whether it is another one.
func (c *Checker) settle(k *check, r reading, failure string, now clock.Time, took time.Duration) (Verdict, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &k.state
	if ok := failure == ""; ok != s.OK || s.At == 0 {
		s.OK, s.InRow = ok, 0
	}
	s.InRow++
	s.At, s.Took = now, took
	if s.OK {
		s.Passed++
		s.Cause = r.note
		k.judge.pass(r)
	} else {
		s.Failed++
		s.Cause = failure
		k.judge.fail(failure)
	}
	v := agree(c.judges())
	v.Cause, v.At = c.verdict.Cause, c.verdict.At
	changed := v.Health != c.verdict.Health || v.Role != c.verdict.Role
	if changed {
		v.Cause, v.At = k.judge.cause, now
	}
	c.verdict = v
	return v, changed
}

func (c *Checker) judges() []*judge {
	list := make([]*judge, len(c.checks))
	for i, k := range c.checks {
		list[i] = k.judge
	}
	return list
}

package upstream

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/internal/clock"
)

// crowd is a group with sessions that can wait.
type crowd struct {
	*Group
	t     *testing.T
	now   clock.Fake
	woken []string // in order
	told  []string
}

func newCrowd(t *testing.T, edit func(u *conf.Upstream)) *crowd {
	t.Helper()
	c := &crowd{t: t}
	u := conf.NewUpstream("u")
	for port := range 2 {
		u.Servers = append(u.Servers, conf.NewServer(conf.Address{Host: "127.0.0.1", Port: uint16(port + 1)}))
	}
	edit(&u)
	peers, err := Resolve(t.Context(), &u, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Group, err = NewGroup(&u, peers, 1, 1); err != nil {
		t.Fatal(err)
	}
	c.Watch(func(e Event) {
		if e.Alarm != NoAlarm {
			c.told = append(c.told, e.Cause)
		}
	})
	return c
}

// guest is a session of the crowd.
type guest struct {
	Attempts
	c    *crowd
	name string
	peer *Peer
	at   clock.Time
}

func (c *crowd) guest(name string, priority int) *guest {
	g := &guest{c: c, name: name}
	g.OnTurn(func() { c.woken = append(c.woken, name) })
	c.Begin(&g.Attempts, Limits{}, c.now.Now())
	g.Priority = priority
	return g
}

func (g *guest) pick() *guest {
	g.at = g.c.now.Now()
	g.peer = g.c.Pick(&g.Attempts, g.at)
	return g
}

func (g *guest) wants(d Denial) *guest {
	g.c.t.Helper()
	if g.peer != nil || g.Denial != d {
		g.c.t.Fatalf("%s has %v, denial %d, want %d", g.name, g.peer, g.Denial, d)
	}
	return g
}

func (g *guest) has() *guest {
	g.c.t.Helper()
	if g.peer == nil {
		g.c.t.Fatalf("%s has no peer: %s", g.name, g.Denial)
	}
	return g
}

// connect, answer and end are what happens to a session that has a peer.
func (g *guest) connect() *guest {
	now := g.c.now.Now()
	g.c.Connected(g.peer, now.Sub(g.at), now)
	return g
}

func (g *guest) answer() *guest {
	now := g.c.now.Now()
	g.c.FirstByte(g.peer, true, now.Sub(g.at), now)
	return g
}

func (g *guest) end(word Word) {
	now := g.c.now.Now()
	g.c.Release(g.peer, Succeeded, Took{Whole: now.Sub(g.at), Word: word}, now)
}

func (g *guest) fail() {
	now := g.c.now.Now()
	g.c.Release(g.peer, Failed, Took{Connect: -1, FirstByte: -1, Whole: now.Sub(g.at), Pending: true}, now)
}

func (c *crowd) wantWoken(names ...string) {
	c.t.Helper()
	if !slices.Equal(c.woken, names) {
		c.t.Fatalf("woken are %v, want %v", c.woken, names)
	}
	c.woken = nil
}

// update gives the crowd's group another configuration of its two servers.
func (c *crowd) update(edit func(u *conf.Upstream)) {
	c.t.Helper()
	u := conf.NewUpstream("u")
	for port := range 2 {
		u.Servers = append(u.Servers, conf.NewServer(conf.Address{Host: "127.0.0.1", Port: uint16(port + 1)}))
	}
	edit(&u)
	peers, err := Resolve(c.t.Context(), &u, 1, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	plan, err := c.Plan(&u, peers, 1)
	if err != nil {
		c.t.Fatal(err)
	}
	c.Update(plan)
}

func withQueue(most int, maxConns int) func(u *conf.Upstream) {
	return func(u *conf.Upstream) {
		u.Queue = &conf.Queue{Max: most, Timeout: time.Second}
		for i := range u.Servers {
			u.Servers[i].MaxConns = maxConns
		}
	}
}

func TestQueueInOrder(t *testing.T) {
	c := newCrowd(t, withQueue(3, 1))
	a, b := c.guest("a", 1).pick().has().connect(), c.guest("b", 1).pick().has().connect()
	first := c.guest("first", 1).pick().wants(Waits)
	second := c.guest("second", 1).pick().wants(Waits)
	urgent := c.guest("urgent", 0).pick().wants(Waits)
	c.guest("fourth", 0).pick().wants(QueueIsFull)

	a.end(NoNeed)
	c.wantWoken("urgent")
	// What has become free is urgent's, whoever comes meanwhile.
	late := c.guest("late", 0).pick().wants(Waits)
	urgent.pick().has()
	b.end(NoNeed)
	c.wantWoken("late")
	late.pick().has()

	// Who leaves frees its place, and passes its turn on.
	c.Leave(&second.Attempts)
	if n := c.Load(c.now.Now()).Waiting; n != 1 {
		t.Fatalf("%d wait, want 1", n)
	}
	third := c.guest("third", 1).pick().wants(Waits)
	urgent.end(NoNeed)
	c.wantWoken("first")
	c.Leave(&first.Attempts)
	c.wantWoken("third")
	third.pick().has()
	for _, p := range c.Snapshot(nil, c.now.Now()) {
		if p.Balance.Conns > 1 {
			t.Errorf("%s has %d connections", p.Name, p.Balance.Conns)
		}
	}
}

// Whoever was called in vain keeps its place at the head.
func TestQueueCalledInVain(t *testing.T) {
	c := newCrowd(t, withQueue(9, 1))
	a, b := c.guest("a", 1).pick().has(), c.guest("b", 1).pick().has()
	first, second := c.guest("first", 1).pick().wants(Waits), c.guest("second", 1).pick().wants(Waits)
	a.fail()
	c.wantWoken("first")
	a.pick().wants(Waits)     // for the other server
	first.pick().wants(Waits) // the first one is unavailable
	b.end(NoNeed)
	c.wantWoken("first")
	first.pick().has()
	second.wants(Waits)
}

// Whoever waited looks at the primaries first, though it has been to the backups
// before.
func TestQueueBeginsAtPrimaries(t *testing.T) {
	edit := func(u *conf.Upstream) {
		withQueue(9, 1)(u)
		u.Servers[1].Backup = true
	}
	t.Run("found them full", func(t *testing.T) {
		c := newCrowd(t, edit)
		a := c.guest("a", 1).pick().has()
		c.guest("b", 1).pick().has()
		first := c.guest("first", 1).pick().wants(Waits)
		a.end(NoNeed)
		c.wantWoken("first")
		first.pick().has()
	})
	t.Run("failed there", func(t *testing.T) {
		c := newCrowd(t, edit)
		a := c.guest("a", 1).pick().has()
		first := c.guest("first", 1).pick().has()
		first.fail()
		first.pick().wants(Waits) // for the primary
		c.now.Advance(time.Minute)
		a.end(NoNeed)
		c.wantWoken("first")
		if first.pick().has(); first.peer != a.peer {
			t.Errorf("it has %s, which it has tried", first.peer)
		}
	})
}

// Room that the first in line can't use is for those behind it.
func TestQueuePassesByWhoHasTried(t *testing.T) {
	c := newCrowd(t, func(u *conf.Upstream) {
		withQueue(9, 1)(u)
		u.Servers[0].MaxFails, u.Servers[1].MaxFails = 0, 0
	})
	a := c.guest("a", 1).pick().has()
	c.guest("b", 1).pick().has()
	first := c.guest("first", 1).pick().wants(Waits)
	a.end(NoNeed)
	c.wantWoken("first")
	first.pick().has().fail()
	first.pick().wants(Waits) // for b's server
	second, third := c.guest("second", 1).pick().wants(Waits), c.guest("third", 2).pick().wants(Waits)
	c.MoveQueue(c.now.Now())
	c.wantWoken("first")
	first.pick().wants(Waits)
	c.wantWoken("second")
	second.pick().has().end(NoNeed)
	c.wantWoken("first")
	first.pick().wants(Waits)
	c.wantWoken("third")
	third.pick().has()
	c.MoveQueue(c.now.Now())
	c.wantWoken()
}

// The key of a session that waited decides, as if all had been full only now.
func TestQueueKeepsToKey(t *testing.T) {
	for _, method := range []string{conf.Hash, conf.IPHash, conf.Maglev} {
		t.Run(method, func(t *testing.T) {
			c := newCrowd(t, func(u *conf.Upstream) {
				withQueue(9, 1)(u)
				u.Balance = conf.DefaultBalance(method)
			})
			keyed := func(name string) *guest {
				g := c.guest(name, 1)
				g.Key = append(g.Key, 10, 0, 0, 1)
				return g
			}
			a, b := keyed("a").pick().has(), keyed("b").pick().has()
			first := keyed("first").pick().wants(Waits)
			a.end(NoNeed)
			b.end(NoNeed)
			c.wantWoken("first")
			if p, d := c.Explain(&first.Attempts, c.now.Now()); p != a.peer || d.Fallback != "" {
				t.Errorf("it has %v, where %v is its key's; %s", p, a.peer, d.Fallback)
			}
		})
	}
}

func TestQueueMovesOn(t *testing.T) {
	for name, makeRoom := range map[string]func(c *crowd){
		"by the operator": func(c *crowd) {
			c.SetAdmin(c.Peers()[1], balance.Up, "test", c.now.Now())
		},
		"by a configuration": func(c *crowd) {
			c.update(func(u *conf.Upstream) {
				withQueue(9, 2)(u)
				u.Servers[1].Down = true
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t, func(u *conf.Upstream) {
				withQueue(9, 1)(u)
				u.Servers[1].Down = true
			})
			c.guest("a", 1).pick().has()
			first := c.guest("first", 1).pick().wants(Waits)
			c.guest("second", 1).pick().wants(Waits)
			makeRoom(c)
			c.wantWoken("first")
			first.pick().has()
		})
	}
}

// With an adaptive limit of sessions the queue moves on as it grows.
func TestQueueUnderLimit(t *testing.T) {
	limit := conf.DefaultAdaptiveLimit(conf.AIMD)
	limit.Initial, limit.Window, limit.Target = 2, 10, time.Second
	limit.Measure, limit.ApplyTo = conf.MeasureConnect, conf.LimitSessions
	c := newCrowd(t, func(u *conf.Upstream) {
		u.Queue = &conf.Queue{Max: 10, Timeout: time.Second}
		u.Limit = &limit
	})
	c.guest("a", 1).pick().has().connect()
	b := c.guest("b", 1).pick().has().connect()
	c.guest("first", 1).pick().wants(Waits)
	second := c.guest("second", 1).pick().wants(Waits)
	for range limit.Window {
		c.Limiter().Observe(time.Millisecond, 2)
	}
	c.MoveQueue(c.now.Now())
	c.wantWoken("first")
	b.end(NoNeed)
	c.wantWoken("second")
	second.pick().has()
	if l := c.Load(c.now.Now()).Limit; l.Limit != 3 || l.InFlight != 2 {
		t.Errorf("limit is %+v", l)
	}
}

// A forecast tells of waits and refusals too, and leaves everything as it was.
func TestForecastOfWaitsAndRefusals(t *testing.T) {
	c := newCrowd(t, func(u *conf.Upstream) {
		withQueue(1, 1)(u)
		breaker(1)(u)
	})
	says := func(want string) {
		t.Helper()
		before := c.Load(c.now.Now())
		d := c.Forecast(&Facts{}, c.now.Now())
		if got := d.Sentence(func(balance.Seconds) string { return "then" }); !strings.HasPrefix(got, want) {
			t.Errorf("it says %q, want %q", got, want)
		}
		if after := c.Load(c.now.Now()); after != before {
			t.Errorf("the forecast has changed %+v to %+v", before, after)
		}
	}
	says("picked ")
	c.guest("a", 1).pick().has()
	b := c.guest("b", 1).pick().has()
	says("waits in the queue: 127.0.0.1:1 (full: 1 of max_conns 1)")
	waiting := c.guest("c", 1).pick().wants(Waits)
	says("the queue is full")
	b.fail()
	waiting.pick().wants(CircuitIsOpen)
	says("the circuit breaker is open")
	c.now.Advance(time.Second)
	says("picked ")
	c.wantCircuit(CircuitOpen)
}

// An upgrade goes on with a circuit breaker that is open.
func TestUpgradeKeepsCircuit(t *testing.T) {
	old, next := newCrowd(t, breaker(1)), newCrowd(t, breaker(1))
	old.guest("heard", 1).pick().has().connect().answer()
	old.guest("x", 1).pick().has().fail()
	old.now.Advance(400 * time.Millisecond)
	for _, p := range old.Export(old.now.Now()) {
		next.Import(&p, next.now.Now())
	}
	next.guest("y", 1).pick().wants(CircuitIsOpen)
	if l := next.Load(next.now.Now()); l.CircuitFor != 600*time.Millisecond {
		t.Errorf("it is open for %v", l.CircuitFor)
	}
	next.now.Advance(600 * time.Millisecond)
	next.guest("z", 1).pick().has().connect() // it may still hang, as is known there
	next.wantCircuit(CircuitHalfOpen)
}

// An upgrade goes on with the limit that was found.
func TestUpgradeKeepsLimit(t *testing.T) {
	limit := conf.DefaultAdaptiveLimit(conf.AIMD)
	limit.Initial, limit.Max, limit.Window, limit.Target = 5, 50, 10, time.Second
	edit := func(u *conf.Upstream) { u.Limit = &limit }
	old, next := newCrowd(t, edit), newCrowd(t, edit)
	for range 7 * limit.Window {
		old.Limiter().Observe(time.Millisecond, 50)
	}
	for _, p := range old.Export(old.now.Now()) {
		next.Import(&p, next.now.Now())
	}
	if got := next.Limiter().Limit(); got != 12 {
		t.Errorf("the limit is %d, it was %d", got, old.Limiter().Limit())
	}
}

func breaker(failures int, edit ...func(*conf.CircuitBreaker)) func(u *conf.Upstream) {
	return func(u *conf.Upstream) {
		b := conf.DefaultCircuitBreaker()
		b.Failures, b.Window, b.OpenFor, b.Probes = failures, 10*time.Second, time.Second, 2
		for _, f := range edit {
			f(&b)
		}
		u.Breaker = &b
		for i := range u.Servers {
			u.Servers[i].MaxFails = 0
		}
	}
}

func (c *crowd) wantCircuit(s CircuitState) {
	c.t.Helper()
	if got := c.Load(c.now.Now()).CircuitState; got != s {
		c.t.Fatalf("the circuit breaker is %s, want %s; it said %q", got, s, c.told)
	}
}

func TestCircuitBreaker(t *testing.T) {
	c := newCrowd(t, breaker(3))
	for range 3 { // not within the window
		c.guest("x", 1).pick().has().fail()
		c.now.Advance(6 * time.Second)
	}
	c.wantCircuit(CircuitClosed)
	c.now.Advance(11 * time.Second)
	c.guest("first", 1).pick().has().connect().answer().end(NotKnown)
	old, slow := c.guest("old", 1).pick().has().connect(), c.guest("slow", 1).pick().has().connect()
	c.guest("refused", 1).pick().has().fail()
	c.guest("broken", 1).pick().has().connect().end(Broke)
	c.guest("idle", 1).pick().has().connect().end(NoNeed) // nobody has asked for anything
	c.wantCircuit(CircuitClosed)
	c.guest("silent", 1).pick().has().connect().end(Silence)
	c.wantCircuit(CircuitOpen)
	c.guest("y", 1).pick().wants(CircuitIsOpen)

	// Half open: two may try, and what an old session tells is old news.
	c.now.Advance(time.Second)
	one, two := c.guest("one", 1).pick().has().connect(), c.guest("two", 1).pick().has().connect()
	c.guest("three", 1).pick().wants(CircuitIsOpen)
	old.end(Silence)
	slow.answer()
	one.answer()
	c.wantCircuit(CircuitHalfOpen)
	two.end(Silence)
	c.wantCircuit(CircuitOpen)

	// It is open for twice as long, and then closes.
	c.now.Advance(time.Second)
	c.guest("z", 1).pick().wants(CircuitIsOpen)
	c.now.Advance(time.Second)
	c.guest("one", 1).pick().has().connect().answer()
	c.wantCircuit(CircuitHalfOpen)
	c.guest("two", 1).pick().has().connect().answer()
	c.wantCircuit(CircuitClosed)

	// After a window without another fault the time is the first again.
	c.now.Advance(11 * time.Second)
	for range 3 {
		c.guest("x", 1).pick().has().fail()
	}
	if l := c.Load(c.now.Now()); l.CircuitFor != time.Second || l.Opened != 3 {
		t.Errorf("open for %v, the %dth time", l.CircuitFor, l.Opened)
	}
	want := "3 failures within 10s; for 1s|2 sessions try|a session that tried has failed; for 2s|2 sessions try|2 sessions went well|3 failures within 10s; for 1s"
	if got := strings.Join(c.told, "|"); got != want {
		t.Errorf("it said %s\nwant %s", got, want)
	}
}

// Sessions that try and say nothing do not keep others out for ever.
func TestCircuitBreakerWithIdleProbes(t *testing.T) {
	c := newCrowd(t, breaker(1))
	c.guest("heard", 1).pick().has().connect().answer()
	c.guest("x", 1).pick().has().fail()
	c.now.Advance(time.Second)
	for range 3 {
		c.guest("idle", 1).pick().has().connect()
		c.guest("idle", 1).pick().has().connect()
		c.guest("more", 1).pick().wants(CircuitIsOpen)
		c.now.Advance(time.Second)
	}
	c.wantCircuit(CircuitHalfOpen)
}

// A circuit breaker that a reload takes away does not come back open.
func TestCircuitBreakerTakenAway(t *testing.T) {
	c := newCrowd(t, breaker(1))
	c.guest("x", 1).pick().has().fail()
	c.wantCircuit(CircuitOpen)
	c.update(breaker(2)) // with other settings it stays
	c.wantCircuit(CircuitOpen)
	c.update(breaker(0, func(b *conf.CircuitBreaker) { b.MaxSessions = 9 }))
	c.wantCircuit(CircuitClosed)
	c.update(breaker(1))
	c.guest("y", 1).pick().has()
}

// Where peers never say anything, a connect is all that there is to go by.
func TestCircuitBreakerOfSilentProtocol(t *testing.T) {
	c := newCrowd(t, breaker(2))
	for range 5 {
		c.guest("logs", 1).pick().has().connect().end(Silence)
	}
	c.wantCircuit(CircuitClosed)
	c.guest("x", 1).pick().has().fail()
	c.guest("y", 1).pick().has().fail()
	c.wantCircuit(CircuitOpen)
	c.now.Advance(time.Second)
	c.guest("a", 1).pick().has().connect()
	c.guest("b", 1).pick().has().connect()
	c.wantCircuit(CircuitClosed)
}

func TestCircuitBreakerEmptiesQueue(t *testing.T) {
	c := newCrowd(t, func(u *conf.Upstream) {
		breaker(1)(u)
		withQueue(9, 1)(u)
	})
	c.guest("a", 1).pick().has().connect()
	b := c.guest("b", 1).pick().has()
	var waiting []*guest
	for i := range 3 {
		waiting = append(waiting, c.guest(fmt.Sprint(i), 1).pick().wants(Waits))
	}
	b.fail()
	c.wantWoken("0", "1", "2")
	for _, g := range waiting {
		g.pick().wants(CircuitIsOpen)
	}
}

func TestCircuitLimits(t *testing.T) {
	c := newCrowd(t, breaker(0, func(b *conf.CircuitBreaker) { b.MaxSessions, b.MaxPending, b.MaxRetries = 3, 2, 1 }))
	a, b := c.guest("a", 1).pick().has(), c.guest("b", 1).pick().has()
	c.guest("c", 1).pick().wants(TooManyPending)
	a.connect()
	d := c.guest("d", 1).pick().has()
	b.connect()
	c.guest("e", 1).pick().wants(TooMany)

	d.fail()
	if again, denied := c.Again(&d.Attempts, 0, c.now.Now()); !again || denied {
		t.Fatal("the first retry is not allowed")
	}
	d.pick().has()
	a.end(NoNeed)
	x := c.guest("x", 1).pick().has()
	x.fail()
	if again, denied := c.Again(&x.Attempts, 0, c.now.Now()); again || !denied {
		t.Fatal("the second retry is allowed")
	}
	c.Settle(&d.Attempts)
	if l := c.Load(c.now.Now()); l.Retries != 0 || l.Sessions != 2 || l.Pending != 1 {
		t.Errorf("load is %+v", l)
	}
}

func TestBeside(t *testing.T) {
	c := newCrowd(t, func(*conf.Upstream) {})
	a := c.guest("a", 1).pick().has()
	p := c.Beside(&a.Attempts, c.now.Now())
	if p == nil || p == a.peer {
		t.Fatalf("beside %v there is %v", a.peer, p)
	}
	if q := c.Beside(&a.Attempts, c.now.Now()); q != nil {
		t.Errorf("a third one: %v", q)
	}
	if l := c.Load(c.now.Now()); l.Sessions != 2 || l.Pending != 2 {
		t.Errorf("load is %+v", l)
	}
}

// Nobody is picked from a group that is disbanded: neither who waits, whatever else
// keeps it there, nor who begins another attempt, nor a hedge.
func TestDisbandedGroupGivesNobody(t *testing.T) {
	limit := conf.DefaultAdaptiveLimit(conf.AIMD)
	limit.Min, limit.Initial, limit.ApplyTo = 2, 2, conf.LimitSessions
	c := newCrowd(t, func(u *conf.Upstream) {
		withQueue(9, 9)(u)
		u.Limit = &limit
	})
	a, b := c.guest("a", 1).pick().has().connect(), c.guest("b", 1).pick().has()
	first, second := c.guest("first", 1).pick().wants(Waits), c.guest("second", 1).pick().wants(Waits)
	if gone := c.Disband(); len(gone) != 2 || !a.peer.IsRemoved() {
		t.Errorf("gone are %v", gone)
	}
	c.wantWoken("first", "second")
	first.pick().wants(NotEligible)
	a.end(NoNeed)
	second.pick().wants(NotEligible)
	if p := c.Beside(&b.Attempts, c.now.Now()); p != nil {
		t.Errorf("a hedge goes to %v", p)
	}
	b.fail()
	b.pick().wants(NotEligible)
	if l := c.Load(c.now.Now()); l.Sessions+l.Waiting+l.Pending != 0 {
		t.Errorf("load is %+v", l)
	}
}

// Where a reload takes the queue away, those who wait go on waiting for their time,
// and newcomers, who need not wait any more, are not held up by them.
func TestQueueTakenAway(t *testing.T) {
	c := newCrowd(t, withQueue(9, 1))
	a := c.guest("a", 1).pick().has()
	c.guest("b", 1).pick().has().fail()
	first, second := c.guest("first", 1).pick().wants(Waits), c.guest("second", 1).pick().wants(Waits)
	c.update(func(u *conf.Upstream) {
		withQueue(9, 1)(u)
		u.Queue = nil
	})
	c.wantWoken()
	c.guest("early", 1).pick().wants(NoQueue) // the only server that is available is full
	c.now.Advance(12 * time.Second)           // the other one is again
	newcomer := c.guest("new", 1).pick().has()
	if !c.MoveQueue(c.now.Now()) || len(c.woken) > 0 || c.QueueTimeout() != time.Second {
		t.Errorf("%v are woken, and may wait for %v", c.woken, c.QueueTimeout())
	}
	newcomer.connect().end(NoNeed)
	c.wantWoken("first")
	c.guest("newer", 1).pick().has()
	first.pick().wants(Waits)
	a.end(NoNeed)
	c.wantWoken("first")
	first.pick().has().connect().end(NoNeed)
	c.wantWoken("second")
	second.pick().has()
	if c.MoveQueue(c.now.Now()) {
		t.Error("a queue that is gone and empty is to be moved on")
	}
}

// Where one server gets every session (single), nobody is called for the room of
// another, nor waits for it.
func TestQueueForTheActivePeer(t *testing.T) {
	c := newCrowd(t, func(u *conf.Upstream) {
		withQueue(9, 1)(u)
		u.Balance = conf.DefaultBalance(conf.Single)
		u.Servers[0].MaxFails = 2
	})
	a := c.guest("a", 1).pick().has()
	first, second := c.guest("first", 1).pick().wants(Waits), c.guest("second", 1).pick().wants(Waits)
	c.MoveQueue(c.now.Now())
	c.wantWoken()
	a.fail() // which leaves it the active one
	c.wantWoken("first")
	first.pick().has()
	a.pick().wants(NotEligible) // it has had its try
	c.wantWoken()
	first.fail()
	c.wantWoken("second")
	if second.pick().has(); second.peer == a.peer {
		t.Error("a server that is unavailable is the active one")
	}
	first.pick().wants(Waits)
	c.MoveQueue(c.now.Now())
	c.wantWoken()
}

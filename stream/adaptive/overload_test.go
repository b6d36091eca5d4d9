package adaptive

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
)

// The simulated server of these tests does 40 requests of 100 ms at once, 400 in a
// second.
const (
	parallel = 40
	perTurn  = 100 * time.Millisecond
	best     = float64(parallel) / 0.1
	target   = 200 * time.Millisecond
)

func newServer(seed uint64) *server {
	s := &simulation{rng: rand.New(rand.NewPCG(seed, seed))}
	return &server{simulation: s, parallel: parallel, speed: 1}
}

// even is work that differs a little from turn to turn.
func (s *server) even() time.Duration {
	return time.Duration((0.8 + 0.4*s.rng.Float64()) * float64(perTurn))
}

// scattered is work of which much is short and little is long.
func (s *server) scattered() time.Duration {
	return time.Duration(s.rng.ExpFloat64() * float64(perTurn))
}

func settings(a conf.LimitAlgorithm) conf.AdaptiveLimit {
	c := conf.DefaultAdaptiveLimit(a)
	c.Target = target
	return c
}

// limiter returns one that has nothing random.
func (s *server) limiter(c conf.AdaptiveLimit) *Limiter {
	l := New(c, nil)
	if v, ok := l.algorithm.(*vegas); ok {
		v.lot = s.rng.Float64
	}
	return l
}

var algorithms = []conf.LimitAlgorithm{conf.AIMD, conf.Gradient, conf.Vegas}

// loads are three times what the server can do while it keeps the target.
var loads = map[string]func(c *clients, share float64){
	"closed": func(c *clients, share float64) { c.closed(int(3 * 2 * parallel * share)) },
	"open": func(c *clients, share float64) {
		c.patience = 2 * time.Second
		c.open(3 * best * share)
	},
}

// rate is turns in a second.
func rate(turns []turn, over time.Duration) float64 { return float64(len(turns)) / over.Seconds() }

func TestWithoutLimiterLatencyTriples(t *testing.T) {
	s := newServer(1)
	calm := &clients{server: s, work: s.even}
	calm.closed(parallel)
	s.run(20 * time.Second)
	alone := percentile(calm.finished, 0.95, served)
	for name, load := range loads {
		s := newServer(1)
		c := &clients{server: s, work: s.even}
		load(c, 1)
		t.Logf("%s\n%s", name, series(20*time.Second, 2*time.Second, c))
		if got := percentile(c.between(10*time.Second, 20*time.Second), 0.95, served); got < 3*alone {
			t.Errorf("%s load: the p95 is %v, and %v without overload: nothing that a limiter has to do", name, got, alone)
		}
	}
}

func TestAIMDHoldsTheTarget(t *testing.T) {
	for name, load := range loads {
		for _, limiters := range []int{1, 3} {
			s := newServer(2)
			var all []*clients
			for range limiters {
				c := &clients{server: s, work: s.even, limiter: s.limiter(settings(conf.AIMD))}
				load(c, 1/float64(limiters))
				all = append(all, c)
			}
			const from, to = 60 * time.Second, 120 * time.Second
			t.Logf("%s load, %d limiters\n%s", name, limiters, series(to, 6*time.Second, all...))
			var turns []turn
			for i, c := range all {
				mine := c.between(from, to)
				if share := float64(len(mine)) * float64(limiters) / (best * (to - from).Seconds()); share < 0.6 || share > 1.4 {
					t.Errorf("%s load, %d limiters: number %d has %.2f times its fair share", name, limiters, i, share)
				}
				turns = append(turns, mine...)
			}
			if p95 := percentile(turns, 0.95, served); p95 < target*9/10 || p95 > target*11/10 {
				t.Errorf("%s load, %d limiters: p95 %v, want %v within 10 %%", name, limiters, p95, target)
			}
			if got := rate(turns, to-from); got < 0.9*best {
				t.Errorf("%s load, %d limiters: %.0f turns/s of %.0f", name, limiters, got, best)
			}
		}
	}
}

// With more in flight than a window has samples, a step down is one step all the
// same.
func TestAIMDWithMuchInFlight(t *testing.T) {
	s := newServer(9)
	s.parallel = 10 * parallel
	c := settings(conf.AIMD)
	c.Initial = 500
	all := &clients{server: s, work: s.even, limiter: s.limiter(c)}
	all.closed(3 * 2 * 10 * parallel)
	const from, to = 30 * time.Second, 90 * time.Second
	t.Log("\n" + series(to, 6*time.Second, all))
	turns := all.between(from, to)
	if p95 := percentile(turns, 0.95, served); p95 < target*9/10 || p95 > target*11/10 {
		t.Errorf("p95 %v, want %v within 10 %%", p95, target)
	}
	if got := rate(turns, to-from); got < 0.9*10*best {
		t.Errorf("%.0f turns/s of %.0f", got, 10*best)
	}
}

// Where work scatters so does the percentile, and the limit rests lower.
func TestAIMDWithScatteredWork(t *testing.T) {
	s := newServer(3)
	c := settings(conf.AIMD)
	c.Target = 600 * time.Millisecond // twice the p95 of such work
	all := &clients{server: s, work: s.scattered, limiter: s.limiter(c)}
	all.closed(3 * 2 * parallel)
	const from, to = 60 * time.Second, 240 * time.Second
	t.Log("\n" + series(to, 12*time.Second, all))
	turns := all.between(from, to)
	if p95 := percentile(turns, 0.95, served); p95 < c.Target*7/10 || p95 > c.Target*11/10 {
		t.Errorf("p95 %v, target %v", p95, c.Target)
	}
	if got := rate(turns, to-from); got < 0.9*best {
		t.Errorf("%.0f turns/s of %.0f", got, best)
	}
}

// gradient and vegas have no target: they keep the latency within a small multiple
// of what it is without load, for as long as the overload lasts.
func TestGradientAndVegasBoundTheLatency(t *testing.T) {
	for _, algorithm := range []conf.LimitAlgorithm{conf.Gradient, conf.Vegas} {
		for name, load := range loads {
			for _, limiters := range []int{1, 3} {
				s := newServer(4)
				c := settings(algorithm)
				c.Initial = 20 / limiters // together they must see the server without overload first
				var all []*clients
				for range limiters {
					c := &clients{server: s, work: s.even, limiter: s.limiter(c)}
					load(c, 1/float64(limiters))
					all = append(all, c)
				}
				const from = 30 * time.Second
				to := 60 * time.Second
				if name == "closed" {
					to = 300 * time.Second // so long that vegas probes
				}
				t.Logf("%s, %s load, %d limiters\n%s", algorithm, name, limiters, series(to, to/20, all...))
				var turns []turn
				for _, c := range all {
					turns = append(turns, c.between(from, to)...)
				}
				if p95 := percentile(turns, 0.95, served); p95 > 5*perTurn/2 {
					t.Errorf("%s, %s load, %d limiters: p95 %v", algorithm, name, limiters, p95)
				}
				if got := rate(turns, to-from); got < 0.9*best {
					t.Errorf("%s, %s load, %d limiters: %.0f turns/s of %.0f", algorithm, name, limiters, got, best)
				}
			}
		}
	}
}

// A server that has become slower for good is not starved, and is used again in full
// when it is fast again.
func TestTheServerItselfBecomesSlower(t *testing.T) {
	for _, algorithm := range algorithms {
		s := newServer(5)
		c := settings(algorithm)
		c.Target = 600 * time.Millisecond
		all := &clients{server: s, work: s.even, limiter: s.limiter(c)}
		all.closed(3 * 2 * parallel)
		s.after(60*time.Second, func() { s.set(1.0 / 3) })
		s.after(600*time.Second, func() { s.set(1) })
		t.Logf("%s\n%s", algorithm, series(900*time.Second, 30*time.Second, all))
		const span = 200 * time.Second
		if got := rate(all.between(600*time.Second-span, 600*time.Second), span); got < 0.8*best/3 {
			t.Errorf("%s: %.0f turns/s of %.0f while slow", algorithm, got, best/3)
		}
		if got := rate(all.between(900*time.Second-span, 900*time.Second), span); got < 0.8*best {
			t.Errorf("%s: %.0f turns/s of %.0f when fast again", algorithm, got, best)
		}
	}
}

func TestABlinkDoesNotSendTheLimitToItsMinimum(t *testing.T) {
	for _, algorithm := range algorithms {
		s := newServer(6)
		c := &clients{server: s, work: s.even, limiter: s.limiter(settings(algorithm))}
		c.closed(3 * 2 * parallel)
		s.run(60 * time.Second)
		before := c.limiter.Limit()
		for range 10 {
			c.limiter.Observe(5*time.Second, before)
		}
		lowest := before
		for end := s.now + 10*time.Second; s.now < end; {
			s.run(s.now + 50*time.Millisecond)
			lowest = min(lowest, c.limiter.Limit())
		}
		t.Logf("%s: %d before, not below %d", algorithm, before, lowest)
		if lowest < before*7/10 || before < 20 {
			t.Errorf("%s: the limit goes from %d to %d", algorithm, before, lowest)
		}
	}
}

func TestALongCalmDoesNotLetTheLimitFly(t *testing.T) {
	for _, algorithm := range algorithms {
		s := newServer(7)
		c := &clients{server: s, work: s.even, limiter: s.limiter(settings(algorithm))}
		c.open(50) // 5 in flight
		s.run(30 * time.Minute)
		r := c.limiter.Read()
		t.Logf("%s: limit %d after %d windows", algorithm, r.Limit, r.Windows)
		if r.Windows < 800 {
			t.Fatalf("%s: %d windows in half an hour", algorithm, r.Windows)
		}
		if r.Limit > 60 {
			t.Errorf("%s: the limit is %d", algorithm, r.Limit)
		}
	}
}

// Two listeners share a limiter: what matters goes first, what does not waits.
func TestPrioritiesUnderOverload(t *testing.T) {
	for _, algorithm := range algorithms {
		s := newServer(8)
		l := s.limiter(settings(algorithm))
		high := &clients{server: s, work: s.even, limiter: l, priority: 0, patience: 2 * time.Second}
		low := &clients{server: s, work: s.even, limiter: l, priority: 5, patience: 2 * time.Second}
		high.open(best / 4)
		low.open(3 * best)
		const from, to = 30 * time.Second, 90 * time.Second
		t.Logf("%s\n%s", algorithm, series(to, 10*time.Second, high, low))
		h, w := high.between(from, to), low.between(from, to)
		p95h, p95w := percentile(h, 0.95, total), percentile(w, 0.95, total)
		t.Logf("%s: p95 of the high priority %v, %d refused; of the low one %v, %d refused", algorithm, p95h, high.refused, p95w, low.refused)
		// aimd holds the server's p95 just under the target; the few milliseconds until
		// the next slot is free come on top of that.
		const slot = 5 * time.Millisecond
		if p := percentile(h, 0.95, served); p > target || p95h > target+slot || high.refused > 0 {
			t.Errorf("%s: the high priority's p95 is %v, %v with its wait, %d refused", algorithm, p, p95h, high.refused)
		}
		if p95w < time.Second || low.refused == 0 {
			t.Errorf("%s: the low priority's p95 is %v, %d refused: it does not wait", algorithm, p95w, low.refused)
		}
		if got := rate(h, to-from) + rate(w, to-from); got < 0.9*best {
			t.Errorf("%s: %.0f turns/s of %.0f", algorithm, got, best)
		}
	}
}

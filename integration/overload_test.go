package integration_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlb/weir/bench/overload"
	"github.com/weirlb/weir/stream/admin"
)

// slowing is a server whose best is 250 answers a second. With 34 lines at once
// its p95 is 197 ms, so that a limit of about that is what a target of 200 ms
// asks for.
var slowing = overload.Model{Work: 80 * time.Millisecond, Spread: 0.5, Capacity: 20}

const (
	latencyTarget = 200 * time.Millisecond
	oneImportant  = 10 // client of so many has high priority
)

// aimd is an adaptive limit. A window that lasts for two turns and more has each
// step down seen before the next.
func aimd(initial, window int) string {
	return fmt.Sprintf(`
			  queue {
			    max     = 1000
			    timeout = "5s"
			  }
			  adaptive_limit "aimd" {
			    initial    = %d
			    target     = "200ms"
			    percentile = 0.95
			    window     = %d
			    apply_to   = "turn"
			  }`, initial, window)
}

// surge is a server that slows down, weirs before it that do not know of each
// other, and clients of two priorities.
type surge struct {
	t      *testing.T
	model  overload.Model
	server *overload.Server
	weirs  []*proxy
	lows   []string // addresses of the listeners of low priority
	watch  overload.Watch
	began  time.Time

	high, low []*overload.Crowd
}

// prepare starts a server, and weirs with such a limit; "" is none.
func prepare(t *testing.T, m overload.Model, weirs int, limit string) *surge {
	t.Helper()
	server, err := overload.Listen("127.0.0.1:0", m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	s := &surge{t: t, model: m, server: server, watch: overload.Watch{Server: server, Upstream: "u"}}
	high, low := "priority = 0", "priority = 5"
	if limit == "" {
		high, low = "", ""
	}
	for range weirs {
		v := vars{"server": server.Addr(), "low": freeAddr(t)}
		p := start(t, `
			admin {
			  listen = "unix:$dir/admin.sock"
			}
			upstream "u" {
			  server "$server" {}`+limit+`
			}
			listener "high" {
			  listen   = ["$listen"]
			  upstream = "u"
			  `+high+`
			}
			listener "low" {
			  listen   = ["$low"]
			  upstream = "u"
			  `+low+`
			}`, v)
		s.weirs, s.lows, s.watch.Weirs = append(s.weirs, p), append(s.lows, v["low"]), append(s.watch.Weirs, p.control)
	}
	s.began = time.Now()
	return s
}

// come has more clients come, as many to each weir.
func (s *surge) come(clients int) {
	each := clients / len(s.weirs)
	for i, p := range s.weirs {
		s.high = append(s.high, overload.Gather(p.addr, each/oneImportant))
		s.low = append(s.low, overload.Gather(s.lows[i], each-each/oneImportant))
	}
	s.t.Cleanup(s.leave)
}

// leave has all clients go, and looks at what they were answered.
func (s *surge) leave() {
	for _, c := range slices.Concat(s.high, s.low) {
		c.Leave()
		if err := c.Wrong(); err != nil {
			s.t.Errorf("a wrong answer: %v", err)
		}
	}
}

// look watches for a while, and returns its beginning.
func (s *surge) look(d time.Duration) (from time.Time) {
	s.t.Helper()
	from = time.Now()
	if err := s.watch.For(s.t.Context(), d); err != nil {
		s.t.Fatal(err)
	}
	return from
}

func (s *surge) seen() overload.Seen {
	return overload.Seen{Began: s.began, Moments: s.watch.Moments, Server: s.server.Turns(), High: overload.TurnsOf(s.high...), Low: overload.TurnsOf(s.low...)}
}

// gauged is what a part of a run comes to.
type gauged struct {
	best, rate      float64       // answers per second
	p95             time.Duration // as the server gives it
	high, low       time.Duration // p95 as clients see it, waits included
	highs           int           // answers to clients of high priority
	refused         int           // in the whole run
	least, mean, up float64       // limits of all weirs together
}

func (s *surge) gauge(from time.Time) gauged {
	to, seen := time.Now(), s.seen()
	server, high := seen.Server.Between(from, to), seen.High.Between(from, to)
	g := gauged{
		best: s.model.Best(), rate: float64(len(server)) / to.Sub(from).Seconds(),
		p95: server.Percentile(0.95), high: high.Percentile(0.95), low: seen.Low.Between(from, to).Percentile(0.95),
		highs: len(high), least: math.Inf(1),
	}
	points := 0
	for _, p := range seen.Series() {
		if p.Seconds < from.Sub(s.began).Seconds() {
			continue
		}
		l := float64(p.Limit())
		points++
		g.least, g.up, g.mean = min(g.least, l), max(g.up, l), g.mean+l
	}
	g.mean /= float64(max(1, points))
	for _, c := range slices.Concat(s.high, s.low) {
		g.refused += c.Refused()
	}
	return g
}

// String tells it, for the log.
func (g gauged) String() string {
	return fmt.Sprintf("%.0f answers/s of at best %.0f, p95 of the server %v, of high priority %v (%d answers), of low priority %v, %d refused; limit %.0f..%.0f, on average %.1f",
		g.rate, g.best, g.p95.Round(time.Millisecond), g.high.Round(time.Millisecond), g.highs, g.low.Round(time.Millisecond), g.refused, g.least, g.up, g.mean)
}

// tell logs the line of time.
func (s *surge) tell() {
	var b strings.Builder
	fmt.Fprintf(&b, "%6s %12s %9s %8s %9s %10s %8s %8s\n", "s", "limit", "in flight", "waiting", "answers/s", "server p95", "high p95", "low p95")
	for i, p := range s.seen().Series() {
		if i%5 != 4 {
			continue
		}
		fmt.Fprintf(&b, "%6.1f %12s %9d %8d %9.0f %10.0f %8.0f %8.0f\n", p.Seconds, strings.Trim(fmt.Sprint(p.Limits), "[]"), p.InFlight, p.Waiting, p.Rate, p.P95, p.High, p.Low)
	}
	s.t.Log("\n" + b.String())
}

// strict returns what the limit is meant to keep to, where a test runs for long
// enough to tell, and else what noise leaves of that on a busy machine.
func strict(meant, loose float64) float64 {
	if long {
		return meant
	}
	return loose
}

// during is how long a test lets something go on.
func during(short, full time.Duration) time.Duration {
	if long {
		return full
	}
	return short
}

// proof is the server that limits are tried on, the clients that are a single load
// for it, and the window of a limit. A larger one has clients of high priority wait
// less for the next slot, which is what the full demands leave room for.
func proof() (m overload.Model, clients, window int) {
	m = slowing
	if long {
		m.Capacity *= 4
	}
	return m, m.Capacity * 3 / 2, m.Capacity * 4
}

// Three times the clients make the server three times as slow. With a limit they
// wait in weir, by priority, and the server is as fast as the target says and does
// as much as it can.
func TestLimitWhileTheLoadTriples(t *testing.T) {
	m, clients, window := proof()
	unlimited := func(clients int) gauged {
		s := prepare(t, m, 1, "")
		s.come(clients)
		s.look(time.Second)
		g := s.gauge(s.look(during(3*time.Second, 10*time.Second)))
		s.leave()
		t.Logf("%d clients, no limit: %v", clients, g)
		return g
	}
	one, three := unlimited(clients), unlimited(3*clients)
	if times := float64(three.p95) / float64(one.p95); math.Abs(times-3) > 3*strict(0.1, 0.25) {
		t.Errorf("p95 of the server is %.2f times that of a single load, want 3", times)
	}

	s := prepare(t, m, 1, aimd(3*clients, window)) // which limits nothing at first
	s.come(3 * clients)
	s.look(during(5*time.Second, 10*time.Second))
	g := s.gauge(s.look(during(8*time.Second, 20*time.Second)))
	s.tell()
	t.Logf("%d clients, with the limit: %v", 3*clients, g)
	s.wantLimited(g, strict(1, 1.3))
}

// wantLimited expects what a limit is for, after convergence. Clients of high
// priority are to have their answers within so many times the target.
func (s *surge) wantLimited(g gauged, high float64) {
	t := s.t
	t.Helper()
	if off := float64(g.p95)/float64(latencyTarget) - 1; off > strict(0.1, 0.2) || off < -strict(0.1, 0.3) {
		t.Errorf("p95 of the server is %v, %.0f %% off the target", g.p95, 100*off)
	}
	if g.rate < strict(0.9, 0.75)*g.best {
		t.Errorf("%.0f answers/s, and %.0f is the best", g.rate, g.best)
	}
	if g.highs < 100 || g.high >= time.Duration(high*float64(latencyTarget)) {
		t.Errorf("%d answers to clients of high priority, p95 %v, want less than %.2f times the target", g.highs, g.high, high)
	}
	if g.low < g.high*3/2 && g.refused == 0 {
		t.Errorf("clients of low priority neither wait (p95 %v, of high priority %v) nor are refused", g.low, g.high)
	}
}

// Three weirs before one server find their parts without a word between them. A
// client of high priority waits longer for the next of a third of the slots.
func TestLimitsOfThreeWeirs(t *testing.T) {
	m, clients, window := proof()
	s := prepare(t, m, 3, aimd(clients/2, window))
	s.come(3 * clients)
	s.look(during(6*time.Second, 15*time.Second))
	g := s.gauge(s.look(during(8*time.Second, 30*time.Second)))
	s.tell()
	t.Logf("three weirs with %d clients each: %v", clients, g)
	s.wantLimited(g, strict(1.05, 1.5))
}

// Ten answers that are a second late are a decision or two, not a collapse.
func TestLimitInABlink(t *testing.T) {
	s := prepare(t, slowing, 1, aimd(40, 100))
	s.come(90)
	s.look(5 * time.Second)
	before := s.gauge(s.look(2 * time.Second))
	s.server.Delay(10, time.Second)
	from := s.look(4 * time.Second)
	after := s.gauge(from)
	s.tell()
	t.Logf("before the blink: %v", before)
	t.Logf("after it: %v", after)
	late := 0
	for _, turn := range s.server.Turns().Between(from, time.Now()) {
		if turn.Took >= time.Second {
			late++
		}
	}
	if late < 10 {
		t.Errorf("%d answers were late, and that was to be 10", late)
	}
	// Three steps down in a row, of which one may have been due anyway, are 27 %.
	if after.least < 0.6*before.mean {
		t.Errorf("the limit fell from %.1f to %.0f", before.mean, after.least)
	}
	if now := float64(last(s.seen().Series()).Limit()); now < 0.75*before.mean {
		t.Errorf("the limit is %.0f four seconds after a blink, and was %.1f before", now, before.mean)
	}
}

func last[T any](all []T) T { return all[len(all)-1] }

// A limit that nobody comes near stays where it is.
func TestLimitInACalm(t *testing.T) {
	const initial, clients = 20, 4
	s := prepare(t, slowing, 1, aimd(initial, 20))
	s.come(clients)
	g := s.gauge(s.look(during(8*time.Second, 60*time.Second)))
	t.Logf("%d clients: %v", clients, g)
	l := last(last(s.watch.Moments).Limits)
	if l.Windows < 10 {
		t.Errorf("%d windows, want enough to grow in", l.Windows)
	}
	if g.up > initial {
		t.Errorf("the limit rose to %.0f with %d clients", g.up, clients)
	}
	// Used, it grows.
	s.come(initial)
	eventually(t, 10*time.Second, "the limit grows with the load", func() bool { return s.weirs[0].limit("u").Limit > initial })
}

func (p *proxy) limit(upstream string) admin.Limit {
	p.t.Helper()
	l, err := overload.AskLimit(p.t.Context(), p.control, upstream)
	if err != nil {
		p.t.Fatal(err)
	}
	return l
}

// The same with PostgreSQL and a query that takes 20 ms for each that is under way,
// so that ten at once take 200 ms. The server says itself how long each took.
func TestLimitOfPostgres(t *testing.T) {
	const (
		query = `select extract(epoch from clock_timestamp() - statement_timestamp()) from
			(select pg_sleep(0.02 * (select count(*) from pg_stat_activity where state = 'active')) offset 0) slept`
		best = 50.0 // answers a second, by any number of clients
	)
	tcp, _ := startPostgres(t)
	measure := func(clients int, limit string, settle, d time.Duration) (p95 time.Duration, rate float64) {
		t.Helper()
		p := start(t, `
			admin {
			  listen = "unix:$dir/admin.sock"
			}
			upstream "u" {
			  server "$server" {}`+limit+`
			}
			listener "l" {
			  listen   = ["$listen"]
			  upstream = "u"
			}`, vars{"server": tcp})
		c := gather(t, manner{clients: clients}, asPostgres(p.addr, query))
		time.Sleep(settle)
		from := time.Now()
		time.Sleep(d)
		to := time.Now()
		var served, seen overload.Turns
		for _, done := range c.done() {
			seconds, err := strconv.ParseFloat(done.server, 64)
			if err != nil {
				t.Fatalf("the server says it took %q", done.server)
			}
			served = append(served, overload.Turn{Answered: done.done, Took: time.Duration(seconds * float64(time.Second))})
			seen = append(seen, overload.Turn{Answered: done.done, Took: done.done.Sub(done.sent)})
		}
		byAnswer := func(a, b overload.Turn) int { return a.Answered.Compare(b.Answered) }
		slices.SortFunc(served, byAnswer)
		slices.SortFunc(seen, byAnswer)
		served, seen = served.Between(from, to), seen.Between(from, to)
		p95, rate = served.Percentile(0.95), float64(len(served))/d.Seconds()
		text := ""
		if limit != "" {
			text = fmt.Sprintf(", limit %+v", p.limit("u"))
		}
		t.Logf("%d clients: %.1f answers/s, p95 of the server %v, of clients %v%s", clients, rate, p95, seen.Percentile(0.95), text)
		c.disperse()
		if failed := c.suffered(); len(failed) > 0 {
			t.Errorf("%d sessions failed, the first: %v", len(failed), failed[0])
		}
		return p95, rate
	}
	d := during(4*time.Second, 15*time.Second)
	one, _ := measure(8, "", time.Second, d)
	three, _ := measure(24, "", time.Second, d)
	if times := float64(three) / float64(one); math.Abs(times-3) > 3*strict(0.1, 0.25) {
		t.Errorf("p95 of the server is %.2f times that of a single load, want 3", times)
	}
	p95, rate := measure(24, aimd(24, 40), during(9*time.Second, 15*time.Second), d)
	if off := float64(p95)/float64(latencyTarget) - 1; math.Abs(off) > strict(0.1, 0.3) {
		t.Errorf("p95 of the server is %v, %.0f %% off the target", p95, 100*off)
	}
	if rate < strict(0.9, 0.75)*best {
		t.Errorf("%.1f answers/s, and %.0f is the best", rate, best)
	}
}

package adaptive

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/weirlb/weir/stream/queue"
)

// This file is a simulated server and its clients, in simulated time: a list of
// events, of which the next one is always the earliest.

// simulation is the time and what is to happen.
type simulation struct {
	now    time.Duration
	events events
	number int
	rng    *rand.Rand
}

type event struct {
	at     time.Duration
	number int // events of one instant keep their order
	do     func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].number < e[j].number
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (s *simulation) after(d time.Duration, do func()) {
	s.number++
	heap.Push(&s.events, event{s.now + d, s.number, do})
}

func (s *simulation) run(until time.Duration) {
	for len(s.events) > 0 && s.events[0].at <= until {
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		e.do()
	}
	s.now = until
}

// server shares its processors equally among all requests: with up to parallel of
// them each goes at full speed, with more of them all get slower.
type server struct {
	*simulation
	parallel float64
	speed    float64 // 1 = as planned

	at      time.Duration // when done was right
	done    float64       // work that each request in hand since ever has been given, in nanoseconds
	jobs    jobs
	planned int // number of the event that is valid
}

type job struct {
	end    float64 // done at which it is finished
	answer func()
}

type jobs []job

func (j jobs) Len() int           { return len(j) }
func (j jobs) Less(a, b int) bool { return j[a].end < j[b].end }
func (j jobs) Swap(a, b int)      { j[a], j[b] = j[b], j[a] }
func (j *jobs) Push(x any)        { *j = append(*j, x.(job)) }
func (j *jobs) Pop() any {
	last := (*j)[len(*j)-1]
	*j = (*j)[:len(*j)-1]
	return last
}

// rate is how much work a request is given in a nanosecond.
func (s *server) rate() float64 {
	return s.speed * min(1, s.parallel/float64(max(len(s.jobs), 1)))
}

// advance brings done up to now.
func (s *server) advance() {
	s.done += float64(s.now-s.at) * s.rate()
	s.at = s.now
}

// request calls answer when that much work has been done for it.
func (s *server) request(work time.Duration, answer func()) {
	s.advance()
	heap.Push(&s.jobs, job{s.done + float64(work), answer})
	s.plan()
}

// set changes the speed.
func (s *server) set(speed float64) {
	s.advance()
	s.speed = speed
	s.plan()
}

// plan makes the event of the next answer.
func (s *server) plan() {
	s.planned++
	if len(s.jobs) == 0 {
		return
	}
	planned := s.planned
	in := time.Duration((s.jobs[0].end-s.done)/s.rate()) + 1
	s.after(in, func() {
		if planned != s.planned {
			return
		}
		s.advance()
		var answers []func()
		for len(s.jobs) > 0 && s.jobs[0].end <= s.done+0.5 {
			answers = append(answers, heap.Pop(&s.jobs).(job).answer)
		}
		s.plan()
		for _, f := range answers {
			f()
		}
	})
}

// clients send turns through a limiter, if there is one.
type clients struct {
	*server
	limiter  *Limiter
	priority int
	work     func() time.Duration // of one turn
	patience time.Duration        // in line; 0 = for ever

	finished []turn
	refused  int
}

// turn is one that had its answer.
type turn struct {
	end         time.Duration
	wait, serve time.Duration
}

// closed has n clients, each of which sends the next turn once it has its answer.
func (c *clients) closed(n int) {
	var next func()
	next = func() { c.turn(next) }
	for range n {
		c.after(time.Duration(c.rng.Float64()*float64(100*time.Millisecond)), next)
	}
}

// open has turns come at random, so many in a second, whatever becomes of them.
func (c *clients) open(perSecond float64) {
	var next func()
	next = func() {
		c.turn(func() {})
		c.after(time.Duration(c.rng.ExpFloat64()/perSecond*1e9), next)
	}
	c.after(0, next)
}

// turn is one of them.
func (c *clients) turn(then func()) {
	begun := c.now
	serve := func() {
		entered := c.now
		c.request(c.work(), func() {
			took := c.now - entered
			c.finished = append(c.finished, turn{c.now, entered - begun, took})
			if c.limiter != nil {
				c.limiter.Answered(took)
				c.limiter.Leave()
			}
			then()
		})
	}
	if c.limiter == nil || c.limiter.Enter() {
		serve()
		return
	}
	waits := true
	p := &queue.Place{}
	p.Wake = func() {
		c.after(0, func() {
			if waits {
				waits = false
				serve()
			}
		})
	}
	if c.limiter.Wait(p, c.priority) {
		serve()
		return
	}
	if c.patience == 0 {
		return
	}
	c.after(c.patience, func() {
		if !waits {
			return
		}
		waits = false
		if c.limiter.Cancel(p) {
			c.limiter.Leave()
		}
		c.refused++
		c.after(10*time.Millisecond, then)
	})
}

// between returns the turns that ended in a time.
func (c *clients) between(from, to time.Duration) []turn {
	i, _ := slices.BinarySearchFunc(c.finished, from, func(t turn, d time.Duration) int { return int(t.end - d) })
	j, _ := slices.BinarySearchFunc(c.finished, to, func(t turn, d time.Duration) int { return int(t.end - d) })
	return c.finished[i:j]
}

// percentile returns the value at q of what of tells of each turn.
func percentile(turns []turn, q float64, of func(turn) time.Duration) time.Duration {
	if len(turns) == 0 {
		return 0
	}
	all := make([]time.Duration, len(turns))
	for i, t := range turns {
		all[i] = of(t)
	}
	slices.Sort(all)
	return all[min(int(q*float64(len(all))), len(all)-1)]
}

func served(t turn) time.Duration { return t.serve }
func total(t turn) time.Duration  { return t.wait + t.serve }

// series runs the simulation and returns what has happened in each step of it.
func series(until, step time.Duration, all ...*clients) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%6s %24s %9s %8s %9s %9s %9s\n", "time", "limit", "in flight", "waiting", "turns/s", "p95", "p95+wait")
	s := all[0].server
	for from := s.now; from < until; from += step {
		s.run(from + step)
		var limits []string
		var turns []turn
		waits := 0
		seen := map[*Limiter]bool{}
		for _, c := range all {
			turns = append(turns, c.between(from, from+step)...)
			if c.limiter == nil || seen[c.limiter] {
				continue
			}
			seen[c.limiter] = true
			r := c.limiter.Read()
			limits = append(limits, fmt.Sprint(r.Limit))
			waits += r.Waiting
		}
		fmt.Fprintf(&b, "%6v %24s %9d %8d %9.0f %9v %9v\n", s.now, strings.Join(limits, " "), len(s.jobs), waits,
			float64(len(turns))/step.Seconds(), percentile(turns, 0.95, served).Round(time.Millisecond), percentile(turns, 0.95, total).Round(time.Millisecond))
	}
	return b.String()
}

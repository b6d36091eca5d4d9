package overload

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/weirlb/weir/stream/admin"
)

// arrival is a job of a test; took is what it should take.
type arrival struct{ at, work, took time.Duration }

const ms = time.Millisecond

func TestSharing(t *testing.T) {
	for name, test := range map[string][]arrival{
		"one alone":                            {{0, 100 * ms, 100 * ms}},
		"two have a place each":                {{0, 100 * ms, 100 * ms}, {50 * ms, 100 * ms, 100 * ms}},
		"four share two places":                {{0, 100 * ms, 200 * ms}, {0, 100 * ms, 200 * ms}, {0, 100 * ms, 200 * ms}, {0, 100 * ms, 200 * ms}},
		"the third slows down the two":         {{0, 100 * ms, 130 * ms}, {0, 100 * ms, 130 * ms}, {40 * ms, 100 * ms, 130 * ms}},
		"who is done makes the others faster":  {{0, 20 * ms, 30 * ms}, {0, 100 * ms, 110 * ms}, {0, 100 * ms, 110 * ms}},
		"a pause without a job costs nothing":  {{0, 10 * ms, 10 * ms}, {time.Second, 10 * ms, 10 * ms}},
		"work of nothing is done at once":      {{0, 0, 0}, {0, 10 * ms, 10 * ms}},
		"the same end for all, in any order":   {{0, 30 * ms, 45 * ms}, {0, 30 * ms, 45 * ms}, {0, 30 * ms, 45 * ms}},
		"late comers go after those who began": {{0, 60 * ms, 75 * ms}, {0, 60 * ms, 75 * ms}, {30 * ms, 60 * ms, 75 * ms}},
	} {
		t.Run(name, func(t *testing.T) {
			for i, took := range simulate(2, test) {
				if diff := took - test[i].took; diff.Abs() > time.Microsecond {
					t.Errorf("job %d took %v, want %v", i, took, test[i].took)
				}
			}
		})
	}
}

// simulate returns how long each job takes.
func simulate(capacity int, arrivals []arrival) []time.Duration {
	start := time.Now()
	s := sharing{capacity: capacity, at: start}
	took := make([]time.Duration, len(arrivals))
	done := make([]chan struct{}, len(arrivals))
	look := func(at time.Time) {
		for i, d := range done {
			select {
			case <-d:
				took[i] = at.Sub(start) - arrivals[i].at
			default:
			}
		}
	}
	// run goes from one end of a job to the next.
	run := func(to time.Time) {
		for len(s.jobs) > 0 && !s.next().After(to) {
			at := s.next()
			s.advance(at)
			look(at)
		}
		s.advance(to)
	}
	for i, a := range arrivals {
		run(start.Add(a.at))
		done[i] = make(chan struct{}, 1)
		s.add(a.work, done[i])
	}
	run(start.Add(time.Hour))
	return took
}

// A timer that comes late must not change who is done, nor how much work is left.
func TestSharingIsNotForgetful(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	start := time.Now()
	prompt, late := sharing{capacity: 3, at: start}, sharing{capacity: 3, at: start}
	done := make(chan struct{}, 10000)
	now := start
	for range 1000 {
		now = now.Add(time.Duration(r.Int64N(int64(10 * ms))))
		for len(prompt.jobs) > 0 && !prompt.next().After(now) {
			prompt.advance(prompt.next())
		}
		prompt.advance(now)
		late.advance(now)
		if len(prompt.jobs) != len(late.jobs) {
			t.Fatalf("%d jobs are left, and %d by a late timer", len(prompt.jobs), len(late.jobs))
		}
		work := time.Duration(r.Int64N(int64(40 * ms)))
		prompt.add(work, done)
		late.add(work, done)
	}
	if diff := prompt.next().Sub(late.next()); diff.Abs() > 10*time.Microsecond {
		t.Errorf("the next job is done %v earlier by a late timer", diff)
	}
}

func TestModel(t *testing.T) {
	m := Model{Work: 80 * ms, Spread: 0.5, Capacity: 40}
	if got := m.Best(); got != 500 {
		t.Errorf("best is %v/s, want 500", got)
	}
	for underWay, want := range map[int]time.Duration{1: 116 * ms, 40: 116 * ms, 80: 232 * ms} {
		if got := m.Latency(0.95, underWay); (got - want).Abs() > time.Microsecond {
			t.Errorf("p95 of %d at once is %v, want %v", underWay, got, want)
		}
	}
	if got := m.Latency(0.5, 40); got != 80*ms {
		t.Errorf("half are faster than %v, want 80ms", got)
	}
}

func TestTurns(t *testing.T) {
	start := time.Now()
	var turns Turns
	for i := range 100 {
		turns = append(turns, Turn{start.Add(time.Duration(i) * time.Second), time.Duration((i*37)%100+1) * ms})
	}
	for share, want := range map[float64]time.Duration{0: ms, 0.01: ms, 0.5: 50 * ms, 0.95: 95 * ms, 0.951: 96 * ms, 1: 100 * ms} {
		if got := turns.Percentile(share); got != want {
			t.Errorf("percentile %v is %v, want %v", share, got, want)
		}
	}
	if got := (Turns{}).Percentile(0.95); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	for _, test := range []struct{ from, to, want int }{{0, 100, 100}, {10, 20, 10}, {-5, 1, 1}, {99, 500, 1}, {200, 300, 0}, {20, 10, 0}} {
		at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
		if got := turns.Between(at(test.from), at(test.to)); len(got) != test.want {
			t.Errorf("%d turns from second %d to %d, want %d", len(got), test.from, test.to, test.want)
		}
	}
}

func listen(t *testing.T, m Model) *Server {
	t.Helper()
	s, err := Listen("127.0.0.1:0", m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Twice the clients that it has places for are answered in twice the time, and no
// more of them.
func TestServerAndCrowd(t *testing.T) {
	m := Model{Work: 20 * ms, Spread: 0.5, Capacity: 5}
	s := listen(t, m)
	c := Gather(s.Addr(), 10)
	defer c.Leave()
	for deadline := time.Now().Add(20 * time.Second); len(c.Turns()) < 300; time.Sleep(ms) {
		if time.Now().After(deadline) {
			t.Fatalf("%d answers, want 300", len(c.Turns()))
		}
	}
	if n := s.UnderWay(); n > 10 {
		t.Errorf("%d lines under way of 10 clients", n)
	}
	c.Leave()
	turns := c.Turns()
	took := turns[len(turns)-1].Answered.Sub(turns[99].Answered)
	rate := float64(len(turns)-100) / took.Seconds()
	t.Logf("%.0f answers/s, of %.0f; p95 %v of %v", rate, m.Best(), s.Turns().Percentile(0.95), m.Latency(0.95, 10))
	// Work of chance, so now and then a little faster than the mean; slower on a
	// busy machine.
	if rate > 1.15*m.Best() {
		t.Errorf("%.0f answers/s, and %.0f is the best", rate, m.Best())
	}
	if p := s.Turns()[100:].Percentile(0.95); p <= m.Latency(0.95, 5) {
		t.Errorf("p95 %v of ten at once, as if there were five", p)
	}
	if c.Refused() != 0 || c.Wrong() != nil {
		t.Errorf("%d refused, %v", c.Refused(), c.Wrong())
	}
	all := TurnsOf(c, c)
	if len(all) != 2*len(turns) || !slices.IsSortedFunc(all, func(a, b Turn) int { return a.Answered.Compare(b.Answered) }) {
		t.Errorf("%d turns of two crowds of %d, sorted or not", len(all), len(turns))
	}
}

func TestServerIsLate(t *testing.T) {
	s := listen(t, Model{Work: ms, Capacity: 1})
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	s.Delay(1, 100*ms)
	in := bufio.NewReader(c)
	for i := range 2 {
		began := time.Now()
		fmt.Fprintf(c, "line %d\n", i)
		line, err := in.ReadString('\n')
		if err != nil || line != fmt.Sprintf("line %d\n", i) {
			t.Fatalf("read %q, %v", line, err)
		}
		if took := time.Since(began); i == 0 && took < 100*ms {
			t.Errorf("the late answer came after %v", took)
		}
	}
	if turns := s.Turns(); len(turns) != 2 || turns[0].Took < 100*ms || turns[1].Took >= turns[0].Took {
		t.Errorf("the server saw %v", turns)
	}
}

// Who is refused comes back, and a server that ends leaves nobody behind.
func TestCrowdIsRefused(t *testing.T) {
	s := listen(t, Model{Work: time.Hour, Capacity: 1})
	c := Gather(s.Addr(), 3)
	defer c.Leave()
	for deadline := time.Now().Add(20 * time.Second); s.UnderWay() < 3; time.Sleep(ms) {
		if time.Now().After(deadline) {
			t.Fatal("three clients do not come")
		}
	}
	s.Close()
	for deadline := time.Now().Add(20 * time.Second); c.Refused() < 6; time.Sleep(ms) {
		if time.Now().After(deadline) {
			t.Fatalf("%d refused, want each twice", c.Refused())
		}
	}
}

func TestSeries(t *testing.T) {
	began := time.Now()
	at := func(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }
	seen := Seen{
		Began:  began,
		Server: Turns{{at(0.2), 100 * ms}, {at(1.5), 300 * ms}, {at(1.9), 200 * ms}},
		High:   Turns{{at(1.9), 210 * ms}},
		Low:    Turns{{at(0.2), 110 * ms}, {at(1.5), 900 * ms}},
		Moments: []Moment{
			{At: at(0.5), UnderWay: 3, Limits: []admin.Limit{{}}},
			{At: at(2), UnderWay: 2, Limits: []admin.Limit{{Limit: 5, InFlight: 2, Waiting: 1}, {Limit: 6, InFlight: 1, Waiting: 4}}},
		},
	}
	got := seen.Series()
	want := []Point{
		{Seconds: 0.5, UnderWay: 3, P95: 100, Low: 110, Rate: 2},
		{Seconds: 2, Limits: []int{5, 6}, InFlight: 3, Waiting: 5, UnderWay: 2, P95: 300, High: 210, Low: 900, Rate: 2},
	}
	for i, p := range got {
		if math.Abs(p.Seconds-want[i].Seconds) > 1e-6 {
			t.Errorf("point %d is at %v s, want %v", i, p.Seconds, want[i].Seconds)
		}
		p.Seconds = want[i].Seconds
		if fmt.Sprint(p) != fmt.Sprint(want[i]) {
			t.Errorf("point %d is %+v, want %+v", i, p, want[i])
		}
	}
	if got[0].Limit() != 0 || got[1].Limit() != 11 {
		t.Errorf("limits %d and %d, want 0 and 11", got[0].Limit(), got[1].Limit())
	}
}

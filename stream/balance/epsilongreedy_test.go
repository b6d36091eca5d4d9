package balance

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func newGreedy(t testing.TB, epsilon float64, peers []*Peer) *group {
	return newGroup(t, Options{Method: "epsilon_greedy", Epsilon: epsilon, HalfLife: 10_000, Seed: 9}, peers)
}

// sample is one session of a peer: its latency, or a failure.
func (g *group) sample(i int, latency Millis, ok bool, now Millis) {
	g.picked(&Selection{}, i, now)
	if !ok {
		g.release(i, refused, now)
		g.peers[i].Fails = 0
		return
	}
	g.connected(i, 1, now)
	g.firstByte(i, latency, now)
	g.release(i, Use{Took: Times{1, latency, latency}}, now)
}

func TestEpsilonGreedyTakesTheBest(t *testing.T) {
	for _, c := range []struct {
		name    string
		weights []int
		samples func(g *group)
		want    string
	}{
		{"latency", []int{1, 1, 1}, func(g *group) {
			g.sample(0, 30, true, start)
			g.sample(1, 10, true, start)
			g.sample(2, 20, true, start)
		}, "bbb"},
		{"success rate", []int{1, 1}, func(g *group) {
			g.sample(0, 10, true, start)
			g.sample(0, 0, false, start)
			g.sample(0, 0, false, start) // 11 ms / a third
			g.sample(1, 30, true, start)
		}, "bbb"},
		{"rate and latency", []int{1, 1}, func(g *group) {
			g.sample(0, 10, true, start)
			g.sample(0, 0, false, start) // 11 ms / a half
			g.sample(1, 30, true, start)
		}, "aaa"},
		{"failures count without latency", []int{1, 1}, func(g *group) {
			g.sample(0, 0, true, start)
			g.sample(0, 0, false, start)
			g.sample(1, 0, true, start)
		}, "bbb"},
		{"weight", []int{1, 3}, func(g *group) {
			g.sample(0, 10, true, start)
			g.sample(1, 25, true, start)
		}, "bbb"},
		{"equal for their weight", []int{1, 2}, func(g *group) {
			g.sample(0, 9, true, start)
			g.sample(1, 19, true, start)
		}, "b"},
		{"never a success", []int{1, 100}, func(g *group) {
			g.sample(0, 4000, true, start)
			g.sample(1, 0, false, start)
		}, "aaa"},
		{"unknown first", []int{100, 1}, func(g *group) {
			g.sample(0, 1, true, start)
		}, "b"},
		{"unknown by round robin", []int{1, 3, 2}, func(*group) {}, "bca"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGreedy(t, 0, newPeers(c.weights...))
			c.samples(g)
			got := ""
			for range c.want {
				var s Selection
				i := g.pick(&s, start) // and no result
				got += string(letter(i))
			}
			if got != c.want {
				t.Errorf("picked %s, want %s", got, c.want)
			}
		})
	}
}

func TestEpsilonGreedyTies(t *testing.T) {
	g := newGreedy(t, 0, newPeers(5, 1, 1))
	g.sample(0, 49, true, start)
	g.sample(1, 9, true, start)
	g.sample(2, 9, true, start)
	got := ""
	for range 7 {
		var s Selection
		got += string(letter(g.pick(&s, start)))
	}
	if got != "aabacaa" {
		t.Errorf("picked %s among equal ones, want round robin's aabacaa", got)
	}
}

// An unknown peer that does not answer gets one session, not all of them; and
// when nobody is known they all go on by weight.
func TestEpsilonGreedyAwaits(t *testing.T) {
	g := newGreedy(t, 0, newPeers(1, 1, 2))
	var s [12]Selection
	got := ""
	for i := range s {
		got += string(letter(g.pick(&s[i], start)))
	}
	a, b, c := strings.Count(got, "a"), strings.Count(got, "b"), strings.Count(got, "c")
	if a < 3 || b < 3 || c < 5 { // of 3, 3, 6: being asked for the first time is not by weight
		t.Errorf("picked %s before any result, want shares by weight", got)
	}
	g.connected(0, 5, start)
	if got := g.pick(&Selection{}, start); got != 0 {
		t.Errorf("picked %d, want the only one that has answered", got)
	}
	// One that is given up has told nothing and is asked anew.
	g.release(1, Use{Took: notConnected}, start)
	if got := g.pick(&Selection{}, start); got != 1 {
		t.Errorf("picked %d, want the one of which nothing is known or awaited", got)
	}
	g.release(1, refused, start)
	g.peers[1].Fails = 0
	if got := g.pick(&Selection{}, start); got != 0 {
		t.Errorf("picked %d after the other has failed, want the one that has answered", got)
	}
}

func TestEpsilonGreedyForgets(t *testing.T) {
	g := newGreedy(t, 0, newPeers(1, 1))
	g.sample(0, 10, true, start)
	g.sample(1, 0, false, start)
	for _, c := range []struct {
		after Millis
		want  string
	}{{0, "a"}, {10_000, "a"}, {29_999, "a"}, {30_000, "b"}} { // three half-lives
		for range 2 {
			g.peers[0].Success.awaited, g.peers[1].Success.awaited = false, false
			g.peers[0].Current, g.peers[1].Current = 0, 5 // b first, if they are equal
			if got := string(letter(g.method.Pick(&Selection{}, start+c.after))); got != c.want {
				t.Errorf("%d ms later: picked %s, want %s", c.after, got, c.want)
			}
		}
	}
}

// While a session goes on and nothing has come from the peer the time to
// connect stands for the latency. It counts no more once there is a first byte.
func TestEpsilonGreedyLatency(t *testing.T) {
	g := newGreedy(t, 0, newPeers(1))
	p := g.peers[0]
	check := func(what string, want int64) {
		t.Helper()
		if p.Success.expected != want {
			t.Errorf("%s: expected time %d us, want %d", what, p.Success.expected, want)
		}
	}
	g.connected(0, 3, start)
	check("connected", 4000)
	g.firstByte(0, 99, start)
	check("first byte", 100_000)
	g.release(0, Use{Took: Times{3, 99, 500}}, start)
	check("released", 100_000)
	g.connected(0, 3, start)
	g.release(0, Use{Took: Times{3, None, 500}}, start)
	check("released without a byte", 52_000)
	g.release(0, Use{Took: notConnected}, start)
	check("given up", 52_000)
	g.release(0, refused, start)
	check("failed", 78_000)
}

// The account agrees with one that keeps all samples and weighs each by its
// age.
func TestEpsilonGreedyDecay(t *testing.T) {
	r := newRand(t, 10)
	type sample struct {
		at      Millis
		latency float64 // 0 = failure
	}
	for range 200 {
		g := newGreedy(t, 0, newPeers(1))
		e := &g.peers[0].Success
		now := start
		var samples []sample
		for range 1 + r.IntN(30) {
			now += Millis(r.IntN(20_000))
			s := sample{at: now}
			if r.IntN(4) > 0 {
				s.latency = float64(1 + r.IntN(100))
			}
			samples = append(samples, s)
			g.sample(0, Millis(s.latency)-1, s.latency > 0, now)

			// weighs is what is left of the samples at that time.
			weighs := func(at Millis) (attempts, successes, latency float64) {
				for _, s := range samples {
					w := math.Pow(2, -float64(at-s.at)/10_000)
					attempts += w
					if s.latency > 0 {
						successes += w
						latency += w * s.latency
					}
				}
				return attempts, successes, latency
			}
			attempts, successes, latency := weighs(now)
			if math.Abs(successes-faded) < 1e-6 {
				continue // either is right
			}
			want := float64(worstLoad)
			if successes > faded {
				want = 1000 * latency / successes * attempts / successes
			}
			if got := float64(e.expected); math.Abs(got-want) > 1+want*1e-9 {
				t.Fatalf("samples %v: expected time %v, want %v", samples, got, want)
			}
			// A load of 0 is that of an unknown peer.
			for _, at := range []Millis{now, now + Millis(r.IntN(100_000)), e.knownUntil - 1, e.knownUntil + 1} {
				left, _, _ := weighs(at)
				if known := e.load(1, at) != 0; known != (left > faded) {
					t.Fatalf("samples %v: known %v at %d with %v left", samples, known, at, left)
				}
			}
		}
	}
}

func TestEpsilonGreedyExplores(t *testing.T) {
	for _, epsilon := range []float64{0, 0.1, 0.5, 1} {
		g := newGreedy(t, epsilon, newPeers(1, 2, 1))
		const n = 20_000
		counts := [3]float64{}
		g.sample(0, 9, true, start)
		g.sample(1, 500, true, start)
		g.sample(2, 500, true, start)
		for range n {
			counts[g.pick(&Selection{}, start)]++
		}
		for i, share := range []float64{1 - epsilon + epsilon/4, epsilon / 2, epsilon / 4} {
			if off := math.Abs(counts[i]/n - share); off > 4*math.Sqrt(share*(1-share)/n) {
				t.Errorf("epsilon %v: peer %c got %.3f of the sessions, want %.3f", epsilon, letter(i), counts[i]/n, share)
			}
		}
		t.Logf("epsilon %v: %v of %d sessions", epsilon, counts, n)
	}
}

// Ten sessions a second to two peers, of which now the one and now the other is
// the fast one.
func TestEpsilonGreedyFollows(t *testing.T) {
	g := newGreedy(t, 0.1, newPeers(1, 1))
	now := start
	for minute := range 4 {
		fast := minute % 2
		counts := [2]int{}
		for range 600 {
			now += 100
			var s Selection
			i := g.pick(&s, now)
			latency := Millis(50)
			if i == fast {
				latency = 5
			}
			g.connected(i, 1, now)
			g.firstByte(i, latency, now)
			g.release(i, Use{Took: Times{1, latency, latency}}, now)
			counts[i]++
		}
		t.Logf("minute %d: %v", minute, counts)
		if counts[fast] < 450 {
			t.Errorf("minute %d: the fast peer got %d of 600", minute, counts[fast])
		}
	}
}

func TestEpsilonGreedyOptions(t *testing.T) {
	for _, c := range []struct {
		epsilon  float64
		halfLife Millis
		want     string
	}{
		{1.5, 1000, `set up balancing method "epsilon_greedy": epsilon is 1.5, not from 0 to 1`},
		{-0.1, 1000, `set up balancing method "epsilon_greedy": epsilon is -0.1, not from 0 to 1`},
		{math.NaN(), 1000, `set up balancing method "epsilon_greedy": epsilon is NaN, not from 0 to 1`},
		{0.1, 0, `set up balancing method "epsilon_greedy": half life is 0 ms, not above 0`},
	} {
		_, err := New(Options{Method: "epsilon_greedy", Epsilon: c.epsilon, HalfLife: c.halfLife}, newPeers(1, 1))
		if fmt.Sprint(err) != c.want {
			t.Errorf("epsilon %v, half life %d: error %v, want %s", c.epsilon, c.halfLife, err, c.want)
		}
	}
}

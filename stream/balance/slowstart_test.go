package balance

import (
	"maps"
	"slices"
	"testing"
)

// warm is a group in which the last peer has just come and begins a slow start of
// ten seconds.
func warm(t *testing.T, o Options, weights ...int) *group {
	t.Helper()
	g := newGroup(t, o, newPeers(weights...))
	cold := g.peers[len(g.peers)-1]
	cold.SlowStart, cold.Cold = 10_000, start
	return g
}

// pickWarm picks as an upstream group does while a peer is in slow start.
func (g *group) pickWarm(key string, now Millis) int {
	var s Selection
	s.Grow(len(g.peers))
	s.Key = []byte(key)
	resting := Rest(g.method, g.peers, now)
	before := s
	i := g.method.Pick(&s, now)
	if i < 0 && resting {
		Wake(g.peers)
		s = before
		i = g.method.Pick(&s, now)
	}
	return i
}

// With every method a cold peer's part of short sessions grows with its warmth,
// and nobody goes without a peer. With epsilon_greedy, which would give it all,
// it may well get less.
func TestSlowStartGivesLittleAtFirst(t *testing.T) {
	all := variants()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			o := all[name]
			share := func(warmth float64) float64 {
				g := warm(t, o, 1, 1, 1, 1)
				now := start + Millis(10_000*warmth)
				got := 0
				const picks = 4000
				for n := range picks {
					i := g.pickWarm(string(rune('a'+n%26))+string(rune('a'+n/26%26)), now)
					if i < 0 {
						t.Fatalf("at %v of its slow start, pick %d found nobody", warmth, n)
					}
					if i == 3 {
						got++
					}
				}
				return float64(got) / picks
			}
			whole := share(1)
			if o.Method == "single" || o.Method == "first" || o.Method == "ip_hash" && whole == 0 {
				return // the last peer has no part
			}
			if cold := share(0); cold > 0.001 {
				t.Errorf("at the beginning it gets %.3f of the sessions", cold)
			}
			half := share(0.5)
			if half < 0.3*whole && o.Method != "epsilon_greedy" || half > 0.8*whole {
				t.Errorf("half way it gets %.3f of the sessions, and %.3f when it is warm", half, whole)
			}
		})
	}
}

// With least_conn and long sessions, the cold peer's connections follow the mean
// of the others instead of catching up at once.
func TestSlowStartDoesNotFloodLeastConn(t *testing.T) {
	for _, name := range []string{"least_conn", "least_time", "random_two"} {
		t.Run(name, func(t *testing.T) {
			g := warm(t, variants()[name], 1, 1, 1)
			g.peers[0].Conns, g.peers[1].Conns = 1000, 1000
			for ms := range Millis(10_000) {
				i := g.pickWarm("", start+ms)
				g.peers[i].Conns++
				mean := float64(g.peers[0].Conns+g.peers[1].Conns) / 2
				if got, most := float64(g.peers[2].Conns), mean*float64(ms)/10_000+2; got > most {
					t.Fatalf("after %d ms the cold peer has %v connections, the others %v each", ms, got, mean)
				}
			}
			if g.peers[2].Conns < 1000 {
				t.Errorf("at the end of its slow start it has %d connections", g.peers[2].Conns)
			}
		})
	}
}

// A group of which all peers are cold serves everybody, at any time of it.
func TestSlowStartOfEverybody(t *testing.T) {
	all := variants()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		g := newGroup(t, all[name], newPeers(3, 1))
		for _, p := range g.peers {
			p.SlowStart, p.Cold = 10_000, start
		}
		for ms := Millis(0); ms < 11_000; ms += 7 {
			if g.pickWarm("k", start+ms) < 0 {
				t.Fatalf("%s: after %d ms nobody was picked", name, ms)
			}
		}
		if Rest(g.method, g.peers, start+10_000) {
			t.Errorf("%s: slow start does not end", name)
		}
		for _, p := range g.peers {
			if p.Resting || p.Virtual != 0 {
				t.Errorf("%s: after slow start a peer is %+v", name, p)
			}
		}
	}
}

// Slow start never gives a session a peer that is not eligible.
func TestWakeLeavesOthersOut(t *testing.T) {
	g := warm(t, Options{Method: "round_robin"}, 1, 1)
	g.peers[0].Withheld = LeftUnhealthy
	for range 10 {
		if i := g.pickWarm("", start); i != 1 {
			t.Fatalf("picked %d", i)
		}
	}
	g.peers[1].Withheld = LeftStandby
	if i := g.pickWarm("", start); i >= 0 {
		t.Fatalf("picked %d, and nobody is eligible", i)
	}
	if why := g.peers[1].Ineligible(start.Seconds()); why != LeftStandby {
		t.Errorf("it is left out as %v", why)
	}
}

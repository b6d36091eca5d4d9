package balance

import "testing"

func TestWeightedRoundRobin(t *testing.T) {
	down := func(p *Peer) { p.Admin = Down }
	for _, c := range []struct {
		name    string
		weights []int
		change  func(peers []*Peer)
		want    string // of a cycle and the beginning of the next one
	}{
		{"doc", []int{4, 3, 2}, nil, "aababcabc" + "aab"},
		{"equal", []int{1, 1, 1}, nil, "abc" + "abc"},
		{"one peer", []int{7}, nil, "a" + "aa"},
		{"common divisor", []int{40, 30, 20}, nil, "aababcabc" + "aab"},
		{"heavy one last", []int{1, 2, 5}, nil, "cccbcabc" + "ccc"},
		{"far apart", []int{1, 65535}, nil, "bbbbbb"},
		{"down", []int{4, 3, 2}, func(p []*Peer) { down(p[1]) }, "aaacac" + "aaa"},
		{"heaviest down", []int{4, 3, 2}, func(p []*Peer) { down(p[0]) }, "bbcbc" + "bbc"},
		{"heaviest of many levels down", []int{65535, 2, 1}, func(p []*Peer) { down(p[0]) }, "bbc" + "bbc"},
		{"drained", []int{4, 3, 2}, func(p []*Peer) { p[2].Admin = Drain }, "aababab" + "aab"},
		{"unavailable", []int{4, 3, 2}, func(p []*Peer) { p[0].Fails, p[0].Checked = 1, start.Seconds() }, "bbcbc" + "bbc"},
		{"full", []int{4, 3, 2}, func(p []*Peer) { p[0].MaxConns, p[0].Conns = 1, 1 }, "bbcbc" + "bbc"},
		{"nobody", []int{4, 3}, func(p []*Peer) { down(p[0]); down(p[1]) }, "--"},
		{"no peers", nil, nil, "-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGroup(t, Options{Method: "weighted_round_robin"}, newPeers(c.weights...))
			if c.change != nil {
				c.change(g.peers)
			}
			if got := g.sessions(len(c.want), start); got != c.want {
				t.Errorf("picked %s, want %s", got, c.want)
			}
		})
	}
}

func TestWeightedRoundRobinGoesOn(t *testing.T) {
	g := newGroup(t, Options{Method: "weighted_round_robin"}, newPeers(4, 3, 2))
	check := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: picked %s, want %s", what, got, want)
		}
	}
	check("first level", g.sessions(1, start), "a")
	g.peers[1].Admin = Down
	check("b misses a level", g.sessions(1, start), "a")
	g.peers[1].Admin = Up
	check("b is back", g.sessions(4, start), "babc")
	for _, p := range g.peers {
		p.Admin = Down
	}
	check("nobody", g.sessions(3, start), "---")
	for _, p := range g.peers {
		p.Admin = Up
	}
	check("the cycle goes on", g.sessions(3+9, start), "abc"+"aababcabc")

	// A retry takes the next turn, and its session's end of the cycle is that
	// of everybody.
	s := allTried(3)
	var tries string
	for range 4 {
		i := g.pick(s, start)
		tries += string(letter(i))
		if i >= 0 {
			g.peers[i].Conns--
		}
	}
	check("retries", tries, "abc-") // levels 4, 3 and 2
	check("after them", g.sessions(3, start), "abc")
}

func TestWeightedRoundRobinFailureKeepsWeight(t *testing.T) {
	g := newGroup(t, Options{Method: "weighted_round_robin"}, newPeers(2, 1))
	g.peers[0].MaxFails = 2
	g.fail(0, start)
	if got := g.sessions(6, start); got != "aabaab" {
		t.Errorf("picked %s after a failure, want aabaab", got)
	}
}

// A pick must not walk through the 65,535 levels that only the heaviest peer
// reaches. Explanations count the peers it stops at, which are all at its level
// or above.
func TestWeightedRoundRobinIsBounded(t *testing.T) {
	peers := newPeers(append([]int{65535}, ones(99)...)...)
	m := newWeightedRoundRobin(peers)
	peers[0].Admin = Down
	for range 1000 {
		if _, e := Explain(m, peers, allTried(100), start); e.Winner < 1 || len(e.Probes) > 2*len(peers) {
			t.Fatalf("picked %d after %d stops", e.Winner, len(e.Probes))
		}
	}
}

// Without failures each peer has its exact share of any cycle, wherever it is
// cut.
func TestCycleShares(t *testing.T) {
	r := newRand(t, 1)
	for _, method := range []string{"round_robin", "weighted_round_robin"} {
		for range 100 {
			weights := randomWeights(r, 1+r.IntN(12), []int{3, 20, 1000}[r.IntN(3)])
			scale := 1 + r.IntN(4)
			divisor, sum := 0, 0
			for i := range weights {
				weights[i] *= scale
				divisor = gcd(divisor, weights[i])
				sum += weights[i]
			}
			g := newGroup(t, Options{Method: method}, newPeers(weights...))
			g.sessions(r.IntN(2*sum), start)
			var held Selection
			g.pick(&held, start) // an open session must not matter
			for range 2 {
				counts := make([]int, len(weights))
				for range sum / divisor {
					counts[g.session(nil, 1, start)]++
				}
				for i, n := range counts {
					if n != weights[i]/divisor {
						t.Fatalf("%s, weights %v: picked %v in a cycle of %d", method, weights, counts, sum/divisor)
					}
				}
			}
		}
	}
}

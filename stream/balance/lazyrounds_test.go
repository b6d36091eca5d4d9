package balance

import (
	"math/rand/v2"
	"testing"
)

// many is a group with some lazily balanced peers, and a twin of it that looks
// at every peer in every round.
type many struct {
	lazy, plain *group
	held        []int // peer of each open session
	now         Millis
	rand        *rand.Rand
	rounds      int // lazy ones
}

func newMany(t *testing.T, r *rand.Rand) *many {
	n := lazyFrom + r.IntN(100)
	weights := randomWeights(r, n, []int{1, 3, 100}[r.IntN(3)])
	m := &many{now: start, rand: r}
	for _, g := range [...]**group{&m.lazy, &m.plain} {
		*g = newGroup(t, Options{Method: "round_robin"}, newPeers(weights...))
	}
	for i := range n {
		fails, conns := r.IntN(3), 4*r.IntN(2)*r.IntN(5)
		for _, g := range [...]*group{m.lazy, m.plain} {
			g.peers[i].MaxFails, g.peers[i].MaxConns, g.peers[i].FailTimeout = fails, conns, 5
		}
	}
	m.plain.method = roundRobin(m.plain.peers)
	return m
}

// step is a pick for a new session, mostly; it returns what each group picked.
func (m *many) step() (lazy, plain int) {
	both := [...]*group{m.lazy, m.plain}
	do := func(f func(g *group)) {
		for _, g := range both {
			f(g)
		}
	}
	n := len(m.lazy.peers)
	if len(m.held) > n {
		i := m.held[0]
		m.held = m.held[1:]
		do(func(g *group) { g.release(i, Use{}, m.now) })
	}
	switch p := m.rand.IntN(n); m.rand.IntN(2000) {
	case 0:
		a := Admin(m.rand.IntN(3))
		do(func(g *group) { Settle(g.method); g.peers[p].Admin = a })
	case 1, 2, 3:
		do(func(g *group) {
			for range g.peers[p].MaxFails {
				g.fail(p, m.now)
			}
		})
	case 4:
		var s Selection
		s.Grow(n)
		e, _ := Rehearse(m.lazy.method, m.lazy.peers, &s, m.now, false)
		s.Reset()
		if i, _ := Explain(m.lazy.method, m.lazy.peers, &s, m.now); i != e {
			return i, -2
		}
		s.Reset()
		return e, m.plain.method.Pick(&s, m.now)
	case 5, 6, 7, 8, 9:
		m.now += 1000
	}
	if l := m.lazy.method.(*lazyRounds); l.on {
		m.rounds++
	}
	var s, t Selection
	s.Grow(n)
	t.Grow(n)
	if m.rand.IntN(500) == 0 { // a retry
		tried := m.rand.IntN(n)
		s.MarkTried(tried)
		t.MarkTried(tried)
	}
	lazy, plain = m.lazy.pick(&s, m.now), m.plain.pick(&t, m.now)
	if plain >= 0 {
		m.held = append(m.held, plain)
	}
	if plain >= 0 && m.rand.IntN(3) > 0 { // it is not connected at once
		do(func(g *group) { g.connected(plain, 1, m.now) })
	}
	return lazy, plain
}

// Lazy rounds are the same rounds, and leave the same accounts.
func TestLazyRounds(t *testing.T) {
	r := newRand(t, 7)
	rounds, picks := 0, 0
	for range 60 {
		m := newMany(t, r)
		for range 5000 {
			if lazy, plain := m.step(); lazy != plain {
				t.Fatalf("pick %d is %d, without lazy rounds %d", picks, lazy, plain)
			}
			picks++
			if r.IntN(1000) > 0 {
				continue
			}
			Settle(m.lazy.method)
			for i, p := range m.lazy.peers {
				if *p != *m.plain.peers[i] {
					t.Fatalf("after %d picks peer %d is %+v, without lazy rounds %+v", picks, i, *p, *m.plain.peers[i])
				}
			}
		}
		rounds += m.rounds
	}
	if rounds < picks/4 {
		t.Errorf("only %d of %d picks were lazy", rounds, picks)
	}
	t.Logf("%d of %d picks were lazy", rounds, picks)
}

// Lazy rounds end when it is time to try an unavailable peer again.
func TestLazyRoundsEndInTime(t *testing.T) {
	g := newGroup(t, Options{Method: "round_robin"}, newPeers(ones(lazyFrom)...))
	g.fail(3, start)
	for range 5 * lazyAfter {
		if g.session(nil, 1, start) == 3 {
			t.Fatal("the peer that has failed was picked")
		}
	}
	if !g.method.(*lazyRounds).on {
		t.Fatal("lazy rounds have not begun")
	}
	again := start + 11_000 // the first second after fail_timeout
	picked := false
	for range lazyFrom {
		picked = picked || g.session(nil, 1, again) == 3
	}
	if !picked {
		t.Error("the peer was not tried again")
	}
}

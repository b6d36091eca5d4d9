package balance

import (
	"fmt"
	"math/rand/v2"
)

func init() {
	register("random", registration{make: func(o Options, peers []*Peer) (Method, error) {
		m := newRandom(o, peers)
		switch {
		case o.Choices == 1:
			return &m, nil
		case o.Choices == 2 && o.ByTime:
			return &timedChoice{timing{o.Time, o.Inflight}, m}, nil
		case o.Choices == 2:
			return &choice{m}, nil
		}
		return nil, fmt.Errorf("choices is %d, not 1 or 2", o.Choices)
	}})
}

// random draws a peer by weight (ngx_stream_upstream_get_random_peer).
type random struct {
	peers []*Peer
	lots  lots
	rand  *rand.Rand
	pcg   *rand.PCG // what rand draws from
}

func newRandom(o Options, peers []*Peer) random {
	pcg := rand.NewPCG(o.Seed, uint64(len(peers)))
	return random{peers, newLots(peers), rand.New(pcg), pcg}
}

func (m *random) save() func() {
	before := *m.pcg
	return func() { *m.pcg = before }
}

func (m *random) draw() int { return m.rand.IntN(m.lots.total) }

func (m *random) Pick(s *Selection, now Millis) int {
	if len(m.peers) < 2 {
		return smooth(m.peers, s, now)
	}
	s.decidedBy("lot")
	return m.lots.search(m.peers, s, now, m.draw)
}

// choice draws two peers and takes the one with fewer connections for its
// weight (ngx_stream_upstream_get_random2_peer).
type choice struct{ random }

func (m *choice) cold() cold { return coldByLoad }

func (m *choice) Pick(s *Selection, now Millis) int {
	s.decidedBy("connections per weight of two drawn by lot")
	return m.ofTwo(s, now, (*Peer).conns)
}

// timedChoice draws two peers and takes the one that least_time would.
type timedChoice struct {
	timing
	random
}

func (m *timedChoice) Pick(s *Selection, now Millis) int {
	s.decidedBy("time and connections per weight of two drawn by lot")
	return m.ofTwo(s, now, func(p *Peer) int64 {
		if m.inflight {
			p.Inflight.fold(now)
		}
		return m.load(p, now)
	})
}

// ofTwo draws until it has two different eligible peers. The second one wins
// unless it has more load for its weight than the first. The loser is not
// marked as tried.
func (m *random) ofTwo(s *Selection, now Millis, load func(*Peer) int64) int {
	if len(m.peers) < 2 {
		return smooth(m.peers, s, now)
	}
	first := -1
	for s.misses <= maxMisses {
		n := m.draw()
		s.rounds++
		i := m.lots.holder(n)
		switch {
		case i == first:
			s.miss()
		case !s.hit(m.peers, i, n, now):
		case first < 0:
			first = i
		default:
			a, b := m.peers[first], m.peers[i]
			la, lb := load(a), load(b)
			if s.why != nil {
				s.why.score(first, float64(la)/float64(a.Weight))
				s.why.score(i, float64(lb)/float64(b.Weight))
			}
			if lb*int64(a.Weight) > la*int64(b.Weight) {
				return first
			}
			return i
		}
	}
	return s.giveUp(m.peers, now)
}

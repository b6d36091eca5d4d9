package balance

func init() {
	register("weighted_round_robin", registration{make: func(_ Options, peers []*Peer) (Method, error) {
		return newWeightedRoundRobin(peers), nil
	}})
}

// weightedRoundRobin is the interleaved weighted round robin of the Linux
// Virtual Server (http://kb.linuxvirtualserver.org/wiki/Weighted_Round-Robin_Scheduling,
// in the kernel net/netfilter/ipvs/ip_vs_wrr.c).
//
// A walk goes round the list at a level, and stops at each peer whose weight
// reaches it. The level starts at the greatest weight and goes down at every
// wrap by the greatest common divisor of the weights; below that the cycle
// begins again. Weights 4, 3, 2:
//
//	level   4   3     2       1
//	stops   a   a b   a b c   a b c
//
// In a cycle of sum/gcd picks each peer is picked weight/gcd times. Heavy peers
// come in bursts, unlike in round_robin.
//
// Weights are the configured ones: a failure takes a peer out for fail_timeout,
// as in every method, but does not lower its share before or after that. A peer
// that is not eligible loses its turns. Retries move the walk on.
type weightedRoundRobin struct {
	peers []*Peer
	step  int // greatest common divisor of the weights
	at    int // where the walk has stopped last
	level int // 0 = the cycle is over
}

func newWeightedRoundRobin(peers []*Peer) *weightedRoundRobin {
	m := &weightedRoundRobin{peers: peers, at: len(peers) - 1}
	for _, p := range peers {
		m.step = gcd(m.step, p.Weight)
	}
	return m
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Pick takes at most two turns round the list: one to the end of a level that
// no eligible peer reaches, and one at a level that some eligible peer does.
func (m *weightedRoundRobin) Pick(s *Selection, now Millis) int {
	s.decidedBy("turn in the cycle of weights")
	at, level := m.at, m.level
	for range 2 * len(m.peers) {
		if at++; at == len(m.peers) {
			if at, level = 0, m.lower(level, s, now); level == 0 {
				break
			}
		}
		if m.peers[at].Weight >= level && m.mayStop(s, at, level, now) {
			m.at, m.level = at, level
			return at
		}
	}
	return -1
}

// lower returns the level after this one, or 0 if nobody is eligible. Levels
// that no eligible peer reaches are left out at once: there may be 65,535 of
// them while the heaviest peer is away. A weight is a multiple of the step, so
// the walk stays in step with the full cycle.
func (m *weightedRoundRobin) lower(level int, s *Selection, now Millis) int {
	heaviest, reachable := 0, 0
	for i, p := range m.peers {
		heaviest = max(heaviest, p.Weight)
		if p.Weight > reachable && s.may(m.peers, i, now.Seconds()) {
			reachable = p.Weight
		}
	}
	if level -= m.step; level <= 0 {
		level = heaviest
	}
	return min(level, reachable)
}

func (m *weightedRoundRobin) mayStop(s *Selection, i, level int, now Millis) bool {
	if s.why != nil {
		s.why.probe(Probe{At: level, Peer: i, Left: s.leftOut(m.peers, i, now.Seconds())})
	}
	return s.may(m.peers, i, now.Seconds())
}

func (m *weightedRoundRobin) save() func() {
	at, level := m.at, m.level
	return func() { m.at, m.level = at, level }
}

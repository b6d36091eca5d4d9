package balance

// Slow start gives a peer that has just come, or come back, its part of the
// sessions little by little: its share grows from nothing to all of it in
// SlowStart. nginx's commercial version and HAProxy scale the weight for that,
// which a small weight can not be, and which does nothing to least_conn: that
// one gives every session to the peer that has none. So weights stay as they
// are here, and the peer takes part in as many picks as its share is, the rest
// of them going on as if it were not there.

// lot returns the nth number of a sequence, from 0 up to 1, that falls into no
// step with methods that go in cycles: splitmix64's (G. Steele, D. Lea, C. Flood,
// "Fast splittable pseudorandom number generators", 2014).
func lot(n, sequence uint64) float64 {
	z := n*0x9e3779b97f4a7c15 + sequence<<32
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) / (1 << 53)
}

// cold is how a method is kept from a peer in slow start.
type cold uint8

const (
	// coldByTurn has the peer take part in its share of the picks: for methods
	// that give everybody a turn.
	coldByTurn cold = iota
	// coldByLoad has it count sessions of others as its own besides, so many that
	// it reaches their mean when slow start ends, and not at once.
	coldByLoad
	// coldByPart has it take part in its share of as many picks as its weight
	// stands for: for methods that would give it all in which it takes part.
	coldByPart
	// neverCold is for methods that slow start means nothing to.
	neverCold
)

// Warmth returns the share of its part, 0..1, that the peer may have now.
func (p *Peer) Warmth(now Millis) float64 {
	if p.SlowStart == 0 || p.Cold == 0 {
		return 1
	}
	return min(max(float64(now-p.Cold), 0)/float64(p.SlowStart), 1)
}

// Rest has peers in slow start sit out the next pick of m, whose peers these
// are, and reports whether there are such peers: without them it need not be
// called. If nobody is eligible then, Wake them and pick again: slow start
// leaves no session without a peer.
func Rest(m Method, peers []*Peer, now Millis) bool {
	Settle(m)
	how := coldByTurn
	if c, ok := m.(interface{ cold() cold }); ok {
		how = c.cold()
	}
	var weight, warmWeight, warmConns int
	for _, p := range peers {
		p.Resting, p.Virtual = false, 0
		weight += p.Weight
		if p.Warmth(now) == 1 && p.Eligible(now.Seconds()) {
			warmWeight += p.Weight
			warmConns += p.Conns
		}
	}
	some := false
	for i, p := range peers {
		share := p.Warmth(now)
		if share == 1 || how == neverCold {
			continue
		}
		some = true
		if how == coldByLoad && warmWeight > 0 {
			p.Virtual = int((1 - share) * float64(warmConns*p.Weight) / float64(warmWeight))
		}
		if how == coldByPart {
			share *= float64(p.Weight) / float64(weight)
		}
		p.Lot++
		p.Resting = lot(p.Lot, uint64(i)) >= share
	}
	return some
}

// Wake has nobody sit out a pick.
func Wake(peers []*Peer) {
	for _, p := range peers {
		p.Resting = false
	}
}

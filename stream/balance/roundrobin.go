package balance

// roundRobin is smooth weighted round robin
// (ngx_stream_upstream_get_round_robin_peer and ngx_stream_upstream_get_peer).
type roundRobin struct{}

func (roundRobin) Pick(peers []*Peer, s *Selection, now Seconds) int {
	best, total := -1, 0
	for i, p := range peers {
		if s.Tried(i) || !p.Eligible(now) {
			continue
		}
		total += p.step()
		if best < 0 || p.Current > peers[best].Current {
			best = i
		}
	}
	if best >= 0 {
		peers[best].Current -= total
	}
	return best
}

// step is one peer's part of a smooth round-robin walk: its effective weight
// is added to its account and, only then, recovers by one. It returns what was
// added.
func (p *Peer) step() int {
	added := p.Effective
	p.Current += added
	if p.Effective < p.Weight {
		p.Effective++
	}
	return added
}

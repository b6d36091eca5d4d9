package balance

func init() {
	register("round_robin", registration{make: func(_ Options, peers []*Peer) (Method, error) {
		if len(peers) < lazyFrom {
			return roundRobin(peers), nil
		}
		return newLazyRounds(peers), nil
	}})
}

// roundRobin is smooth weighted round robin
// (ngx_stream_upstream_get_peer).
type roundRobin []*Peer

func (m roundRobin) Pick(s *Selection, now Millis) int { return smooth(m, s, now) }

// smooth makes one round over all eligible peers. The other methods come here
// when their own way has led nowhere.
func smooth(peers []*Peer, s *Selection, now Millis) int {
	r := newRound()
	for i, p := range s.eligible(peers, 0, now.Seconds()) {
		r.offer(i, p)
	}
	return r.take()
}

// round is one round of smooth weighted round robin over the peers that it is
// offered, in order. It is the only place that moves current weights.
type round struct {
	best  *Peer
	index int
	total int // of the effective weights
}

func newRound() round { return round{index: -1} }

// offer adds a peer's effective weight to its account. The effective weight
// recovers by one for each round it takes part in, counting from the next; of
// equals the first one offered leads.
func (r *round) offer(i int, p *Peer) {
	r.total += p.Effective
	p.Current += p.Effective
	if p.Effective < p.Weight {
		p.Effective++
	}
	if r.best == nil || p.Current > r.best.Current {
		r.best, r.index = p, i
	}
}

// take charges the winner with the whole round and returns its index, or -1 if
// nobody was offered.
func (r *round) take() int {
	if r.best != nil {
		r.best.Current -= r.total
	}
	return r.index
}

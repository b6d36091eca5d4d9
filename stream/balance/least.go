package balance

// least picks the eligible peer with the smallest load for its weight. If
// others equal the first such peer, one round of smooth round robin decides
// among it and those of them that come after it
// (ngx_stream_upstream_get_least_conn_peer). Loads are compared by
// cross-multiplication: nothing is divided.
//
// While ties are sought the winner so far may have another weight than the
// first one. least_conn then compares with the winner's load; least_time keeps
// comparing with the first one's, as nginx does: keepLoad.
func least(peers []*Peer, s *Selection, now Millis, load func(*Peer) int64, keepLoad bool) int {
	best, tied := -1, false
	var lowest int64
	var weight int64 // of the best
	for i, p := range s.eligible(peers, 0, now.Seconds()) {
		l := load(p)
		if s.why != nil {
			s.why.score(i, float64(l)/float64(p.Weight))
		}
		switch a, b := l*weight, lowest*int64(p.Weight); {
		case best < 0 || a < b:
			best, tied, lowest, weight = i, false, l, int64(p.Weight)
		case a == b:
			tied = true
		}
	}
	if !tied {
		return best
	}
	r := newRound()
	reference, leader := lowest, (*Peer)(nil)
	for i, p := range s.eligible(peers, best, now.Seconds()) {
		if r.best != leader {
			leader = r.best
			weight = int64(leader.Weight)
			if !keepLoad {
				reference = load(leader)
			}
		}
		if load(p)*weight == reference*int64(p.Weight) {
			r.offer(i, p)
			if s.why != nil {
				s.why.tie(i)
			}
		}
	}
	return r.take()
}

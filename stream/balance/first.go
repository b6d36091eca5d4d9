package balance

func init() {
	register("first", registration{make: func(_ Options, peers []*Peer) (Method, error) { return first(peers), nil }})
}

// first fills the first peer to its max_conns, then the next one. Weights do
// not count.
type first []*Peer

func (m first) Pick(s *Selection, now Millis) int {
	s.decidedBy("place in the list")
	for i := range s.eligible(m, 0, now.Seconds()) {
		return i
	}
	return -1
}

package balance

import "iter"

// Selection is what one session remembers between its picks. Its zero value,
// after Grow, is ready for use in a group of any size up to that.
type Selection struct {
	// Key is what keyed methods hash: set by the caller before the first pick
	// and left alone by Reset. See [KeyOf].
	Key []byte

	tried     uint64   // peers 0..63
	triedMore []uint64 // peers 64 and up

	// of the keyed methods and random, whose search goes on where the last
	// pick ended
	misses  int    // draws that hit nobody eligible
	rounds  int    // draws so far
	sum     uint32 // of the hashes of all rounds
	point   int    // place on the ring, or in the table
	started bool   // point is set

	why *Explanation // nil = nobody asks
}

// Grow makes room for that many peers. It allocates only above 64, and only
// once for a size.
func (s *Selection) Grow(peers int) {
	if words := (peers - 1) / 64; words > len(s.triedMore) {
		s.triedMore = make([]uint64, words)
	}
}

// Reset forgets which peers were tried and where a search stood.
func (s *Selection) Reset() {
	clear(s.triedMore)
	*s = Selection{Key: s.Key, triedMore: s.triedMore}
}

// Tried reports whether the session has attempted peer i.
func (s *Selection) Tried(i int) bool {
	if i < 64 {
		return s.tried>>i&1 == 1
	}
	return s.triedMore[i/64-1]>>(i%64)&1 == 1
}

// MarkTried notes that the session attempts peer i.
func (s *Selection) MarkTried(i int) {
	if i < 64 {
		s.tried |= 1 << i
		return
	}
	s.triedMore[i/64-1] |= 1 << (i % 64)
}

// triedAny reports whether the session has attempted any peer.
func (s *Selection) triedAny() bool {
	tried := s.tried
	for _, word := range s.triedMore {
		tried |= word
	}
	return tried != 0
}

// eligible walks the peers from index from on that the session may be given.
// The compiler turns it into the plain loop; see BenchmarkPick.
func (s *Selection) eligible(peers []*Peer, from int, now Seconds) iter.Seq2[int, *Peer] {
	return func(yield func(int, *Peer) bool) {
		for i := from; i < len(peers); i++ {
			if p := peers[i]; !s.Tried(i) && p.Eligible(now) && !yield(i, p) {
				return
			}
		}
	}
}

// may reports whether the session may be given peer i.
func (s *Selection) may(peers []*Peer, i int, now Seconds) bool {
	return !s.Tried(i) && peers[i].Eligible(now)
}

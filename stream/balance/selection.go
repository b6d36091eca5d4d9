package balance

// Selection is what one session remembers from pick to pick: the peers it has
// attempted. Its zero value is ready for up to 64 peers; Grow it for more.
type Selection struct {
	tried     uint64   // peers 0..63
	triedMore []uint64 // peers 64 and up
}

// Grow makes room for that many peers.
func (s *Selection) Grow(peers int) {
	if words := (peers - 1) / 64; words > len(s.triedMore) {
		s.triedMore = make([]uint64, words)
	}
}

// Reset forgets every attempt and keeps the room.
func (s *Selection) Reset() {
	s.tried = 0
	clear(s.triedMore)
}

// Tried reports whether peer i was attempted.
func (s *Selection) Tried(i int) bool {
	if i < 64 {
		return s.tried>>i&1 == 1
	}
	return s.triedMore[i/64-1]>>(i%64)&1 == 1
}

// MarkTried notes that peer i is being attempted.
func (s *Selection) MarkTried(i int) {
	if i < 64 {
		s.tried |= 1 << i
		return
	}
	s.triedMore[i/64-1] |= 1 << (i % 64)
}

package balance

import (
	"hash/crc32"
	"strconv"
)

func init() {
	register("hash", registration{key: OwnKey, make: func(o Options, peers []*Peer) (Method, error) {
		if o.Consistent {
			return newConsistentHash(peers), nil
		}
		return &hash{peers, newLots(peers)}, nil
	}})
}

// maxMisses is how many draws of a session may hit nobody eligible before
// round robin takes over, for good in that session.
const maxMisses = 20

// hash places a key by its CRC and the weights
// (ngx_stream_upstream_get_hash_peer).
type hash struct {
	peers []*Peer
	lots  lots
}

func (m *hash) Pick(s *Selection, now Millis) int {
	if len(s.Key) == 0 || len(m.peers) < 2 {
		s.leave("there is nothing to hash or nothing to choose from")
		return smooth(m.peers, s, now)
	}
	s.decidedBy("hash of the key")
	return m.lots.search(m.peers, s, now, func() int {
		h := s.nextHash()
		s.sum += h >> 16 & 0x7fff
		return int(s.sum % uint32(m.lots.total))
	})
}

// nextHash returns the checksum of the key for the session's next round: the
// first one is of the key alone, later ones of the round's number before it.
func (s *Selection) nextHash() uint32 {
	var h uint32
	if s.rounds > 0 {
		h = checksumOfDigits(s.rounds)
	}
	return crc32.Update(h, crc32.IEEETable, s.Key)
}

// checksumOfDigits returns the checksum of n in decimal. It goes by the table
// because what crc32.Update is given has to be on the heap.
func checksumOfDigits(n int) uint32 {
	var digits [20]byte
	h := ^uint32(0)
	for _, d := range strconv.AppendInt(digits[:0], int64(n), 10) {
		h = crc32.IEEETable[byte(h)^d] ^ h>>8
	}
	return ^h
}

// lots are the numbers from 0 to total-1, of which each peer holds as many as
// its weight, in order.
type lots struct {
	upTo  []int // the first number that is no longer the peer's
	total int
}

func newLots(peers []*Peer) lots {
	l := lots{upTo: make([]int, len(peers))}
	for i, p := range peers {
		l.total += p.Weight
		l.upTo[i] = l.total
	}
	return l
}

// holder returns the peer that holds lot n.
func (l *lots) holder(n int) int {
	lo, hi := 0, len(l.upTo)-1
	for lo < hi {
		if mid := int(uint(lo+hi) / 2); n < l.upTo[mid] {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// search draws lots until one is held by an eligible peer, and turns to round
// robin when the session has missed too often.
func (l *lots) search(peers []*Peer, s *Selection, now Millis, draw func() int) int {
	for s.misses <= maxMisses {
		n := draw()
		s.rounds++
		i := l.holder(n)
		if s.hit(peers, i, n, now) {
			return i
		}
	}
	return s.giveUp(peers, now)
}

// hit reports whether the session may be given the peer that its search has
// come to, and counts a miss if not.
func (s *Selection) hit(peers []*Peer, i, at int, now Millis) bool {
	ok := s.may(peers, i, now.Seconds())
	if s.why != nil {
		s.why.probe(Probe{At: at, Peer: i, Left: s.leftOut(peers, i, now.Seconds())})
	}
	if !ok {
		s.miss()
	}
	return ok
}

// miss counts a miss.
func (s *Selection) miss() { s.misses++ }

// giveUp leaves a session that has missed too often to round robin, in this
// pick and in those that may follow.
func (s *Selection) giveUp(peers []*Peer, now Millis) int {
	s.leave("20 misses are allowed and this session had one more")
	return smooth(peers, s, now)
}

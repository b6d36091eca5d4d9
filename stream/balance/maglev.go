package balance

import (
	"cmp"
	"fmt"
	"slices"
)

func init() {
	register("maglev", registration{key: OwnKey, make: newMaglev})
}

// maglev looks a key up in a table that every machine fills in the same way
// from the peers' addresses and weights (D. Eisenbud et al., "Maglev: A Fast
// and Reliable Software Network Load Balancer", NSDI 2016, section 3.4). The
// order of the list does not matter, except among peers of one address.
//
// Without a peer the filled table differs in that peer's slots and in few
// others. While a peer is not eligible the table stays, and its keys go to the
// owners of the slots that follow: no other key moves.
type maglev struct {
	peers []*Peer
	table []int32 // the peer that owns each slot
}

const (
	// smallTable is the paper's size for few peers.
	smallTable = 65537
	// slotsPerPeer keeps the peers' shares within 1 % of each other, as the
	// paper asks for.
	slotsPerPeer = 100
)

func newMaglev(o Options, peers []*Peer) (Method, error) {
	size := o.TableSize
	if size == 0 {
		size = tableSize(len(peers))
	}
	if !prime(size) {
		return nil, fmt.Errorf("table size is %d, not a prime", size)
	}
	if size < len(peers) {
		return nil, fmt.Errorf("table size is %d, less than the %d peers", size, len(peers))
	}
	m := &maglev{peers: peers}
	if len(peers) > 1 {
		m.table = fillTable(size, newClaimants(size, peers))
	}
	return m, nil
}

// tableSize goes up in few steps, because with the size nearly all keys move.
func tableSize(peers int) int {
	size := smallTable
	for size < slotsPerPeer*peers {
		size *= 2
	}
	for !prime(size) {
		size++
	}
	return size
}

func prime(n int) bool {
	for d := 2; d*d <= n; d++ {
		if n%d == 0 {
			return false
		}
	}
	return n > 1
}

func (m *maglev) Pick(s *Selection, now Millis) int {
	if len(s.Key) == 0 || len(m.peers) < 2 {
		s.leave("there is nothing to hash or nothing to choose from")
		return smooth(m.peers, s, now)
	}
	s.decidedBy("slot of the key in the table")
	if !s.started {
		s.point, s.started = int(hash64(s.Key, 0)%uint64(len(m.table))), true
	}
	// A retry begins where the last pick ended: it finds that peer tried.
	for s.misses <= maxMisses {
		if i := int(m.table[s.point]); s.hit(m.peers, i, s.point, now) {
			return i
		}
		s.point = (s.point + 1) % len(m.table)
	}
	return s.giveUp(m.peers, now)
}

// claimant is a peer while the table is filled: its walk over the slots, which
// comes to each of them once because the number of slots is a prime.
type claimant struct {
	peer   int32
	slot   int // to claim next
	skip   int
	weight int64
	due    int64 // when it has its next turn
}

const free = -1

// fillTable lets the peers claim slots in turn until all are owned. Everybody
// has a turn in the first round. From then on the heaviest have one in every
// round, and the others one when their share of the rounds so far, to the
// nearest whole turn, is more than they have had. (Rounding up would favour the
// light by up to half a slot: by 5 % with 1,000 peers of weights 1 to 10.)
func fillTable(size int, claimants []claimant) []int32 {
	table := slices.Repeat([]int32{free}, size)
	var heaviest int64
	for _, c := range claimants {
		heaviest = max(heaviest, c.weight)
	}
	for i := range claimants {
		claimants[i].due = heaviest // the half that rounds up, doubled
	}
	for round, left := int64(1), size; ; round++ {
		for i := range claimants {
			c := &claimants[i]
			if round > 1 && 2*round*c.weight < c.due {
				continue
			}
			c.due += 2 * heaviest
			c.claim(table)
			if left--; left == 0 {
				return table
			}
		}
	}
}

// claim takes the next slot of the walk that is free.
func (c *claimant) claim(table []int32) {
	for table[c.slot] != free {
		if c.slot += c.skip; c.slot >= len(table) {
			c.slot -= len(table)
		}
	}
	table[c.slot] = c.peer
}

// newClaimants returns the peers in order of address, so that the order of the
// list has no influence.
func newClaimants(size int, peers []*Peer) []claimant {
	order := make([]int, len(peers))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(peers[a].Address, peers[b].Address) })
	list := make([]claimant, len(peers))
	var same uint64 // peers before this one that have its address
	for n, i := range order {
		p := peers[i]
		if n > 0 && peers[order[n-1]].Address == p.Address {
			same++
		} else {
			same = 0
		}
		address := []byte(p.Address)
		list[n] = claimant{
			peer:   int32(i),
			slot:   int(hash64(address, 1+2*same) % uint64(size)),
			skip:   int(hash64(address, 2+2*same)%uint64(size-1)) + 1,
			weight: int64(p.Weight),
		}
	}
	return list
}

// hash64 returns the nth of a family of hashes that differ as if independent,
// and are the same on every machine and in every version of weir: the nth
// output of SplitMix64, seeded with FNV-1a of the data, whose own last bytes are
// badly mixed.
func hash64(data []byte, n uint64) uint64 { return splitMix64(fnv1a(data), n) }

// fnv1a is the 64-bit hash of G. Fowler, L. Noll and K. Vo
// (http://www.isthe.com/chongo/tech/comp/fnv/), without the object behind an
// interface that hash/fnv makes of it.
func fnv1a(data []byte) uint64 {
	h := uint64(0xcbf29ce484222325)
	for _, b := range data {
		h = (h ^ uint64(b)) * 0x100000001b3
	}
	return h
}

// splitMix64 is the generator of G. Steele, D. Lea and C. Flood, "Fast
// Splittable Pseudorandom Number Generators", OOPSLA 2014, with the constants
// of S. Vigna's splitmix64.c. It can start anywhere in its sequence.
func splitMix64(seed, n uint64) uint64 {
	z := seed + (n+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

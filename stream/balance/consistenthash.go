package balance

import (
	"cmp"
	"hash/crc32"
	"slices"
	"strings"
)

// pointsPerWeight is how many points of the ring one unit of weight gets.
const pointsPerWeight = 160

// consistentHash is nginx's ketama ring
// (ngx_stream_upstream_update_chash, ..._get_chash_peer).
type consistentHash struct {
	peers   []*Peer
	ring    []point // in ascending order of hash, each hash once
	servers [][]int // the peers of each distinct server text, in order
}

type point struct {
	hash   uint32
	server int32
}

func newConsistentHash(peers []*Peer) *consistentHash {
	m := &consistentHash{peers: peers}
	index := map[string]int32{}
	for i, p := range peers {
		server, known := index[p.Server]
		if !known {
			server = int32(len(m.servers))
			index[p.Server] = server
			m.servers = append(m.servers, nil)
		}
		m.servers[server] = append(m.servers[server], i)
		m.ring = appendPoints(m.ring, p.Server, server, p.Weight*pointsPerWeight)
	}
	slices.SortStableFunc(m.ring, func(a, b point) int { return cmp.Compare(a.hash, b.hash) })
	m.ring = slices.CompactFunc(m.ring, func(a, b point) bool { return a.hash == b.hash })
	m.ring = slices.Clip(m.ring)
	return m
}

// appendPoints appends a server's first n points. Each is the checksum of its
// host, a zero byte, its port and the point before, as four little-endian
// bytes.
func appendPoints(ring []point, text string, server int32, n int) []point {
	host, port := splitServer(text)
	base := crc32.ChecksumIEEE([]byte(host + "\x00" + port))
	var previous [4]byte
	for range n {
		h := crc32.Update(base, crc32.IEEETable, previous[:])
		ring = append(ring, point{h, server})
		previous = [4]byte{byte(h), byte(h >> 8), byte(h >> 16), byte(h >> 24)}
	}
	return ring
}

// splitServer splits a server's text at its last colon if only digits follow.
func splitServer(text string) (host, port string) {
	if path, ok := cutPrefixFold(text, "unix:"); ok {
		return path, ""
	}
	i := strings.LastIndexByte(text, ':')
	if i < 0 || strings.Trim(text[i+1:], "0123456789") != "" {
		return text, ""
	}
	return text[:i], text[i+1:]
}

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

func (m *consistentHash) Pick(s *Selection, now Millis) int {
	if len(s.Key) == 0 || len(m.peers) < 2 {
		s.leave("there is nothing to hash or nothing to choose from")
		return smooth(m.peers, s, now)
	}
	s.decidedBy("place of the key on the ring")
	if !s.started {
		s.point, s.started = m.find(crc32.ChecksumIEEE(s.Key)), true
	}
	// A retry begins where the last pick ended: other peers of the same server
	// may be left at that point.
	for s.misses <= maxMisses {
		if i := m.at(s, now); i >= 0 {
			return i
		}
		s.point = (s.point + 1) % len(m.ring)
		s.miss()
	}
	return s.giveUp(m.peers, now)
}

// find returns the first point at or after h, around the ring.
func (m *consistentHash) find(h uint32) int {
	i, _ := slices.BinarySearchFunc(m.ring, h, func(p point, h uint32) int { return cmp.Compare(p.hash, h) })
	return i % len(m.ring)
}

// at makes one round of smooth round robin over the eligible peers of the
// server whose point the session is at.
func (m *consistentHash) at(s *Selection, now Millis) int {
	p := m.ring[s.point]
	r := newRound()
	for _, i := range m.servers[p.server] {
		if s.may(m.peers, i, now.Seconds()) {
			r.offer(i, m.peers[i])
		}
		if s.why != nil {
			s.why.probe(Probe{At: s.point, Hash: p.hash, Peer: i, Left: s.leftOut(m.peers, i, now.Seconds())})
		}
	}
	return r.take()
}

package balance

func init() {
	register("ip_hash", registration{key: AddressKey, make: func(_ Options, peers []*Peer) (Method, error) {
		return &ipHash{peers, newLots(peers)}, nil
	}})
}

const (
	ipHashStart   = 89
	ipHashModulus = 6271
)

// ipHash is nginx http's ip_hash (ngx_http_upstream_get_ip_hash_peer), which
// the stream module does not have.
//
// IPv4 clients are told apart by their first three octets only: a whole /24
// goes to one peer, and all clients of unix sockets go to one. A miss folds the
// address once more into the hash that it has come to. Lots from 6271 on are
// never drawn, so that with a greater sum of weights the last peers get no
// client but through round robin.
type ipHash struct {
	peers []*Peer
	lots  lots
}

func (m *ipHash) Pick(s *Selection, now Millis) int {
	if len(m.peers) < 2 {
		s.leave("there is nothing to choose from")
		return smooth(m.peers, s, now)
	}
	s.decidedBy("hash of the client's address")
	return m.lots.search(m.peers, s, now, func() int {
		if s.rounds == 0 {
			s.sum = ipHashStart
		}
		for _, b := range hashedPart(s.Key) {
			s.sum = (s.sum*113 + uint32(b)) % ipHashModulus
		}
		return int(s.sum) % m.lots.total
	})
}

var noAddress [3]byte

// hashedPart returns the bytes of an address that are hashed.
func hashedPart(address []byte) []byte {
	switch len(address) {
	case 0:
		return noAddress[:]
	case 4:
		return address[:3]
	}
	return address
}

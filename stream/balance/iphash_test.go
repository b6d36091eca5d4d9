package balance

import (
	"net/netip"
	"testing"
)

// slowIPHash is ngx_http_upstream_get_ip_hash_peer step by step.
type slowIPHash struct {
	peers []*Peer
	hash  int
	tries int
}

const toRoundRobin = -2

func (m *slowIPHash) pick(client netip.Addr, tried map[int]bool, now Seconds) int {
	if len(m.peers) < 2 || m.tries > 20 {
		return toRoundRobin
	}
	octets := []int{0, 0, 0}
	if client.IsValid() {
		octets = nil
		for _, b := range client.AsSlice() {
			octets = append(octets, int(b))
		}
		if client.Is4() {
			octets = octets[:3]
		}
	}
	total := 0
	for _, p := range m.peers {
		total += p.Weight
	}
	for {
		for _, o := range octets {
			m.hash = (m.hash*113 + o) % 6271
		}
		w, i := m.hash%total, 0
		for w >= m.peers[i].Weight {
			w -= m.peers[i].Weight
			i++
		}
		if !tried[i] && m.peers[i].Ineligible(now) == Eligible {
			return i
		}
		if m.tries++; m.tries > 20 {
			return toRoundRobin
		}
	}
}

func TestIPHashAgainstArithmetic(t *testing.T) {
	r := newRand(t, 2)
	sessions, fallbacks := 0, 0
	for range 2000 {
		peers := newPeers(randomWeights(r, 1+r.IntN(6), 1+r.IntN(10))...)
		for _, p := range peers {
			if r.IntN(3) == 0 {
				p.Admin = Down
			}
		}
		m := mustNew(t, Options{Method: "ip_hash"}, peers)
		for range 10 {
			var client netip.Addr
			switch r.IntN(3) {
			case 0:
				client = netip.AddrFrom4([4]byte{byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())})
			case 1:
				a := [16]byte{0x20, 0x01, 0x0d, 0xb8}
				for i := 4; i < 16; i++ {
					a[i] = byte(r.Uint32())
				}
				client = netip.AddrFrom16(a)
			}
			slow := slowIPHash{peers: peers, hash: 89}
			tried := map[int]bool{}
			s := Selection{Key: client.AsSlice()}
			for range len(peers) + 1 {
				want := slow.pick(client, tried, start.Seconds())
				got := m.Pick(&s, start)
				sessions++
				if want == toRoundRobin {
					fallbacks++
					if s.misses <= maxMisses && len(peers) > 1 {
						t.Fatalf("%v: picked %d without round robin", client, got)
					}
				} else if got != want {
					t.Fatalf("%v, try %d: picked %d, want %d", client, len(tried)+1, got, want)
				}
				if got < 0 {
					break
				}
				tried[got] = true
				s.MarkTried(got)
			}
		}
	}
	t.Logf("%d picks, %d of them left to round robin", sessions, fallbacks)
}

func TestIPHashGrain(t *testing.T) {
	peers := newPeers(ones(7)...)
	m := mustNew(t, Options{Method: "ip_hash"}, peers)
	pick := func(key ...byte) int {
		return m.Pick(&Selection{Key: key}, start)
	}
	used := map[int]bool{}
	for net := range byte(100) {
		i := pick(10, 1, net, 0)
		used[i] = true
		for host := range 256 {
			if j := pick(10, 1, net, byte(host)); j != i {
				t.Fatalf("10.1.%d.%d goes to %d, 10.1.%d.0 to %d", net, host, j, net, i)
			}
		}
	}
	if len(used) != len(peers) {
		t.Errorf("100 networks go to %d of %d peers", len(used), len(peers))
	}
	for range 10 {
		if i := pick(); i != pick(0, 0, 0, 9) {
			t.Errorf("a unix client goes to %d, not where 0.0.0.0/24 does", i)
		}
	}
	v6 := map[int]bool{}
	for last := range byte(100) {
		v6[pick(0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last)] = true
	}
	if len(v6) != len(peers) {
		t.Errorf("100 addresses of one IPv6 network go to %d of %d peers", len(v6), len(peers))
	}
}

// The weights of peers that are down count: those that are left get the same
// clients as before.
func TestIPHashKeepsClients(t *testing.T) {
	peers := newPeers(3, 2, 1)
	m := mustNew(t, Options{Method: "ip_hash"}, peers)
	pick := func(net byte) int { return m.Pick(&Selection{Key: []byte{10, 0, net, 1}}, start) }
	var before [256]int
	for net := range before {
		before[net] = pick(byte(net))
	}
	peers[0].Admin = Down
	for net, was := range before {
		if is := pick(byte(net)); was != 0 && is != was {
			t.Errorf("10.0.%d.1 has moved from %d to %d", net, was, is)
		}
	}
}

package balance

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// start is when tests begin: later than any fail_timeout after Never.
const start Millis = 1_000_000

// variants are the registered methods, with the options that change how they
// pick.
func variants() map[string]Options {
	all := map[string]Options{
		"hash_consistent":     {Method: "hash", Consistent: true},
		"least_time_inflight": {Method: "least_time", Time: Connect, Inflight: true},
		"random_two":          {Method: "random", Choices: 2},
		"random_two_by_time":  {Method: "random", Choices: 2, ByTime: true},
		"single_failback":     {Method: "single", Failback: true},
	}
	for _, name := range Names() {
		all[name] = Options{Method: name, Choices: 1, Time: FirstByte, Epsilon: 0.1, HalfLife: 10_000, Seed: 1}
	}
	return all
}

func mustNew(t testing.TB, o Options, peers []*Peer) Method {
	t.Helper()
	m, err := New(o, peers)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// newPeers returns fresh peers of these weights, with nginx's defaults.
func newPeers(weights ...int) []*Peer {
	var peers []*Peer
	for i, w := range weights {
		address := fmt.Sprintf("10.0.%d.%d:5432", i/250, i%250+1)
		peers = append(peers, &Peer{Server: address, Address: address, Weight: w, Effective: w, MaxFails: 1, FailTimeout: 10})
	}
	return peers
}

func ones(n int) []int {
	weights := make([]int, n)
	for i := range weights {
		weights[i] = 1
	}
	return weights
}

func randomWeights(r *rand.Rand, n, most int) []int {
	weights := make([]int, n)
	for i := range weights {
		weights[i] = 1 + r.IntN(most)
	}
	return weights
}

// newRand returns a source whose seed is logged.
func newRand(t testing.TB, seed uint64) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// group does around a method's picks what stream/upstream does.
type group struct {
	method  Method
	tracker Tracker // nil = the method is none
	peers   []*Peer
}

func newGroup(t testing.TB, o Options, peers []*Peer) *group {
	t.Helper()
	g := &group{method: mustNew(t, o, peers), peers: peers}
	g.tracker, _ = g.method.(Tracker)
	return g
}

func (g *group) pick(s *Selection, now Millis) int {
	i := g.method.Pick(s, now)
	g.picked(s, i, now)
	return i
}

func (g *group) picked(s *Selection, i int, now Millis) {
	if i < 0 {
		return
	}
	p := g.peers[i]
	s.MarkTried(i)
	if p.Conns++; p.Full() {
		Settle(g.method)
	}
	if now.Seconds()-p.Checked > p.FailTimeout {
		p.Checked = now.Seconds()
	}
	if g.tracker != nil {
		g.tracker.Picked(p, now)
	}
}

func (g *group) connected(i int, took, now Millis) {
	p := g.peers[i]
	if p.Accessed < p.Checked {
		g.forgive(p)
	}
	if g.tracker != nil {
		g.tracker.Connected(p, took, now)
	}
}

func (g *group) firstByte(i int, took, now Millis) {
	if g.tracker != nil {
		g.tracker.FirstByte(g.peers[i], took, now)
	}
}

func (g *group) release(i int, u Use, now Millis) {
	p := g.peers[i]
	if p.Full() {
		Settle(g.method)
	}
	p.Conns--
	switch {
	case u.Failed:
		Settle(g.method)
		p.Fails++
		p.Accessed, p.Checked = now.Seconds(), now.Seconds()
		if p.MaxFails > 0 {
			p.Effective = max(p.Effective-p.Weight/p.MaxFails, 0)
		}
	case p.Accessed < p.Checked:
		g.forgive(p)
	}
	if g.tracker != nil {
		g.tracker.Released(p, u, now)
	}
}

func (g *group) forgive(p *Peer) {
	if p.Fails > 0 {
		Settle(g.method)
	}
	p.Fails = 0
}

var (
	notConnected = Times{None, None, None}
	refused      = Use{Took: notConnected, Failed: true}
)

// session is one that connects in a millisecond, gets its first byte after
// took, and ends. It returns the peer, or -1.
func (g *group) session(key []byte, took, now Millis) int {
	s := Selection{Key: key}
	s.Grow(len(g.peers))
	i := g.pick(&s, now)
	if i >= 0 {
		g.connected(i, 1, now)
		g.firstByte(i, took, now)
		g.release(i, Use{Took: Times{1, took, took}}, now)
	}
	return i
}

// sessions names the peers of n sessions: a, b, c, or - for none.
func (g *group) sessions(n int, now Millis) string {
	var names []byte
	for range n {
		names = append(names, letter(g.session(nil, 1, now)))
	}
	return string(names)
}

func letter(i int) byte {
	if i < 0 {
		return '-'
	}
	return byte('a' + i)
}

// fail lets the peer fail once.
func (g *group) fail(i int, now Millis) {
	g.peers[i].Conns++
	g.release(i, refused, now)
}

// allTried is a session that has attempted the peers.
func allTried(n int, tried ...int) *Selection {
	s := &Selection{Key: []byte("key")}
	s.Grow(n)
	for _, i := range tried {
		s.MarkTried(i)
	}
	return s
}

// placements returns the address of the peer that each key goes to.
func placements(m Method, peers []*Peer, keys [][]byte) []string {
	var s Selection
	s.Grow(len(peers))
	addresses := make([]string, len(keys))
	for k, key := range keys {
		s.Reset()
		s.Key = key
		if i := m.Pick(&s, start); i >= 0 {
			addresses[k] = peers[i].Address
		}
	}
	return addresses
}

func manyKeys(n int) [][]byte {
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "client-%d", i)
	}
	return keys
}

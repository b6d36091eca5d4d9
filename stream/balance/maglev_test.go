package balance

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func mustMaglev(t testing.TB, size int, peers []*Peer) *maglev {
	t.Helper()
	return mustNew(t, Options{Method: "maglev", TableSize: size}, peers).(*maglev)
}

// The paper's example, table 1 and figure 4: three peers and seven slots, then
// without the second peer.
func TestMaglevPaperExample(t *testing.T) {
	list := []claimant{{peer: 0, slot: 3, skip: 4, weight: 1}, {peer: 1, slot: 0, skip: 2, weight: 1}, {peer: 2, slot: 3, skip: 1, weight: 1}}
	if got, want := fillTable(7, slices.Clone(list)), []int32{1, 0, 1, 0, 2, 2, 0}; !slices.Equal(got, want) {
		t.Errorf("filled %v, want %v", got, want)
	}
	if got, want := fillTable(7, []claimant{list[0], list[2]}), []int32{0, 0, 0, 0, 2, 2, 2}; !slices.Equal(got, want) {
		t.Errorf("filled %v without the second, want %v", got, want)
	}
}

// slowFill is the paper's pseudocode, with whole permutations, for peers of
// equal weight.
func slowFill(size int, list []claimant) []int32 {
	permutations := make([][]int, len(list))
	for i, c := range list {
		for j := range size {
			permutations[i] = append(permutations[i], (c.slot+j*c.skip)%size)
		}
	}
	entry := slices.Repeat([]int32{-1}, size)
	for n := 0; ; {
		for i, c := range list {
			for entry[permutations[i][0]] >= 0 {
				permutations[i] = permutations[i][1:]
			}
			entry[permutations[i][0]] = c.peer
			if n++; n == size {
				return entry
			}
		}
	}
}

func TestMaglevAgainstPaper(t *testing.T) {
	r := newRand(t, 3)
	for range 200 {
		size := []int{31, 101, 997}[r.IntN(3)]
		peers := newPeers(ones(2 + r.IntN(29))...)
		list := newClaimants(size, peers)
		want := slowFill(size, list)
		if got := fillTable(size, list); !slices.Equal(got, want) {
			t.Fatalf("size %d, %d peers: filled\n%v, want\n%v", size, len(peers), got, want)
		}
	}
}

// Each peer's share of the table is within 1 % of its weight's share of all
// weights, or as near as whole slots allow.
func TestMaglevShares(t *testing.T) {
	r := newRand(t, 4)
	for _, c := range []struct {
		name    string
		weights []int
	}{
		{"2 equal", ones(2)}, {"3 equal", ones(3)}, {"10 equal", ones(10)}, {"100 equal", ones(100)}, {"1000 equal", ones(1000)},
		{"5 3 1", []int{5, 3, 1}}, {"100 1", []int{100, 1}}, {"10 of 1..10", randomWeights(r, 10, 10)},
		{"100 of 1..10", randomWeights(r, 100, 10)}, {"1000 of 1..10", randomWeights(r, 1000, 10)},
	} {
		peers := newPeers(c.weights...)
		m := mustMaglev(t, 0, peers)
		slots := make([]int, len(peers))
		for _, i := range m.table {
			slots[i]++
		}
		sum := 0
		for _, w := range c.weights {
			sum += w
		}
		worst, worstSlots := 0.0, 0.0
		for i, n := range slots {
			want := float64(len(m.table)) * float64(c.weights[i]) / float64(sum)
			off := math.Abs(float64(n) - want)
			worst, worstSlots = max(worst, off/want), max(worstSlots, off)
			if off > max(want/100, 1) {
				t.Errorf("%s: a peer of weight %d owns %d slots, want %.1f", c.name, c.weights[i], n, want)
			}
		}
		t.Logf("%-13s %6d slots: shares at most %.2f %% off, or %.2f slots", c.name, len(m.table), 100*worst, worstSlots)
	}
}

// without returns fresh peers like these except one.
func without(peers []*Peer, i int) []*Peer {
	var rest []*Peer
	for j, p := range peers {
		if j != i {
			q := *p
			rest = append(rest, &q)
		}
	}
	return rest
}

// Taking a peer off the list moves its own keys, and with maglev few others;
// with a ring none.
func TestDisruption(t *testing.T) {
	keys := manyKeys(100_000)
	for _, c := range []struct {
		name    string
		options Options
		others  float64 // share of keys of other peers that may move
	}{
		{"maglev", Options{Method: "maglev"}, 0.01},
		{"hash consistent", Options{Method: "hash", Consistent: true}, 0},
	} {
		for _, n := range []int{3, 10, 100, 1000} {
			peers := newPeers(ones(n)...)
			m := mustNew(t, c.options, peers)
			before := placements(m, peers, keys)
			removed := peers[n/2]

			rest := without(peers, n/2)
			own, others := moved(before, placements(mustNew(t, c.options, rest), rest, keys), removed.Address)
			t.Logf("%s, 1 of %d removed: %.3f %% of keys moved, %.3f %% of them its own and %.3f %% others",
				c.name, n, percent(own+others), percent(own), percent(others))
			if limit := 1/float64(n) + 0.01; float64(own+others)/float64(len(keys)) > limit && c.others > 0 {
				t.Errorf("%s, 1 of %d removed: %d keys moved", c.name, n, own+others)
			}
			if float64(others)/float64(len(keys)) > c.others {
				t.Errorf("%s, 1 of %d removed: %d keys of others moved", c.name, n, others)
			}

			removed.Admin = Drain
			own, others = moved(before, placements(m, peers, keys), removed.Address)
			t.Logf("%s, 1 of %d drained: %.3f %% of keys moved", c.name, n, percent(own+others))
			if others > 0 {
				t.Errorf("%s, 1 of %d drained: %d keys of others moved", c.name, n, others)
			}
			removed.Admin = Up
			if own, others = moved(before, placements(m, peers, keys), removed.Address); own+others > 0 {
				t.Errorf("%s, back again: %d keys did not come back", c.name, own+others)
			}
		}
	}
}

// moved counts the keys that are placed elsewhere: those that were on that
// peer, and others.
func moved(before, after []string, peer string) (own, others int) {
	for k := range before {
		switch {
		case before[k] == after[k]:
		case before[k] == peer:
			own++
		default:
			others++
		}
	}
	return own, others
}

// With weights a removal changes everybody's turns, and moves hardly more.
func TestMaglevWeightedDisruption(t *testing.T) {
	r := newRand(t, 8)
	keys := manyKeys(100_000)
	for range 5 {
		peers := newPeers(randomWeights(r, 50, 10)...)
		before := placements(mustMaglev(t, 0, peers), peers, keys)
		i := r.IntN(len(peers))
		rest := without(peers, i)
		own, others := moved(before, placements(mustMaglev(t, 0, rest), rest, keys), peers[i].Address)
		t.Logf("1 of 50, weight %d, removed: %.3f %% of keys moved, %.3f %% of them its own and %.3f %% others",
			peers[i].Weight, percent(own+others), percent(own), percent(others))
		if others > len(keys)/50 {
			t.Errorf("%d keys of others moved", others)
		}
	}
}

func percent(ofKeys int) float64 { return float64(ofKeys) / 1000 }

// Two machines agree although their lists are in different orders.
func TestMaglevOrderDoesNotMatter(t *testing.T) {
	r := newRand(t, 5)
	keys := manyKeys(10_000)
	peers := newPeers(randomWeights(r, 50, 10)...)
	want := placements(mustMaglev(t, 0, peers), peers, keys)
	for range 5 {
		r.Shuffle(len(peers), func(i, j int) { peers[i], peers[j] = peers[j], peers[i] })
		if got := placements(mustMaglev(t, 0, peers), peers, keys); !slices.Equal(got, want) {
			t.Error("another order of the list places keys differently")
		}
	}
}

// Places must not change from one version to the next.
func TestMaglevIsStable(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	peers := newPeers(randomWeights(r, 20, 10)...)
	peers[7].Address = peers[3].Address
	h := fnv.New64a()
	for _, i := range mustMaglev(t, 1009, peers).table {
		h.Write([]byte{byte(i)})
	}
	for _, address := range placements(mustMaglev(t, 0, peers), peers, manyKeys(1000)) {
		h.Write([]byte(address))
	}
	if got, want := h.Sum64(), uint64(0x1a0f0a495dc38141); got != want {
		t.Errorf("digest of a table and of places is %#x, want %#x", got, want)
	}
}

func TestMaglevHash(t *testing.T) {
	for _, text := range []string{"", "a", "10.0.0.1:5432", "\x00\xff"} {
		h := fnv.New64a()
		h.Write([]byte(text))
		if got, want := fnv1a([]byte(text)), h.Sum64(); got != want {
			t.Errorf("FNV-1a of %q is %#x, want %#x", text, got, want)
		}
	}
	// https://rosettacode.org/wiki/Pseudo-random_numbers/Splitmix64
	for n, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821} {
		if got := splitMix64(1234567, uint64(n)); got != want {
			t.Errorf("output %d of SplitMix64 is %d, want %d", n, got, want)
		}
	}
}

func TestMaglevRetries(t *testing.T) {
	peers := newPeers(ones(5)...)
	g := &group{method: mustMaglev(t, 0, peers), peers: peers}
	for _, key := range manyKeys(100) {
		s := Selection{Key: key}
		seen := map[int]bool{}
		for range peers {
			i := g.pick(&s, start)
			if i < 0 || seen[i] {
				t.Fatalf("key %s: picked %d after %v", key, i, seen)
			}
			seen[i] = true
			// A retry goes on where the last pick ended: each miss of the
			// session has moved it by one slot.
			if slot := (int(hash64(key, 0)%smallTable) + s.misses) % smallTable; s.point != slot {
				t.Fatalf("key %s: at slot %d after %d misses, want %d", key, s.point, s.misses, slot)
			}
		}
		if i := g.pick(&s, start); i != -1 {
			t.Errorf("key %s: picked %d when all were tried", key, i)
		}
	}
}

func TestMaglevWithoutChoice(t *testing.T) {
	g := newGroup(t, Options{Method: "maglev"}, newPeers(5, 1, 1))
	if got := g.sessions(7, start); got != "aabacaa" {
		t.Errorf("picked %s without a key, want round robin's aabacaa", got)
	}
	g = newGroup(t, Options{Method: "maglev"}, newPeers(5))
	if i := g.session([]byte("key"), 1, start); i != 0 {
		t.Errorf("picked %d, want the only peer", i)
	}
	// One peer owns nearly all slots and is not there: round robin.
	g = newGroup(t, Options{Method: "maglev"}, newPeers(60_000, 1, 1))
	g.peers[0].Admin = Down
	counts := map[int]int{}
	for _, key := range manyKeys(100) {
		counts[g.session(key, 1, start)]++
	}
	if counts[1] != 50 || counts[2] != 50 {
		t.Errorf("picked %v, want half each", counts)
	}
}

// Peers of one address are told apart by their order, and both get keys.
func TestMaglevSameAddress(t *testing.T) {
	peers := newPeers(1, 1, 2)
	peers[1].Address = peers[0].Address
	slots := make([]int, 3)
	for _, i := range mustMaglev(t, 0, peers).table {
		slots[i]++
	}
	for i, n := range slots {
		if want := smallTable * peers[i].Weight / 4; n < want-1 || n > want+1 {
			t.Errorf("slots %v, want a quarter, a quarter and a half", slots)
		}
	}
}

func TestMaglevTableSize(t *testing.T) {
	for _, c := range []struct{ peers, size, want int }{
		{2, 0, 65537}, {655, 0, 65537}, {656, 0, 131101}, {1000, 0, 131101}, {1310, 0, 131101}, {1311, 0, 262151}, {3, 101, 101}, {2, 2, 2},
	} {
		if got := len(mustMaglev(t, c.size, newPeers(ones(c.peers)...)).table); got != c.want {
			t.Errorf("%d peers, table_size %d: %d slots, want %d", c.peers, c.size, got, c.want)
		}
	}
	for _, c := range []struct {
		peers, size int
		want        string
	}{
		{3, 100, `set up balancing method "maglev": table size is 100, not a prime`},
		{3, 1, `set up balancing method "maglev": table size is 1, not a prime`},
		{3, -7, `set up balancing method "maglev": table size is -7, not a prime`},
		{4, 3, `set up balancing method "maglev": table size is 3, less than the 4 peers`},
	} {
		if _, err := New(Options{Method: "maglev", TableSize: c.size}, newPeers(ones(c.peers)...)); fmt.Sprint(err) != c.want {
			t.Errorf("%d peers, table_size %d: error %v, want %s", c.peers, c.size, err, c.want)
		}
	}
}

package balance

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// newBusyGroup returns a group in the middle of its work: weights 1 to 10, some
// sessions and samples on each peer, and one peer in ten drained.
func newBusyGroup(tb testing.TB, o Options, n int) *group {
	peers := newPeers(ones(n)...)
	for i, p := range peers {
		p.Weight = 1 + i%10
		p.Effective = p.Weight
	}
	g := newGroup(tb, o, peers)
	for i := range peers {
		var s Selection
		s.Grow(n)
		g.picked(&s, i, start)
		g.connected(i, Millis(i%5), start)
		g.firstByte(i, Millis(i%50), start)
	}
	for i := 5; i < n; i += 10 {
		peers[i].Admin = Drain
	}
	return g
}

// turn is one session of a caller that puts no failures in the way.
func (g *group) turn(s *Selection, now Millis) bool {
	s.Reset()
	i := g.pick(s, now)
	if i < 0 {
		return false
	}
	g.connected(i, 1, now)
	g.firstByte(i, 2, now)
	g.release(i, Use{Took: Times{1, 2, 3}}, now)
	return true
}

// BenchmarkPick is a pick with all that its caller does around it: one session
// from Reset to Released.
func BenchmarkPick(b *testing.B) {
	all := variants()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, n := range []int{10, 100, 1000} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				g := newBusyGroup(b, all[name], n)
				keys := manyKeys(1024)
				var s Selection
				s.Grow(n)
				b.ReportAllocs()
				for k := 0; b.Loop(); k++ {
					s.Key = keys[k%len(keys)]
					if !g.turn(&s, start+Millis(k/100)) {
						b.Fatal("picked nobody")
					}
				}
			})
		}
	}
}

// BenchmarkNewMaglev is the filling of the default table, also at its slowest:
// with one peer that outweighs all others.
func BenchmarkNewMaglev(b *testing.B) {
	for name, weights := range map[string][]int{
		"10": ones(10), "100": ones(100), "1000": ones(1000),
		"1000_uneven": append([]int{65535}, ones(999)...),
	} {
		b.Run(name, func(b *testing.B) {
			peers := newPeers(weights...)
			b.ReportAllocs()
			for b.Loop() {
				mustMaglev(b, 0, peers)
			}
		})
	}
}

func TestPickAllocatesNothing(t *testing.T) {
	for name, o := range variants() {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{3, 100} {
				g := newBusyGroup(t, o, n)
				key := []byte("10.1.2.3")
				var s Selection
				s.Grow(n)
				now := start
				allocs := testing.AllocsPerRun(1000, func() {
					now += 100
					s.Key = key
					if !g.turn(&s, now) {
						t.Fatal("picked nobody")
					}
				})
				if allocs != 0 {
					t.Errorf("%d peers: %v allocations for each pick", n, allocs)
				}
			}
		})
	}
}

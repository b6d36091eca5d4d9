package upstream

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/internal/clock"
)

// manyServers is an upstream with more servers than round robin looks at one by
// one, of mixed settings.
func manyServers(r *rand.Rand, n int) *conf.Upstream {
	u := conf.NewUpstream("u")
	u.Checks = []conf.HealthCheck{{}}
	u.PanicThreshold = 0.2
	u.Outlier = &conf.OutlierDetection{ConsecutiveFailures: 3, Interval: time.Second, BaseEjectionTime: 2 * time.Second, MaxEjection: 0.2}
	slow := r.IntN(4) == 0
	for i := range n {
		s := conf.NewServer(conf.Address{Host: "127.0.0.1", Port: uint16(i + 1)})
		s.Name = fmt.Sprint(i)
		s.Weight = 1 + r.IntN(3)
		s.MaxFails = r.IntN(3)
		s.MaxConns = r.IntN(2) * 5
		s.FailTimeout = 3 * time.Second
		if slow {
			s.SlowStart = time.Duration(r.IntN(3)) * time.Second
		}
		s.Backup = i%8 == 7
		u.Servers = append(u.Servers, s)
	}
	return &u
}

func peersOf(t *testing.T, u *conf.Upstream) []*Peer {
	t.Helper()
	peers, err := Resolve(t.Context(), u, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	return peers
}

// Two groups meet the same. The one of them is asked before every pick how its
// peers stand, which has it look at every peer; the picks are the same all the
// same, whatever happens in between.
func TestAskingChangesNoPick(t *testing.T) {
	const seed = 30
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 10 {
		u := manyServers(r, 40+r.IntN(40))
		var groups [2]*Group
		for i := range groups {
			g, err := NewGroup(u, peersOf(t, u), 1, seed)
			if err != nil {
				t.Fatal(err)
			}
			groups[i] = g
		}
		now := clock.Now()
		var held [][2]*Peer
		var last string
		for n := range 4000 {
			i := r.IntN(len(u.Servers))
			each := func(f func(g *Group, p *Peer)) {
				for _, g := range groups {
					f(g, g.Peers()[i])
				}
			}
			switch r.IntN(1500) {
			case 0:
				a := balance.Admin(r.IntN(3))
				last = fmt.Sprintf("%v of %d", a, i)
				each(func(g *Group, p *Peer) { g.SetAdmin(p, a, "test", now) })
			case 1:
				w := 1 + r.IntN(4)
				last = fmt.Sprintf("weight %d of %d", w, i)
				each(func(g *Group, p *Peer) {
					if err := g.SetWeight(p, w); err != nil {
						t.Fatal(err)
					}
				})
			case 2, 3, 4:
				v := Verdict{Active: []string{Healthy, Unhealthy}[r.IntN(2)], Role: AnyRole}
				last = fmt.Sprintf("verdict %s on %d", v.Active, i)
				each(func(g *Group, p *Peer) { g.Judge(p, v, now) })
			case 5:
				next := *u
				next.Servers = append([]conf.Server(nil), u.Servers...)
				next.Servers[i].Weight = 1 + r.IntN(4)
				if r.IntN(2) == 0 {
					k := 1 + r.IntN(len(next.Servers)-1) // the first stays, so that there is a primary
					next.Servers = append(next.Servers[:k], next.Servers[k+1:]...)
				}
				u = &next
				last = "an update"
				for _, g := range groups {
					plan, err := g.Plan(u, peersOf(t, u), 1)
					if err != nil {
						t.Fatal(err)
					}
					g.Update(plan)
				}
			case 6:
				last = "the next process"
				for k, g := range groups {
					heir, err := NewGroup(u, peersOf(t, u), 1, seed)
					if err != nil {
						t.Fatal(err)
					}
					for _, st := range g.Export(now) {
						heir.Import(&st, now)
					}
					for h := range held {
						held[h][k] = heir.Find(g.Ref(held[h][k]), 1)
						heir.Hold(held[h][k], Took{}, now)
					}
					groups[k] = heir
				}
			case 7, 8, 9, 10, 11, 12, 13, 14:
				now = now.Add(time.Duration(r.IntN(1500)) * time.Millisecond)
				last = "some time"
				for _, g := range groups {
					g.Tick(now)
				}
			}
			groups[1].Snapshot(nil, now)
			fails, again := r.IntN(150) == 0, r.IntN(2) == 0
			var got [2]*Peer
			var names [2]string
			for k, g := range groups {
				var a Attempts
				g.Begin(&a, Limits{}, now)
				for {
					p := g.Pick(&a, now)
					if p == nil {
						break
					}
					names[k] += " " + p.Name
					if fails && len(a.Tried()) < 3 {
						g.Release(p, Failed, Took{Connect: -1, FirstByte: -1, Whole: -1}, now)
						if again && a.Again(now) {
							continue
						}
						break
					}
					got[k] = p
					break
				}
			}
			if names[0] != names[1] {
				t.Fatalf("session %d of %d servers got%s, with looks between the picks%s; the last that happened was %s", n, len(u.Servers), names[0], names[1], last)
			}
			if got[0] != nil {
				held = append(held, got)
				if r.IntN(10) > 0 {
					for k, g := range groups {
						g.Connected(got[k], time.Millisecond, now)
					}
				}
			}
			for len(held) > 2*len(u.Servers) {
				for k, g := range groups {
					g.Release(held[0][k], Succeeded, Took{Connect: time.Millisecond, FirstByte: -1, Whole: time.Second, Word: NoNeed}, now)
				}
				held = held[1:]
			}
		}
	}
}

// Whoever asks sees the current weights as they are after the last pick.
func TestCurrentWeightsAreUpToDate(t *testing.T) {
	const n, picks = 40, 100 // two times round and a half
	u := conf.NewUpstream("u")
	for i := range n {
		s := conf.NewServer(conf.Address{Host: "127.0.0.1", Port: uint16(i + 1)})
		s.Name = fmt.Sprint(i)
		u.Servers = append(u.Servers, s)
	}
	now := clock.Now()
	group := func() *Group {
		g, err := NewGroup(&u, peersOf(t, &u), 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		for range picks {
			if p, _ := sessionOf(g, 0, now); p == nil {
				t.Fatal("picked nobody")
			}
		}
		return g
	}
	for name, currents := range map[string]func(g *Group) []int{
		"snapshot": func(g *Group) (all []int) {
			for _, s := range g.Snapshot(nil, now) {
				all = append(all, s.Balance.Current)
			}
			return all
		},
		"export": func(g *Group) (all []int) {
			for _, st := range g.Export(now) {
				all = append(all, st.Current)
			}
			return all
		},
		"forecast": func(g *Group) (all []int) {
			for _, c := range g.Forecast(&Facts{}, now).Candidates {
				all = append(all, c.Before)
			}
			return all
		},
		"decision": func(g *Group) (all []int) {
			var a Attempts
			g.Begin(&a, Limits{}, now)
			_, d := g.Explain(&a, now)
			for _, c := range d.Candidates {
				all = append(all, c.Before)
			}
			return all
		},
		"inspection": func(g *Group) (all []int) {
			var a Attempts
			g.Begin(&a, Limits{}, now)
			for _, c := range g.Inspect(&a, now).Candidates {
				all = append(all, c.Before)
			}
			return all
		},
	} {
		got := currents(group())
		if len(got) != n {
			t.Fatalf("%s: %d peers", name, len(got))
		}
		for i, c := range got {
			want := picks % n
			if i < picks%n {
				want -= n
			}
			if c != want {
				t.Errorf("%s: current weight of %d is %d, want %d", name, i, c, want)
			}
		}
	}
}

// What changes a peer's weight, or who the peers are, finds the accounts as they
// are, and counts from the next pick on.
func TestChangesFindTrueAccounts(t *testing.T) {
	servers := func(n int) *conf.Upstream {
		u := conf.NewUpstream("u")
		for i := range n {
			s := conf.NewServer(conf.Address{Host: "127.0.0.1", Port: uint16(i + 1)})
			s.Name, s.Weight, s.MaxFails = fmt.Sprint(i), 6, 2
			u.Servers = append(u.Servers, s)
		}
		return &u
	}
	now := clock.Now()
	for name, change := range map[string]func(g *Group, held *Peer) error{
		"a failure that leaves it available": func(g *Group, held *Peer) error {
			g.Release(held, Failed, Took{Connect: -1, FirstByte: -1}, now)
			return nil
		},
		"another weight": func(g *Group, held *Peer) error { return g.SetWeight(held, 9) },
		"one peer less": func(g *Group, held *Peer) error {
			u := servers(39)
			plan, err := g.Plan(u, peersOf(t, u), 1)
			if err == nil {
				g.Update(plan)
			}
			return err
		},
		"what another process knew": func(g *Group, held *Peer) error {
			st := g.Export(now)[3]
			for range 50 {
				sessionOf(g, 0, now)
			}
			st.Effective--
			g.Import(&st, now)
			return nil
		},
	} {
		var after [2][]int
		for k := range after {
			u := servers(40)
			g, err := NewGroup(u, peersOf(t, u), 1, 1)
			if err != nil {
				t.Fatal(err)
			}
			look := func() {
				if k == 1 {
					g.Snapshot(nil, now)
				}
			}
			var held *Peer
			for range 100 {
				look()
				held, _ = sessionOf(g, 0, now)
			}
			if err := change(g, held); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				look()
				sessionOf(g, 0, now)
			}
			for _, s := range g.Snapshot(nil, now) {
				after[k] = append(after[k], s.Balance.Current)
			}
		}
		if !slices.Equal(after[0], after[1]) {
			t.Errorf("%s: current weights %v, with looks between the picks %v", name, after[0], after[1])
		}
	}
}

package upstream

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/internal/clock"
)

// list returns fresh peers of those names, as a reload resolves them.
func list(edit func(s *conf.Server), names ...string) []*Peer {
	var peers []*Peer
	for _, name := range names {
		s := conf.NewServer(conf.Address{Host: "127.0.0.1", Port: uint16(name[0])})
		s.Name = name
		if edit != nil {
			edit(&s)
		}
		peers = append(peers, newPeer(&s, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), s.Address.Port), 1))
	}
	return peers
}

func mustUpdate(t *testing.T, g *Group, b conf.Balance, peers []*Peer) *Plan {
	t.Helper()
	u := conf.NewUpstream(g.Name)
	u.Balance = b
	plan, err := g.Plan(&u, peers, 1)
	if err != nil {
		t.Fatal(err)
	}
	g.Update(plan)
	return plan
}

func names(peers []*Peer) []string {
	var out []string
	for _, p := range peers {
		out = append(out, p.Name)
	}
	slices.Sort(out)
	return out
}

func newUpdateGroup(t *testing.T, b conf.Balance, peers []*Peer) *Group {
	t.Helper()
	u := conf.NewUpstream("u")
	u.Balance = b
	g, err := NewGroup(&u, peers, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// What stays keeps its state; what goes is picked no more and given back in
// peace.
func TestUpdateKeepsWhatStays(t *testing.T) {
	rr := conf.DefaultBalance(conf.RoundRobin)
	g := newUpdateGroup(t, rr, list(nil, "a", "b", "c"))
	now := clock.Now()
	var held []*Peer
	for range 5 {
		p, _ := sessionOf(g, 0, now)
		held = append(held, p)
	}
	before := g.Snapshot(nil, now)
	plan := mustUpdate(t, g, rr, list(func(s *conf.Server) {
		if s.Name == "b" {
			s.Weight, s.MaxConns = 4, 9
		}
	}, "b", "d", "a"))
	if a, r, c := names(plan.Added), names(plan.Removed), names(plan.Changed); !slices.Equal(a, []string{"d"}) || !slices.Equal(r, []string{"c"}) || !slices.Equal(c, []string{"b"}) {
		t.Errorf("added %v, removed %v, changed %v", a, r, c)
	}
	after := g.Snapshot(nil, now)
	if after[0].Name != "b" || after[1].Name != "d" || after[2].Name != "a" {
		t.Fatalf("the order is %s %s %s", after[0].Name, after[1].Name, after[2].Name)
	}
	if after[0].Balance.Conns != before[1].Balance.Conns || after[0].Balance.Weight != 4 || after[0].Balance.Effective != 4 || after[0].Balance.MaxConns != 9 {
		t.Errorf("b is %+v", after[0].Balance)
	}
	if after[2].Balance != before[0].Balance {
		t.Errorf("a was %+v and is %+v", before[0].Balance, after[2].Balance)
	}
	for range 50 {
		p, _ := sessionOf(g, 0, now)
		if p.Name == "c" {
			t.Fatal("the removed peer was picked")
		}
		g.Release(p, Succeeded, Took{}, now)
	}
	for _, p := range held {
		g.Release(p, Succeeded, Took{}, now)
		if p.IsRemoved() != (p.Name == "c") {
			t.Errorf("%s: removed is %v", p.Name, p.IsRemoved())
		}
	}
	for _, p := range g.Snapshot(nil, now) {
		if p.Balance.Conns != 0 {
			t.Errorf("%s has %d connections", p.Name, p.Balance.Conns)
		}
	}
}

// A penalty keeps its share of the weight, and an account no more than a cycle
// of it.
func TestUpdateKeepsWeightsSane(t *testing.T) {
	rr := conf.DefaultBalance(conf.RoundRobin)
	weigh := func(w int) func(s *conf.Server) {
		return func(s *conf.Server) {
			if s.Name == "a" {
				s.Weight, s.MaxFails = w, 2
			}
		}
	}
	g := newUpdateGroup(t, rr, list(weigh(1000), "a", "b"))
	now := clock.Now()
	if held, _ := sessionOf(g, 0, now, "a"); held.Name != "b" {
		t.Fatal("a did not fail")
	}
	for range 3 {
		sessionOf(g, 0, now)
	}
	was := g.Snapshot(nil, now)[0].Balance
	mustUpdate(t, g, rr, list(weigh(10), "a", "b"))
	is := g.Snapshot(nil, now)[0].Balance
	if is.Effective != was.Effective*10/1000 || is.Fails != 1 || is.Current < -11 || is.Current > 11 {
		t.Errorf("was %+v, is %+v", was, is)
	}
	got := map[string]int{}
	for range 22 {
		p, _ := sessionOf(g, 0, now)
		got[p.Name]++
	}
	if got["a"] < 17 || got["b"] < 1 {
		t.Errorf("the 22 sessions after it went to %v", got)
	}
}

// A session between two attempts goes on among the new peers, and attempts
// nobody twice.
func TestUpdateBetweenAttempts(t *testing.T) {
	rr := conf.DefaultBalance(conf.RoundRobin)
	mf0 := func(s *conf.Server) { s.MaxFails = 0 }
	g := newUpdateGroup(t, rr, list(mf0, "a", "b", "c"))
	now := clock.Now()
	var a Attempts
	g.Begin(&a, Limits{}, now)
	p := g.Pick(&a, now)
	mustUpdate(t, g, rr, list(mf0, "z", "c", "b", "a"))
	g.Release(p, Failed, Took{Connect: -1, FirstByte: -1}, now)
	seen := []string{p.Name}
	for {
		q := g.Pick(&a, now)
		if q == nil {
			break
		}
		if slices.Contains(seen, q.Name) {
			t.Fatalf("%s was attempted twice", q.Name)
		}
		seen = append(seen, q.Name)
		g.Release(q, Failed, Took{Connect: -1, FirstByte: -1}, now)
	}
	if len(seen) != 4 {
		t.Errorf("attempted %v", seen)
	}
}

// The active peer of single stays active while it is in the list; a change of
// method takes effect at once.
func TestUpdateOfMethods(t *testing.T) {
	single := conf.DefaultBalance(conf.Single)
	g := newUpdateGroup(t, single, list(nil, "a", "b", "c"))
	now := clock.Now()
	if held, _ := sessionOf(g, 0, now, "a"); held.Name != "b" {
		t.Fatalf("%s is active", held.Name)
	}
	now = now.Add(time.Minute)
	mustUpdate(t, g, single, list(nil, "a", "c", "b"))
	if held, _ := sessionOf(g, 0, now); held.Name != "b" {
		t.Errorf("after a reload %s is active, it was b", held.Name)
	}
	mustUpdate(t, g, single, list(nil, "a", "c"))
	if held, _ := sessionOf(g, 0, now); held.Name != "a" {
		t.Errorf("without b %s is active, want a", held.Name)
	}
	mustUpdate(t, g, conf.DefaultBalance(conf.LeastConn), list(nil, "a", "c"))
	if held, _ := sessionOf(g, 0, now); held.Name != "c" {
		t.Errorf("least_conn picked %s, which has a session", held.Name)
	}
	if g.Method() != conf.LeastConn {
		t.Errorf("the method is %s", g.Method())
	}
}

// The operator's word at run time holds until the file's word changes.
func TestUpdateAndAdmin(t *testing.T) {
	rr := conf.DefaultBalance(conf.RoundRobin)
	g := newUpdateGroup(t, rr, list(nil, "a", "b"))
	now := clock.Now()
	state := func() balance.Admin { return g.Snapshot(nil, now)[0].Balance.Admin }
	g.SetAdmin(g.Peers()[0], balance.Drain, "test", clock.Now())
	mustUpdate(t, g, rr, list(nil, "a", "b"))
	if state() != balance.Drain {
		t.Errorf("a reload changed drain to %v", state())
	}
	down := func(yes bool) func(s *conf.Server) {
		return func(s *conf.Server) { s.Down = yes && s.Name == "a" }
	}
	mustUpdate(t, g, rr, list(down(true), "a", "b"))
	if state() != balance.Down || g.usable.Load() != 1 {
		t.Errorf("down = true made it %v, %d usable", state(), g.usable.Load())
	}
	mustUpdate(t, g, rr, list(down(false), "a", "b"))
	if state() != balance.Up || g.usable.Load() != 2 {
		t.Errorf("without down it is %v, %d usable", state(), g.usable.Load())
	}
}

// An update that does not change what a method is made of does not disturb it.
func TestUpdateKeepsTheMethodsPlace(t *testing.T) {
	wrr := conf.DefaultBalance(conf.WeightedRoundRobin)
	weights := func(s *conf.Server) { s.Weight = map[string]int{"a": 3, "b": 2, "c": 1}[s.Name] }
	run := func(update bool) []string {
		g := newUpdateGroup(t, wrr, list(weights, "a", "b", "c"))
		var out []string
		for i := range 12 {
			if update && i%2 == 1 {
				mustUpdate(t, g, wrr, list(weights, "a", "b", "c"))
			}
			p, _ := sessionOf(g, 0, clock.Now())
			out = append(out, p.Name)
		}
		return out
	}
	if plain, updated := run(false), run(true); !slices.Equal(plain, updated) {
		t.Errorf("%v with updates, %v without", updated, plain)
	}
}

// A server that becomes a backup, or is one no longer, is the same peer: that is
// what the priorities of SRV records do.
func TestUpdateOfTheTier(t *testing.T) {
	at := func(backups ...bool) (*conf.Upstream, []*Peer) {
		u := conf.NewUpstream("u")
		for i, b := range backups {
			s := conf.NewServer(conf.Address{Host: "127.0.0.1", Port: uint16(i + 1)})
			s.Backup = b
			u.Servers = append(u.Servers, s)
		}
		peers, err := Resolve(t.Context(), &u, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		return &u, peers
	}
	u, peers := at(false, true, true)
	g, err := NewGroup(u, peers, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	now := clock.Now()
	for i, c := range [][]bool{{true, false, true}, {true, true, false}, {false, false, false}, {false, true, true}} {
		u, fresh := at(c...)
		plan, err := g.Plan(u, fresh, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Added)+len(plan.Removed) > 0 || len(plan.Changed) == 0 {
			t.Fatalf("change %d adds %v, removes %v and changes %v", i, plan.Added, plan.Removed, plan.Changed)
		}
		g.Update(plan)
		for range 6 {
			var a Attempts
			g.Begin(&a, Limits{}, now)
			p := g.Pick(&a, now)
			if p == nil || p.IsBackup() || !slices.Contains(peers, p) || c[p.Addr.Port()-1] {
				t.Fatalf("after change %d %v was picked", i, p)
			}
			g.Release(p, Succeeded, Took{}, now)
		}
	}
}

// A weight that the operator has set holds until the file says another one,
// whatever else a reload or a resolver changes.
func TestUpdateKeepsOperatorsWeight(t *testing.T) {
	for _, method := range []string{conf.RoundRobin, conf.WeightedRoundRobin} {
		t.Run(method, func(t *testing.T) {
			b := conf.DefaultBalance(method)
			weigh := func(w int) func(s *conf.Server) {
				return func(s *conf.Server) { s.Weight = w }
			}
			g := newUpdateGroup(t, b, list(weigh(2), "a", "b"))
			now := clock.Now()
			share := func() (ofA int) {
				for range 20 {
					p, _ := sessionOf(g, 0, now)
					g.Release(p, Succeeded, Took{}, now)
					if p.Name == "a" {
						ofA++
					}
				}
				return ofA
			}
			want := func(after string, weight, ofA int) {
				t.Helper()
				if b := g.Snapshot(nil, now)[0].Balance; b.Weight != weight || b.Effective != weight {
					t.Errorf("%s: weight %d, effective %d, want %d", after, b.Weight, b.Effective, weight)
				}
				if got := share(); got != ofA {
					t.Errorf("%s: a got %d of 20 sessions, want %d", after, got, ofA)
				}
			}
			if err := g.SetWeight(g.Peers()[0], 8); err != nil {
				t.Fatal(err)
			}
			want("the operator's word", 8, 16)
			mustUpdate(t, g, b, list(weigh(2), "a", "b"))
			want("a reload of the same file", 8, 16)
			mustUpdate(t, g, b, list(weigh(2), "a", "c"))
			want("another server", 8, 16)
			old := g
			for _, heir := range []struct {
				file, weight, ofA int
			}{{2, 8, 16}, {3, 3, 10}} {
				g = newUpdateGroup(t, b, list(weigh(heir.file), "a", "c"))
				for _, st := range old.Export(now) {
					g.Import(&st, now)
				}
				want(fmt.Sprintf("an upgrade to a file with weight %d", heir.file), heir.weight, heir.ofA)
			}
			g = old
			mustUpdate(t, g, b, list(weigh(3), "a", "c"))
			want("another weight in the file", 3, 10)
		})
	}
}

// Sessions whose time is still running count on through a change of the peers, and
// those of another process from the start. After a change of what is measured only
// the new ones do.
func TestRunningSessionsStayCounted(t *testing.T) {
	timed := func(m conf.Time) conf.Balance {
		b := conf.DefaultBalance(conf.LeastTime)
		b.Time, b.Inflight = m, true
		return b
	}
	now := clock.AtMillis(clock.Now().Millis())
	for name, change := range map[string]func(g *Group, a *Peer) (heir *Group, heirOfA *Peer){
		"another peer": func(g *Group, a *Peer) (*Group, *Peer) {
			mustUpdate(t, g, timed(conf.TimeLastByte), list(nil, "a", "b"))
			return g, a
		},
		"another time": func(g *Group, a *Peer) (*Group, *Peer) {
			mustUpdate(t, g, timed(conf.TimeFirstByte), list(nil, "a"))
			return g, a
		},
		"another process": func(g *Group, a *Peer) (*Group, *Peer) {
			heir := newUpdateGroup(t, timed(conf.TimeLastByte), list(nil, "a"))
			p := heir.Find(g.Ref(a), 1)
			heir.Hold(p, Took{FirstByte: -1, Whole: time.Minute}, now)
			return heir, p
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newUpdateGroup(t, timed(conf.TimeLastByte), list(nil, "a"))
			a := g.Peers()[0]
			pick := func(at clock.Time) {
				for {
					var s Attempts
					g.Begin(&s, Limits{}, at)
					if g.Pick(&s, at) == a {
						return
					}
				}
			}
			pick(now.Add(-time.Minute))
			g, a = change(g, a)
			after := clock.AtMillis(clock.Now().Millis())
			pick(after)
			pick(after)
			g.Release(a, Succeeded, Took{FirstByte: -1, Whole: after.Sub(now) + time.Minute}, after)
			if f := a.balance.Inflight; f.Count != 2 || f.Accumulated != 0 {
				t.Errorf("%d sessions count, who came %d ms ago", f.Count, f.Accumulated)
			}
		})
	}
}

// A slow_start that becomes longer goes on for longer, and ends; one that is over
// stays so.
func TestUpdateOfSlowStart(t *testing.T) {
	rr := conf.DefaultBalance(conf.RoundRobin)
	slow := func(d time.Duration) []*Peer {
		return list(func(s *conf.Server) { s.SlowStart = d }, "a", "b")
	}
	g := newUpdateGroup(t, rr, slow(time.Minute))
	b, now := g.Peers()[1], clock.Now()
	g.Peers()[0].balance.Cold = 0 // b alone is in slow start
	mustUpdate(t, g, rr, slow(time.Hour))
	share := func(after time.Duration) (ofB int) {
		for range 100 {
			p, _ := sessionOf(g, 0, now.Add(after))
			g.Release(p, Succeeded, Took{}, now.Add(after))
			if p == b {
				ofB++
			}
		}
		return ofB
	}
	if n := share(30 * time.Minute); n < 15 || n > 35 {
		t.Errorf("in the middle it gets %d of 100 sessions", n)
	}
	if n := share(2 * time.Hour); n != 50 {
		t.Errorf("after it %d", n)
	}
	b.balance.Cold = balance.Millis(now.Add(-2 * time.Hour).Millis())
	mustUpdate(t, g, rr, slow(10*time.Hour))
	if s := g.Snapshot(nil, now)[1]; s.State != Up {
		t.Errorf("then it is %s", s.State)
	}
}

// A session of another process finds its peer, in another tier too. A peer that
// is gone lets its datagram sessions be if on_state says so, as after a reload.
func TestFind(t *testing.T) {
	for _, fate := range []conf.Fate{conf.Keep, conf.DrainFate} {
		u := conf.NewUpstream("u")
		u.OnState.Removed = fate
		g, err := NewGroup(&u, list(nil, "a", "b"), 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		r := g.Ref(g.Peers()[0])
		r.Backup = true
		if p := g.Find(r, 1); p != g.Peers()[0] {
			t.Errorf("%s is taken for another peer", p)
		}
		r.Name = "gone"
		p := g.Find(r, 1)
		if g.Find(r, 1) != p || !p.IsRemoved() || p.IsForsaken() {
			t.Error("the peer that is gone was made twice, or is forsaken before all are known")
		}
		r.Name = "late"
		r.Addr = "127.0.0.1:" + strconv.Itoa('l')
		late := g.Find(r, 1)
		plan, err := g.Plan(&u, list(nil, "a", "b", "late"), 1)
		if err != nil {
			t.Fatal(err)
		}
		g.Update(plan)
		if gone := g.Disown(); !slices.Equal(gone, []*Peer{p}) {
			t.Errorf("gone are %v", gone)
		}
		if forsaken := fate != conf.Keep; p.IsForsaken() != forsaken || late.IsForsaken() {
			t.Errorf("%v: forsaken are %v and %v", fate, p.IsForsaken(), late.IsForsaken())
		}
		if gone := g.Disown(); gone != nil {
			t.Errorf("%v are gone again", gone)
		}
		st := g.Export(clock.Now())[0]
		st.Admin, st.Backup = int(balance.Drain), true
		g.Import(&st, clock.Now())
		if p := g.Peers()[0]; p.balance.Admin != balance.Drain {
			t.Error("who was a backup is not known any more")
		}
	}
}

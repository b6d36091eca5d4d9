package upstream

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/clock"
)

// newTestGroup returns a group of that many peers.
func newTestGroup(tb testing.TB, peers int, edit func(i int, s *conf.Server)) *Group {
	tb.Helper()
	u := conf.NewUpstream("u")
	var list []*Peer
	for i := range peers {
		s := conf.NewServer(conf.Address{Host: "127.0.0.1", Port: uint16(i + 1)})
		if edit != nil {
			edit(i, &s)
		}
		list = append(list, newPeer(&s, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), s.Address.Port), 1))
	}
	g, err := NewGroup(&u, list, 1, 1)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// The states that an operator sees follow a peer through its failures.
func TestStates(t *testing.T) {
	var now clock.Fake
	g := newTestGroup(t, 2, func(i int, s *conf.Server) {
		s.FailTimeout = 5 * time.Second
		if i == 1 {
			s.MaxConns = 1
		}
	})
	state := func(i int) State { return g.Snapshot(nil, now.Now())[i].State }
	pick := func() (*Peer, *Attempts) {
		a := new(Attempts)
		g.Begin(a, Limits{}, now.Now())
		return g.Pick(a, now.Now()), a
	}
	p, _ := pick()
	if state(0) != Up {
		t.Fatalf("a peer in use is %v", state(0))
	}
	g.Release(p, Failed, Took{}, now.Now())
	if state(0) != Unavailable {
		t.Errorf("after max_fails failures it is %v", state(0))
	}
	if q, _ := pick(); q == p {
		t.Error("an unavailable peer was picked")
	}
	if state(1) != Full {
		t.Errorf("a peer at max_conns is %v", state(1))
	}
	if q, _ := pick(); q != nil {
		t.Errorf("%v was picked though nobody is eligible", q)
	}
	now.Advance(6 * time.Second)
	if state(0) != Trial {
		t.Errorf("after fail_timeout it is %v", state(0))
	}
	q, _ := pick()
	if q != p {
		t.Fatalf("after fail_timeout %v was picked", q)
	}
	g.Connected(q, 0, clock.Now())
	if state(0) != Up {
		t.Errorf("after a success it is %v", state(0))
	}
}

func TestTriesAndTimeoutBoundTheWalk(t *testing.T) {
	var now clock.Fake
	for _, c := range []struct {
		limits Limits
		step   time.Duration
		want   int
	}{
		{Limits{}, 0, 5},
		{Limits{Tries: 3}, 0, 3},
		{Limits{Tries: 99}, 0, 5},
		{Limits{Timeout: 10 * time.Second}, 4 * time.Second, 3},
		{Limits{Timeout: 10 * time.Second}, 5 * time.Second, 2},
	} {
		g := newTestGroup(t, 5, nil)
		var a Attempts
		g.Begin(&a, c.limits, now.Now())
		n := 0
		for {
			p := g.Pick(&a, now.Now())
			if p == nil {
				break
			}
			n++
			now.Advance(c.step)
			g.Release(p, Failed, Took{}, now.Now())
			if !a.Again(now.Now()) {
				break
			}
		}
		if n != c.want || len(a.Tried()) != n {
			t.Errorf("%+v: %d attempts, want %d", c.limits, n, c.want)
		}
	}
}

// Workers share groups: max_conns holds whatever they do at once.
func TestMaxConnsHoldsUnderContention(t *testing.T) {
	const limit = 7
	g := newTestGroup(t, 3, func(_ int, s *conf.Server) { s.MaxConns = limit })
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var a Attempts
			var held []*Peer
			for i := range 20_000 {
				g.Begin(&a, Limits{}, clock.Now())
				if p := g.Pick(&a, clock.Now()); p != nil {
					g.Connected(p, 0, clock.Now())
					held = append(held, p)
				}
				if len(held) > i%11 {
					g.Release(held[0], Succeeded, Took{}, clock.Now())
					held = held[1:]
				}
			}
			for _, p := range held {
				g.Release(p, Succeeded, Took{}, clock.Now())
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for {
		for _, p := range g.Snapshot(nil, clock.Now()) {
			if p.Balance.Conns > limit || p.Balance.Conns < 0 {
				t.Fatalf("%d connections, max_conns is %d", p.Balance.Conns, limit)
			}
		}
		select {
		case <-done:
			for _, p := range g.Snapshot(nil, clock.Now()) {
				if p.Balance.Conns != 0 {
					t.Errorf("%d connections left", p.Balance.Conns)
				}
			}
			return
		default:
		}
	}
}

func TestPickAllocatesNothing(t *testing.T) {
	for _, peers := range []int{3, 100} {
		g := newTestGroup(t, peers, nil)
		var a Attempts
		now := clock.Now()
		session := func() {
			g.Begin(&a, Limits{}, now)
			p := g.Pick(&a, now)
			g.Connected(p, 0, clock.Now())
			g.Release(p, Succeeded, Took{}, now)
		}
		session()
		if n := testing.AllocsPerRun(100, session); n != 0 {
			t.Errorf("%d peers: %v allocations", peers, n)
		}
	}
}

func BenchmarkPick(b *testing.B) {
	for _, peers := range []int{2, 10, 100, 1000} {
		b.Run(fmt.Sprint(peers), func(b *testing.B) {
			b.ReportAllocs()
			g := newTestGroup(b, peers, nil)
			var a Attempts
			now := clock.Now()
			for b.Loop() {
				g.Begin(&a, Limits{}, now)
				p := g.Pick(&a, now)
				g.Connected(p, 0, clock.Now())
				g.Release(p, Succeeded, Took{}, now)
			}
		})
	}
}

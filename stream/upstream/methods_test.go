package upstream

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/internal/clock"
)

// newMethodGroup returns a group of three primaries, of which the last is
// down, and two backups.
func newMethodGroup(t *testing.T, method string, edit func(i int, s *conf.Server)) *Group {
	t.Helper()
	u := conf.NewUpstream("u")
	u.Balance = conf.DefaultBalance(method)
	u.Balance.Key = conf.Template{{Variable: conf.VarRemoteAddr}}
	var peers []*Peer
	for i, name := range []string{"a", "b", "down", "x", "y"} {
		s := conf.NewServer(conf.Address{Host: "127.0.0.1", Port: uint16(i + 1)})
		s.Name, s.Down, s.Backup = name, name == "down", i > 2
		if edit != nil {
			edit(i, &s)
		}
		peers = append(peers, newPeer(&s, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), s.Address.Port), 1))
	}
	g, err := NewGroup(&u, peers, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// sessionOf makes one session of which every attempt fails for the peers of
// that list, and returns whom it was given in the end, held, and all attempts.
func sessionOf(g *Group, client int, now clock.Time, failing ...string) (held *Peer, tried []string) {
	var a Attempts
	g.Begin(&a, Limits{}, now)
	f := &Facts{Client: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(client), byte(client >> 8), 1}), 4000)}
	a.Key = g.AppendKey(a.Key, f)
	for {
		p := g.Pick(&a, now)
		if p == nil {
			return nil, tried
		}
		tried = append(tried, p.Name)
		if !slices.Contains(failing, p.Name) {
			g.Connected(p, 0, now)
			return p, tried
		}
		g.Release(p, Failed, Took{Connect: -1, FirstByte: -1}, now)
		if !a.Again(now) {
			return nil, tried
		}
	}
}

// Whatever the method: a session whose primaries fail goes to a backup, nobody
// is attempted twice, who is down is not attempted, and the primaries get their
// sessions back.
func TestEveryMethodGoesToTheBackups(t *testing.T) {
	for _, method := range balance.Names() {
		t.Run(method, func(t *testing.T) {
			g := newMethodGroup(t, method, func(_ int, s *conf.Server) { s.FailTimeout = 5 * time.Second })
			now := clock.Now()
			held, tried := sessionOf(g, 1, now, "a", "b")
			if held == nil || !held.IsBackup() || len(tried) != 3 {
				t.Fatalf("tried %v, held %v", tried, held)
			}
			if slices.Contains(tried, "down") || tried[0] == tried[1] {
				t.Errorf("tried %v", tried)
			}
			g.Release(held, Succeeded, Took{}, now)
			for client := range 50 {
				held, tried := sessionOf(g, client, now)
				if held == nil || !held.IsBackup() || len(tried) != 1 {
					t.Fatalf("with the primaries unavailable: tried %v", tried)
				}
				g.Release(held, Succeeded, Took{}, now)
			}
			now = now.Add(6 * time.Second)
			for client := range 50 {
				held, tried := sessionOf(g, client, now)
				if held == nil || held.IsBackup() != (method == conf.Single) || len(tried) != 1 {
					t.Fatalf("with the primaries back: tried %v", tried)
				}
				g.Release(held, Succeeded, Took{}, now)
			}
		})
	}
}

// Full primaries are no failed ones: with every method the backups help out,
// but for single, which never has a second peer at the same time.
func TestEveryMethodAtMaxConns(t *testing.T) {
	for _, method := range balance.Names() {
		t.Run(method, func(t *testing.T) {
			g := newMethodGroup(t, method, func(_ int, s *conf.Server) { s.MaxConns = 2 })
			now := clock.Now()
			got := map[string]int{}
			refused := 0
			for client := range 20 {
				if held, _ := sessionOf(g, client, now); held != nil {
					got[held.Name]++
				} else {
					refused++
				}
			}
			want := map[string]int{"a": 2, "b": 2, "x": 2, "y": 2}
			if method == conf.Single {
				want = map[string]int{"a": 2}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) || refused != 20-2*len(want) {
				t.Errorf("got %v and %d refused, want %v", got, refused, want)
			}
		})
	}
}

// An operator's down takes a peer out of the count of tries; drained ones stay
// in it.
func TestAdmin(t *testing.T) {
	g := newTestGroup(t, 3, nil)
	now := clock.Now()
	tries := func() int {
		var a Attempts
		g.Begin(&a, Limits{}, now)
		return a.left
	}
	p := g.Peers()[0]
	for _, c := range []struct {
		admin balance.Admin
		state State
		tries int
	}{{balance.Drain, Draining, 3}, {balance.Down, Down, 2}, {balance.Down, Down, 2}, {balance.Up, Up, 3}} {
		g.SetAdmin(p, c.admin, "test", now)
		if got := g.Snapshot(nil, now)[0].State; got != c.state || tries() != c.tries || p.IsForsaken() != (c.admin == balance.Down) {
			t.Errorf("%v: state %v, %d tries", c.admin, got, tries())
		}
		for client := range 10 {
			if held, tried := sessionOf(g, client, now); (c.admin == balance.Up) != slices.Contains(tried, p.Name) && c.admin != balance.Up {
				t.Errorf("%v: the peer was picked", c.admin)
			} else if held != nil {
				g.Release(held, Succeeded, Took{}, now)
			}
		}
	}
}

package upstream

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/internal/clock"
)

// A forecast is what the next session then gets, whatever the method and state,
// and asking changes nothing.
func TestForecastComesTrue(t *testing.T) {
	const seed = 1130
	t.Logf("seed %d", seed)
	for _, method := range balance.Names() {
		for _, choices := range []int{1, 2} {
			if choices == 2 && method != conf.Random {
				continue
			}
			t.Run(fmt.Sprint(method, choices), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, uint64(choices)))
				u := conf.NewUpstream("u")
				u.Balance = conf.DefaultBalance(method)
				u.Balance.Choices = choices
				u.Balance.Key = conf.Template{{Variable: conf.VarRemoteAddr}}
				var peers []*Peer
				for i := range 6 {
					s := conf.NewServer(conf.Address{Host: "127.0.0.1", Port: uint16(i + 1)})
					s.Weight, s.MaxConns, s.Backup = 1+r.IntN(5), r.IntN(4), i > 3
					s.SlowStart = time.Duration(r.IntN(3)) * 2 * time.Second
					peers = append(peers, newPeer(&s, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), s.Address.Port), 1))
				}
				g, err := NewGroup(&u, peers, 1, seed)
				if err != nil {
					t.Fatal(err)
				}
				now := clock.Now()
				var held []*Peer
				for n := range 1000 {
					now = now.Add(time.Duration(r.IntN(1500)) * time.Millisecond)
					if r.IntN(20) == 0 {
						g.SetAdmin(peers[r.IntN(6)], balance.Admin(r.IntN(3)), "test", now)
					}
					if r.IntN(150) == 0 {
						if err := g.SetWeight(peers[r.IntN(6)], 1+r.IntN(9)); err != nil {
							t.Fatal(err)
						}
					}
					f := &Facts{Client: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(r.IntN(256)), 0, 1}), 1)}
					before := fmt.Sprint(g.Snapshot(nil, now))
					want := g.Forecast(f, now)
					if after := fmt.Sprint(g.Snapshot(nil, now)); after != before {
						t.Fatalf("asking changed\n%s\nto\n%s", before, after)
					}
					var a Attempts
					g.Begin(&a, Limits{}, now)
					a.Key = g.AppendKey(a.Key, f)
					got := g.Pick(&a, now)
					if got != want.Peer {
						t.Fatalf("session %d got %v, the forecast was %v", n, got, want.Peer)
					}
					if got == nil {
						continue
					}
					switch r.IntN(4) {
					case 0:
						g.Release(got, Failed, Took{Connect: -1, FirstByte: -1}, now)
					default:
						took := time.Duration(r.IntN(100)) * time.Millisecond
						g.Connected(got, took, now)
						g.FirstByte(got, true, took, now)
						held = append(held, got)
					}
					for len(held) > r.IntN(8) {
						g.Release(held[0], Succeeded, Took{Connect: time.Millisecond, FirstByte: time.Millisecond, Whole: time.Second}, now)
						held = held[1:]
					}
				}
			})
		}
	}
}

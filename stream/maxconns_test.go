package stream_test

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/tcp"
)

// limited is a server that notes how many connections it had at once.
type limited struct {
	addr      conf.Address
	now, most atomic.Int64
	served    atomic.Int64
}

func newLimited(t *testing.T) *limited {
	l := new(limited)
	l.addr = serve(t, func(c net.Conn) {
		n := l.now.Add(1)
		for m := l.most.Load(); n > m && !l.most.CompareAndSwap(m, n); m = l.most.Load() {
		}
		l.served.Add(1)
		c.Write([]byte("x"))
		time.Sleep(time.Millisecond)
		l.now.Add(-1) // before weir can see the end
		c.Close()
	})
	return l
}

// Two workers hammer one upstream: with no method does a peer ever see more
// than its max_conns, and what could be served was.
func TestMaxConnsHoldsWithEveryMethod(t *testing.T) {
	const clients, sessions, limit = 16, 40, 3
	for _, method := range balance.Names() {
		t.Run(method, func(t *testing.T) {
			peers := []*limited{newLimited(t), newLimited(t), newLimited(t)}
			s, addr := start(t, tcp.Auto, func(c *conf.Config) {
				c.Worker.Count = 2
				u := &c.Upstreams[0]
				u.Balance = conf.DefaultBalance(method)
				u.Balance.Choices = 2
				u.Balance.Key = conf.Template{{Variable: conf.VarRemotePort}}
				for i := range u.Servers {
					u.Servers[i].MaxConns = limit
					u.Servers[i].Weight = i + 1
				}
				u.Servers[2].Backup = true
			}, peers[0].addr, peers[1].addr, peers[2].addr)
			var served, refused atomic.Int64
			var wg sync.WaitGroup
			for range clients {
				wg.Go(func() {
					for range sessions {
						c, err := net.Dial("tcp", addr)
						if err != nil {
							t.Error(err)
							return
						}
						c.SetDeadline(time.Now().Add(20 * time.Second))
						switch b, err := io.ReadAll(c); {
						case err == nil && string(b) == "x":
							served.Add(1)
						case len(b) == 0:
							refused.Add(1) // every peer was full
						default:
							t.Errorf("got %q: %v", b, err)
						}
						c.Close()
					}
				})
			}
			wg.Wait()
			total := int64(0)
			for i, p := range peers {
				if most := p.most.Load(); most > limit {
					t.Errorf("peer %d had %d connections, max_conns is %d", i, most, limit)
				}
				total += p.served.Load()
			}
			if total != served.Load() || served.Load()+refused.Load() != clients*sessions {
				t.Errorf("%d served by the peers, %d seen by clients, %d refused, of %d", total, served.Load(), refused.Load(), clients*sessions)
			}
			if refused.Load() == 0 || served.Load() == 0 {
				t.Errorf("%d served and %d refused: the limit was not tested", served.Load(), refused.Load())
			}
			eventually(t, "every session ends", func() bool { return s.Sessions() == 0 })
			for _, p := range s.Peers("u") {
				if p.Balance.Conns != 0 {
					t.Errorf("%s still has %d connections", p.Addr, p.Balance.Conns)
				}
			}
			t.Logf("%d served, %d refused, at most %d %d %d at once", served.Load(), refused.Load(), peers[0].most.Load(), peers[1].most.Load(), peers[2].most.Load())
		})
	}
}

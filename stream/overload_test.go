package stream_test

import (
	"fmt"
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

// Many clients, four workers and few places: with a queue everybody is served,
// with every method, no peer ever sees more than its max_conns, and nothing is left
// of the queue.
func TestQueueServesAll(t *testing.T) {
	const clients, sessions, limit = 24, 20, 2
	for _, method := range balance.Names() {
		t.Run(method, func(t *testing.T) {
			peers := []*limited{newLimited(t), newLimited(t)}
			s, addr := start(t, tcp.Auto, func(c *conf.Config) {
				c.Worker.Count = 4
				u := &c.Upstreams[0]
				u.Balance = conf.DefaultBalance(method)
				u.Balance.Choices = 2
				u.Balance.Key = conf.Template{{Variable: conf.VarRemotePort}}
				u.Queue = &conf.Queue{Max: clients, Timeout: time.Minute}
				for i := range u.Servers {
					u.Servers[i].MaxConns = limit
				}
			}, peers[0].addr, peers[1].addr)
			var served atomic.Int64
			var wg sync.WaitGroup
			for range clients {
				wg.Go(func() {
					for range sessions {
						c, err := net.Dial("tcp", addr)
						if err != nil {
							t.Error(err)
							return
						}
						c.SetDeadline(time.Now().Add(30 * time.Second))
						if b, err := io.ReadAll(c); err != nil || string(b) != "x" {
							t.Errorf("got %q: %v", b, err)
						}
						served.Add(1)
						c.Close()
					}
				})
			}
			wg.Wait()
			if n := int(served.Load()); n != clients*sessions {
				t.Errorf("%d sessions were served", n)
			}
			for i, p := range peers {
				if n := p.most.Load(); n > limit {
					t.Errorf("server %d had %d connections at once, max_conns is %d", i, n, limit)
				}
			}
			eventually(t, "nothing is left", func() bool {
				states, err := s.UpstreamStates("u")
				if err != nil {
					t.Fatal(err)
				}
				l := states[0].Load
				return l.Sessions == 0 && l.Waiting == 0 && l.Pending == 0
			})
		})
	}
}

// A limit that a reload brings holds for sessions that ran before, and one that it
// changes or takes away too.
func TestReloadLimitsRunningSessions(t *testing.T) {
	answers := make(chan struct{})
	var asked atomic.Int64
	server := serve(t, func(c net.Conn) {
		defer c.Close()
		fmt.Fprintln(c, "hello")
		for b := make([]byte, 1); ; {
			if _, err := io.ReadFull(c, b); err != nil {
				return
			}
			asked.Add(1)
			<-answers
			c.Write(b)
		}
	})
	at := freePort(t)
	cfg := reloadConfig(at, server)
	s, _ := start(t, tcp.Auto, func(c *conf.Config) { *c = *cfg })
	a, _ := dial(t, at.String())
	defer a.Close()
	b, _ := dial(t, at.String())
	defer b.Close()
	both := func(step string, atOnce int64) {
		t.Helper()
		asked.Store(0)
		a.Write([]byte("a"))
		eventually(t, step+": the first asks", func() bool { return asked.Load() == 1 })
		b.Write([]byte("b"))
		if atOnce == 2 {
			eventually(t, step+": both ask", func() bool { return asked.Load() == 2 })
		} else {
			eventually(t, step+": the second waits", func() bool {
				states, err := s.UpstreamStates("u")
				if err != nil {
					t.Fatal(err)
				}
				return states[0].Load.Limit.Waiting == 1
			})
			if n := asked.Load(); n != 1 {
				t.Errorf("%s: %d ask at once", step, n)
			}
		}
		for range 2 {
			answers <- struct{}{}
		}
		for _, c := range []net.Conn{a, b} {
			if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
				t.Fatalf("%s: %v", step, err)
			}
		}
	}
	limited := func(most int) *conf.Config {
		cfg := reloadConfig(at, server)
		limit, queue := conf.DefaultAdaptiveLimit(conf.AIMD), conf.DefaultQueue()
		limit.Min, limit.Initial, limit.Max, limit.Target = most, most, most, time.Second
		queue.Timeout = time.Minute
		cfg.Upstreams[0].Limit, cfg.Upstreams[0].Queue = &limit, &queue
		return cfg
	}
	both("without a limit", 2)
	mustReload(t, s, limited(1))
	both("with a limit of 1", 1)
	mustReload(t, s, limited(2))
	both("with a limit of 2", 2)
	mustReload(t, s, limited(1))
	both("with a limit of 1 again", 1)
	mustReload(t, s, reloadConfig(at, server))
	both("without one again", 2)
}

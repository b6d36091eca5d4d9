package stream_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
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

// While clients come and go, reloads bring queues, limits, breakers and byte rates,
// change them and take them away, and workers come and go. Every client gets what it
// asked for or a plain end, and nothing is left in the end.
func TestOverloadThroughReloads(t *testing.T) {
	var most, now atomic.Int64
	server := func() conf.Address {
		return serve(t, func(c net.Conn) {
			defer c.Close()
			for b := make([]byte, 4<<10); ; {
				if _, err := io.ReadFull(c, b); err != nil {
					return
				}
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				time.Sleep(time.Millisecond)
				now.Add(-1)
				if _, err := c.Write(b); err != nil {
					return
				}
			}
		})
	}
	servers := []conf.Address{server(), server()}
	at := freePort(t)
	turn := func(i int) *conf.Config {
		cfg := reloadConfig(at, servers...)
		cfg.Worker.Count = 1 + i%4
		u, l := &cfg.Upstreams[0], &cfg.Listeners[0]
		queue, limit, breaker := conf.DefaultQueue(), conf.DefaultAdaptiveLimit([]conf.LimitAlgorithm{conf.AIMD, conf.Gradient, conf.Vegas}[i%3]), conf.DefaultCircuitBreaker()
		queue.Max, queue.Timeout = 1000, 10*time.Second
		limit.Min, limit.Initial, limit.Max, limit.Target = 1, 1+i%7, 50, 5*time.Millisecond
		breaker.Failures, breaker.MaxRetries, breaker.MaxSessions = 1000, 10, 1000
		if i%2 == 0 {
			u.Queue = &queue
		}
		if i%3 != 0 && u.Queue != nil {
			if u.Limit = &limit; i%5 == 0 {
				limit.ApplyTo = conf.LimitSessions
			}
		}
		if i%4 == 1 {
			u.Breaker = &breaker
		}
		if u.Queue != nil && i%3 == 0 {
			u.Servers[i/3%2].MaxConns = 10
		}
		l.NextUpstream.BeforeFirstByte = i%5 == 2
		if i%7 == 3 {
			l.Limits.UploadRate, l.Limits.DownloadRate = 10<<20, 10<<20
		}
		if i%6 == 1 {
			l.Hedge = &conf.Hedge{After: time.Millisecond, Max: 1}
		}
		l.Limits.SessionsPerClient = 1000 * (i % 2)
		return cfg
	}
	s, _ := start(t, tcp.Auto, func(c *conf.Config) { *c = *turn(0) })
	stop := make(chan struct{})
	var clients sync.WaitGroup
	var trips, ends atomic.Int64
	for i := range 40 {
		clients.Go(func() {
			question, answer := make([]byte, 4<<10), make([]byte, 4<<10)
			for n := 0; ; n++ {
				c, err := net.Dial("tcp", at.String())
				if errors.Is(err, syscall.ECONNRESET) { // refused before it knew that it was connected
					ends.Add(1)
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				for range 1 + (i+n)%20 {
					select {
					case <-stop:
						c.Close()
						return
					default:
					}
					c.SetDeadline(time.Now().Add(20 * time.Second))
					for k := range question {
						question[k] = byte(i + n + k)
					}
					_, err := c.Write(question)
					if err == nil {
						_, err = io.ReadFull(c, answer)
					}
					if errors.Is(err, os.ErrDeadlineExceeded) {
						t.Error("a client hangs")
					}
					if err != nil {
						ends.Add(1)
						break
					}
					if !bytes.Equal(question, answer) {
						t.Error("a client got another's answer")
					}
					trips.Add(1)
				}
				c.Close()
			}
		})
	}
	for i := range 60 {
		time.Sleep(50 * time.Millisecond) // some load on each configuration
		mustReload(t, s, turn(i))
	}
	before := trips.Load()
	eventually(t, "clients are still served", func() bool { return trips.Load() > before+100 })
	close(stop)
	clients.Wait()
	t.Logf("%d answers, %d sessions were ended, at most %d questions at once", trips.Load(), ends.Load(), most.Load())
	if trips.Load() < 1000 {
		t.Errorf("only %d answers", trips.Load())
	}
	eventually(t, "nothing is left", func() bool {
		states, err := s.UpstreamStates("u")
		if err != nil {
			t.Fatal(err)
		}
		l := states[0].Load
		return s.Sessions() == 0 && l.Sessions == 0 && l.Waiting == 0 && l.Pending == 0 && l.Retries == 0 && (l.Limit == nil || l.Limit.InFlight == 0 && l.Limit.Waiting == 0)
	})
}

// Sessions count against limits.sessions that were there before a reload set it.
func TestReloadLimitsSessions(t *testing.T) {
	at := freePort(t)
	cfg := reloadConfig(at, named(t, "a"))
	s, _ := start(t, tcp.Auto, func(c *conf.Config) { *c = *cfg })
	a, _ := dial(t, at.String())
	defer a.Close()
	b, _ := dial(t, at.String())
	defer b.Close()
	limited := reloadConfig(at, cfg.Upstreams[0].Servers[0].Address)
	limited.Listeners[0].Limits.Sessions = 2
	mustReload(t, s, limited)
	refused := func() bool {
		c, err := net.Dial("tcp", at.String())
		if err != nil {
			return true // the reset was faster than the client
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(10 * time.Second))
		_, err = c.Read(make([]byte, 1))
		return err != nil
	}
	if !refused() {
		t.Error("a third session is let in")
	}
	a.Close()
	eventually(t, "there is room again", func() bool { return !refused() })
}

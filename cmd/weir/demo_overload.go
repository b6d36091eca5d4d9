package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream"
)

// The overload demo shows what adaptive_limit does: two servers of the same kind
// get the same load, one with a limit in front of it. Their latency grows with how
// much they have to do at once, as a database's does.

const (
	overloadTarget    = 200 * time.Millisecond
	overloadWork      = 25 * time.Millisecond // that a question takes
	overloadAtOnce    = 8                     // questions before they slow each other down
	overloadClients   = 48                    // at first; three times as many later
	overloadImportant = 4
	overloadPlain     = 24 * time.Second
)

// overload is one run of `weir demo --overload`.
type overload struct {
	out     io.Writer
	balance *stream.Server
	free    *overloadSide // without a limit
	limited *overloadSide
}

// overloadSide is one server with its clients.
type overloadSide struct {
	server    *slowServer
	others    latencies // as clients see them
	important latencies
}

func (o *overload) run(ctx context.Context, length time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	for _, side := range [...]**overloadSide{&o.free, &o.limited} {
		s, err := startSlowServer()
		if err != nil {
			return err
		}
		defer s.close()
		*side = &overloadSide{server: s}
	}
	if err := o.startBalancer(); err != nil {
		return err
	}
	defer o.balance.Stop(ctx) // ctx is done by then: it cuts at once
	at := map[string]string{}
	for _, b := range o.balance.Bound() {
		at[b.Listener] = b.Addr.String()
	}
	clients, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	defer func() {
		hangUp()
		running.Wait()
		cancel()
	}()
	more := func(n int) {
		for range n {
			running.Go(func() { ask(clients, at["free"], 0, &o.free.others) })
			running.Go(func() { ask(clients, at["limited"], 0, &o.limited.others) })
		}
	}
	more(overloadClients)
	for range overloadImportant {
		running.Go(func() { ask(clients, at["free"], overloadTarget/4, &o.free.important) })
		running.Go(func() { ask(clients, at["important"], overloadTarget/4, &o.limited.important) })
	}
	if err := o.head(); err != nil {
		return err
	}
	begin, tripled := time.Now(), false
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return o.end()
		case now := <-tick.C:
			if err := o.line(now.Sub(begin)); err != nil {
				return err
			}
			if !tripled && now.Sub(begin) > length/3 {
				tripled = true
				more(2 * overloadClients)
				if _, err := fmt.Fprintf(o.out, "      the load triples: %d clients each instead of %d\n", 3*overloadClients, overloadClients); err != nil {
					return err
				}
			}
		}
	}
}

// startBalancer starts weir in front of the servers.
func (o *overload) startBalancer() error {
	cfg := conf.Default()
	cfg.Log.Access = conf.AccessOff
	cfg.Worker.Count = demoWorkers
	cfg.Worker.MaxSessions = 8 * overloadClients
	limit, queue := conf.DefaultAdaptiveLimit(conf.AIMD), conf.DefaultQueue()
	limit.Target, limit.Initial = overloadTarget, 50
	queue.Timeout = 10 * time.Second
	for _, side := range []struct {
		name string
		side *overloadSide
	}{{"free", o.free}, {"limited", o.limited}} {
		at := side.side.server.listener.Addr().(*net.TCPAddr)
		u := conf.NewUpstream(side.name)
		u.Servers = []conf.Server{conf.NewServer(conf.Address{Host: "127.0.0.1", Port: uint16(at.Port)})}
		if side.side == o.limited {
			u.Queue, u.Limit = &queue, &limit
		}
		cfg.Upstreams = append(cfg.Upstreams, u)
	}
	for _, l := range []struct {
		name, upstream string
		priority       int
	}{{"free", "free", 1}, {"limited", "limited", 5}, {"important", "limited", 0}} {
		c := conf.NewListener(l.name)
		c.Listen = []conf.Address{{Host: "127.0.0.1"}}
		c.Upstream, c.Priority = l.upstream, l.priority
		cfg.Listeners = append(cfg.Listeners, c)
	}
	var err error
	o.balance, err = stream.Start(context.Background(), &cfg, stream.Options{Logger: slog.New(slog.DiscardHandler)})
	return err
}

func (o *overload) head() error {
	_, err := fmt.Fprintf(o.out, `Two servers of one kind: a question takes %v, and longer if more than %d are
at work at once. Both get the same load. In front of the second weir has

    adaptive_limit "aimd" {
      target   = "%s"
      apply_to = "turn"
    }

and a listener of priority 0 for %d important clients. p95 in milliseconds:

      | no limit              | adaptive limit
      | server all  important | limit flight  server others important
`, overloadWork, overloadAtOnce, conf.FormatDuration(overloadTarget), overloadImportant)
	return err
}

// line prints what the last second was like.
func (o *overload) line(at time.Duration) error {
	states, err := o.balance.UpstreamStates("limited")
	if err != nil {
		return err
	}
	l := states[0].Load.Limit
	_, err = fmt.Fprintf(o.out, "%3.0f s | %6s %6s %6s | %5d %6d  %6s %6s %6s\n", at.Seconds(),
		millis(o.free.server.took.p95()), millis(o.free.others.p95()), millis(o.free.important.p95()),
		l.Limit, l.InFlight, millis(o.limited.server.took.p95()), millis(o.limited.others.p95()), millis(o.limited.important.p95()))
	return err
}

func (o *overload) end() error {
	_, err := fmt.Fprintf(o.out, "answers: %d without a limit, %d with it. The load is the same; who waits is another.\n",
		o.free.server.answered.Load(), o.limited.server.answered.Load())
	return err
}

func millis(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprint(d.Milliseconds())
}

// ask sends one question after the other, with a pause in between, until ctx is
// done.
func ask(ctx context.Context, addr string, pauses time.Duration, seen *latencies) {
	for ctx.Err() == nil {
		_ = session(ctx, "tcp", addr, func(ctx context.Context, c net.Conn, in *bufio.Reader) error {
			for {
				begin := time.Now()
				if _, err := io.WriteString(c, "question\n"); err != nil {
					return err
				}
				if _, err := in.ReadSlice('\n'); err != nil {
					return err
				}
				seen.add(time.Since(begin))
				if pause(ctx, pauses); ctx.Err() != nil {
					return nil
				}
			}
		})
		pause(ctx, shortEvery)
	}
}

// latencies are those since they were last looked at.
type latencies struct {
	mu   sync.Mutex
	list []time.Duration // guarded by mu
}

func (l *latencies) add(d time.Duration) {
	l.mu.Lock()
	l.list = append(l.list, d)
	l.mu.Unlock()
}

// p95 returns the percentile, 0 if there was nothing, and begins anew.
func (l *latencies) p95() time.Duration {
	l.mu.Lock()
	list := l.list
	l.list = nil
	l.mu.Unlock()
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)*95/100]
}

// slowServer answers lines, the slower the more of them it has at once.
type slowServer struct {
	listener net.Listener
	atWork   atomic.Int64
	answered atomic.Int64
	took     latencies
	running  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{} // guarded by mu; nil = closed
}

func startSlowServer() (*slowServer, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &slowServer{listener: l, conns: map[net.Conn]struct{}{}}
	s.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			s.mu.Lock()
			if s.conns == nil {
				_ = c.Close()
			} else {
				s.conns[c] = struct{}{}
				s.running.Go(func() { s.answer(c) })
			}
			s.mu.Unlock()
		}
	})
	return s, nil
}

func (s *slowServer) answer(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		if _, err := in.ReadSlice('\n'); err != nil {
			break
		}
		begin := time.Now()
		n := s.atWork.Add(1)
		time.Sleep(overloadWork * time.Duration(max(n, overloadAtOnce)) / overloadAtOnce)
		s.atWork.Add(-1)
		s.took.add(time.Since(begin))
		s.answered.Add(1)
		if _, err := io.WriteString(c, "answer\n"); err != nil {
			break
		}
	}
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	_ = c.Close()
}

func (s *slowServer) close() {
	_ = s.listener.Close()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
	s.mu.Unlock()
	s.running.Wait()
}

package stream

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/accesslog"
	"github.com/weirlb/weir/stream/decisions"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/internal/sys"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/tcp"
	"github.com/weirlb/weir/stream/udp"
	"github.com/weirlb/weir/stream/upstream"
)

// Options are what a Server takes besides its configuration.
type Options struct {
	Logger *slog.Logger // nil = slog.Default()
	Relay  tcp.Relay    // tcp.Auto but for tests
	Lookup upstream.LookupFunc
}

// Server is a running balancer.
type Server struct {
	// immutable after Start
	logger    *slog.Logger
	groups    []*upstream.Group
	listeners []*tcp.Listener
	datagrams []*udp.Listener
	bound     []Bound
	workers   []*worker
	counters  []*stats.Worker
	room      *tcp.Room
	log       *accesslog.Writer
	decisions *decisions.Writer
	shared    []int32  // listening unix sockets, which all workers accept from
	unlink    []string // their paths
	notices   chan notice
	running   sync.WaitGroup // workers
	noticed   sync.WaitGroup // the goroutine that logs notices

	drain sync.Once
	stop  sync.Once
	cut   int // sessions closed by Stop; guarded by stop
}

// Bound is an address that a listener accepts on.
type Bound struct {
	Listener string
	Protocol conf.Protocol
	Addr     conf.Address
}

// notice is a rare event on its way from a worker to the log.
type notice struct {
	msg  string
	args []any
}

// noticesWaiting is how many notices can wait; more are dropped, since a
// worker never waits for a log.
const noticesWaiting = 64

// Start resolves names, opens the listening sockets and the logs, and starts
// the workers. ctx bounds the name resolution. On error nothing is left open.
func Start(ctx context.Context, cfg *conf.Config, opt Options) (*Server, error) {
	s := &Server{logger: opt.Logger, notices: make(chan notice, noticesWaiting)}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	if opt.Lookup == nil {
		opt.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	workers := cfg.Worker.Count
	if workers == 0 {
		workers = CPUs(os.DirFS("/"))
	}
	started := false
	defer func() {
		if !started {
			s.closeAll()
		}
	}()
	if err := s.build(ctx, cfg, workers, opt.Lookup); err != nil {
		return nil, err
	}
	lim, err := s.plan(cfg, workers)
	if err != nil {
		return nil, err
	}
	s.room = tcp.NewRoom(lim.sessions)
	if s.log, err = accesslog.Open(&cfg.Log, workers, s.logger); err != nil {
		return nil, err
	}
	s.decisions = decisions.Open(&cfg.Log, s.logger)
	for id := range workers {
		s.counters = append(s.counters, new(stats.Worker))
		w, err := newWorker(id, workers)
		if err != nil {
			return nil, err
		}
		w.tcp = tcp.NewWorker(w.loop, tcp.Options{
			ID:            id,
			Workers:       workers,
			Room:          s.room,
			Pipes:         lim.pipes,
			Relay:         opt.Relay,
			Stats:         s.counters[id],
			Serial:        w.nextSerial,
			Log:           s.log.Ring(id),
			LogServerAddr: s.log.Wants(conf.VarServerAddr, conf.VarServerPort),
			Decisions:     s.decisions,
			Notify:        s.notify,
		})
		w.udp = udp.NewWorker(w.loop, udp.Options{
			ID:            id,
			Room:          s.room,
			Pooled:        lim.pooled,
			Stats:         s.counters[id],
			Serial:        w.nextSerial,
			Log:           s.log.Ring(id),
			LogServerAddr: s.log.Wants(conf.VarServerAddr, conf.VarServerPort),
			Decisions:     s.decisions,
			Timer:         tcp.ForeignTimer,
		})
		s.workers = append(s.workers, w)
	}
	if err := s.listen(cfg); err != nil {
		return nil, err
	}
	started = true
	s.run()
	s.logger.Info("weir is running", "workers", workers, "max_sessions", lim.sessions, "pipes", lim.pipes*workers, "listening", len(s.bound))
	return s, nil
}

// build makes the upstreams and listeners and checks them against each other.
func (s *Server) build(ctx context.Context, cfg *conf.Config, workers int, lookup upstream.LookupFunc) error {
	for i := range cfg.Upstreams {
		u := &cfg.Upstreams[i]
		peers, err := upstream.Resolve(ctx, u, workers, lookup)
		if err != nil {
			return err
		}
		for _, p := range peers {
			s.logger.Debug("peer", "upstream", u.Name, "server", p.Name, "address", p.String(), "backup", p.Backup)
		}
		if err := checkLoops(cfg, u, peers); err != nil {
			return err
		}
		if err := checkCongestion(u.Congestion); err != nil {
			return fmt.Errorf("upstream %q: %w", u.Name, err)
		}
		g, err := upstream.NewGroup(u, peers, rand.Uint64())
		if err != nil {
			return err
		}
		s.groups = append(s.groups, g)
	}
	for i := range cfg.Listeners {
		l := &cfg.Listeners[i]
		g := s.group(l.Upstream)
		if g == nil {
			return fmt.Errorf("build listener %q: no upstream %q", l.Name, l.Upstream)
		}
		if l.Protocol == conf.UDP {
			s.datagrams = append(s.datagrams, udp.NewListener(l, g, workers))
		} else {
			s.listeners = append(s.listeners, tcp.NewListener(l, g))
		}
	}
	return nil
}

func (s *Server) group(name string) *upstream.Group {
	for _, g := range s.groups {
		if g.Name == name {
			return g
		}
	}
	return nil
}

func (s *Server) plan(cfg *conf.Config, workers int) (limits, error) {
	nofile, err := fdLimit()
	if err != nil {
		return limits{}, err
	}
	listening := 0
	for i := range cfg.Listeners {
		for _, a := range cfg.Listeners[i].Listen {
			if a.IsUnix() {
				listening++
			} else {
				listening += workers
			}
		}
	}
	return planLimits(nofile, workers, listening, cfg.Worker.MaxSessions)
}

// listen opens every listening socket and gives it to its workers.
func (s *Server) listen(cfg *conf.Config) error {
	tcps, udps := s.listeners, s.datagrams
	for i := range cfg.Listeners {
		c := &cfg.Listeners[i]
		var on func(conf.Address) error
		if c.Protocol == conf.UDP {
			l := udps[0]
			udps = udps[1:]
			on = func(a conf.Address) error { return s.receiveOn(l, a) }
		} else {
			l := tcps[0]
			tcps = tcps[1:]
			on = func(a conf.Address) error { return s.listenOn(l, a) }
		}
		for _, a := range c.Listen {
			if err := on(a); err != nil {
				return fmt.Errorf("listener %q: %w", c.Name, err)
			}
		}
	}
	return nil
}

func (s *Server) listenOn(l *tcp.Listener, a conf.Address) error {
	if a.IsUnix() {
		fd, a, err := l.Listen(a, false)
		if err != nil {
			return err
		}
		s.shared = append(s.shared, fd)
		s.unlink = append(s.unlink, a.Path)
		s.bound = append(s.bound, Bound{l.Name, conf.TCP, a})
		for _, w := range s.workers {
			if errno := w.tcp.Serve(l, fd, true); errno != 0 {
				return fmt.Errorf("watch %s: %w", a, errno)
			}
		}
		return nil
	}
	a, err := s.openForAll(a, l.Listen, func(w *worker, fd int32) unix.Errno { return w.tcp.Serve(l, fd, false) })
	if err == nil {
		s.bound = append(s.bound, Bound{l.Name, conf.TCP, a})
	}
	return err
}

func (s *Server) receiveOn(l *udp.Listener, a conf.Address) error {
	a, err := s.openForAll(a, l.Listen, func(w *worker, fd int32) unix.Errno { return w.udp.Serve(l, fd) })
	if err == nil {
		s.bound = append(s.bound, Bound{l.Name, conf.UDP, a})
	}
	return err
}

// openForAll gives every worker a listening socket of its own on the address,
// and returns the address they are bound to.
func (s *Server) openForAll(a conf.Address, listen func(conf.Address, bool) (int32, conf.Address, error), serve func(*worker, int32) unix.Errno) (conf.Address, error) {
	// With SO_REUSEPORT a second weir, started by mistake, would silently take
	// a share of the clients. A first socket without it finds out whether the
	// address is free.
	fd, a, err := listen(a, false)
	if err != nil {
		return a, err
	}
	sys.Close(fd)
	for _, w := range s.workers {
		fd, _, err := listen(a, true)
		if err != nil {
			return a, err
		}
		if errno := serve(w, fd); errno != 0 {
			return a, fmt.Errorf("watch %s: %w", a, errno)
		}
	}
	return a, nil
}

// run starts the workers' threads.
func (s *Server) run() {
	if n := len(s.workers) + 1; runtime.GOMAXPROCS(0) < n {
		runtime.GOMAXPROCS(n)
	}
	s.noticed.Go(func() {
		for n := range s.notices {
			s.logger.Warn(n.msg, n.args...)
		}
	})
	for _, w := range s.workers {
		s.running.Go(func() {
			runtime.LockOSThread()
			w.loop.Run()
			runtime.UnlockOSThread()
		})
	}
}

// notify logs a worker's notice on another goroutine.
func (s *Server) notify(msg string, args ...any) {
	select {
	case s.notices <- notice{msg, args}:
	default:
	}
}

// Bound returns the addresses that the server accepts on.
func (s *Server) Bound() []Bound { return s.bound }

// Sessions returns how many sessions there are.
func (s *Server) Sessions() int { return s.room.Used() }

// Workers returns how many workers there are.
func (s *Server) Workers() int { return len(s.workers) }

// Counters returns the workers' counters, which go on changing.
func (s *Server) Counters() []*stats.Worker { return s.counters }

// Peers returns the state of the peers of an upstream, or nil if there is no
// such upstream.
func (s *Server) Peers(name string) []upstream.Snapshot {
	g := s.group(name)
	if g == nil {
		return nil
	}
	return g.Snapshot(nil, clock.Now())
}

// ReopenLogs opens the access log's file anew, for log rotation.
func (s *Server) ReopenLogs() error { return s.log.Reopen() }

// Drain stops accepting connections and returns when every worker has; running
// sessions go on.
func (s *Server) Drain() {
	s.drain.Do(func() {
		var done sync.WaitGroup
		for _, w := range s.workers {
			done.Add(1)
			w.loop.Mailbox.Post(func() {
				w.drain()
				done.Done()
			})
		}
		done.Wait()
		s.closeShared()
	})
}

// closeShared closes what the workers share. A unix socket's path is removed
// first, so that nobody can connect to a socket that nobody accepts from.
func (s *Server) closeShared() {
	for _, path := range s.unlink {
		_ = os.Remove(path) // gone already is fine
	}
	for _, fd := range s.shared {
		sys.Close(fd)
	}
	s.unlink, s.shared = nil, nil
}

// Stop drains and waits for the sessions to end until ctx is done, then cuts
// those that are left. It returns how many were cut. When it returns the
// server has closed everything.
func (s *Server) Stop(ctx context.Context) (cut int) {
	s.stop.Do(func() {
		s.Drain()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for s.Sessions() > 0 && ctx.Err() == nil {
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		var ended sync.WaitGroup
		counts := make([]int, len(s.workers))
		for i, w := range s.workers {
			ended.Add(1)
			w.loop.Mailbox.Post(func() {
				counts[i] = w.closeAll(stats.Shutdown)
				w.loop.Stop()
				ended.Done()
			})
		}
		ended.Wait()
		s.running.Wait()
		for _, n := range counts {
			s.cut += n
		}
		s.closeAll()
	})
	return s.cut
}

// closeAll closes everything. Preconditions: no worker runs.
func (s *Server) closeAll() {
	for _, w := range s.workers {
		w.close()
	}
	s.closeShared()
	if err := s.log.Close(); err != nil {
		s.logger.Warn("close access log", "error", err)
	}
	s.decisions.Close()
	close(s.notices)
	s.noticed.Wait()
}

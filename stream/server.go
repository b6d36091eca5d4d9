package stream

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/accesslog"
	"github.com/weirlb/weir/stream/decisions"
	"github.com/weirlb/weir/stream/discovery"
	"github.com/weirlb/weir/stream/handover"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/tcp"
	"github.com/weirlb/weir/stream/upstream"
)

// Options are what a Server takes besides its configuration.
type Options struct {
	Logger *slog.Logger // nil = slog.Default()
	Relay  tcp.Relay    // tcp.Auto but for tests
	Lookup upstream.LookupFunc
	// Steering returns a steerer for a policy, or an error that says why there is
	// none. nil = workers are never steered.
	Steering func(conf.Steering) (Steerer, error)
	// Inherit is the process whose work this one takes over, see HandOver. Start
	// then returns when it has. nil = there is none.
	Inherit *handover.Conn
	// Sockets are bound ones that a service manager opened for this process, for
	// listeners that have their addresses. Start owns them. Not beside Inherit.
	Sockets []int32
	// TakenOver is called once when this process serves instead of Inherit, before
	// that one is told; also if it has died on the way.
	TakenOver func()
}

// Server is a running balancer.
type Server struct {
	// immutable after Start
	logger *slog.Logger
	relay  tcp.Relay
	lookup upstream.LookupFunc
	room   *tcp.Room

	takenOver func() // nil = nobody wants to know
	notices   chan notice
	serials   serials

	recording recording // of decisions
	directory *discovery.Directory
	events    events
	probes    probes
	pacing    pacing

	life context.Context // ends when no session is left to be looked after
	end  context.CancelFunc
	quit chan struct{} // closed by Stop

	newSteerer func(conf.Steering) (Steerer, error)

	running  sync.WaitGroup // workers
	governed sync.WaitGroup // the goroutine that follows events
	aside    sync.WaitGroup // goroutines that end sessions for on_state, or follow discovery
	noticed  sync.WaitGroup // the goroutine that logs notices
	counted  sync.WaitGroup // the goroutine that reconciles the steerer

	// reading is held with mu to change what Read reads, and alone to read it: a
	// change holds mu for as long as names take to resolve.
	reading sync.RWMutex

	mu        sync.Mutex         // one change at a time
	cfg       *conf.Config       // guarded by mu; nil before Start is done
	groups    []*upstream.Group  // guarded by mu
	resolved  map[string]answers // guarded by mu: by upstream
	digests   map[string]string  // guarded by mu: of what the files of checks held when cfg was loaded, by upstream
	bindings  []*binding         // guarded by mu
	workers   []*worker          // guarded by mu
	leaving   []*worker          // guarded by mu: out of service, until their sessions have ended
	counters  []*stats.Worker    // guarded by mu: by worker's number; grows only
	listeners counters           // guarded by mu
	log       *accesslog.Writer  // guarded by mu
	decisions *decisions.Writer  // guarded by mu
	lost      LostLines          // guarded by mu: of earlier logs
	steerer   Steerer            // guarded by mu; nil = none
	estate    *estate            // guarded by mu; nil = nothing is inherited, or all is taken over
	draining  bool               // guarded by mu

	bequeathed bool // guarded by mu: another process is told, or has been, how the peers stand

	stop sync.Once
	cut  int // sessions closed by Stop; guarded by stop
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
// the workers. ctx bounds the name resolution: one that is canceled ends the start,
// and after its deadline names that are followed are asked on while the server runs.
// On error nothing is left open.
func Start(ctx context.Context, cfg *conf.Config, opt Options) (*Server, error) {
	s := &Server{
		logger:  opt.Logger,
		relay:   opt.Relay,
		lookup:  opt.Lookup,
		room:    tcp.NewRoom(0),
		notices: make(chan notice, noticesWaiting),
		quit:    make(chan struct{}),

		newSteerer: opt.Steering,
		takenOver:  opt.TakenOver,

		events: events{wake: make(chan struct{}, 1)},
		pacing: pacing{of: map[*upstream.Group]*rate.Limiter{}},
		probes: probes{of: map[*upstream.Peer]*probed{}},
	}
	s.life, s.end = context.WithCancel(context.Background())
	if s.logger == nil {
		s.logger = slog.Default()
	}
	if s.lookup == nil {
		s.lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	s.directory = discovery.New(discovery.Options{Logger: s.logger, Changed: func(upstream string) {
		s.aside.Go(func() { s.rediscover(upstream) })
	}})
	if err := s.begin(ctx, cfg, &opt); err != nil {
		s.end()
		s.directory.Stop()
		return nil, err
	}
	return s, nil
}

// begin opens and starts everything. On error nothing is left open.
func (s *Server) begin(ctx context.Context, cfg *conf.Config, opt *Options) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if opt.Inherit != nil {
		var err error
		if s.estate, err = inherit(opt.Inherit); err != nil {
			return err
		}
		defer s.estate.close()
		s.serials.next.Store(s.estate.serial)
	} else if len(opt.Sockets) > 0 {
		var err error
		if s.estate, err = activated(cfg, opt.Sockets); err != nil {
			return err
		}
		defer s.estate.close()
	}
	t := &transition{cfg: cfg}
	if err := s.prepare(ctx, t); err != nil {
		return err
	}
	s.noticed.Go(func() {
		for n := range s.notices {
			s.logger.Warn(n.msg, n.args...)
		}
	})
	if s.estate == nil || s.estate.conn == nil {
		s.commit(t)
		s.estate = nil
	} else if err := s.takeOver(t); err != nil {
		t.abandon(s)
		close(s.notices)
		return err
	}
	s.counted.Go(s.reconcile)
	s.governed.Go(s.govern)
	s.logger.Info("weir is running", "workers", len(s.workers), "max_sessions", t.lim.sessions, "pipes", t.lim.pipes*len(s.workers), "listening", len(s.bindings))
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

// run starts a worker's thread.
func (s *Server) run(w *worker) {
	s.running.Go(func() {
		runtime.LockOSThread()
		w.thread.Store(int32(unix.Gettid()))
		w.loop.Run()
		runtime.UnlockOSThread()
		if w.leaving { // nobody else will
			w.close()
			w.ended.Store(true)
		}
	})
}

// notify logs a worker's notice on another goroutine.
func (s *Server) notify(msg string, args ...any) {
	select {
	case s.notices <- notice{msg, args}:
	default:
	}
}

// Bound returns the addresses that the server accepts on.
func (s *Server) Bound() []Bound {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Bound
	for _, b := range s.bindings {
		out = append(out, Bound{b.name, b.place.protocol, b.bound})
	}
	return out
}

// Sessions returns how many sessions there are.
func (s *Server) Sessions() int { return s.room.Used() }

// Workers returns how many workers there are.
func (s *Server) Workers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.workers)
}

// Counters returns the workers' counters, which go on changing.
func (s *Server) Counters() []*stats.Worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.counters)
}

// Peers returns the state of the peers of an upstream, or nil if there is no
// such upstream.
func (s *Server) Peers(name string) []upstream.Snapshot {
	s.mu.Lock()
	g := s.group(name)
	s.mu.Unlock()
	if g == nil {
		return nil
	}
	return g.Snapshot(nil, clock.Now())
}

// ReopenLogs opens the access log's file anew, for log rotation.
func (s *Server) ReopenLogs() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Reopen()
}

// each has every worker do something on its own thread, and returns when all
// have. Preconditions: mu is held.
func (s *Server) each(workers []*worker, f func(*worker)) {
	var done sync.WaitGroup
	for _, w := range workers {
		done.Add(1)
		if !w.loop.Mailbox.Post(func() { f(w); done.Done() }) {
			done.Done() // it has ended
		}
	}
	done.Wait()
}

// Drain stops accepting connections and returns when every worker has; running
// sessions go on.
func (s *Server) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	s.draining = true
	s.each(s.workers, (*worker).drain)
	for _, b := range s.bindings {
		b.closeShared()
	}
}

// retire ends what looks after sessions and peers. It comes before the workers'
// end. Preconditions: mu is not held.
func (s *Server) retire() {
	s.end()
	s.directory.Stop()
	s.governed.Wait()
	s.probes.mu.Lock()
	s.probes.stop(func(*upstream.Peer, *probed) bool { return true })
	s.probes.mu.Unlock()
	s.aside.Wait()
}

// Stop drains and waits for the sessions to end until ctx is done, then cuts
// those that are left. It returns how many were cut. When it returns the
// server has closed everything.
func (s *Server) Stop(ctx context.Context) (cut int) {
	s.stop.Do(func() {
		close(s.quit)
		s.counted.Wait()
		s.Drain()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for s.Sessions() > 0 && ctx.Err() == nil {
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		s.retire()
		s.mu.Lock()
		defer s.mu.Unlock()
		all := append(slices.Clone(s.workers), s.leaving...)
		counts := make([]int, len(all))
		s.each(all, func(w *worker) {
			counts[slices.Index(all, w)] = w.closeAll(stats.Shutdown)
			w.loop.Stop()
		})
		s.running.Wait()
		for _, n := range counts {
			s.cut += n
		}
		for _, w := range all {
			if !w.hasEnded() {
				w.close()
			}
		}
		if err := s.log.Close(); err != nil {
			s.logger.Warn("close access log", "error", err)
		}
		s.decisions.Close()
		for _, b := range s.bindings {
			b.unsteer(false)
		}
		if s.steerer != nil {
			_ = s.steerer.Close()
		}
		close(s.notices)
		s.noticed.Wait()
	})
	return s.cut
}

package stream

import (
	"errors"
	"slices"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/discovery"
	"github.com/weirlb/weir/stream/health"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/internal/sys"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/upstream"
)

// Reading is all that a server counts and can measure of itself, taken at
// almost one moment: workers count on while it is taken.
type Reading struct {
	Sessions    int
	MaxSessions int
	NotReady    error // why new clients should go elsewhere; nil = they need not
	Leaving     int   // workers out of service that still have sessions
	Steered     bool  // new clients are, by a Steerer
	Workers     []WorkerReading
	Counters    []*stats.Worker // of all workers that there ever were, by number; go on changing
	Listeners   []ListenerReading
	Upstreams   []UpstreamReading
	Queues      []Queue
	Lost        LostLines
	Sources     []discovery.Source
}

// WorkerReading is one worker's part.
type WorkerReading struct {
	Worker int
	Stats  *stats.Worker // goes on changing
	Turns  uint64
	Stale  uint64
	CPU    time.Duration // that its thread has run; negative = unknown
	Waited time.Duration // that it was ready to run and had no CPU; negative = unknown
}

// ListenerReading is what was counted of one listener, by worker.
type ListenerReading struct {
	Name     string
	Protocol conf.Protocol
	Workers  []*stats.Listener // go on changing
}

// ListenerTotals is what was counted of one listener, over all workers.
type ListenerTotals struct {
	Sessions uint64
	Active   int64
	Closed   [stats.Reasons]uint64
	Bytes    [stats.Paths][stats.Directions]uint64
	Delayed  uint64
	Slowed   [stats.Directions]uint64
}

// Totals adds the workers up.
func (l *ListenerReading) Totals() (t ListenerTotals) {
	for _, c := range l.Workers {
		t.Sessions += c.Sessions.Load()
		t.Active += c.Active.Load()
		t.Delayed += c.Delayed.Load()
		for d := range c.Slowed {
			t.Slowed[d] += c.Slowed[d].Load()
		}
		for i := range c.Closed {
			t.Closed[i] += c.Closed[i].Load()
		}
		for p := range c.Bytes {
			for d := range c.Bytes[p] {
				t.Bytes[p][d] += c.Bytes[p][d].Load()
			}
		}
	}
	return t
}

// UpstreamReading is one upstream's part.
type UpstreamReading struct {
	Name    string
	NoPeer  uint64
	Connect stats.Durations
	Load    upstream.Load
	Counts  UpstreamCounts
	State   upstream.GroupState
	Peers   []upstream.Snapshot
	Checks  [][]health.CheckState // of each peer
}

// UpstreamCounts is what was counted of one upstream, over all workers.
type UpstreamCounts struct {
	Retries, RetriesDenied                      uint64
	Hedges, HedgesWon, HedgesLost, HedgesDenied uint64
	Unanswered                                  uint64
	QueueWait, TurnWait                         stats.Durations
}

func (t *UpstreamCounts) add(c *stats.Upstream) {
	t.Retries += c.Retries.Load()
	t.RetriesDenied += c.RetriesDenied.Load()
	t.Hedges += c.Hedges.Load()
	t.HedgesWon += c.HedgesWon.Load()
	t.HedgesLost += c.HedgesLost.Load()
	t.HedgesDenied += c.HedgesDenied.Load()
	t.Unanswered += c.Unanswered.Load()
	t.QueueWait.Add(&c.QueueWait)
	t.TurnWait.Add(&c.TurnWait)
}

// Closed adds up how sessions ended.
func (r *Reading) Closed() (sums [stats.Reasons]uint64) {
	for _, l := range r.Listeners {
		for reason, n := range l.Totals().Closed {
			sums[reason] += n
		}
	}
	return sums
}

// Bytes adds up the bytes that took a path, in both directions.
func (r *Reading) Bytes(p stats.Path) (n uint64) {
	for _, l := range r.Listeners {
		for _, m := range l.Totals().Bytes[p] {
			n += m
		}
	}
	return n
}

// Queue is what waits in a worker's sockets for one listener.
type Queue struct {
	Listener string
	Protocol conf.Protocol
	Worker   int
	Waiting  int    // connections, or bytes of datagrams with what the kernel needs to keep them
	Limit    int    // of Waiting
	Dropped  uint64 // datagrams for which there was no room
}

// errDraining is why a server that stops is not ready.
var errDraining = errors.New("draining: no new sessions are taken")

// NotReady returns why new clients should go elsewhere, or nil.
func (s *Server) NotReady() error {
	s.reading.RLock()
	defer s.reading.RUnlock()
	return s.notReadyLocked()
}

func (s *Server) notReadyLocked() error {
	switch {
	case s.draining:
		return errDraining
	case len(s.bindings) == 0:
		return errors.New("nothing is listened on")
	}
	return nil
}

// Read takes a reading. No worker waits for it, but for the mutex of an upstream
// while the state of its peers is copied.
func (s *Server) Read() *Reading {
	s.reading.RLock()
	defer s.reading.RUnlock()
	r := &Reading{
		Sessions:    s.room.Used(),
		MaxSessions: s.room.Max(),
		Steered:     s.steerer != nil,
		NotReady:    s.notReadyLocked(),
		Counters:    slices.Clone(s.counters),
		Lost:        s.lost,
		Sources:     s.directory.Sources(),
	}
	if !s.draining { // else both are in it already
		r.Lost.add(s.log, s.decisions)
	}
	for _, w := range s.workers {
		r.Workers = append(r.Workers, s.readWorker(w))
	}
	for _, w := range s.leaving {
		if !w.hasEnded() {
			r.Leaving++
		}
	}
	for id, all := range s.listeners {
		r.Listeners = append(r.Listeners, ListenerReading{id.name, id.protocol, all.workers})
	}
	for _, g := range s.groups {
		r.Upstreams = append(r.Upstreams, s.readGroup(g))
	}
	if !s.draining { // else the sockets are closed
		r.Queues = s.readQueues()
	}
	return r
}

func (s *Server) readWorker(w *worker) WorkerReading {
	cpu, waited := w.ran()
	return WorkerReading{
		Worker: w.id,
		Stats:  s.counters[w.id],
		Turns:  w.loop.Stats.Turns.Load(),
		Stale:  w.loop.Stats.Stale.Load(),
		CPU:    cpu,
		Waited: waited,
	}
}

func (s *Server) readGroup(g *upstream.Group) UpstreamReading {
	r := UpstreamReading{Name: g.Name, Load: g.Load(clock.Now()), State: g.State(), Peers: g.Snapshot(nil, clock.Now())}
	r.Checks = s.probes.states(r.Peers)
	for _, c := range g.AllStats() {
		r.NoPeer += c.NoPeer.Load()
		r.Connect.Add(&c.Connect)
		r.Counts.add(c)
	}
	return r
}

// readQueues asks the kernel for what waits in the listening sockets. That of a
// unix socket can't be asked for.
func (s *Server) readQueues() []Queue {
	type key struct {
		listener listenerID
		worker   int
	}
	sums := map[key]Queue{}
	for _, b := range s.bindings {
		if b.shared >= 0 {
			continue
		}
		for w, fd := range b.fds {
			k := key{listenerID{b.name, b.place.protocol}, w.id}
			q := sums[k]
			q.add(fd, b.place.protocol)
			sums[k] = q
		}
	}
	out := make([]Queue, 0, len(sums))
	for k, q := range sums {
		q.Listener, q.Protocol, q.Worker = k.listener.name, k.listener.protocol, k.worker
		out = append(out, q)
	}
	return out
}

func (q *Queue) add(fd int32, p conf.Protocol) {
	if p == conf.UDP {
		m, errno := sys.ReceiveQueue(fd)
		if errno == 0 {
			q.Waiting += m.Bytes
			q.Limit += m.Limit
			q.Dropped += uint64(m.Dropped)
		}
		return
	}
	waiting, limit, errno := sys.AcceptQueue(fd)
	if errno == 0 {
		q.Waiting += waiting
		q.Limit += limit
	}
}

package metrics

import (
	"fmt"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/discovery"
	"github.com/weirlb/weir/stream/health"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/upstream"
)

// Collector reads a server's counters when it is asked for them. Any goroutine
// may use it.
type Collector struct {
	server *stream.Server // immutable
}

// NewCollector returns a collector over s.
func NewCollector(s *stream.Server) *Collector { return &Collector{s} }

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, f := range families {
		out <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	r := c.server.Read()
	s := sink{out}
	s.server(r)
	for i := range r.Listeners {
		s.listener(&r.Listeners[i])
	}
	for i := range r.Sources {
		s.source(&r.Sources[i])
	}
	for i := range r.Queues {
		s.queue(&r.Queues[i])
	}
	for i := range r.Upstreams {
		s.upstream(&r.Upstreams[i])
	}
	for i := range r.Workers {
		s.worker(&r.Workers[i])
	}
	s.datagrams(r.Counters)
	s.kernel()
}

func (s sink) server(r *stream.Reading) {
	s.put(ready, bit(r.NotReady == nil))
	s.put(sessions, float64(r.Sessions))
	s.put(maxSessions, float64(r.MaxSessions))
	s.put(leaving, float64(r.Leaving))
	s.put(steering, bit(r.Steered))
	s.put(lostLines, float64(r.Lost.Access), "access")
	s.put(lostLines, float64(r.Lost.Decisions), "decisions")
}

// paths are how the bytes of a protocol can move.
var paths = [...][]stats.Path{
	conf.TCP: {stats.Copied, stats.Spliced},
	conf.UDP: {stats.Datagrams},
}

func (s sink) listener(l *stream.ListenerReading) {
	protocol := l.Protocol.String()
	t := l.Totals()
	s.put(listenerSessions, float64(t.Active), l.Name, protocol)
	s.put(listenerAccepted, float64(t.Sessions), l.Name, protocol)
	for reason, n := range t.Closed {
		s.put(listenerClosed, float64(n), l.Name, protocol, stats.CloseReason(reason).String())
	}
	if l.Protocol == conf.TCP {
		s.put(listenerDelayed, float64(t.Delayed), l.Name)
		for d, n := range t.Slowed {
			s.put(listenerSlowed, float64(n), l.Name, stats.Direction(d).String())
		}
	}
	for _, p := range paths[l.Protocol] {
		for d, n := range t.Bytes[p] {
			s.put(listenerBytes, float64(n), l.Name, protocol, stats.Direction(d).String(), p.String())
		}
	}
}

func (s sink) queue(q *stream.Queue) {
	worker := strconv.Itoa(q.Worker)
	if q.Protocol == conf.UDP {
		s.put(receiveQueue, float64(q.Waiting), q.Listener, worker)
		s.put(receiveMax, float64(q.Limit), q.Listener, worker)
		s.put(receiveDropped, float64(q.Dropped), q.Listener, worker)
		return
	}
	s.put(acceptQueue, float64(q.Waiting), q.Listener, worker)
	s.put(acceptQueueMax, float64(q.Limit), q.Listener, worker)
}

func (s sink) source(x *discovery.Source) {
	l := []string{x.Upstream, string(x.Kind), x.Name}
	s.put(sourceServers, float64(x.Servers), l...)
	if !x.AnsweredAt.IsZero() {
		s.put(sourceAge, x.Age.Seconds(), l...)
	}
	s.put(sourceStale, bit(!x.StaleSince.IsZero()), l...)
	s.put(sourceAnswers, float64(x.Answers), l...)
	s.put(sourceFailures, float64(x.Failures), l...)
}

func (s sink) upstream(u *stream.UpstreamReading) {
	s.put(noPeer, float64(u.NoPeer), u.Name)
	s.durations(connect, &u.Connect, u.Name)
	s.put(groupPanic, bit(u.State.Panic), u.Name)
	s.put(groupPanics, float64(u.State.Panics), u.Name)
	if u.State.ExactlyOne {
		s.put(groupConflict, bit(u.State.Conflict), u.Name)
		s.put(groupClashes, float64(u.State.Conflicts), u.Name)
		s.put(groupEpoch, float64(u.State.Epoch), u.Name)
	}
	s.load(&u.Load, u.Name)
	s.counts(&u.Counts, &u.Load, u.Name)
	seen := map[[2]string]int{}
	for i := range u.Peers {
		p := &u.Peers[i]
		// A server may be written down twice, and is two peers then.
		name, id := p.Name, [2]string{p.Name, p.Addr}
		if seen[id]++; seen[id] > 1 {
			name = fmt.Sprintf("%s#%d", p.Name, seen[id])
		}
		s.peer(p, u.Name, name)
		s.checks(p, u.Checks[i], u.Name, name)
	}
}

// load tells how much an upstream has to do, and what bounds it.
func (s sink) load(l *upstream.Load, group string) {
	s.put(loadSessions, float64(l.Sessions), group)
	s.put(loadPending, float64(l.Pending), group)
	if l.Queue != nil {
		s.put(queueSessions, float64(l.Waiting), group)
		s.put(queueMax, float64(l.Queue.Max), group)
	}
	if c := l.Circuit; c != nil {
		for _, state := range [...]upstream.CircuitState{upstream.CircuitClosed, upstream.CircuitOpen, upstream.CircuitHalfOpen} {
			s.put(circuitState, bit(l.CircuitState == state), group, state.String())
		}
		s.put(circuitOpened, float64(l.Opened), group)
		if c.MaxRetries > 0 {
			s.put(loadRetrying, float64(l.Retries), group)
		}
	}
	if a := l.Limit; a != nil {
		s.put(limitNow, float64(a.Limit), group)
		s.put(limitInFlight, float64(a.InFlight), group)
		s.put(limitWaiting, float64(a.Waiting), group)
		s.put(limitLatency, a.Latency.Seconds(), group)
		s.put(limitWindows, float64(a.Windows), group)
		s.put(limitEnforced, bit(a.Enforced), group)
	}
}

// counts tells what was counted of an upstream.
func (s sink) counts(c *stream.UpstreamCounts, l *upstream.Load, group string) {
	s.put(retries, float64(c.Retries), group)
	s.put(deniedRetries, float64(c.RetriesDenied), group)
	s.put(hedges, float64(c.HedgesWon), group, "won")
	s.put(hedges, float64(c.HedgesLost), group, "lost")
	s.put(hedges, float64(c.HedgesDenied), group, "denied")
	if l.Queue != nil {
		s.durations(queueWait, &c.QueueWait, group)
	}
	if l.Limit != nil && l.Limit.ApplyTo == conf.LimitTurns {
		s.durations(turnWait, &c.TurnWait, group)
		s.put(turnsUnanswered, float64(c.Unanswered), group)
	}
}

// checks tells of the health checks of a peer. Several of one kind are numbered.
func (s sink) checks(p *upstream.Snapshot, checks []health.CheckState, group, name string) {
	seen := map[conf.CheckKind]int{}
	for i := range checks {
		c := &checks[i]
		kind := string(c.Kind)
		if seen[c.Kind]++; seen[c.Kind] > 1 {
			kind = fmt.Sprintf("%s#%d", kind, seen[c.Kind])
		}
		s.put(peerChecks, float64(c.Passed), group, name, p.Addr, kind, "passed")
		s.put(peerChecks, float64(c.Failed), group, name, p.Addr, kind, "failed")
		s.put(peerCheckTime, c.Took.Seconds(), group, name, p.Addr, kind)
	}
}

func (s sink) peer(p *upstream.Snapshot, group, name string) {
	b := &p.Balance
	for _, a := range [...]balance.Admin{balance.Up, balance.Drain, balance.Down} {
		s.put(peerAdmin, bit(b.Admin == a), group, name, p.Addr, a.String())
	}
	for a, at := range p.Axes {
		axis := upstream.Axis(a)
		s.put(peerAxis, 1, group, name, p.Addr, axis.String(), at.Value)
		if axis != upstream.AxisCapacity {
			s.put(peerTransitions, float64(p.Turns[a]), group, name, p.Addr, axis.String())
		}
	}
	l := peerWeight.with(group, name, p.Addr)
	for _, v := range [...]struct {
		f *family
		n float64
	}{
		{peerAvailable, bit(p.Available)},
		{peerEligible, bit(p.Eligible)},
		{peerSlowStart, p.Warmth},
		{peerBackup, bit(p.Backup)},
		{peerWeight, float64(b.Weight)},
		{peerEffective, float64(b.Effective)},
		{peerCurrent, float64(b.Current)},
		{peerConns, float64(b.Conns)},
		{peerMaxConns, float64(b.MaxConns)},
		{peerFails, float64(b.Fails)},
		{peerPicks, float64(p.Sessions)},
		{peerFailures, float64(p.Failures)},
		{peerSent, float64(p.Sent)},
		{peerReceived, float64(p.Received)},
	} {
		s.share(v.f, v.n, l)
	}
}

func (s sink) worker(r *stream.WorkerReading) {
	worker := strconv.Itoa(r.Worker)
	c := r.Stats
	s.put(workerSessions, float64(c.DownstreamActive.Load()), worker)
	s.put(workerAccepted, float64(c.DownstreamConnections.Load()), worker)
	s.put(workerAttempts, float64(c.UpstreamConnections.Load()), worker)
	s.put(workerFailures, float64(c.UpstreamFailures.Load()), worker)
	s.put(workerTurns, float64(r.Turns), worker)
	s.put(workerStale, float64(r.Stale), worker)
	s.put(workerPauses, float64(c.AcceptPauses.Load()), worker)
	s.put(workerPipes, float64(c.Pipes.Load()), worker)
	s.put(workerBuffers, float64(c.Buffers.Load()), worker)
	s.put(workerFallbacks, float64(c.SpliceFallbacks.Load()), worker)
	if r.CPU >= 0 {
		s.put(workerCPU, r.CPU.Seconds(), worker)
	}
	if r.Waited >= 0 {
		s.put(workerWait, r.Waited.Seconds(), worker)
	}
}

// datagrams adds up what the workers count of UDP.
func (s sink) datagrams(workers []*stats.Worker) {
	sum := func(counter func(*stats.Worker) uint64) (n float64) {
		for _, c := range workers {
			n += float64(counter(c))
		}
		return n
	}
	s.put(udpReceived, sum(func(c *stats.Worker) uint64 { return c.DatagramsIn.Load() }))
	s.put(udpSent, sum(func(c *stats.Worker) uint64 { return c.DatagramsOut.Load() }))
	s.put(udpDropped, sum(func(c *stats.Worker) uint64 { return c.LostDatagrams.Load() }), "unsent")
	s.put(udpDropped, sum(func(c *stats.Worker) uint64 { return c.RefusedDatagrams.Load() }), "refused")
	s.put(udpDropped, sum(func(c *stats.Worker) uint64 { return c.TruncatedDatagrams.Load() }), "truncated")
	s.put(udpDropped, sum(func(c *stats.Worker) uint64 { return c.LateDatagrams.Load() }), "late")
	s.put(udpCoalesced, sum(func(c *stats.Worker) uint64 { return c.CoalescedDatagrams.Load() }))
	s.put(udpSegmented, sum(func(c *stats.Worker) uint64 { return c.SegmentedDatagrams.Load() }))
	s.put(udpFallbacks, sum(func(c *stats.Worker) uint64 { return c.OffloadFallbacks.Load() }))
	s.put(udpReused, sum(func(c *stats.Worker) uint64 { return c.UpstreamSocketsReused.Load() }))
}

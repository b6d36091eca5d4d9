package upstream

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/latency"
	"github.com/weirlb/weir/stream/queue"
	"github.com/weirlb/weir/stream/stats"
)

// The tiers of a group: the backup peers are used only when no primary peer
// can be picked.
const (
	primary = iota
	backup
	tiers
)

// Group is one upstream at run time.
type Group struct {
	// immutable
	Name string
	seed uint64

	usable atomic.Int32                      // peers that are not down, in both tiers
	shape  atomic.Pointer[shape]             // written under mu
	stats  atomic.Pointer[[]*stats.Upstream] // one for each worker, written by that worker only; grows

	// conns is how many sessions hold a peer. Written under mu.
	conns    atomic.Int64
	connects latency.Recent // from pick to connected

	watch func(Event) // set before anybody else has the group; nil = nobody watches

	mu        sync.Mutex     // guards the peers' balance and axes, and what the methods keep
	orphans   []*Peer        // guarded by mu: of an earlier process's sessions, not in the configuration
	coldUntil balance.Millis // guarded by mu: the end of the last slow start; 0 = no peer is in one
	picked    clock.Time     // guarded by mu: when the last peer was, at the latest
	verdicts  verdicts       // guarded by mu
	outliers  outliers       // guarded by mu
	waiting   queue.Queue    // guarded by mu: of sessions for a peer
	called    int            // guarded by mu: sessions that have left it and not picked yet
	pending   int            // guarded by mu: attempts that are not connected yet
	retries   int            // guarded by mu: sessions at a later attempt than their first
	circuit   circuit        // guarded by mu
	spoken    bool           // guarded by mu: a peer has said something
}

// shape is what the configuration makes of a group: immutable, and replaced as a
// whole by Update.
type shape struct {
	balance    conf.Balance
	congestion string // TCP_CONGESTION of the sockets to the peers; "" = the system's
	rules      rules
	bounds     bounds
	single     bool // one primary peer and no backup
	key        []keyPart
	keyed      bool
	peers      [tiers][]*Peer
	state      [tiers][]*balance.Peer // the same peers' balance, as a method wants them
	methods    [tiers]balance.Method  // what they point to is guarded by the group's mu
	timed      [tiers]balance.Tracker // the methods, if they follow sessions
}

// NewGroup returns the run-time group of a configured upstream whose servers
// were resolved to peers, for that many workers. The methods that draw lots draw
// the same ones for the same seed.
func NewGroup(u *conf.Upstream, peers []*Peer, workers int, seed uint64) (*Group, error) {
	return NewGroupAt(u, peers, workers, seed, clock.Now())
}

// NewGroupAt is NewGroup by another clock: slow start begins now.
func NewGroupAt(u *conf.Upstream, peers []*Peer, workers int, seed uint64, now clock.Time) (*Group, error) {
	g := &Group{Name: u.Name, seed: seed}
	sh, err := newShape(u, peers, seed)
	if err != nil {
		return nil, err
	}
	g.growStats(workers)
	g.setLimiterLocked(sh, nil)
	g.adopt(sh, now)
	return g, nil
}

// newShape sorts peers into tiers and makes their methods.
func newShape(u *conf.Upstream, peers []*Peer, seed uint64) (*shape, error) {
	sh := &shape{balance: u.Balance, congestion: u.Congestion, rules: rulesOf(u), bounds: boundsOf(u)}
	for _, p := range peers {
		tier := primary
		if p.IsBackup() {
			tier = backup
		}
		sh.peers[tier] = append(sh.peers[tier], p)
	}
	if len(sh.peers[primary]) == 0 && !u.Dynamic() {
		return nil, fmt.Errorf("build upstream %q: it has no primary server", u.Name)
	}
	sh.single = len(sh.peers[primary]) == 1 && len(sh.peers[backup]) == 0
	if len(peers) < 2 {
		sh.rules.outlier = nil // there is nobody to compare it with
	}
	if balance.OneTier(u.Balance.Method) {
		sh.peers[primary] = append(sh.peers[primary], sh.peers[backup]...)
		sh.peers[backup] = nil
	}
	for tier, peers := range sh.peers {
		for _, p := range peers {
			sh.state[tier] = append(sh.state[tier], &p.balance)
		}
		if len(peers) == 0 {
			continue
		}
		m, err := balance.New(methodOptions(&u.Balance, seed), sh.state[tier])
		if err != nil {
			return nil, fmt.Errorf("build upstream %q: %w", u.Name, err)
		}
		sh.methods[tier] = m
		sh.timed[tier], _ = m.(balance.Tracker)
	}
	switch balance.KeyOf(u.Balance.Method) {
	case balance.OwnKey:
		sh.key, sh.keyed = compileKey(u.Balance.Key, u.Name), true
	case balance.AddressKey:
		sh.key, sh.keyed = compileKey(conf.Template{{Variable: binaryAddress}}, u.Name), true
	}
	return sh, nil
}

// adopt makes sh the group's shape. Preconditions: mu is held, or nobody else
// has the group.
func (g *Group) adopt(sh *shape, now clock.Time) {
	usable := 0
	g.shape.Store(sh)
	for tier, peers := range sh.peers {
		for _, p := range peers {
			p.tier = tier
			g.passiveLocked(p, inConfiguration, now) // who is the only one now is always available
			if p.axes[AxisActive].Value == "" {      // it is new
				p.axes[AxisActive].Value = sh.rules.begin
				p.axes[AxisRole].Value, p.role = sh.rules.beginRole, sh.rules.beginRole
				g.chillLocked(p, now)
			}
			if p.balance.Admin != balance.Down {
				usable++
			}
		}
	}
	g.usable.Store(int32(usable))
	g.judgeLocked(now)
}

// Stats returns the counters that a worker writes.
func (g *Group) Stats(worker int) *stats.Upstream { return (*g.stats.Load())[worker] }

// AllStats returns the counters of all workers.
func (g *Group) AllStats() []*stats.Upstream { return *g.stats.Load() }

// growStats makes counters for that many workers. Preconditions: mu is held, or
// nobody else has the group.
func (g *Group) growStats(workers int) {
	var all []*stats.Upstream
	if before := g.stats.Load(); before != nil {
		all = slices.Clone(*before)
	}
	for len(all) < workers {
		all = append(all, new(stats.Upstream))
	}
	g.stats.Store(&all)
}

// Method returns the name of the balancing method.
func (g *Group) Method() string { return g.shape.Load().balance.Method }

// Congestion returns TCP_CONGESTION of the sockets to the peers; "" is the
// system's.
func (g *Group) Congestion() string { return g.shape.Load().congestion }

func methodOptions(b *conf.Balance, seed uint64) balance.Options {
	return balance.Options{
		Method:     b.Method,
		Consistent: b.Consistent,
		TableSize:  b.TableSize,
		Time:       [...]balance.Moment{conf.TimeConnect: balance.Connect, conf.TimeFirstByte: balance.FirstByte, conf.TimeLastByte: balance.LastByte}[b.Time],
		Inflight:   b.Inflight,
		Choices:    b.Choices,
		ByTime:     b.By == conf.LeastTime,
		Epsilon:    b.Epsilon,
		HalfLife:   balance.Millis(b.HalfLife.Milliseconds()),
		Failback:   b.Failback,
		Seed:       seed,
	}
}

// Peers returns the peers in configuration order, primaries before backups.
func (g *Group) Peers() []*Peer {
	sh := g.shape.Load()
	return append(append([]*Peer(nil), sh.peers[primary]...), sh.peers[backup]...)
}

// Limits bound a session's walk from peer to peer.
type Limits struct {
	Tries   int           // attempts at most; 0 = one for each usable peer
	Timeout time.Duration // no further attempt after this long; 0 = no bound
}

// Attempts is what a session keeps until one of its attempts succeeds.
type Attempts struct {
	// Key is what a keyed method hashes. The session fills it, with
	// Group.AppendKey, between Begin and its first Pick.
	Key []byte

	// Priority is the session's in the queue, 0..conf.Priorities-1. The session
	// sets it between Begin and its first Pick.
	Priority int
	Denial   Denial // why the last Pick returned nil

	place    queue.Place
	called   bool // guarded by the group's mu: its turn has come, and it has not picked yet
	recalled bool // guarded by the group's mu: it has had its turn once
	retrying bool // it counts among the group's retries

	shape     *shape // that selection and tier speak of
	selection balance.Selection
	tier      int
	left      int // attempts that may still end in failure and be followed by another
	deadline  clock.Time
	tried     []*Peer
	spared    *Peer // of tried, but may be attempted again; nil = none
}

// Tried returns the attempted peers in order. It is valid until the next Begin.
func (a *Attempts) Tried() []*Peer { return a.tried }

// Begin starts a session's walk (ngx_stream_upstream_init_round_robin_peer).
// It keeps the room that a has from earlier use.
func (g *Group) Begin(a *Attempts, l Limits, now clock.Time) {
	a.Key = a.Key[:0]
	a.tried, a.spared = a.tried[:0], nil
	a.Priority, a.recalled = 0, false
	a.aim(g.shape.Load())
	a.left = int(g.usable.Load())
	if l.Tries > 0 {
		a.left = min(a.left, l.Tries)
	}
	a.deadline = 0
	if l.Timeout > 0 {
		a.deadline = now.Add(l.Timeout)
	}
}

// aim has the session choose among the peers of sh from now on, beginning with
// the primaries. Who was attempted before stays so.
func (a *Attempts) aim(sh *shape) {
	a.shape, a.tier = sh, primary
	a.selection.Reset()
	a.selection.Grow(max(len(sh.peers[primary]), len(sh.peers[backup])))
	a.markTried()
}

// markTried marks who was attempted among the tier's peers.
func (a *Attempts) markTried() {
	if len(a.tried) == 0 {
		return
	}
	for i, p := range a.shape.peers[a.tier] {
		if a.hasTried(p) {
			a.selection.MarkTried(i)
		}
	}
}

func (a *Attempts) hasTried(p *Peer) bool { return p != a.spared && slices.Contains(a.tried, p) }

// Spare lets the session attempt a peer again, once: an attempt of [Group.Beside] was
// given up before it showed anything of it. The search begins anew in its tier.
func (a *Attempts) Spare(p *Peer) {
	a.spared = p
	a.selection.Reset()
	a.markTried()
}

// Pick chooses a peer for the session's next attempt and counts a connection
// on it, or returns nil, and a.Denial says why. Every peer that it returns
// must be given back with Release.
func (g *Group) Pick(a *Attempts, now clock.Time) *Peer { return g.pick(a, now, nil) }

// pick is Pick. If d is not nil it is told how the choice came about.
func (g *Group) pick(a *Attempts, now clock.Time, d *Decision) *Peer {
	a.selection.Key = a.Key
	g.mu.Lock()
	called := a.called
	if sh := g.shape.Load(); sh != a.shape || called {
		a.aim(sh) // the configuration has changed since the last pick, or the session has waited
	}
	var p *Peer
	if !a.wakes() {
		p = g.pickLocked(a, balance.Millis(now.Millis()), d)
	} else if g.admitLocked(a, now) {
		if p = g.pickLocked(a, balance.Millis(now.Millis()), d); p != nil {
			g.pending++
		} else {
			g.turnedAwayLocked(a, balance.Seconds(now.Seconds()))
			if called {
				g.callNextLocked(a, now)
			}
		}
	}
	if p != nil {
		g.picked = max(g.picked, now)
	}
	g.mu.Unlock()
	if p != nil {
		a.tried = append(a.tried, p)
	}
	return p
}

// settleLocked has the methods bring the peers' current weights up to date, and is
// called as [balance.Settle] says.
func (g *Group) settleLocked() {
	for _, m := range g.shape.Load().methods {
		balance.Settle(m)
	}
}

// occupyLocked counts a connection on a peer.
func (g *Group) occupyLocked(p *Peer, now balance.Millis) {
	p.balance.Conns++
	g.conns.Add(1)
	if p.balance.MaxConns > 0 && p.balance.Conns == p.balance.MaxConns {
		g.turnLocked(p, AxisCapacity, AtMaxConns, "max_conns", clock.AtMillis(int64(now)))
	}
}

// vacateLocked takes a connection from it.
func (g *Group) vacateLocked(p *Peer, now clock.Time) {
	p.balance.Conns--
	g.conns.Add(-1)
	if p.balance.MaxConns > 0 && p.balance.Conns == p.balance.MaxConns-1 {
		g.turnLocked(p, AxisCapacity, Free, "", now)
	}
	if g.waiting.Len() > 0 {
		most := 1
		if g.shape.Load().bounds.limiter != nil {
			most = 2 // the limit may have grown: the queue then moves on faster
		}
		g.callLocked(most)
	}
}

func (g *Group) pickLocked(a *Attempts, now balance.Millis, d *Decision) *Peer {
	sh := a.shape
	if sh.single {
		p := sh.onlyLocked(a, now, d)
		if p != nil {
			g.occupyLocked(p, now)
			if t := sh.timed[primary]; t != nil {
				t.Picked(&p.balance, now)
			}
		}
		return p
	}
	if d != nil && a.tier == backup {
		g.settleLocked()
		d.addPrimaries(a, now.Seconds())
	}
	if p := g.takeLocked(a, now, d); p != nil {
		return p
	}
	if a.tier == backup || len(sh.peers[backup]) == 0 {
		return nil
	}
	// The session moves to the backup tier for good, unless it comes to wait. The
	// tried bits now speak of that tier's peers, and a search begins anew.
	a.tier = backup
	a.selection.Reset()
	a.markTried()
	return g.takeLocked(a, now, d)
}

// takeLocked picks a peer of the session's tier and counts a connection on it.
func (g *Group) takeLocked(a *Attempts, now balance.Millis, d *Decision) *Peer {
	sh := a.shape
	i := g.pickInTierLocked(a, now, d)
	if i < 0 {
		return nil
	}
	p := sh.peers[a.tier][i]
	a.selection.MarkTried(i)
	if p == a.spared {
		a.spared = nil
	}
	g.occupyLocked(p, now)
	if now.Seconds()-p.balance.Checked > p.balance.FailTimeout {
		// From now on others keep skipping an unavailable peer: this session
		// is its one probe for the next fail_timeout.
		p.balance.Checked = now.Seconds()
	}
	if t := sh.timed[a.tier]; t != nil {
		t.Picked(&p.balance, now)
	}
	return p
}

// pickInTierLocked picks among the peers of the session's tier, without those
// that slow start lets sit this one out if that leaves somebody.
func (g *Group) pickInTierLocked(a *Attempts, now balance.Millis, d *Decision) int {
	if len(a.shape.peers[a.tier]) == 0 {
		return -1
	}
	if g.coldUntil == 0 || !g.restLocked(a, now) {
		return a.searchLocked(now, d)
	}
	before, said := a.selection, d.length()
	i := a.searchLocked(now, d)
	if i < 0 {
		balance.Wake(a.shape.state[a.tier])
		a.selection = before
		d.cut(said)
		i = a.searchLocked(now, d)
	}
	return i
}

// restLocked has the peers of the session's tier that are in slow start sit out
// a pick, and reports whether there are any.
func (g *Group) restLocked(a *Attempts, now balance.Millis) bool {
	if now < g.coldUntil {
		return balance.Rest(a.shape.methods[a.tier], a.shape.state[a.tier], now)
	}
	for tier, m := range a.shape.methods {
		if m != nil {
			balance.Rest(m, a.shape.state[tier], now)
		}
	}
	g.coldUntil = 0
	return false
}

// chillLocked begins a peer's slow start.
func (g *Group) chillLocked(p *Peer, now clock.Time) {
	b := &p.balance
	if b.SlowStart == 0 {
		return
	}
	b.Cold = balance.Millis(now.Millis())
	g.coldUntil = max(g.coldUntil, b.Cold+b.SlowStart)
}

func (a *Attempts) searchLocked(now balance.Millis, d *Decision) int {
	sh := a.shape
	if d == nil {
		return sh.methods[a.tier].Pick(&a.selection, now)
	}
	i, e := balance.Explain(sh.methods[a.tier], sh.state[a.tier], &a.selection, now)
	d.add(sh.peers[a.tier], e)
	return i
}

// onlyLocked returns the only peer if it may be picked, and changes nothing. It
// has nobody to hand its sessions to, so failures never count against it; only the
// operator's limits and the verdicts of checks do.
func (sh *shape) onlyLocked(a *Attempts, now balance.Millis, d *Decision) *Peer {
	p := sh.peers[primary][0]
	ok := p.balance.Admin == balance.Up && p.balance.Withheld == balance.Eligible && !p.balance.Full()
	if d != nil {
		e := balance.Inspect(sh.state[primary], &a.selection, now.Seconds())
		e.By = onlyServer
		if ok {
			e.Winner, e.Candidates[0].Left = 0, balance.Eligible
		}
		d.add(sh.peers[primary], e)
	}
	if !ok {
		return nil
	}
	return p
}

// SetAdmin changes the operator's word on a peer, for that cause. What becomes of
// its sessions is for whoever watches the group to see to.
func (g *Group) SetAdmin(p *Peer, a balance.Admin, cause string, now clock.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.balance.Admin == a {
		return
	}
	switch was := p.balance.Admin; {
	case was == balance.Down && a != balance.Down:
		g.usable.Add(1)
	case was != balance.Down && a == balance.Down:
		g.usable.Add(-1)
	}
	p.balance.Admin = a
	g.turnLocked(p, AxisAdmin, a.String(), cause, now)
	if a == balance.Up {
		g.chillLocked(p, now)
	}
	g.judgeLocked(now)
	g.callAllLocked(now)
}

// SetWeight changes a peer's weight until the configuration's changes. The
// effective weight keeps its share of it.
func (g *Group) SetWeight(p *Peer, weight int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.setWeightLocked(p, weight)
}

func (g *Group) setWeightLocked(p *Peer, weight int) error {
	was := g.shape.Load()
	g.settleLocked()
	old := p.balance
	p.weighLocked(weight)
	is := *was
	for tier, peers := range was.peers {
		if !slices.Contains(peers, p) {
			continue
		}
		if err := is.remakeLocked(tier, was.methods[tier], g.seed); err != nil {
			p.balance = old
			return fmt.Errorf("set weight of %s in upstream %q: %w", p.Name, g.Name, err)
		}
	}
	g.shape.Store(&is)
	return nil
}

// weighLocked gives the peer another weight, of which the effective one keeps its share.
func (p *Peer) weighLocked(weight int) {
	b := &p.balance
	b.Effective, b.Weight = b.Effective*weight/b.Weight, weight
}

// remakeLocked makes a tier's method anew, so that what it works out of weights
// is of those that the peers have now. It takes over what the one before has kept.
func (sh *shape) remakeLocked(tier int, before balance.Method, seed uint64) error {
	m, err := balance.New(methodOptions(&sh.balance, seed), sh.state[tier])
	if err != nil {
		return err
	}
	balance.Succeed(m, before)
	sh.methods[tier] = m
	sh.timed[tier], _ = m.(balance.Tracker)
	return nil
}

// snapshotAtOnce is how many peers are copied while mu is held: some
// microseconds, for which a pick may have to wait.
const snapshotAtOnce = 32

// Snapshot appends the state of every peer, primaries first, to out. Those of a
// large group are not all of the same moment.
func (g *Group) Snapshot(out []Snapshot, now clock.Time) []Snapshot {
	sh := g.shape.Load()
	out = slices.Grow(out, len(sh.peers[primary])+len(sh.peers[backup]))
	for _, tier := range sh.peers {
		for some := range slices.Chunk(tier, snapshotAtOnce) {
			at := len(out)
			g.mu.Lock()
			g.settleLocked()
			for _, p := range some {
				out = append(out, Snapshot{Balance: p.balance, Failures: p.failures, Axes: p.axes, Turns: p.turns, Verdict: p.left(), Ejections: p.ejections, EjectedUntil: p.ejectedUntil})
			}
			g.mu.Unlock()
			for i, p := range some {
				out[at+i].complete(p, sh.single, now)
			}
		}
	}
	return out
}

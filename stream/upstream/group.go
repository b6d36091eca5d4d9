package upstream

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/internal/clock"
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
	Name       string
	Method     string
	Congestion string // TCP_CONGESTION of the sockets to the peers; "" = the system's
	single     bool   // one primary peer and no backup
	key        []keyPart
	keyed      bool
	timed      [tiers]balance.Tracker // the methods, if they follow sessions

	usable atomic.Int32 // peers that are not down, in both tiers

	mu      sync.Mutex
	methods [tiers]balance.Method
	peers   [tiers][]*Peer         // slices immutable; guarded by mu: the peers' balance
	state   [tiers][]*balance.Peer // the same peers' balance, as a method wants them
}

// NewGroup returns the run-time group of a configured upstream whose servers
// were resolved to peers. The methods that draw lots draw the same ones for the
// same seed.
func NewGroup(u *conf.Upstream, peers []*Peer, seed uint64) (*Group, error) {
	g := &Group{Name: u.Name, Method: u.Balance.Method, Congestion: u.Congestion}
	for _, p := range peers {
		if p.Backup {
			p.tier = backup
		}
		g.peers[p.tier] = append(g.peers[p.tier], p)
		if p.balance.Admin != balance.Down {
			g.usable.Add(1)
		}
	}
	if len(g.peers[primary]) == 0 {
		return nil, fmt.Errorf("build upstream %q: it has no primary server", u.Name)
	}
	g.single = len(g.peers[primary]) == 1 && len(g.peers[backup]) == 0
	if balance.OneTier(g.Method) {
		for _, p := range g.peers[backup] {
			p.tier = primary
		}
		g.peers[primary] = append(g.peers[primary], g.peers[backup]...)
		g.peers[backup] = nil
	}
	for tier, peers := range g.peers {
		for _, p := range peers {
			g.state[tier] = append(g.state[tier], &p.balance)
		}
		if len(peers) == 0 {
			continue
		}
		m, err := balance.New(methodOptions(&u.Balance, seed), g.state[tier])
		if err != nil {
			return nil, fmt.Errorf("build upstream %q: %w", u.Name, err)
		}
		g.methods[tier] = m
		g.timed[tier], _ = m.(balance.Tracker)
	}
	switch balance.KeyOf(g.Method) {
	case balance.OwnKey:
		g.key, g.keyed = compileKey(u.Balance.Key, u.Name), true
	case balance.AddressKey:
		g.key, g.keyed = compileKey(conf.Template{{Variable: binaryAddress}}, u.Name), true
	}
	return g, nil
}

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
	return append(append([]*Peer(nil), g.peers[primary]...), g.peers[backup]...)
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

	selection balance.Selection
	tier      int
	left      int // attempts that may still end in failure and be followed by another
	deadline  clock.Time
	tried     []*Peer
}

// Tried returns the attempted peers in order. It is valid until the next Begin.
func (a *Attempts) Tried() []*Peer { return a.tried }

// Begin starts a session's walk (ngx_stream_upstream_init_round_robin_peer).
// It keeps the room that a has from earlier use.
func (g *Group) Begin(a *Attempts, l Limits, now clock.Time) {
	a.Key = a.Key[:0]
	a.selection.Reset()
	a.selection.Grow(max(len(g.peers[primary]), len(g.peers[backup])))
	a.tier = primary
	a.tried = a.tried[:0]
	a.left = int(g.usable.Load())
	if l.Tries > 0 {
		a.left = min(a.left, l.Tries)
	}
	a.deadline = 0
	if l.Timeout > 0 {
		a.deadline = now.Add(l.Timeout)
	}
}

// Pick chooses a peer for the session's next attempt and counts a connection
// on it, or returns nil if no peer is eligible. Every peer that it returns
// must be given back with Release.
func (g *Group) Pick(a *Attempts, now clock.Time) *Peer { return g.pick(a, now, nil) }

// pick is Pick. If d is not nil it is told how the choice came about.
func (g *Group) pick(a *Attempts, now clock.Time, d *Decision) *Peer {
	a.selection.Key = a.Key
	g.mu.Lock()
	p := g.pickLocked(a, balance.Millis(now.Millis()), d)
	g.mu.Unlock()
	if p != nil {
		a.tried = append(a.tried, p)
	}
	return p
}

func (g *Group) pickLocked(a *Attempts, now balance.Millis, d *Decision) *Peer {
	if g.single {
		return g.pickSingleLocked(a, now, d)
	}
	if d != nil && a.tier == backup {
		g.tellPrimariesLocked(a, now.Seconds(), d)
	}
	i := g.pickInTierLocked(a, now, d)
	if i < 0 && a.tier == primary && len(g.peers[backup]) > 0 {
		// The session moves to the backup tier for good. The tried bits now
		// speak of that tier's peers, and a search begins anew.
		a.tier = backup
		a.selection.Reset()
		i = g.pickInTierLocked(a, now, d)
	}
	if i < 0 {
		return nil
	}
	p := g.peers[a.tier][i]
	a.selection.MarkTried(i)
	p.balance.Conns++
	if now.Seconds()-p.balance.Checked > p.balance.FailTimeout {
		// From now on others keep skipping an unavailable peer: this session
		// is its one probe for the next fail_timeout.
		p.balance.Checked = now.Seconds()
	}
	if t := g.timed[a.tier]; t != nil {
		t.Picked(&p.balance, now)
	}
	return p
}

func (g *Group) pickInTierLocked(a *Attempts, now balance.Millis, d *Decision) int {
	if d == nil {
		return g.methods[a.tier].Pick(&a.selection, now)
	}
	i, e := balance.Explain(g.methods[a.tier], g.state[a.tier], &a.selection, now)
	d.add(g.peers[a.tier], e)
	return i
}

// pickSingleLocked picks the only peer. It has nobody to hand its sessions to,
// so failures never count against it; only the operator's limits do.
func (g *Group) pickSingleLocked(a *Attempts, now balance.Millis, d *Decision) *Peer {
	p := g.peers[primary][0]
	ok := p.balance.Admin == balance.Up && !p.balance.Full()
	if d != nil {
		e := balance.Inspect(g.state[primary], &a.selection, now.Seconds())
		e.By = onlyServer
		if ok {
			e.Winner, e.Candidates[0].Left = 0, balance.Eligible
		}
		d.add(g.peers[primary], e)
	}
	if !ok {
		return nil
	}
	p.balance.Conns++
	if t := g.timed[primary]; t != nil {
		t.Picked(&p.balance, now)
	}
	return p
}

// SetAdmin changes the operator's word on a peer. Sessions that run are left
// alone.
func (g *Group) SetAdmin(p *Peer, a balance.Admin) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch was := p.balance.Admin; {
	case was == balance.Down && a != balance.Down:
		g.usable.Add(1)
	case was != balance.Down && a == balance.Down:
		g.usable.Add(-1)
	}
	p.balance.Admin = a
	p.down.Store(a == balance.Down)
}

// Snapshot appends the state of every peer, primaries first, to out.
func (g *Group) Snapshot(out []Snapshot, now clock.Time) []Snapshot {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, tier := range g.peers {
		for _, p := range tier {
			s := Snapshot{
				Name:    p.Name,
				Addr:    p.addrString,
				Backup:  p.Backup,
				State:   p.stateLocked(balance.Seconds(now.Seconds())),
				Balance: p.balance,
			}
			if g.single && (s.State == Unavailable || s.State == Trial) {
				s.State = Up
			}
			for i := range p.Stats {
				s.Sessions += p.Stats[i].Sessions.Load()
				s.Sent += p.Stats[i].Sent.Load()
				s.Received += p.Stats[i].Received.Load()
			}
			out = append(out, s)
		}
	}
	return out
}

package upstream

import (
	"fmt"
	"sync"
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
	Congestion string // TCP_CONGESTION of the sockets to the peers; "" = the system's
	single     bool   // one primary peer and no backup
	usable     int    // peers that are not down, in both tiers
	method     balance.Method

	mu    sync.Mutex
	peers [tiers][]*Peer         // slices immutable; guarded by mu: the peers' balance
	state [tiers][]*balance.Peer // the same peers' balance, as a method wants them
}

// NewGroup returns the run-time group of a configured upstream whose servers
// were resolved to peers.
func NewGroup(u *conf.Upstream, peers []*Peer) (*Group, error) {
	method, err := balance.New(u.Balance)
	if err != nil {
		return nil, err
	}
	g := &Group{Name: u.Name, Congestion: u.Congestion, method: method}
	for _, p := range peers {
		tier := primary
		if p.Backup {
			tier = backup
		}
		g.peers[tier] = append(g.peers[tier], p)
		g.state[tier] = append(g.state[tier], &p.balance)
		if !p.balance.Down {
			g.usable++
		}
	}
	if len(g.peers[primary]) == 0 {
		return nil, fmt.Errorf("build upstream %q: it has no primary server", u.Name)
	}
	g.single = len(g.peers[primary]) == 1 && len(g.peers[backup]) == 0
	return g, nil
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
	a.selection.Reset()
	a.selection.Grow(max(len(g.peers[primary]), len(g.peers[backup])))
	a.tier = primary
	a.tried = a.tried[:0]
	a.left = g.usable
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
func (g *Group) Pick(a *Attempts, now clock.Time) *Peer {
	g.mu.Lock()
	p := g.pickLocked(a, balance.Seconds(now.Seconds()))
	g.mu.Unlock()
	if p != nil {
		a.tried = append(a.tried, p)
	}
	return p
}

func (g *Group) pickLocked(a *Attempts, now balance.Seconds) *Peer {
	if g.single {
		// One peer has nobody to hand its sessions to, so failures never
		// count against it; only the operator's limits do.
		p := g.peers[primary][0]
		if p.balance.Down || p.balance.Full() {
			return nil
		}
		p.balance.Conns++
		return p
	}
	i := g.method.Pick(g.state[a.tier], &a.selection, now)
	if i < 0 && a.tier == primary && len(g.peers[backup]) > 0 {
		// The session moves to the backup tier for good. The tried bits now
		// speak of that tier's peers.
		a.tier = backup
		a.selection.Reset()
		i = g.method.Pick(g.state[backup], &a.selection, now)
	}
	if i < 0 {
		return nil
	}
	p := g.peers[a.tier][i]
	a.selection.MarkTried(i)
	p.balance.Conns++
	if now-p.balance.Checked > p.balance.FailTimeout {
		// From now on others keep skipping an unavailable peer: this session
		// is its one probe for the next fail_timeout.
		p.balance.Checked = now
	}
	return p
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

package upstream

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/internal/clock"
)

// identity is what makes a peer the same one under another configuration. Of
// several with the same address and name the nth stays the nth.
type identity struct {
	name, addr string
	nth        int
}

// numbered yields the peers in order, with their identities.
func numbered(peers []*Peer) iter.Seq2[identity, *Peer] {
	return func(yield func(identity, *Peer) bool) {
		seen := map[identity]int{}
		for _, p := range peers {
			id := identity{name: p.Name, addr: p.addrString}
			seen[id]++
			id.nth = seen[id]
			if !yield(id, p) {
				return
			}
		}
	}
}

// Plan is another configuration of a group, ready for Update.
type Plan struct {
	Added, Removed []*Peer
	Changed        []*Peer         // that stay, and whose settings differ
	Downed         []*Peer         // of these, whom the operator has set down now
	shape          *shape          // of the resolved peers
	stays          map[*Peer]*Peer // resolved -> the group's own
	workers        int
}

// Plan compares the group with a configuration whose servers were resolved for
// that many workers, and changes nothing.
func (g *Group) Plan(u *conf.Upstream, peers []*Peer, workers int) (*Plan, error) {
	sh, err := newShape(u, peers, g.seed)
	if err != nil {
		return nil, err
	}
	plan := &Plan{shape: sh, stays: map[*Peer]*Peer{}, workers: workers}
	g.mu.Lock()
	defer g.mu.Unlock()
	old := maps.Collect(numbered(g.Peers()))
	for id, p := range numbered(slices.Concat(sh.peers[:]...)) {
		was := old[id]
		if was == nil {
			plan.Added = append(plan.Added, p)
			continue
		}
		if was.configured != p.configured {
			plan.Changed = append(plan.Changed, was)
		}
		if p.configured.down && !was.configured.down {
			plan.Downed = append(plan.Downed, was)
		}
		plan.stays[p] = was
		delete(old, id)
	}
	for id, p := range numbered(g.Peers()) {
		if old[id] != nil {
			plan.Removed = append(plan.Removed, p)
		}
	}
	return plan, nil
}

// Update gives the group the configuration of a plan, which must be of its
// present one. A peer that stays keeps its connections, failures, times and
// current weight, and the weight that the operator has given it unless the
// configuration's has changed; its effective weight keeps its share of it. A peer
// that goes is picked no more, and its sessions give it back as before. A method
// whose peers and options are the same goes on where it was.
func (g *Group) Update(plan *Plan) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.settleLocked()
	was, is, now := g.shape.Load(), plan.shape, clock.Now()
	balanced := sameBalance(&was.balance, &is.balance) // as before
	same := balanced && len(plan.Added)+len(plan.Removed) == 0
	total := 0
	var weighed [tiers]bool // the operator has weighed peers of it
	for tier := range is.peers {
		same = same && len(is.peers[tier]) == len(was.peers[tier])
		for i, fresh := range is.peers[tier] {
			p := plan.stays[fresh]
			if p == nil {
				total += fresh.balance.Weight
				continue
			}
			same = same && p.configured.weight == fresh.configured.weight && i < len(was.peers[tier]) && was.peers[tier][i] == p
			g.configureLocked(p, fresh, &was.rules, &is.rules, now)
			total += p.balance.Weight
			weighed[tier] = weighed[tier] || p.balance.Weight != fresh.balance.Weight
			// The methods were made with the fresh peers, off the lock, and keep
			// this slice. What they have worked out is of weights and addresses.
			is.peers[tier][i], is.state[tier][i] = p, &p.balance
		}
	}
	for _, p := range plan.stays {
		// Where a weight has become small, an account from before could keep
		// the peer from its turn, or at it, for longer than a cycle.
		p.balance.Current = min(max(p.balance.Current, -total), total)
		if !balanced {
			// Counted by another method, up to another moment, or not at all.
			p.balance.Inflight = balance.Inflight{Since: balance.Millis(now.Millis())}
		}
	}
	for tier := range is.methods {
		switch {
		case same:
			is.methods[tier], is.timed[tier], is.peers[tier], is.state[tier] = was.methods[tier], was.timed[tier], was.peers[tier], was.state[tier]
		case is.methods[tier] == nil:
		case weighed[tier]:
			// Weights are no reason to fail: with these options and as many peers it
			// was made before.
			_ = is.remakeLocked(tier, was.methods[tier], g.seed)
		case was.methods[tier] != nil:
			balance.Succeed(is.methods[tier], was.methods[tier])
		}
	}
	for _, p := range plan.Removed {
		p.remove(&is.rules)
	}
	g.growStats(plan.workers)
	g.setLimiterLocked(is, was)
	is.bounds.patience = cmp.Or(is.bounds.patience, was.bounds.patience)
	if c := is.bounds.circuit; c == nil || c.Failures == 0 {
		g.circuit = circuit{opened: g.circuit.opened} // one that comes back later begins closed
	}
	g.adopt(is, now)
	g.callAllLocked(now)
}

// Disband has the peers of a group that is no longer in the configuration be as
// those that Update removes, and returns them. Nobody is picked any more, and whoever
// waits hears so. The rest of the configuration holds for the sessions that run on.
func (g *Group) Disband() (gone []*Peer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.settleLocked()
	gone = g.Peers()
	was := g.shape.Load()
	for _, p := range gone {
		p.remove(&was.rules)
	}
	is := &shape{balance: was.balance, congestion: was.congestion, rules: was.rules, bounds: was.bounds}
	is.bounds.disbanded = true
	g.shape.Store(is)
	g.callToRefuseLocked()
	return gone
}

// remove notes that the peer is no longer in the configuration.
func (p *Peer) remove(r *rules) {
	p.removed.Store(true)
	p.forsaken.Store(r.onState.Removed != conf.Keep)
}

// noLonger is the cause of what follows from checks that a configuration has
// taken away.
const noLonger = "no longer in the configuration"

func sameBalance(a, b *conf.Balance) bool {
	x, y := *a, *b
	x.Key, y.Key = nil, nil // keys belong to the shape, not to the method
	return slices.Equal(a.Key, b.Key) && equalButKey(x, y)
}

func equalButKey(a, b conf.Balance) bool {
	return a.Method == b.Method && a.Consistent == b.Consistent && a.TableSize == b.TableSize && a.Time == b.Time &&
		a.Inflight == b.Inflight && a.Choices == b.Choices && a.By == b.By && a.Epsilon == b.Epsilon &&
		a.HalfLife == b.HalfLife && a.Failback == b.Failback
}

// configureLocked has a peer take over another's settings. Preconditions: mu is
// held.
func (g *Group) configureLocked(p, from *Peer, was, is *rules, now clock.Time) {
	b := &p.balance
	if from.configured.weight != p.configured.weight {
		p.weighLocked(from.configured.weight) // else the operator's stays, if he has set one
	}
	if b.Warmth(balance.Millis(now.Millis())) == 1 {
		b.Cold = 0 // its slow start is over, and a longer one does not bring it back
	}
	b.MaxFails, b.FailTimeout, b.MaxConns, b.SlowStart = from.balance.MaxFails, from.balance.FailTimeout, from.balance.MaxConns, from.balance.SlowStart
	if b.Cold > 0 {
		g.coldUntil = max(g.coldUntil, b.Cold+b.SlowStart)
	}
	if from.configured.down != p.configured.down {
		// The file's word has changed, so it is the later one.
		b.Admin = balance.Up
		if from.configured.down {
			b.Admin = balance.Down
		}
		g.turnLocked(p, AxisAdmin, b.Admin.String(), inConfiguration, now)
	}
	switch {
	case is.checked && !was.checked:
		// It stays in use until the first verdict.
		g.turnLocked(p, AxisActive, Healthy, "in use before it was checked", now)
	case !is.checked && was.checked:
		p.role, p.roleCause = AnyRole, noLonger
		g.turnLocked(p, AxisActive, Unchecked, noLonger, now)
	}
	if is.outlier == nil {
		p.record = record{}
	}
	capacity := Free
	if b.Full() {
		capacity = AtMaxConns
	}
	g.turnLocked(p, AxisCapacity, capacity, inConfiguration, now)
	p.backup.Store(from.configured.backup)
	p.configured = from.configured
	p.growStats(len(*from.stats.Load()))
}

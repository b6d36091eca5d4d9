package upstream

import (
	"iter"
	"maps"
	"slices"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
)

// identity is what makes a peer the same one under another configuration. Of
// several with the same address and name the nth stays the nth.
type identity struct {
	name, addr string
	backup     bool
	nth        int
}

// numbered yields the peers in order, with their identities.
func numbered(peers []*Peer) iter.Seq2[identity, *Peer] {
	return func(yield func(identity, *Peer) bool) {
		seen := map[identity]int{}
		for _, p := range peers {
			id := identity{name: p.Name, addr: p.addrString, backup: p.Backup}
			seen[id]++
			id.nth = seen[id]
			if !yield(id, p) {
				return
			}
		}
	}
}

// Plan is what an Update would do to the peers of a group.
type Plan struct {
	Added, Removed []*Peer
	Changed        []*Peer // settings differ
	peers          []*Peer // of the new shape: those that stay, and the added
	settings       []*Peer // for each of them, whom it takes its settings from
}

// Plan compares the group with resolved servers, and changes nothing.
func (g *Group) Plan(peers []*Peer) *Plan {
	g.mu.Lock()
	defer g.mu.Unlock()
	plan := &Plan{settings: peers}
	old := maps.Collect(numbered(g.Peers()))
	for id, p := range numbered(peers) {
		was := old[id]
		if was == nil {
			plan.Added = append(plan.Added, p)
			plan.peers = append(plan.peers, p)
			continue
		}
		if was.configured != p.configured {
			plan.Changed = append(plan.Changed, p)
		}
		plan.peers = append(plan.peers, was)
		delete(old, id)
	}
	for _, p := range g.Peers() {
		if !slices.Contains(plan.peers, p) {
			plan.Removed = append(plan.Removed, p)
		}
	}
	return plan
}

// Update gives the group another configuration. A peer that stays keeps its
// connections, failures, times and current weight; its effective weight keeps
// its share of the weight. A peer that goes is picked no more, and its sessions
// give it back as before. A method whose peers and options are the same goes on
// where it was.
func (g *Group) Update(u *conf.Upstream, plan *Plan) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	sh, err := newShape(u, plan.peers, g.seed)
	if err != nil {
		return err
	}
	was := g.shape.Load()
	same := sameMethod(was, sh, plan)
	for i, p := range plan.peers {
		if from := plan.settings[i]; from != p {
			p.configure(from)
		}
	}
	total := 0
	for _, p := range plan.peers {
		total += p.balance.Weight
	}
	for _, p := range plan.peers {
		// Where a weight has become small, an account from before could keep
		// the peer from its turn, or at it, for longer than a cycle.
		p.balance.Current = min(max(p.balance.Current, -total), total)
	}
	for tier := range sh.methods {
		switch {
		case same:
			sh.methods[tier], sh.timed[tier] = was.methods[tier], was.timed[tier]
		case sh.methods[tier] != nil && was.methods[tier] != nil:
			balance.Succeed(sh.methods[tier], was.methods[tier])
		}
	}
	if !same {
		for _, p := range plan.peers {
			p.balance.Inflight = balance.Inflight{} // counted by another method, or not at all
		}
	}
	for _, p := range plan.Removed {
		p.removed.Store(true)
	}
	g.adopt(sh)
	return nil
}

// sameMethod reports whether nothing that a method is made of differs.
func sameMethod(was, is *shape, plan *Plan) bool {
	if !sameBalance(&was.balance, &is.balance) {
		return false
	}
	for tier := range is.peers {
		if !slices.Equal(was.peers[tier], is.peers[tier]) {
			return false
		}
	}
	for i, p := range plan.peers {
		if p.configured.weight != plan.settings[i].configured.weight {
			return false
		}
	}
	return true
}

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

// configure takes over another's settings. Preconditions: the group's mu is
// held.
func (p *Peer) configure(from *Peer) {
	b := &p.balance
	if from.configured.weight != p.configured.weight {
		b.Effective = b.Effective * from.configured.weight / p.configured.weight
	}
	b.Weight, b.MaxFails, b.FailTimeout, b.MaxConns = from.balance.Weight, from.balance.MaxFails, from.balance.FailTimeout, from.balance.MaxConns
	if from.configured.down != p.configured.down {
		// The file's word has changed, so it is the later one.
		b.Admin = balance.Up
		if from.configured.down {
			b.Admin = balance.Down
		}
		p.down.Store(from.configured.down)
	}
	p.configured = from.configured
}

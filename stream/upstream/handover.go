package upstream

import (
	"net/netip"
	"slices"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/handover"
	"github.com/weirlb/weir/stream/internal/clock"
)

// Ref names a peer for another process.
func (g *Group) Ref(p *Peer) handover.PeerRef {
	return handover.PeerRef{Upstream: g.Name, Name: p.Name, Addr: p.addrString, Backup: p.IsBackup()}
}

// Find returns the peer of that name and address, of the same tier if there are
// several. One that the configuration has no longer is made for the sessions that
// still have it: it is removed, and never picked.
func (g *Group) Find(r handover.PeerRef, workers int) *Peer {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := peerOf(slices.Concat(g.Peers(), g.orphans), r.Name, r.Addr, r.Backup); p != nil {
		return p
	}
	s := conf.NewServer(conf.Address{Host: r.Addr})
	s.Name = r.Name
	addr, _ := netip.ParseAddrPort(r.Addr) // a unix socket's is not valid
	p := newPeer(&s, addr, workers)
	p.addrString = r.Addr
	p.removed.Store(true)
	g.orphans = append(g.orphans, p)
	return p
}

// peerOf returns the peer of that name and address, of the same tier if there are
// several, or nil.
func peerOf(peers []*Peer, name, addr string, isBackup bool) (found *Peer) {
	for _, p := range peers {
		switch {
		case p.Name != name || p.addrString != addr:
		case p.IsBackup() == isBackup:
			return p
		default:
			found = p
		}
	}
	return found
}

// Disown has the peers that Find has made, and that the group has not got since, be
// as those that Update removes, and returns them, once. It is for when all of the
// group's peers are known.
func (g *Group) Disown() (gone []*Peer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.orphans {
		if peerOf(g.Peers(), p.Name, p.addrString, p.IsBackup()) == nil {
			p.remove(&g.shape.Load().rules)
			gone = append(gone, p)
		}
	}
	g.orphans = nil
	return gone
}

// Hold counts a connection on a peer for a session of another process that has
// one, and of which that much has been measured, whatever its max_conns say.
func (g *Group) Hold(p *Peer, took Took, now clock.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := balance.Millis(now.Millis())
	g.occupyLocked(p, at)
	if t := g.trackerLocked(p); t != nil {
		t.Held(&p.balance, took.times(), at)
	}
}

// Export returns what another process has to know of the peers, but for their
// connections, which come with the sessions.
func (g *Group) Export(now clock.Time) []handover.PeerState {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.settleLocked()
	ago := func(at balance.Seconds) time.Duration {
		if at == balance.Never {
			return -1
		}
		return time.Duration(balance.Seconds(now.Seconds())-at) * time.Second
	}
	limit := 0
	if l := g.Limiter(); l != nil {
		limit = l.Read().Limit
	}
	_, open := g.circuit.stands(now)
	var out []handover.PeerState
	for _, p := range g.Peers() {
		b := &p.balance
		st := handover.PeerState{
			Limit: limit, CircuitOpen: open, Spoken: g.spoken,
			PeerRef: g.Ref(p), Admin: int(b.Admin), Weight: b.Weight, Written: p.configured.weight, Effective: b.Effective, Current: b.Current,
			Fails: b.Fails, Accessed: ago(b.Accessed), Checked: ago(b.Checked),
		}
		for i, t := range b.Average {
			st.Average[i] = int64(t)
		}
		st.Active, st.Role, st.Verdict = p.axes[AxisActive].Value, p.role, p.axes[AxisActive].Cause
		if p == g.verdicts.incumbent {
			st.Epoch = g.verdicts.epoch
		}
		st.Ejections = p.ejections
		if p.ejected {
			st.EjectedFor = p.ejectedUntil.Sub(now)
		}
		if b.Warmth(balance.Millis(now.Millis())) < 1 {
			st.Cold = now.Sub(clock.AtMillis(int64(b.Cold)))
		}
		if st.Epoch > 0 {
			// It comes first, so that no other gets its role on the way.
			out = slices.Insert(out, 0, st)
			continue
		}
		out = append(out, st)
	}
	return out
}

// Import takes over what another process knew of a peer, if the configuration
// still has it. The operator's words hold, unless the configuration says down or
// another weight than before.
func (g *Group) Import(st *handover.PeerState, now clock.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.settleLocked()
	then := func(ago time.Duration) balance.Seconds {
		if ago < 0 {
			return balance.Never
		}
		return balance.Seconds(now.Add(-ago).Seconds())
	}
	if p := peerOf(g.Peers(), st.Name, st.Addr, st.Backup); p != nil && st.Weight > 0 {
		g.importLoadLocked(st, now)
		b := &p.balance
		if st.Written == p.configured.weight && st.Weight != b.Weight && st.Weight <= conf.MaxWeight {
			_ = g.setWeightLocked(p, st.Weight) // else the configuration's stays
		}
		b.Effective = min(max(st.Effective*b.Weight/st.Weight, 0), b.Weight)
		b.Current, b.Fails = st.Current, max(st.Fails, 0)
		b.Accessed, b.Checked = then(st.Accessed), then(st.Checked)
		for i, t := range st.Average {
			b.Average[i] = balance.Millis(max(t, 0))
		}
		if a := balance.Admin(st.Admin); !p.configured.down && a <= balance.Down && a != b.Admin {
			b.Admin = a
			g.turnLocked(p, AxisAdmin, a.String(), beforeUpgrade, now)
			if a == balance.Down {
				g.usable.Add(-1)
			}
		}
		g.importVerdictsLocked(p, st, now)
	}
}

// beforeUpgrade is the cause of what another process has handed over.
const beforeUpgrade = "so before the upgrade"

// importLoadLocked takes over what bounded the load.
func (g *Group) importLoadLocked(st *handover.PeerState, now clock.Time) {
	b := &g.shape.Load().bounds
	if b.limiter != nil && st.Limit > 0 {
		b.limiter.Start(st.Limit)
	}
	g.spoken = g.spoken || st.Spoken
	if c := b.circuit; c != nil && c.Failures > 0 && st.CircuitOpen > 0 {
		g.circuit.state, g.circuit.until, g.circuit.inRow = CircuitOpen, now.Add(st.CircuitOpen), 1
	}
}

// importVerdictsLocked takes over what checks and live traffic had shown of a
// peer, so that an upgrade leaves no gap in which nobody is known to be well.
func (g *Group) importVerdictsLocked(p *Peer, st *handover.PeerState, now clock.Time) {
	r := &g.shape.Load().rules
	if r.checked && slices.Contains([]string{Healthy, Unhealthy}, st.Active) && slices.Contains(AxisRole.Values(), st.Role) {
		p.role, p.roleCause = st.Role, st.Verdict
		g.turnLocked(p, AxisActive, st.Active, st.Verdict, now)
	}
	if st.Epoch > 0 && r.exactlyOne {
		g.verdicts.incumbent, g.verdicts.epoch = p, st.Epoch
	}
	if r.outlier != nil {
		p.ejections = max(st.Ejections, 0)
		if st.EjectedFor > 0 {
			p.ejected, p.ejectedUntil = true, now.Add(st.EjectedFor)
		}
	}
	g.passiveLocked(p, beforeUpgrade, now)
	g.judgeLocked(now)
	// It has come back for this process only.
	b := &p.balance
	b.Cold = 0
	if st.Cold > 0 && b.SlowStart > 0 {
		b.Cold = balance.Millis(now.Add(-st.Cold).Millis())
		g.coldUntil = max(g.coldUntil, b.Cold+b.SlowStart)
	}
}

package upstream

import (
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/internal/clock"
)

// Outcome is how a session's use of a peer ended.
type Outcome uint8

// The outcomes of an attempt. Nothing that happens after the connection stands
// is a failure of the peer.
const (
	Succeeded Outcome = iota // connected, whatever came after; or given up for a reason of our own
	Failed                   // refused, unreachable, or not connected in time
)

// Connected notes that the session's connection to p stands
// (ngx_stream_upstream_notify_round_robin_peer).
func (g *Group) Connected(p *Peer) {
	g.mu.Lock()
	p.succeedLocked()
	g.mu.Unlock()
}

// Release gives p back (ngx_stream_upstream_free_round_robin_peer_locked).
func (g *Group) Release(p *Peer, o Outcome, now clock.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.balance.Conns--
	switch {
	case g.single:
		p.balance.Fails = 0
	case o == Failed:
		p.failLocked(balance.Seconds(now.Seconds()))
	default:
		p.succeedLocked()
	}
}

// Again counts an attempt that did not succeed and reports whether the session
// may try another peer (ngx_stream_proxy_next_upstream). The time is looked at
// after the attempt, so a running one is never cut short.
func (a *Attempts) Again(now clock.Time) bool {
	a.left--
	return a.left > 0 && (a.deadline == 0 || now < a.deadline)
}

// failLocked charges a failure: the peer loses weight/max_fails of its
// effective weight, by integer division, so that a weight below max_fails
// loses nothing. Only time and walks bring the weight back.
func (p *Peer) failLocked(now balance.Seconds) {
	b := &p.balance
	b.Fails++
	b.Accessed = now
	b.Checked = now
	if b.MaxFails > 0 {
		b.Effective = max(b.Effective-b.Weight/b.MaxFails, 0)
	}
}

// succeedLocked forgives the peer's failures if a pick came more than
// fail_timeout after the last of them; that pick has moved Checked past
// Accessed. The condition looks at the peer and not at the session, so an old
// session that ends while a probe is still connecting forgives too.
func (p *Peer) succeedLocked() {
	if p.balance.Accessed < p.balance.Checked {
		p.balance.Fails = 0
	}
}

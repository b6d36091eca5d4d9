package balance

// Seconds is an instant in whole seconds, the resolution of nginx's failure
// windows.
type Seconds int64

// Never is the instant of what has not happened.
const Never Seconds = 0

// Peer is what a pick knows of one peer.
type Peer struct {
	// immutable
	Weight      int
	MaxFails    int     // failures within FailTimeout that make it unavailable; 0 = none do
	FailTimeout Seconds // window of failures, and time of being unavailable
	MaxConns    int     // 0 = no limit
	Down        bool    // an operator's word

	// guarded by the caller's lock
	Effective int     // share left after failures, 0..Weight; starts at Weight
	Current   int     // smooth round robin's account
	Conns     int     // sessions that hold the peer, connecting ones included
	Fails     int     // failures since the last success that counted
	Accessed  Seconds // last failure
	Checked   Seconds // last failure, or first pick after FailTimeout
}

// Available reports whether live traffic may use the peer: it is unavailable
// for FailTimeout after max_fails failures. Whole seconds are compared, so the
// first second in which it is tried again is FailTimeout + 1 after the failure.
func (p *Peer) Available(now Seconds) bool {
	return p.MaxFails == 0 || p.Fails < p.MaxFails || now-p.Checked > p.FailTimeout
}

// Full reports whether the peer is at its max_conns.
func (p *Peer) Full() bool { return p.MaxConns > 0 && p.Conns >= p.MaxConns }

// Eligible reports whether the peer may be picked now, apart from having been
// tried already. Every method uses this test and no other.
func (p *Peer) Eligible(now Seconds) bool {
	return !p.Down && p.Available(now) && !p.Full()
}

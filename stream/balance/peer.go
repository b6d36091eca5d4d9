package balance

import "math"

// Millis is an instant, or a span, in milliseconds on the caller's monotonic
// clock.
type Millis int64

// Seconds returns the whole seconds of m.
func (m Millis) Seconds() Seconds { return Seconds(m / 1000) }

// Seconds is an instant in whole seconds, the resolution of nginx's failure
// windows.
type Seconds int64

const maxSeconds Seconds = math.MaxInt64

// Never is the instant of what has not happened.
const Never Seconds = 0

// Admin is the operator's word on a peer.
type Admin uint8

// What an operator can say.
const (
	Up    Admin = iota
	Drain       // no new sessions; those that run may end in peace
	Down        // not in use; unlike a drained peer it is not counted in a session's tries
)

var adminNames = [...]string{Up: "up", Drain: "drain", Down: "down"}

// String returns the configuration's word.
func (a Admin) String() string { return adminNames[a] }

// Peer is what a pick knows of one peer.
type Peer struct {
	// What a round looks at of every peer stands first, in one cache line: among
	// many peers a pick takes as long as memory does.

	// guarded by the caller's lock
	Effective int // share left after failures, 0..Weight; starts at Weight
	Current   int // smooth round robin's account; see Settle
	Conns     int // sessions that hold the peer, connecting ones included
	Fails     int // failures since the last success that counted
	Admin     Admin
	Withheld  Left // why verdicts keep it from being picked; Eligible = they do not
	Resting   bool // left out of this pick; of slow start, see Rest

	// immutable
	Weight      int
	MaxFails    int     // failures within FailTimeout that make it unavailable; 0 = none do
	MaxConns    int     // 0 = no limit
	FailTimeout Seconds // window of failures, and time of being unavailable
	SlowStart   Millis  // how long it takes to get its whole part; 0 = it has it at once
	Server      string  // as written in the configuration: its place on a consistent hash's ring
	Address     string  // its own, also where a server's name has several: its place in a maglev table

	// guarded by the caller's lock
	Accessed Seconds // last failure
	Checked  Seconds // last failure, or first pick after FailTimeout

	// guarded by the caller's lock; kept only for methods that look at them
	Average  Times    // moving averages of what the peer takes; 0 = no sample
	Inflight Inflight // sessions whose time is still running
	Success  Success  // decayed account of successes and latency

	// guarded by the caller's lock; of slow start, see Rest
	Cold    Millis // when it began; 0 = it is over
	Lot     uint64 // picks that it could have taken part in
	Virtual int    // sessions that count as its own when they are compared
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
	return p.Admin == Up && p.Withheld == Eligible && p.Available(now) && !p.Full() && !p.Resting
}

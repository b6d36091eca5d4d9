package upstream

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/stats"
)

// Peer is one address of an upstream at run time.
type Peer struct {
	// guarded by the group's mutex; first, so that a pick finds it in one cache line
	balance balance.Peer

	// immutable
	Name       string         // the server's name, for people
	Addr       netip.AddrPort // not valid for a unix socket
	Path       string         // of a unix socket; "" = Addr counts
	Host       string         // name that the address was found by; "" = none
	addrString string

	stats atomic.Pointer[[]*stats.Peer] // one for each worker, written by that worker only; grows

	// for sessions that look between picks
	forsaken atomic.Bool // see IsForsaken
	removed  atomic.Bool // no longer in the configuration
	backup   atomic.Bool

	// guarded by the group's mutex
	configured settings
	failures   uint64 // failed attempts since it came, whether they count against it or not
	axes       [Axes]AxisState
	turns      [Axes]uint64 // transitions since it came
	history    transitions
	tier       int    // of the group's shape
	role       string // what the checks say of its role; AxisRole may have Conflict instead
	roleCause  string // and why
	record
}

// inConfiguration is the cause of what the configuration file says.
const inConfiguration = "in the configuration"

// settings are what a configuration says of a peer and may change while it
// stays the same peer.
type settings struct {
	weight, maxFails, maxConns int
	failTimeout, slowStart     time.Duration
	backup, down               bool
}

// String returns the peer's address as nginx logs it: 127.0.0.1:5432,
// [::1]:5432 or unix:/path.
func (p *Peer) String() string { return p.addrString }

// IsUnix reports whether the peer is a unix socket.
func (p *Peer) IsUnix() bool { return p.Path != "" }

// IsBackup reports whether the peer is used only when no primary peer can be
// picked.
func (p *Peer) IsBackup() bool { return p.backup.Load() }

// Stats returns the counters that a worker writes.
func (p *Peer) Stats(worker int) *stats.Peer { return (*p.stats.Load())[worker] }

// growStats makes counters for that many workers. Preconditions: the group's mu
// is held, or nobody else has the peer.
func (p *Peer) growStats(workers int) {
	all := slices.Clone(*p.stats.Load())
	for len(all) < workers {
		all = append(all, new(stats.Peer))
	}
	p.stats.Store(&all)
}

// IsRemoved reports whether the peer is no longer in the configuration.
func (p *Peer) IsRemoved() bool { return p.removed.Load() }

// IsForsaken reports whether a UDP session shall leave the peer, and a TCP session
// not come to it by a hedge: it was removed or set down, or a verdict has gone
// against it and on_state does not say to keep.
func (p *Peer) IsForsaken() bool { return p.forsaken.Load() }

func newPeer(s *conf.Server, addr netip.AddrPort, workers int) *Peer {
	p := &Peer{
		Name: s.Name,
		Addr: addr,
		Path: s.Address.Path,
		Host: s.Host,
		balance: balance.Peer{
			Server:      s.Address.String(),
			Weight:      s.Weight,
			Effective:   s.Weight,
			MaxFails:    s.MaxFails,
			FailTimeout: balance.Seconds(s.FailTimeout.Seconds()),
			MaxConns:    s.MaxConns,
			SlowStart:   balance.Millis(s.SlowStart.Milliseconds()),
		},
	}
	p.backup.Store(s.Backup)
	p.stats.Store(new([]*stats.Peer))
	p.growStats(workers)
	p.addrString = addr.String()
	if p.IsUnix() {
		p.addrString = s.Address.String()
	} else if _, numeric := s.Address.IP(); !numeric {
		p.Host = s.Address.Host
	}
	p.balance.Address = p.addrString
	p.configured = settings{s.Weight, s.MaxFails, s.MaxConns, s.FailTimeout, s.SlowStart, s.Backup, s.Down}
	now := clock.Now()
	p.axes = [Axes]AxisState{
		AxisAdmin: {balance.Up.String(), now, ""}, AxisDiscovery: {Present, now, s.Origin},
		AxisPassive: {Available, now, ""}, AxisActive: {"", now, ""}, AxisRole: {AnyRole, now, ""}, AxisCapacity: {Free, now, ""},
	}
	p.role = AnyRole
	if s.Down {
		p.balance.Admin = balance.Down
		p.axes[AxisAdmin] = AxisState{balance.Down.String(), now, inConfiguration}
		p.forsaken.Store(true)
	}
	return p
}

// Snapshot is the state of a peer at one moment.
type Snapshot struct {
	Peer    *Peer
	Name    string
	Addr    string
	Backup  bool
	State   State
	Balance balance.Peer // copy

	// Verdict is why the checks, the role or the outliers' detection are against
	// the peer. In a panic it may be picked all the same.
	Verdict balance.Left

	Available bool   // live traffic has left it available; the only peer always is
	Eligible  bool   // it may be picked now, slow start aside
	Failures  uint64 // failed attempts since the peer came, whether they count against it or not
	Axes      [Axes]AxisState
	Turns     [Axes]uint64 // transitions since the peer came
	Warmth    float64      // share of its part that slow start leaves it, 0..1

	Ejections    int        // that count for how long the next one is
	EjectedUntil clock.Time // of an ejected one

	Sessions uint64 // picked for, since the peer came
	Sent     uint64 // bytes to the peer
	Received uint64 // bytes from the peer
}

// State is what an operator sees of a peer.
type State uint8

// The states of a peer.
const (
	Up          State = iota
	Down              // by the operator
	Draining          // by the operator: no new sessions
	Unavailable       // by max_fails and fail_timeout
	Trial             // fail_timeout is over; one session will find out
	Full              // at max_conns
	NotChecked        // no check has given its verdict yet
	Sick              // by a check
	Outlier           // ejected
	OnStandby         // in another role than the one wanted
	Behind            // a replica over max_lag
	Disputed          // another peer has the role that only one may have
	Warming           // in slow start
)

var stateNames = [...]string{Up: "up", Down: "down", Draining: "draining", Unavailable: "unavailable", Trial: "on trial", Full: "full",
	NotChecked: "unchecked", Sick: "unhealthy", Outlier: "ejected", OnStandby: "standby", Behind: "lagging", Disputed: "conflict", Warming: "slow start"}

// String returns the state's name in lower case.
func (s State) String() string { return stateNames[s] }

// complete fills in what needs no lock. Preconditions: Balance and Failures are
// the peer's.
func (s *Snapshot) complete(p *Peer, single bool, at clock.Time) {
	now := balance.Seconds(at.Seconds())
	s.Peer, s.Name, s.Addr, s.Backup = p, p.Name, p.addrString, p.IsBackup()
	s.Available = single || s.Balance.Available(now)
	s.Eligible = s.Available && s.Balance.Admin == balance.Up && s.Balance.Withheld == balance.Eligible && !s.Balance.Full()
	s.Warmth = s.Balance.Warmth(balance.Millis(at.Millis()))
	s.State = s.state(now)
	if single && (s.State == Unavailable || s.State == Trial) {
		s.State = Up
	}
	for _, c := range *p.stats.Load() {
		s.Sessions += c.Sessions.Load()
		s.Sent += c.Sent.Load()
		s.Received += c.Received.Load()
	}
}

// state returns what an operator sees: the first that applies.
func (s *Snapshot) state(now balance.Seconds) State {
	b := &s.Balance
	switch {
	case b.Admin == balance.Down:
		return Down
	case b.Admin == balance.Drain:
		return Draining
	case s.Verdict != balance.Eligible:
		return verdictStates[s.Verdict]
	case !b.Available(now):
		return Unavailable
	case b.Full():
		return Full
	case b.MaxFails > 0 && b.Fails >= b.MaxFails:
		return Trial
	case s.Warmth < 1:
		return Warming
	}
	return Up
}

// verdictStates are the states of peers that verdicts withhold.
var verdictStates = map[balance.Left]State{
	balance.LeftUnchecked: NotChecked, balance.LeftUnhealthy: Sick, balance.LeftEjected: Outlier,
	balance.LeftStandby: OnStandby, balance.LeftLagging: Behind, balance.LeftConflict: Disputed,
}

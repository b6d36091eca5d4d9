package upstream

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/stats"
)

// Peer is one address of an upstream at run time.
type Peer struct {
	// immutable
	Name       string         // the server's name, for people
	Addr       netip.AddrPort // not valid for a unix socket
	Path       string         // of a unix socket; "" = Addr counts
	Backup     bool
	addrString string
	tier       int // set by NewGroup

	stats atomic.Pointer[[]*stats.Peer] // one for each worker, written by that worker only; grows

	// for sessions that look between picks
	down    atomic.Bool // the operator's word
	removed atomic.Bool // no longer in the configuration

	// guarded by the group's mutex
	balance    balance.Peer
	configured settings
	failures   uint64 // failed attempts since it came, whether they count against it or not
}

// settings are what a configuration says of a peer and may change while it
// stays the same peer.
type settings struct {
	weight, maxFails, maxConns int
	failTimeout                time.Duration
	down                       bool
}

// String returns the peer's address as nginx logs it: 127.0.0.1:5432,
// [::1]:5432 or unix:/path.
func (p *Peer) String() string { return p.addrString }

// IsUnix reports whether the peer is a unix socket.
func (p *Peer) IsUnix() bool { return p.Path != "" }

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

// IsDown reports whether the operator has set the peer down.
func (p *Peer) IsDown() bool { return p.down.Load() }

func newPeer(s *conf.Server, addr netip.AddrPort, workers int) *Peer {
	p := &Peer{
		Name:   s.Name,
		Addr:   addr,
		Path:   s.Address.Path,
		Backup: s.Backup,
		balance: balance.Peer{
			Server:      s.Address.String(),
			Weight:      s.Weight,
			Effective:   s.Weight,
			MaxFails:    s.MaxFails,
			FailTimeout: balance.Seconds(s.FailTimeout.Seconds()),
			MaxConns:    s.MaxConns,
		},
	}
	p.stats.Store(new([]*stats.Peer))
	p.growStats(workers)
	p.addrString = addr.String()
	if p.IsUnix() {
		p.addrString = s.Address.String()
	}
	p.balance.Address = p.addrString
	p.configured = settings{s.Weight, s.MaxFails, s.MaxConns, s.FailTimeout, s.Down}
	if s.Down {
		p.balance.Admin = balance.Down
		p.down.Store(true)
	}
	return p
}

// Snapshot is the state of a peer at one moment.
type Snapshot struct {
	Name    string
	Addr    string
	Backup  bool
	State   State
	Balance balance.Peer // copy

	Available bool   // live traffic has left it available; the only peer always is
	Failures  uint64 // failed attempts since the peer came, whether they count against it or not
	Sessions  uint64 // picked for, since the peer came
	Sent      uint64 // bytes to the peer
	Received  uint64 // bytes from the peer
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
)

var stateNames = [...]string{Up: "up", Down: "down", Draining: "draining", Unavailable: "unavailable", Trial: "on trial", Full: "full"}

// String returns the state's name in lower case.
func (s State) String() string { return stateNames[s] }

// complete fills in what needs no lock. Preconditions: Balance and Failures are
// the peer's.
func (s *Snapshot) complete(p *Peer, single bool, now balance.Seconds) {
	s.Name, s.Addr, s.Backup = p.Name, p.addrString, p.Backup
	s.Available = single || s.Balance.Available(now)
	s.State = stateOf(&s.Balance, now)
	if single && (s.State == Unavailable || s.State == Trial) {
		s.State = Up
	}
	for _, c := range *p.stats.Load() {
		s.Sessions += c.Sessions.Load()
		s.Sent += c.Sent.Load()
		s.Received += c.Received.Load()
	}
}

func stateOf(b *balance.Peer, now balance.Seconds) State {
	switch {
	case b.Admin == balance.Down:
		return Down
	case b.Admin == balance.Drain:
		return Draining
	case !b.Available(now):
		return Unavailable
	case b.Full():
		return Full
	case b.MaxFails > 0 && b.Fails >= b.MaxFails:
		return Trial
	}
	return Up
}

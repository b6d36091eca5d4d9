package stream

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/discovery"
	"github.com/weirlb/weir/stream/health"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/upstream"
)

// This file has an operator see and change upstreams and their peers.

// RequestError says why a request can't be carried out: it is the request that
// is wrong, or its moment, not the server.
type RequestError struct {
	Kind RequestKind
	Text string
}

// Error returns the text, which is fit to be shown to whoever has asked.
func (e *RequestError) Error() string { return e.Text }

// RequestKind is what is wrong with a request.
type RequestKind uint8

// The kinds.
const (
	NotFound  RequestKind = iota // there is nothing of that name
	Ambiguous                    // there are several
	Invalid                      // a value can't be
	Busy                         // not now: another process is taking over
)

// UpstreamState is one upstream as an operator sees it.
type UpstreamState struct {
	Name      string
	Method    string
	Listeners []string
	State     upstream.GroupState
	Load      upstream.Load
	Peers     []upstream.Snapshot
	Checks    [][]health.CheckState // of each peer; nil = it is not checked
}

// UpstreamStates returns the upstreams of that name, or all if it is empty, in
// the order of the configuration.
func (s *Server) UpstreamStates(name string) ([]UpstreamState, error) {
	groups, err := s.groupsOf(name)
	if err != nil {
		return nil, err
	}
	var out []UpstreamState
	for _, g := range groups {
		u := UpstreamState{Name: g.Name, Method: g.Method(), Listeners: s.listenersOf(g.Name), State: g.State(), Load: g.Load(clock.Now()), Peers: g.Snapshot(nil, clock.Now())}
		u.Checks = s.probes.states(u.Peers)
		out = append(out, u)
	}
	return out, nil
}

// Listening is a listener and where it is bound.
type Listening struct {
	Name      string
	Protocol  conf.Protocol
	Upstream  string
	Addresses []conf.Address
}

// Listening returns the listeners in the order of the configuration. Unlike Bound
// it does not wait for a reload.
func (s *Server) Listening() []Listening {
	s.reading.RLock()
	defer s.reading.RUnlock()
	var out []Listening
	for _, l := range s.cfg.Listeners {
		at := Listening{Name: l.Name, Protocol: l.Protocol, Upstream: l.Upstream}
		for _, b := range s.bindings {
			if b.name == l.Name && b.place.protocol == l.Protocol {
				at.Addresses = append(at.Addresses, b.bound)
			}
		}
		out = append(out, at)
	}
	return out
}

func (s *Server) groupsOf(name string) ([]*upstream.Group, error) {
	s.reading.RLock()
	groups := slices.Clone(s.groups)
	s.reading.RUnlock()
	if name == "" {
		return groups, nil
	}
	var names []string
	for _, g := range groups {
		if g.Name == name {
			return []*upstream.Group{g}, nil
		}
		names = append(names, g.Name)
	}
	return nil, unknown("upstream", name, names)
}

// listenersOf returns the names of the listeners that use the upstream.
func (s *Server) listenersOf(upstream string) []string {
	s.reading.RLock()
	defer s.reading.RUnlock()
	var out []string
	for _, l := range s.cfg.Listeners {
		if l.Upstream == upstream {
			out = append(out, l.Name)
		}
	}
	return out
}

// unknown is the error about a name that nothing has.
func unknown(what, name string, have []string) error {
	const guessed = 3 // letters; of fewer, anything is near to anything
	text := fmt.Sprintf("there is no %s %q", what, name)
	switch near := conf.Nearest(name, have); {
	case near != "" && len(name) >= guessed:
		text += fmt.Sprintf("; did you mean %q?", near)
	case len(have) > 0:
		const shown = 10
		text += "; there is " + strings.Join(have[:min(len(have), shown)], ", ")
		if more := len(have) - shown; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
	}
	return &RequestError{NotFound, text}
}

// checkFilter refuses names that nothing has.
func (s *Server) checkFilter(f Filter) error {
	s.reading.RLock()
	cfg, groups := s.cfg, slices.Clone(s.groups)
	s.reading.RUnlock()
	if f.Listener != "" && cfg.Listener(f.Listener) == nil {
		var names []string
		for _, l := range cfg.Listeners {
			names = append(names, l.Name)
		}
		return unknown("listener", f.Listener, names)
	}
	if f.Peer == "" {
		return nil
	}
	var names []string
	for _, g := range groups {
		for _, p := range g.Peers() {
			for _, name := range [...]string{p.Name, p.String(), g.Name + "/" + p.Name, g.Name + "/" + p.String()} {
				if name == f.Peer {
					return nil
				}
			}
			names = append(names, p.Name)
		}
	}
	return unknown("peer", f.Peer, names)
}

// errBequeathed refuses what would be lost: another process has been told already what
// the operator has said of the peers.
var errBequeathed = &RequestError{Busy, "an upgrade is under way: say it again when it is over"}

// SetAdmin changes the operator's word on a peer, which is named by its name or
// address. During an upgrade it is refused.
func (s *Server) SetAdmin(upstream, peer string, a balance.Admin) error {
	g, p, err := s.peer(upstream, peer)
	if err != nil {
		return err
	}
	s.reading.RLock()
	defer s.reading.RUnlock()
	if s.bequeathed {
		return errBequeathed
	}
	g.SetAdmin(p, a, "the operator", clock.Now())
	s.logger.Info("peer set by operator", "upstream", g.Name, "peer", p.Name, "address", p.String(), "admin", a.String())
	return nil
}

// SetWeight changes a peer's weight, until the configuration's changes. During an
// upgrade it is refused.
func (s *Server) SetWeight(upstream, peer string, weight int) error {
	if weight < 1 || weight > conf.MaxWeight {
		return &RequestError{Invalid, fmt.Sprintf("a weight is a number from 1 to %d", conf.MaxWeight)}
	}
	g, p, err := s.peer(upstream, peer)
	if err != nil {
		return err
	}
	s.reading.RLock()
	defer s.reading.RUnlock()
	if s.bequeathed {
		return errBequeathed
	}
	if err := g.SetWeight(p, weight); err != nil {
		return &RequestError{Invalid, err.Error()}
	}
	s.logger.Info("peer set by operator", "upstream", g.Name, "peer", p.Name, "address", p.String(), "weight", weight)
	return nil
}

// PeerState returns the state of a peer, which is named by its name or address.
func (s *Server) PeerState(upstream, peer string) (Snapshot, error) {
	g, p, err := s.peer(upstream, peer)
	if err != nil {
		return Snapshot{}, err
	}
	all := g.Snapshot(nil, clock.Now())
	if i := slices.Index(g.Peers(), p); i >= 0 && i < len(all) && all[i].Addr == p.String() {
		return all[i], nil
	}
	return Snapshot{}, &RequestError{NotFound, fmt.Sprintf("peer %q has just been removed", peer)}
}

// PeerHistory returns the latest transitions of a peer, which is named by its name
// or address, the oldest first, and how many there were since it came.
func (s *Server) PeerHistory(group, peer string) (*upstream.Peer, []upstream.Transition, int, error) {
	g, p, err := s.peer(group, peer)
	if err != nil {
		return nil, nil, 0, err
	}
	latest, total := g.History(p)
	return p, latest, total, nil
}

// Sources tells of the names and files that servers are discovered from.
func (s *Server) Sources() []discovery.Source { return s.directory.Sources() }

// Snapshot is the state of a peer.
type Snapshot = upstream.Snapshot

// peer finds the peer that is meant.
func (s *Server) peer(upstream, name string) (*upstream.Group, *upstream.Peer, error) {
	groups, err := s.groupsOf(upstream)
	if err != nil {
		return nil, nil, err
	}
	g := groups[0]
	p, err := choosePeer(g, name)
	return g, p, err
}

// choosePeer returns the peer of that name or address. A name that stands for
// several addresses is refused: the operator means one of them.
func choosePeer(g *upstream.Group, name string) (*upstream.Peer, error) {
	peers := g.Peers()
	for _, called := range [...]func(*upstream.Peer) string{
		func(p *upstream.Peer) string { return p.Name },
		(*upstream.Peer).String,
		func(p *upstream.Peer) string { return calledExactly(peers, p) },
	} {
		var found []*upstream.Peer
		for _, p := range peers {
			if called(p) == name {
				found = append(found, p)
			}
		}
		switch len(found) {
		case 0:
			continue
		case 1:
			return found[0], nil
		}
		var names []string
		for _, p := range found {
			names = append(names, calledExactly(peers, p))
		}
		return nil, &RequestError{Ambiguous, fmt.Sprintf("upstream %q has several peers %q: name one of %s", g.Name, name, strings.Join(names, ", "))}
	}
	var names []string
	for _, p := range peers {
		names = append(names, calledExactly(peers, p))
	}
	return nil, unknown(fmt.Sprintf("peer in upstream %q called", g.Name), name, names)
}

// calledExactly returns what tells the peer from all others: its name, else its
// address, else its address and place among those that share it.
func calledExactly(peers []*upstream.Peer, p *upstream.Peer) string {
	names, addresses, nth := 0, 0, 0
	for _, other := range peers {
		if other.Name == p.Name {
			names++
		}
		if other.String() == p.String() {
			addresses++
		}
		if other == p {
			nth = addresses
		}
	}
	switch {
	case names == 1:
		return p.Name
	case addresses == 1:
		return p.String()
	}
	return fmt.Sprintf("%s#%d", p, nth)
}

// Question is what a forecast is asked for.
type Question struct {
	Upstream string
	Listener string         // that the session comes to; "" = the first one of the upstream
	Client   netip.AddrPort // not valid = none given
}

// Forecast tells what the next session would get if it came now, and why. It
// changes nothing.
func (s *Server) Forecast(q Question) (*upstream.Decision, clock.Time, error) {
	groups, err := s.groupsOf(q.Upstream)
	if err != nil {
		return nil, 0, err
	}
	g := groups[0]
	facts, err := s.facts(&q)
	if err != nil {
		return nil, 0, err
	}
	if g.Keyed() && !q.Client.IsValid() {
		return nil, 0, &RequestError{Invalid, fmt.Sprintf("upstream %q picks by %s: it depends on the client, so name one (--client ADDR)", g.Name, g.Method())}
	}
	now := clock.Now()
	return g.Forecast(facts, now), now, nil
}

// facts returns what a session's key would be made of.
func (s *Server) facts(q *Question) (*upstream.Facts, error) {
	s.reading.RLock()
	defer s.reading.RUnlock()
	f := &upstream.Facts{Client: q.Client}
	var names []string
	for i := range s.cfg.Listeners {
		l := &s.cfg.Listeners[i]
		if l.Upstream != q.Upstream {
			continue
		}
		names = append(names, l.Name)
		if q.Listener != "" && l.Name != q.Listener {
			continue
		}
		f.Listener, f.Protocol = l.Name, l.Protocol
		for _, b := range s.bindings {
			if b.name == l.Name {
				if ip, ok := b.bound.IP(); ok {
					f.Server = netip.AddrPortFrom(ip, b.bound.Port)
				}
				break
			}
		}
		return f, nil
	}
	if q.Listener != "" {
		return nil, unknown(fmt.Sprintf("listener of upstream %q called", q.Upstream), q.Listener, names)
	}
	return f, nil
}

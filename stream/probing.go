package stream

import (
	"reflect"
	"sync"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/health"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/upstream"
)

// This file has peers checked. Checks run on goroutines of their own, and what
// they find goes to the peer's group, which decides who may be picked.

// probes are the peers that are checked.
type probes struct {
	mu sync.Mutex
	of map[*upstream.Peer]*probed // guarded by mu
}

// probed is a peer that is checked.
type probed struct {
	checker *health.Checker
	made    recipe
}

// recipe is what a checker is made of.
type recipe struct {
	checks []conf.HealthCheck
	digest string // of what their files held
}

// states returns how the checks of each peer are going.
func (ps *probes) states(peers []upstream.Snapshot) [][]health.CheckState {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	out := make([][]health.CheckState, len(peers))
	for i := range peers {
		if p := ps.of[peers[i].Peer]; p != nil {
			out[i] = p.checker.Checks()
		}
	}
	return out
}

// stop ends the checks of those peers, all at once: a server that hangs has its
// last check and its goodbye waited for. Preconditions: mu is held.
func (ps *probes) stop(which func(*upstream.Peer, *probed) bool) {
	var ending sync.WaitGroup
	for p, was := range ps.of {
		if which(p, was) {
			ending.Go(was.checker.Stop)
			delete(ps.of, p)
		}
	}
	ending.Wait()
}

// probe starts and ends checkers, so that the peers have those that the
// configuration says. Preconditions: mu is held.
func (s *Server) probe() {
	wanted := map[*upstream.Peer]recipe{}
	for i := range s.cfg.Upstreams {
		u := &s.cfg.Upstreams[i]
		for _, p := range s.group(u.Name).Peers() {
			wanted[p] = recipe{u.Checks, s.digests[u.Name]}
		}
	}
	s.probes.mu.Lock()
	defer s.probes.mu.Unlock()
	s.probes.stop(func(p *upstream.Peer, was *probed) bool { return !reflect.DeepEqual(was.made, wanted[p]) })
	for i := range s.cfg.Upstreams {
		u := &s.cfg.Upstreams[i]
		if len(u.Checks) == 0 {
			continue
		}
		g := s.group(u.Name)
		for _, p := range g.Peers() {
			if s.probes.of[p] != nil {
				continue
			}
			c, err := health.Start(u.Checks, target(p), s.probing(g, p))
			if err != nil { // prepare has found no fault in it
				s.logger.Error("check peer", "upstream", g.Name, "peer", p.Name, "address", p.String(), "error", err)
				continue
			}
			s.probes.of[p] = &probed{c, wanted[p]}
		}
	}
}

// target is the peer as checks see it. One without a name is known by its address.
func target(p *upstream.Peer) health.Target {
	host := p.Host
	if host == "" && !p.IsUnix() {
		host = p.Addr.Addr().WithZone("").String() // a zone means nothing to others
	}
	return health.Target{Addr: p.Addr, Path: p.Path, Host: host}
}

// probing is how a peer's checker tells its group. It begins with what is known
// already, from before a reload or an upgrade.
func (s *Server) probing(g *upstream.Group, p *upstream.Peer) health.Options {
	return health.Options{
		Begin: knownOf(g.Judgement(p)),
		Report: func(v health.Verdict) {
			g.Judge(p, upstream.Verdict{Active: v.Health.String(), Role: v.ShownRole(), Cause: v.Cause}, clock.Now())
		},
	}
}

// knownOf returns what a checker begins with; nil = nothing is known.
func knownOf(known upstream.Verdict) *health.Verdict {
	v := &health.Verdict{Lag: -1, Cause: known.Cause, At: clock.Now()}
	switch known.Active {
	case upstream.Healthy:
		v.Health = health.Healthy
	case upstream.Unhealthy:
		v.Health = health.Unhealthy
	default:
		return nil
	}
	switch known.Role {
	case upstream.IsPrimary:
		v.Role, v.Actual = health.RoleHeld, conf.Primary
	case upstream.IsReplica:
		v.Role, v.Actual = health.RoleHeld, conf.Replica
	case upstream.Standby:
		v.Role = health.RoleStandby
	case upstream.Lagging:
		v.Role, v.Actual = health.RoleLagging, conf.Replica
	}
	return v
}

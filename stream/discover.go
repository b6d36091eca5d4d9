package stream

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/upstream"
)

// This file has the peers of an upstream follow what their names stand for, and
// its file of servers.

// answers are the addresses of the names of an upstream that are not followed,
// from when its configuration was loaded: they are resolved once.
type answers map[string][]netip.Addr

// lookup asks for what is not there yet.
func (a answers) lookup(ask upstream.LookupFunc) upstream.LookupFunc {
	return func(ctx context.Context, host string) ([]netip.Addr, error) {
		if known, ok := a[host]; ok {
			return known, nil
		}
		addrs, err := ask(ctx, host)
		if err == nil {
			a[host] = addrs
		}
		return addrs, err
	}
}

// peersOf makes the peers of an upstream, for that many workers, out of what is
// known of its servers now. Names that are not followed are resolved if once has
// no answer yet.
func (s *Server) peersOf(ctx context.Context, cfg *conf.Config, u *conf.Upstream, workers int, once answers) ([]*upstream.Peer, error) {
	known := *u
	if u.Dynamic() {
		known.Servers = s.directory.Expand(ctx, &cfg.Resolver, u)
	}
	peers, err := upstream.Resolve(ctx, &known, workers, once.lookup(s.lookup))
	if err != nil {
		return nil, err
	}
	if err := checkLoops(cfg, &known, peers); err != nil {
		return nil, err
	}
	return peers, nil
}

// rediscover has an upstream follow what its names and its file say now.
func (s *Server) rediscover(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg == nil || s.draining {
		return
	}
	u, g := s.cfg.Upstream(name), s.group(name)
	if u == nil {
		return // a reload has taken it away
	}
	if err := s.rediscoverLocked(u, g); err != nil {
		s.logger.Error("the peers stay as they were", "upstream", name, "error", err)
	}
}

func (s *Server) rediscoverLocked(u *conf.Upstream, g *upstream.Group) error {
	workers := len(s.counters)
	peers, err := s.peersOf(s.life, s.cfg, u, workers, s.resolved[u.Name])
	if err != nil {
		return err
	}
	plan, err := g.Plan(u, peers, workers)
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	if len(plan.Added)+len(plan.Removed)+len(plan.Changed) == 0 {
		s.disown(g)
		return nil
	}
	g.Update(plan) // what has changed was logged by the directory
	s.removed(g, plan.Removed)
	s.disown(g)
	s.probe()
	s.events.nudge() // the group may need ticks now
	return nil
}

// disown sees to the sessions that an upgrade has brought with peers that their group
// has not got, if all of its peers were known when it was last made out.
func (s *Server) disown(g *upstream.Group) {
	if s.directory.Complete(g.Name) {
		s.removed(g, g.Disown())
	}
}

// removed sees to the sessions of peers that are no longer in their group.
func (s *Server) removed(g *upstream.Group, peers []*upstream.Peer) {
	now := clock.Now()
	for _, p := range peers {
		s.dismiss(&dismissal{
			group: g, peer: p, fate: g.FateOfRemoved(), before: now, reason: stats.PeerRemoved,
			off: func() bool { return false },
		})
	}
}

package stream

import (
	"context"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/history"
	"github.com/weirlb/weir/stream/upstream"
)

// going is what a change takes away from running sessions.
type going struct {
	peers     map[*upstream.Peer]bool // that are removed
	downed    map[*upstream.Peer]bool // that are set down
	listeners map[listenerID]bool     // all of whose addresses are closed
	closing   map[*upstream.Peer]bool // of which on_state has TCP sessions closed
}

// countAffected counts the sessions that a change concerns. They are looked at
// only if there may be some. Preconditions: mu is held, and t is compared.
func (s *Server) countAffected(ctx context.Context, t *transition) {
	g := s.going(t)
	kept := min(t.change.Workers[1], len(s.workers))
	retired := s.workers[kept:]
	if len(g.peers)+len(g.downed)+len(g.listeners)+len(retired) == 0 {
		return
	}
	count := func(workers []*worker, leaving bool) {
		s.look(ctx, workers, func(_ *worker, v *history.Live) bool {
			gone := g.peers[v.Peer] || g.listeners[listenerID{v.Listener, v.Protocol}]
			ends := v.Protocol == conf.UDP && (g.peers[v.Peer] || g.downed[v.Peer] || leaving) || v.Protocol == conf.TCP && g.closing[v.Peer]
			if gone || ends {
				t.change.Affected++
			}
			if ends {
				t.change.Ended++
			}
			return true
		})
	}
	count(s.workers[:kept], false)
	count(retired, true)
	count(s.leaving, false)
}

func (s *Server) going(t *transition) *going {
	g := &going{peers: map[*upstream.Peer]bool{}, downed: map[*upstream.Peer]bool{}, listeners: map[listenerID]bool{}, closing: map[*upstream.Peer]bool{}}
	for _, u := range t.updates {
		on := &t.cfg.Upstream(u.group.Name).OnState
		for _, p := range u.plan.Removed {
			g.peers[p] = true
			g.closing[p] = on.Removed == conf.CloseFate
		}
		for _, p := range u.plan.Downed {
			g.downed[p] = true
			g.closing[p] = on.Drained == conf.CloseFate
		}
	}
	for _, old := range s.groups {
		if t.group(old.Name) == old {
			continue
		}
		for _, p := range old.Peers() {
			g.peers[p] = true
			g.closing[p] = old.FateOfRemoved() == conf.CloseFate
		}
	}
	for _, b := range t.closed {
		g.listeners[listenerID{b.name, b.place.protocol}] = true
	}
	for b := range t.stay {
		delete(g.listeners, listenerID{b.name, b.place.protocol})
	}
	return g
}

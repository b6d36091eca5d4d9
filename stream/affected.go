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
	ends      map[holder]bool         // whose sessions end
	listeners map[listenerID]bool     // all of whose addresses are closed
	covered   map[listenerID]bool     // of these: whose clients find another listener
}

// holder is who has sessions of one protocol.
type holder struct {
	peer     *upstream.Peer
	protocol conf.Protocol
}

// countAffected counts the sessions that a change concerns. They are looked at
// only if there may be some. Preconditions: mu is held, and t is compared.
func (s *Server) countAffected(ctx context.Context, t *transition) {
	g := s.going(t)
	kept := min(t.change.Workers[1], len(s.workers))
	retired := s.workers[kept:]
	if len(g.ends)+len(g.peers)+len(g.listeners)+len(retired) == 0 {
		return
	}
	count := func(workers []*worker, leaving bool) {
		s.look(ctx, workers, func(_ *worker, v *history.Live) bool {
			id, udp := listenerID{v.Listener, v.Protocol}, v.Protocol == conf.UDP
			closed := g.listeners[id]
			// Datagrams for an address that nobody listens on have no other session to go to.
			ends := g.ends[holder{v.Peer, v.Protocol}] && !(udp && closed && !g.covered[id]) || udp && leaving
			if g.peers[v.Peer] || closed || ends {
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
	g := &going{peers: map[*upstream.Peer]bool{}, ends: map[holder]bool{}, listeners: map[listenerID]bool{}, covered: map[listenerID]bool{}}
	end := func(p *upstream.Peer, fate conf.Fate, datagrams bool) {
		g.ends[holder{p, conf.TCP}] = fate == conf.CloseFate || fate == conf.DrainFate && t.cfg.Worker.ShutdownTimeout != conf.Off
		g.ends[holder{p, conf.UDP}] = datagrams
	}
	for _, u := range t.updates {
		on := &t.cfg.Upstream(u.group.Name).OnState
		for _, p := range u.plan.Removed {
			g.peers[p] = true
			end(p, on.Removed, on.Removed != conf.Keep)
		}
		for _, p := range u.plan.Downed {
			end(p, on.Drained, true)
		}
	}
	for _, old := range s.groups {
		if t.group(old.Name) == old {
			continue
		}
		for _, p := range old.Peers() {
			g.peers[p] = true
			fate := old.FateOfRemoved()
			end(p, fate, fate != conf.Keep)
		}
	}
	for _, b := range t.closed {
		id := listenerID{b.name, b.place.protocol}
		g.listeners[id] = true
		g.covered[id] = g.covered[id] || t.covers(b)
	}
	for b := range t.stay {
		delete(g.listeners, listenerID{b.name, b.place.protocol})
	}
	return g
}

package stream

import (
	"slices"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/accesslog"
	"github.com/weirlb/weir/stream/decisions"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/tcp"
)

// counters are what is counted of each listener. They stay with a listener's name
// and protocol across reloads, whatever else changes.
type counters map[listenerID]counted

type counted struct {
	workers []*stats.Listener // by worker
	clients *tcp.Clientele    // TCP
}

type listenerID struct {
	name     string
	protocol conf.Protocol
}

func idOf(c *conf.Listener) listenerID { return listenerID{c.Name, c.Protocol} }

func (cs counters) of(c *conf.Listener) counted { return cs[idOf(c)] }

// extended returns the counters of those listeners, old ones as far as there
// are, for so many workers. It changes nothing.
func (cs counters) extended(listeners []conf.Listener, workers int) counters {
	out := counters{}
	for i := range listeners {
		id := idOf(&listeners[i])
		all := counted{slices.Clone(cs[id].workers), cs[id].clients}
		for len(all.workers) < workers {
			all.workers = append(all.workers, new(stats.Listener))
		}
		if all.clients == nil {
			all.clients = tcp.NewClientele()
		}
		out[id] = all
	}
	return out
}

// withActive adds those of before that are not among them and still have
// sessions. The others are forgotten, so that names do not pile up.
func (cs counters) withActive(before counters) counters {
	for id, all := range before {
		if _, ok := cs[id]; !ok && active(all.workers) > 0 {
			cs[id] = all
		}
	}
	return cs
}

func active(all []*stats.Listener) (n int64) {
	for _, c := range all {
		n += c.Active.Load()
	}
	return n
}

// addCounters makes the counters of one more worker.
func (s *Server) addCounters() {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.counters = append(s.counters, new(stats.Worker))
}

// LostLines are how many lines each log has lost.
type LostLines struct{ Access, Decisions uint64 }

func (l *LostLines) add(a *accesslog.Writer, d *decisions.Writer) {
	l.Access += a.Lost()
	l.Decisions += d.Lost()
}

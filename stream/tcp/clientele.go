package tcp

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/internal/sys"
	"github.com/weirlb/weir/stream/stats"
)

// Clientele is who has sessions at a listener, over all workers. It stays with the
// listener's name across reloads. Its methods may be called by any goroutine.
type Clientele struct {
	sessions atomic.Int64
	// next is when the next session would be accepted at accept_rate, were they
	// spread evenly: the theoretical arrival time of the generic cell rate
	// algorithm (ITU-T I.371). Nanoseconds of clock.Time.
	next atomic.Int64

	mu      sync.Mutex
	clients map[netip.Prefix]int // guarded by mu: sessions of each, if the listener counts them
}

// NewClientele returns one without sessions.
func NewClientele() *Clientele { return &Clientele{clients: map[netip.Prefix]int{}} }

// clientOf returns the network that stands for a client. A unix socket's is not
// valid: all of them are one, and nobody counts it.
func clientOf(l *conf.Limits, e sys.Endpoint) netip.Prefix {
	a := e.AddrPort().Addr().Unmap().WithZone("")
	bits := l.IPv6Prefix
	if a.Is4() {
		bits = l.IPv4Prefix
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// enter takes a place for a session, or says which limit does not allow it.
func (c *Clientele) enter(l *conf.Limits, e sys.Endpoint) (why stats.CloseReason, ok bool) {
	if n := c.sessions.Add(1); l.Sessions > 0 && n > int64(l.Sessions) {
		c.sessions.Add(-1)
		return stats.Limit, false
	}
	if l.SessionsPerClient == 0 || e.IsUnix() {
		return 0, true
	}
	p := clientOf(l, e)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clients[p] >= l.SessionsPerClient {
		c.sessions.Add(-1)
		return stats.ClientLimit, false
	}
	c.clients[p]++
	return 0, true
}

// force takes a place for a session that is there, whatever the limits say.
func (c *Clientele) force(l *conf.Limits, e sys.Endpoint) {
	c.sessions.Add(1)
	if l.SessionsPerClient > 0 && !e.IsUnix() {
		p := clientOf(l, e)
		c.mu.Lock()
		c.clients[p]++
		c.mu.Unlock()
	}
}

// leave gives a place back that was taken under the same limits.
func (c *Clientele) leave(l *conf.Limits, e sys.Endpoint) {
	c.sessions.Add(-1)
	if l.SessionsPerClient == 0 || e.IsUnix() {
		return
	}
	p := clientOf(l, e)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clients[p]--; c.clients[p] <= 0 {
		delete(c.clients, p)
	}
}

// mayAccept takes one off accept_rate, or returns when to ask again. A tenth of a
// second's worth may come at once.
func (c *Clientele) mayAccept(r conf.Rate, now clock.Time) (at clock.Time, ok bool) {
	each := int64(float64(time.Second) / float64(r))
	slack := max(int64(burstTime)-each, 0)
	for {
		was := c.next.Load()
		if was-slack > int64(now) {
			return clock.Time(was - slack), false
		}
		if c.next.CompareAndSwap(was, max(was, int64(now))+each) {
			return 0, true
		}
	}
}

// notAccepted gives back what mayAccept has taken: there was nobody.
func (c *Clientele) notAccepted(r conf.Rate) {
	c.next.Add(-int64(float64(time.Second) / float64(r)))
}

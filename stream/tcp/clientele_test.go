package tcp

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/internal/sys"
	"github.com/weirlb/weir/stream/stats"
)

func TestClientele(t *testing.T) {
	at := func(addr string) sys.Endpoint { return sys.EndpointOf(netip.MustParseAddrPort(addr)) }
	l := conf.DefaultLimits()
	l.Sessions, l.SessionsPerClient, l.IPv4Prefix, l.IPv6Prefix = 5, 2, 24, 64
	c := NewClientele()
	said := ""
	for _, addr := range []string{"10.0.0.1:1", "10.0.0.200:2", "10.0.0.1:3", "10.0.1.1:1", "[2001:db8::1]:1", "[2001:db8::ffff:0:0:1]:2", "[2001:db8::2]:1", "[2001:db8:0:1::1]:1"} {
		why, ok := c.enter(&l, at(addr))
		if ok {
			said += "+"
		} else {
			said += "-" + why.String()
		}
	}
	if want := "++-client_limit++" + "+" + "-limit-limit"; said != want {
		t.Errorf("got %s, want %s", said, want)
	}
	c.leave(&l, at("10.0.0.1:1"))
	if _, ok := c.enter(&l, at("10.0.0.77:1")); !ok {
		t.Error("a place that was given back can't be taken")
	}
	for _, addr := range []string{"10.0.0.77:1", "10.0.0.200:2", "10.0.1.1:1", "[2001:db8::1]:1", "[2001:db8::ffff:0:0:1]:2"} {
		c.leave(&l, at(addr))
	}
	if len(c.clients) != 0 || c.sessions.Load() != 0 {
		t.Errorf("%d sessions of %v are left", c.sessions.Load(), c.clients)
	}
}

func TestAcceptRate(t *testing.T) {
	for _, rate := range []conf.Rate{0.5, 3, 50, 7777} {
		var now clock.Fake
		c := NewClientele()
		accepted := 0
		const length = 20 * time.Second
		for end := now.Now().Add(length); now.Now() < end; {
			at, ok := c.mayAccept(rate, now.Now())
			if ok {
				accepted++
				continue
			}
			if at <= now.Now() {
				t.Fatalf("%v/s: not now, but at %v", rate, at.Sub(now.Now()))
			}
			now.Set(at)
		}
		want := float64(rate) * length.Seconds()
		if burst := max(float64(rate)/10, 1); float64(accepted) < want-1 || float64(accepted) > want+burst+1 {
			t.Errorf("%v/s: %d in 20 s, want %.0f and a burst of %.0f", rate, accepted, want, burst)
		}
	}
}

// Connections beyond accept_rate wait, none is refused, and the loop is not woken
// for them.
func TestAcceptRateDelays(t *testing.T) {
	h := newHarness(t, setup{edit: func(l *conf.Listener, _ *conf.Upstream) { l.Limits.AcceptRate = 2 }})
	for range 4 {
		h.client()
	}
	for want := uint64(1); want <= 4; want++ {
		h.turnUntil(fmt.Sprintf("%d are accepted", want), func() bool { return h.counted.Sessions.Load() == want })
		h.settle()
		if n := h.counted.Sessions.Load(); n != want {
			t.Fatalf("%d are accepted, want %d", n, want)
		}
		h.clock.Advance(501 * time.Millisecond)
	}
	if n := h.counted.Delayed.Load(); n < 3 {
		t.Errorf("delayed %d times", n)
	}
	// A drain takes what waits.
	for range 2 {
		h.client()
	}
	h.w.Drain()
	if n := h.counted.Sessions.Load(); n != 6 {
		t.Errorf("%d sessions after a drain, want 6", n)
	}
}

func TestListenerLimits(t *testing.T) {
	for reason, edit := range map[stats.CloseReason]func(*conf.Limits){
		stats.Limit:       func(l *conf.Limits) { l.Sessions = 1 },
		stats.ClientLimit: func(l *conf.Limits) { l.SessionsPerClient = 1 },
	} {
		h := newHarness(t, setup{edit: func(l *conf.Listener, _ *conf.Upstream) { edit(&l.Limits) }})
		c, _ := h.dial()
		h.client()
		h.wantClosed(reason)
		c.Close()
		h.turnUntil("the first ends too", func() bool { return h.counted.Active.Load() == 1 && h.last().halfClosed || h.ended() == 2 })
	}
}

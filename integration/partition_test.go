package integration_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/weirlb/weir/integration/netns"
	"github.com/weirlb/weir/stream/admin"
)

// inside lets a clientele's clients live in a namespace.
func inside(t *testing.T, n *netns.Namespace, connect func(context.Context) (caller, error)) func(context.Context) (caller, error) {
	return func(ctx context.Context) (c caller, err error) {
		n.Do(t, func() { c, err = connect(ctx) })
		return c, err
	}
}

// A primary vanishes without a word. Sessions that the configuration keeps end
// by dead_peer_timeout, those that it closes with the verdict; new ones go to
// the replica once it is promoted.
//
//	near                                   far
//	clients - weir - veth0 ============= veth0 - a, the primary
//	               \ lo - b, the replica
func TestPrimaryIsPartitioned(t *testing.T) {
	needNamespaces(t)
	const (
		interval = 500 * time.Millisecond
		timeout  = 500 * time.Millisecond
		deadPeer = 4 * time.Second
	)
	near, far := netns.New(t), netns.New(t)
	_, farEnd := netns.Join(t, near, far)
	a, b := newPostgres(t, "a"), newPostgres(t, "b")
	a.inside, a.host = far, farEnd.Addr
	b.inside = near
	a.create()
	a.start()
	preparePostgres(a)
	b.copyOf(a)
	b.start()
	closed := "127.0.0.1:7002"
	p := startAt(t, where{namespace: near}, `
		worker { count = 2 }
		admin {
		  listen = "unix:$dir/admin.sock"
		}
		upstream "kept" {
		  server "$a" { name = "a" }
		  server "$b" { name = "b" }
		  health_check "postgres" {
		    role     = "primary"
		    user     = "weir"
		    interval = "500ms"
		    timeout  = "500ms"
		    rise     = 1
		    fall     = 2
		  }
		  exactly_one = true
		  on_state {
		    unhealthy = "keep"
		    standby   = "keep"
		  }
		}
		upstream "closed" {
		  server "$a" { name = "a" }
		  server "$b" { name = "b" }
		  health_check "postgres" {
		    role     = "primary"
		    user     = "weir"
		    interval = "500ms"
		    timeout  = "500ms"
		    rise     = 1
		    fall     = 2
		  }
		  exactly_one = true
		  on_state {
		    unhealthy = "close"
		    standby   = "close"
		  }
		}
		listener "kept" {
		  listen            = ["$listen"]
		  upstream          = "kept"
		  dead_peer_timeout = "4s"
		}
		listener "closed" {
		  listen            = ["$closed"]
		  upstream          = "closed"
		  dead_peer_timeout = "4s"
		}`, vars{"listen": "127.0.0.1:7001", "closed": closed, "a": a.addr(), "b": b.addr()})
	l := &timeline{t: t, p: p}
	l.event("weir has started")
	for _, upstream := range []string{"kept", "closed"} {
		p.waitAxis(10*time.Second, upstream+"/a", axisRole, isPrimary)
		p.waitAxis(10*time.Second, upstream+"/b", axisRole, isStandby)
	}
	busy, idle := manner{clients: 5, pause: 20 * time.Millisecond}, manner{clients: 5, pause: time.Hour}
	var clienteles []*clientele
	for _, addr := range []string{p.addr, closed} {
		for _, m := range []manner{busy, idle} {
			c := gather(t, m, inside(t, near, asPostgres(addr, oneWrite)))
			c.waitDone(10*time.Second, m.clients, "a", time.Time{})
			clienteles = append(clienteles, c)
		}
	}
	l.axes("kept")
	l.axes("closed")

	cut := l.event("a's packets are dropped")
	farEnd.Mute(t)
	a.program.last = syscall.SIGQUIT // a fast shutdown waits for the replica to answer
	var verdict admin.Axis
	for _, upstream := range []string{"kept", "closed"} {
		verdict = p.waitAxis(10*time.Second, upstream+"/a", axisActive, isUnhealthy)
		// One interval until the next check begins, and two checks that time out.
		l.promised("a is unhealthy in "+upstream, verdict.Since, cut, 2*interval*11/10+timeout, time.Second)
	}
	l.axes("kept")
	l.axes("closed")
	promoted := l.event("b is promoted, %d ms after the cut", time.Since(cut).Milliseconds())
	b.sql("select pg_promote()")
	for _, upstream := range []string{"kept", "closed"} {
		heir := p.waitAxis(10*time.Second, upstream+"/b", axisRole, isPrimary)
		l.promised("b is the primary in "+upstream, heir.Since, promoted, interval*11/10, 2*time.Second)
	}
	const sessions = 10 // of each listener, on a
	var endings []ending
	eventually(t, 20*time.Second, "every session of a has ended", func() bool {
		endings = filter(p.endings(), func(e ending) bool { return e.Peer == a.addr() && e.CloseReason != "client_closed" })
		return len(endings) >= 2*sessions
	})
	l.begin = cut
	l.at(cut, "", "time counts from the cut again")
	var last = map[string]time.Time{}
	reasons := map[string]map[string]int{"kept": {}, "closed": {}}
	for _, e := range endings {
		last[e.Listener] = e.Time
		reasons[e.Listener][e.CloseReason]++
	}
	if n := reasons["kept"]["dead_peer"]; n != sessions {
		t.Errorf("%d of the kept sessions ended by dead_peer_timeout, want %d: %v", n, sessions, reasons["kept"])
	}
	if n := reasons["closed"][endUnhealthy]; n != sessions {
		t.Errorf("%d of the other sessions were closed for the verdict, want %d: %v", n, sessions, reasons["closed"])
	}
	l.promised("the last kept session has ended, by dead_peer_timeout", last["kept"], cut, deadPeer, 2*time.Second)
	l.promised("the last of the others was closed for the verdict", last["closed"], verdict.Since, interval, time.Second)
	for i, name := range []string{"kept", "closed"} {
		first := clienteles[2*i].waitDone(20*time.Second, 1, "b", promoted)
		clienteles[2*i].waitDone(20*time.Second, 100, "b", promoted)
		l.at(first.done, "", "the first write on b through %s", name)
		for _, d := range clienteles[2*i].done() {
			if d.server == "a" && d.began.After(cut) {
				t.Errorf("a new session reached a %v after the cut", d.began.Sub(cut))
			}
		}
	}
	l.axes("kept")
	l.axes("closed")
}

package integration_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlb/weir/stream/admin"
)

// A server fails every second check. Where two results are needed to change its
// state, nothing follows the first verdict; where one is enough, there is no more
// than one change with each result (stream/health/doc.go).
func TestFlappingServer(t *testing.T) {
	t.Parallel()
	const interval = 100 * time.Millisecond
	d := 6 * time.Second
	if long {
		d = time.Minute
	}
	var checks, nervousChecks atomic.Int64
	calm, nervous := alternating(t, &checks), alternating(t, &nervousChecks)
	p := start(t, `
		worker { count = 2 }
		admin {
		  listen = "unix:$dir/admin.sock"
		}
		upstream "calm" {
		  server "$server" { name = "a" }
		  health_check "http" {
		    port     = $calm
		    interval = "100ms"
		    timeout  = "5s"
		    rise     = 2
		    fall     = 2
		  }
		  on_state {
		    unhealthy = "close"
		  }
		}
		upstream "nervous" {
		  server "$server" { name = "a" }
		  health_check "http" {
		    port     = $nervous
		    interval = "100ms"
		    timeout  = "5s"
		    rise     = 1
		    fall     = 1
		  }
		}
		listener "calm" {
		  listen   = ["$listen"]
		  upstream = "calm"
		}
		listener "nervous" {
		  listen   = ["$other"]
		  upstream = "nervous"
		}`, vars{"server": serve(t, echo), "calm": calm, "nervous": nervous, "other": freeAddr(t)})
	l := &timeline{t: t, p: p}
	begin := l.event("weir has started; every second check fails")
	p.waitAxis(10*time.Second, "calm/a", axisActive, isHealthy)
	c := dial(t, p.addr)
	c.SetDeadline(time.Now().Add(scaled(2 * d)))
	for time.Since(begin) < d {
		roundTrip(t, c)
		ask := dial(t, p.addr) // a new session is had at any time
		roundTrip(t, ask)
		ask.Close()
		time.Sleep(interval / 2)
	}
	l.axes("calm")
	l.axes("nervous")
	seen := func(peer string) []admin.Transition {
		return filter(p.history(peer), func(x admin.Transition) bool { return x.Axis == axisActive })
	}
	steady, flips := seen("calm/a"), seen("nervous/a")
	most := nervousChecks.Load() // by now all of those that have led to flips are counted
	l.at(time.Now(), "1", "%d transitions of the server with rise = fall = 2, in %d checks", len(steady), checks.Load())
	l.at(time.Now(), fmt.Sprintf("at most %d", most), "%d of the one with rise = fall = 1, in as many checks", len(flips))
	if n := checks.Load(); n < 10 {
		t.Errorf("only %d checks were made in %v", n, d)
	}
	if len(steady) != 1 || steady[0].To != isHealthy {
		t.Errorf("transitions %+v, want only that of the first result", steady)
	}
	if n := int64(len(flips)); n < 4 || n > most {
		t.Errorf("%d transitions where each of %d checks is a verdict, want some and no more", n, most)
	}
}

// alternating answers 200 and 503 in turns. It returns its port.
func alternating(t *testing.T, n *atomic.Int64) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1)%2 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		io.WriteString(w, "so and so")
	}))
	t.Cleanup(s.Close)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	return port
}

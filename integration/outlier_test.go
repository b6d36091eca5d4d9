package integration_test

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// A server that takes connections and ends them before it has said a word passes
// every TCP check. Live sessions show what it is: it is ejected, each time for
// longer, and comes back.
func TestOutlierIsEjected(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	broken.Store(true)
	flaky := serve(t, func(c net.Conn) {
		if !broken.Load() {
			greeter("a")(c)
		}
	})
	const base = time.Second
	p := start(t, `
		worker { count = 2 }
		admin {
		  listen = "unix:$dir/admin.sock"
		}
		upstream "u" {
		  server "$a" { name = "a" }
		  server "$b" { name = "b" }
		  server "$c" { name = "c" }
		  health_check "tcp" {
		    interval = "100ms"
		  }
		  outlier_detection {
		    consecutive_failures = 3
		    min_success_rate     = 0
		    interval             = "1m"
		    base_ejection_time   = "1s"
		    max_ejection         = "50%"
		  }
		}
		listener "l" {
		  listen   = ["$listen"]
		  upstream = "u"
		}`, vars{"a": flaky, "b": serve(t, greeter("b")), "c": serve(t, greeter("c"))})
	l := &timeline{t: t, p: p}
	for _, name := range []string{"a", "b", "c"} {
		p.waitAxis(10*time.Second, "u/"+name, axisActive, isHealthy)
	}
	// visit opens a session and returns who greeted, "" if nobody.
	visit := func() string {
		c := dial(t, p.addr)
		defer c.Close()
		name := make([]byte, 2)
		if _, err := io.ReadFull(c, name); err != nil {
			return ""
		}
		return string(name[:1])
	}
	// Sessions come until the server is ejected: three let down, and those that
	// were on their way.
	ejected := func() (at time.Time) {
		t.Helper()
		letDown := 0
		eventually(t, 20*time.Second, "a is ejected", func() bool {
			if visit() == "" {
				letDown++
			}
			return p.axed("u/a").Axes[axisPassive].Value == isEjected
		})
		if letDown != 3 {
			t.Errorf("%d sessions were let down, and three eject", letDown)
		}
		return p.axed("u/a").Axes[axisPassive].Since
	}
	l.event("sessions come")
	for turn := 1; turn <= 2; turn++ {
		out := ejected()
		l.at(out, "after 3 failures in a row", "a is ejected")
		l.axes("u")
		for range 12 {
			if name := visit(); name != "b" && name != "c" && p.axed("u/a").Axes[axisPassive].Value == isEjected {
				t.Errorf("a session got %q while a was ejected", name)
			}
		}
		back := p.waitAxis(20*time.Second, "u/a", axisPassive, isAvailable).Since
		l.promised("a is available", back, out, base*time.Duration(turn), time.Second)
		if took := back.Sub(out); took < base*time.Duration(turn) {
			t.Errorf("ejection %d took %v", turn, took)
		}
	}
	broken.Store(false)
	eventually(t, 20*time.Second, "a serves again", func() bool { return visit() == "a" })
	if a := p.axed("u/a").Axes[axisActive]; a.Value != isHealthy {
		t.Errorf("to its checks a is %s", a.Value)
	}
	t.Logf("history of u/a:\n%s", p.mustWeir("peers", "--history", "u/a"))
}

// A server that has nothing to look at the time for does not. When a reload brings
// outlier detection it begins to: successes are compared at the end of each interval,
// when nothing else happens.
func TestReloadBringsOutlierDetection(t *testing.T) {
	t.Parallel()
	p := start(t, `
		worker { count = 1 }
		admin {
		  listen = "unix:$dir/admin.sock"
		}
		upstream "u" {
		  server "$a" {
		    name      = "a"
		    max_fails = 0
		  }
		  server "$b" {
		    name      = "b"
		    max_fails = 0
		  }
		  # outlier_detection
		}
		listener "l" {
		  listen   = ["$listen"]
		  upstream = "u"
		}`, vars{"a": serve(t, func(net.Conn) {}), "b": serve(t, greeter("b"))})
	time.Sleep(500 * time.Millisecond) // by now it has stopped looking
	p.rewrite("# outlier_detection", `outlier_detection {
		    consecutive_failures = 0
		    min_success_rate     = 0.8
		    interval             = "2s"
		    base_ejection_time   = "1m"
		  }`, "reloaded")
	eventually(t, 20*time.Second, "a is ejected", func() bool {
		for range 10 {
			c := dial(t, p.addr)
			_, _ = io.ReadFull(c, make([]byte, 2)) // b greets, a is gone
			c.Close()
		}
		return p.axed("u/a").Axes[axisPassive].Value == isEjected
	})
}

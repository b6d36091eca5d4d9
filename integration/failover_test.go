package integration_test

import (
	"net"
	"slices"
	"testing"
	"time"
)

func TestRefusedPeerIsSkipped(t *testing.T) {
	t.Parallel()
	a, b := freeAddr(t), serve(t, says("b"))
	p := start(t, `
		upstream "u" {
		  server "$a" {}
		  server "$b" {}
		}
		listener "l" {
		  listen   = ["$listen"]
		  upstream = "u"
		}`, vars{"a": a, "b": b})
	for range 3 {
		if got := ask(t, p.addr); got != "b" {
			t.Errorf("got %q, want the answer of b", got)
		}
	}
	var tried []string
	for _, e := range p.waitEntries(5*time.Second, 3) {
		tried = append(tried, e.UpstreamAddr)
	}
	// max_fails is 1: after its failure nobody tries a again for 10 s.
	if want := []string{a + ", " + b, b, b}; !slices.Equal(sorted(tried), sorted(want)) {
		t.Errorf("tried %q, want %q", tried, want)
	}
}

func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}

func TestAllPeersRefuse(t *testing.T) {
	t.Parallel()
	a, b := freeAddr(t), freeAddr(t)
	p := start(t, `
		upstream "u" {
		  server "$a" {}
		  server "$b" {}
		}
		listener "l" {
		  listen   = ["$listen"]
		  upstream = "u"
		}`, vars{"a": a, "b": b})
	wantEOF(t, dial(t, p.addr))
	e := p.wantEnd(5*time.Second, "connect_failed", 502)
	if e.Tries != 2 || e.UpstreamAddr != a+", "+b {
		t.Errorf("%d tries: %s, want %s, %s", e.Tries, e.UpstreamAddr, a, b)
	}
}

func TestTriesAreBounded(t *testing.T) {
	t.Parallel()
	a, b := freeAddr(t), serve(t, says("b"))
	p := start(t, `
		upstream "u" {
		  server "$a" {}
		  server "$b" {}
		}
		listener "l" {
		  listen   = ["$listen"]
		  upstream = "u"
		  next_upstream {
		    tries = 1
		  }
		}`, vars{"a": a, "b": b})
	wantEOF(t, dial(t, p.addr))
	if e := p.wantEnd(5*time.Second, "connect_failed", 502); e.Tries != 1 || e.UpstreamAddr != a {
		t.Errorf("%d tries: %s, want only %s", e.Tries, e.UpstreamAddr, a)
	}
}

func TestBackupServesWhenPrimariesFail(t *testing.T) {
	t.Parallel()
	a, b := freeAddr(t), serve(t, says("backup"))
	p := start(t, `
		upstream "u" {
		  server "$a" {}
		  server "$b" {
		    backup = true
		  }
		}
		listener "l" {
		  listen   = ["$listen"]
		  upstream = "u"
		}`, vars{"a": a, "b": b})
	if got := ask(t, p.addr); got != "backup" {
		t.Errorf("got %q, want the answer of the backup", got)
	}
	if e := p.wantEnd(5*time.Second, "peer_closed", 200); e.UpstreamAddr != a+", "+b {
		t.Errorf("tried %s, want %s, %s", e.UpstreamAddr, a, b)
	}
}

func TestBackupRestsWhilePrimariesServe(t *testing.T) {
	t.Parallel()
	p := start(t, `
		upstream "u" {
		  server "$a" {}
		  server "$b" {
		    backup = true
		  }
		}
		listener "l" {
		  listen   = ["$listen"]
		  upstream = "u"
		}`, vars{"a": serve(t, says("a")), "b": serve(t, says("b"))})
	for range 10 {
		if got := ask(t, p.addr); got != "a" {
			t.Errorf("got %q, want the answer of a", got)
		}
	}
}

func TestDownPeerGetsNothing(t *testing.T) {
	t.Parallel()
	p := start(t, `
		upstream "u" {
		  server "$a" {
		    down = true
		  }
		  server "$b" {}
		}
		listener "l" {
		  listen   = ["$listen"]
		  upstream = "u"
		}`, vars{"a": serve(t, says("a")), "b": serve(t, says("b"))})
	for range 10 {
		if got := ask(t, p.addr); got != "b" {
			t.Errorf("got %q, want the answer of b", got)
		}
	}
}

func TestNoEligiblePeer(t *testing.T) {
	t.Parallel()
	p := start(t, `
		upstream "u" {
		  server "$a" {
		    down = true
		  }
		}
		listener "l" {
		  listen   = ["$listen"]
		  upstream = "u"
		}`, vars{"a": serve(t, says("a"))})
	wantEOF(t, dial(t, p.addr))
	if e := p.wantEnd(5*time.Second, "no_peer", 502); e.Tries != 0 || e.UpstreamAddr != "" {
		t.Errorf("%d tries: %q, want none", e.Tries, e.UpstreamAddr)
	}
}

func TestMaxConns(t *testing.T) {
	t.Parallel()
	greet := func(name string) func(net.Conn) {
		return func(c net.Conn) {
			c.Write([]byte(name))
			silent(c)
		}
	}
	p := start(t, `
		upstream "u" {
		  server "$a" {
		    max_conns = 2
		  }
		  server "$b" {
		    max_conns = 1
		  }
		}
		listener "l" {
		  listen   = ["$listen"]
		  upstream = "u"
		}`, vars{"a": serve(t, greet("a")), "b": serve(t, greet("b"))})
	got := map[string]int{}
	var first stream
	for i := range 3 {
		c := dial(t, p.addr)
		name := make([]byte, 1)
		if _, err := c.Read(name); err != nil {
			t.Fatalf("session %d: %v", i, err)
		}
		got[string(name)]++
		if i == 0 {
			first = c
		}
	}
	if got["a"] != 2 || got["b"] != 1 {
		t.Errorf("three sessions went to %v, want a twice and b once", got)
	}
	wantEOF(t, dial(t, p.addr))
	p.wantEnd(5*time.Second, "no_peer", 502)

	first.Close()
	p.waitEntries(5*time.Second, 2)
	if _, err := dial(t, p.addr).Read(make([]byte, 1)); err != nil {
		t.Errorf("a place was given back, and the next session says %v", err)
	}
}

func TestWeights(t *testing.T) {
	t.Parallel()
	p := start(t, `
		upstream "u" {
		  server "$a" {
		    weight = 5
		  }
		  server "$b" {}
		  server "$c" {}
		}
		listener "l" {
		  listen   = ["$listen"]
		  upstream = "u"
		}`, vars{"a": serve(t, says("a")), "b": serve(t, says("b")), "c": serve(t, says("c"))})
	got := ""
	for range 14 {
		got += ask(t, p.addr)
	}
	if want := "aabacaaaabacaa"; got != want { // nginx's smooth round robin
		t.Errorf("sessions went to %s, want %s", got, want)
	}
}

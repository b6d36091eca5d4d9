package integration_test

import (
	"bufio"
	"encoding/json"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/admin"
)

// What `weir explain` says the next session will get, it gets: 1,000 times on a
// live process, in states of held sessions, failures, drains and weights.
func TestForecastsComeTrue(t *testing.T) {
	const rounds, seed = 1000, 20261130
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	p := start(t, `
		log {
		  format    = "json"
		  access    = "$access"
		  decisions = "all"
		}
		admin {
		  listen = "unix:$dir/admin.sock"
		}
		upstream "u" {
		  balance "least_conn" {}
		  server "$a" {
		    name   = "a"
		    weight = 3
		  }
		  server "$b" { name = "b" }
		  server "$c" {
		    name      = "c"
		    max_conns = 4
		  }
		  server "$d" {
		    name         = "d"
		    max_fails    = 20
		    weight       = 40
		    fail_timeout = "1h"
		  }
		}
		listener "l" {
		  listen   = ["$listen"]
		  upstream = "u"
		}`, vars{"a": serve(t, greeter("a")), "b": serve(t, greeter("b")), "c": serve(t, greeter("c")), "d": freeAddr(t)})
	client := admin.NewClient(conf.Address{Path: filepath.Join(p.dir, "admin.sock")}, "")
	before := len(firstPicks(t, p.stderr.String())) // of the helper that waits for the start
	var want []string
	var held []net.Conn
	failed := 0
	for range rounds {
		switch peer := string("abcd"[r.IntN(4)]); r.IntN(25) {
		case 0:
			mustSet(t, client, peer, admin.PeerOrder{Admin: []string{"up", "drain", "up", "down"}[r.IntN(4)]})
		case 1:
			weight := 1 + r.IntN(50)
			mustSet(t, client, peer, admin.PeerOrder{Weight: &weight})
		}
		f, err := client.Forecast(t.Context(), "u", "", "")
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, f.Peer)
		if f.Peer == "d" {
			failed++
		}
		c, err := net.Dial("tcp", p.addr)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := bufio.NewReader(c).ReadString('\n'); err == nil {
			held = append(held, c)
		} else {
			c.Close() // nobody was eligible
		}
		for len(held) > r.IntN(16) {
			held[0].Close()
			held = held[1:]
		}
		n := len(held)
		eventually(t, 10*time.Second, "weir sees the clients that left", func() bool {
			s, err := client.Status(t.Context())
			return err == nil && int(s.Sessions.Now) <= n
		})
	}
	for _, c := range held {
		c.Close()
	}
	var got []string
	eventually(t, 10*time.Second, "every decision is logged", func() bool {
		got = firstPicks(t, p.stderr.String())[before:]
		return len(got) >= rounds
	})
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("session %d got %q, explain had said %q", i, got[i], want[i])
		}
	}
	t.Logf("%d forecasts came true, %d of them of a server that then refused", len(want), failed)
	if failed == 0 {
		t.Error("no server failed, so that this was not tested")
	}
}

func mustSet(t *testing.T, c *admin.Client, peer string, order admin.PeerOrder) {
	t.Helper()
	if _, err := c.SetPeer(t.Context(), "u", peer, order); err != nil {
		t.Fatal(err)
	}
}

// firstPicks returns whom each session was first given, from the decisions in the
// log; "" is nobody.
func firstPicks(t *testing.T, log string) []string {
	t.Helper()
	var out []string
	for line := range strings.Lines(log) {
		var d struct {
			Attempt int
			Method  string
			Peer    string
		}
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &d) == nil && d.Attempt == 1 && d.Method != "" {
			out = append(out, d.Peer)
		}
	}
	return out
}

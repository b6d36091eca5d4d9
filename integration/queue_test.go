package integration_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlb/weir/stream/admin"
)

// load asks how much an upstream has to do.
func (p *proxy) load(upstream string) admin.Load {
	p.t.Helper()
	for _, u := range p.status().Upstreams {
		if u.Name == upstream {
			return u.Load
		}
	}
	p.t.Fatalf("there is no upstream %s", upstream)
	return admin.Load{}
}

// inside returns how many clients an upstream has, and how many of them wait.
func (p *proxy) inside(upstream string) (all, waiting int) {
	p.t.Helper()
	l := p.load(upstream)
	if l.Queue == nil {
		p.t.Fatalf("upstream %s has no queue: %+v", upstream, l)
	}
	return l.Sessions + l.Queue.Waiting, l.Queue.Waiting
}

// guest is a client that has come to be served.
type guest struct {
	stream
	served chan time.Time // has when the server's first byte came, and is closed at once if none did
}

// arrive connects a client and waits until weir has that many in all, served or
// not: those who arrive one after the other are in that order, on whichever
// worker.
func (p *proxy) arrive(addr string, inside int) *guest {
	p.t.Helper()
	g := &guest{stream: dial(p.t, addr), served: make(chan time.Time, 1)}
	go func() {
		defer close(g.served)
		if _, err := g.Read(make([]byte, 1)); err == nil {
			g.served <- time.Now()
		}
	}()
	eventually(p.t, 5*time.Second, "the client is in: "+strconv.Itoa(inside)+" in all", func() bool {
		all, _ := p.inside("u")
		return all == inside
	})
	return g
}

// wantServed waits for a guest's first byte and returns when it came.
func (g *guest) wantServed(t *testing.T, who string) time.Time {
	t.Helper()
	select {
	case at, ok := <-g.served:
		if !ok {
			t.Fatalf("%s was not served", who)
		}
		return at
	case <-time.After(scaled(5 * time.Second)):
		t.Fatalf("%s still waits", who)
	}
	return time.Time{}
}

// host is a server that greets with a byte, and counts its guests.
type host struct{ now, most atomic.Int64 }

func (h *host) serve(c net.Conn) {
	n := h.now.Add(1)
	for m := h.most.Load(); n > m && !h.most.CompareAndSwap(m, n); m = h.most.Load() {
	}
	io.WriteString(c, "x")
	silent(c)
	// Before the connection is closed here, and so before weir can have ended the
	// session.
	h.now.Add(-1)
}

// A hundred clients for twenty places, each for a second: the server never has
// more than twenty, whichever workers they come to, and they are served in the
// order in which they came.
func TestQueueKeepsMaxConns(t *testing.T) {
	t.Parallel()
	const clients, places = 100, 20
	const hold = time.Second
	var h host
	metrics := freeAddr(t)
	p := start(t, `
		worker { count = 4 }
		admin {
		  listen  = "unix:$dir/admin.sock"
		  metrics = "$metrics"
		}
		upstream "u" {
		  server "$server" {
		    max_conns = 20
		  }
		  queue {
		    max     = 80
		    timeout = "1m"
		  }
		}
		listener "l" {
		  listen   = ["$listen"]
		  upstream = "u"
		}`, vars{"server": serve(t, h.serve), "metrics": metrics})
	guests := make([]*guest, clients)
	for i := range guests {
		guests[i] = p.arrive(p.addr, i+1)
	}
	if all, waiting := p.inside("u"); waiting != clients-places {
		t.Errorf("%d of %d clients wait, want %d", waiting, all, clients-places)
	}
	// The places are held until all have come, and then for the time.
	begin := time.Now()
	served := make([]time.Duration, clients)
	done := make(chan bool)
	for i, g := range guests {
		go func() {
			defer func() { done <- true }()
			at, ok := <-g.served
			if !ok {
				t.Errorf("client %d was not served", i)
				return
			}
			served[i] = max(0, at.Sub(begin))
			time.Sleep(hold)
			g.Close()
		}()
	}
	for range guests {
		<-done
	}
	for i, took := range served {
		want := time.Duration(i/places) * hold
		if took < want-20*time.Millisecond || took > want+scaled(700*time.Millisecond) {
			t.Errorf("client %d was served after %v, want about %v", i, took, want)
		}
	}
	t.Logf("client 20 was served after %v, client 99 after %v", served[20], served[99])
	if most := h.most.Load(); most != places {
		t.Errorf("the server had up to %d clients, want %d", most, places)
	}
	for _, e := range p.waitEntries(5*time.Second, clients) {
		if e.CloseReason != "client_closed" || e.Status != 200 {
			t.Errorf("a session ended with %s and status %d", e.CloseReason, e.Status)
		}
	}
	if all, waiting := p.inside("u"); all != 0 || waiting != 0 {
		t.Errorf("%d clients are left, %d of them wait", all, waiting)
	}
	wantSample(t, metrics, `weir_upstream_queue_wait_seconds_count{upstream="u"} `+strconv.Itoa(clients-places))
}

// onePlace is a server with room for one, and a queue for it. What comes from the
// listener "first" is more important.
const onePlace = `
	worker { count = 4 }
	admin {
	  listen = "unix:$dir/admin.sock"
	}
	upstream "u" {
	  server "$server" {
	    max_conns = 1
	  }
	  # another
	  queue {
	    max     = $max
	    timeout = "$timeout"
	  }
	}
	listener "l" {
	  listen   = ["$listen"]
	  upstream = "u"
	  priority = 5
	}
	listener "first" {
	  listen   = ["$first"]
	  upstream = "u"
	  priority = 0
	}`

// The clients of the more important listener go first, and those of each in the
// order in which they came.
func TestQueueOrder(t *testing.T) {
	t.Parallel()
	const each = 6
	var h host
	first := freeAddr(t)
	p := start(t, onePlace, vars{"server": serve(t, h.serve), "first": first, "max": "100", "timeout": "1m"})
	holder := p.arrive(p.addr, 1)
	holder.wantServed(t, "the first client")
	served := make(chan string, 2*each)
	arrive := func(name, addr string, inside int) {
		g := p.arrive(addr, inside)
		go func() {
			if _, ok := <-g.served; !ok {
				name += " (not served)"
			}
			served <- name
			g.Close()
		}()
	}
	var want []string
	for i := range each {
		arrive("other "+strconv.Itoa(i), p.addr, 2*i+2)
		arrive("important "+strconv.Itoa(i), first, 2*i+3)
		want = append(want, "important "+strconv.Itoa(i))
	}
	for i := range each {
		want = append(want, "other "+strconv.Itoa(i))
	}
	holder.Close()
	var got []string
	for range want {
		select {
		case name := <-served:
			got = append(got, name)
		case <-time.After(scaled(10 * time.Second)):
			t.Fatalf("served were only %q", got)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("served were\n%q, want\n%q", got, want)
	}
	if most := h.most.Load(); most != 1 {
		t.Errorf("the server had up to %d clients, want 1", most)
	}
}

// Who comes at the very moment in which a place becomes free does not get it
// before those who wait.
func TestNobodyJumpsTheQueue(t *testing.T) {
	t.Parallel()
	const guests, pushers, each = 40, 4, 100
	var h host
	p := start(t, onePlace, vars{"server": serve(t, h.serve), "first": freeAddr(t), "max": "1000", "timeout": "1m"})
	holder := p.arrive(p.addr, 1)
	var left atomic.Int32 // guests that were not served yet
	left.Store(guests)
	for i := range guests {
		g := p.arrive(p.addr, i+2)
		go func() {
			if _, ok := <-g.served; ok {
				left.Add(-1) // before its place is free
				g.Close()
			}
		}()
	}
	holder.Close()
	var jumped, late atomic.Int32
	var pushing sync.WaitGroup
	for range pushers {
		pushing.Go(func() {
			for range each {
				c, err := tryDial(p.addr)
				if err != nil {
					t.Error(err)
					return
				}
				if left.Load() == 0 {
					late.Add(1)
				}
				pushing.Go(func() {
					defer c.Close()
					_, err := c.Read(make([]byte, 1))
					if err != nil {
						t.Error(err)
					} else if left.Load() > 0 {
						jumped.Add(1)
					}
				})
			}
		})
	}
	pushing.Wait()
	if jumped.Load() > 0 || left.Load() > 0 {
		t.Errorf("%d of %d were served before those who waited, %d of whom still do", jumped.Load(), pushers*each, left.Load())
	}
	if late.Load() == pushers*each {
		t.Error("all came too late to be any temptation")
	}
	t.Logf("%d of %d came while others waited", pushers*each-late.Load(), pushers*each)
}

func TestQueueFullAndQueueTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second
	var h host
	p := start(t, onePlace, vars{"server": serve(t, h.serve), "first": freeAddr(t), "max": "2", "timeout": timeout.String()})
	holder := p.arrive(p.addr, 1)
	holder.wantServed(t, "the first client")
	begin := time.Now()
	waiting := []*guest{p.arrive(p.addr, 2), p.arrive(p.addr, 3)}
	wantRefused(t, p.addr)
	if e := p.wantEnd(5*time.Second, "queue_full", 503); e.Tries != 0 || e.UpstreamAddr != "" {
		t.Errorf("%d tries at %q, want none", e.Tries, e.UpstreamAddr)
	}
	for _, g := range waiting {
		if at, ok := <-g.served; ok {
			t.Errorf("a client was served %v after the begin", at.Sub(begin))
		}
	}
	lasted(t, "the wait was over", time.Since(begin), timeout)
	for _, e := range p.waitEntries(5*time.Second, 3)[1:] {
		if e.CloseReason != "queue_timeout" || e.Status != 503 {
			t.Errorf("a session ended with %s and status %d, want queue_timeout and 503", e.CloseReason, e.Status)
		}
		lasted(t, "a session ended", time.Duration(e.SessionTime*float64(time.Second)), timeout)
	}
	if all, waiting := p.inside("u"); all != 1 || waiting != 0 {
		t.Errorf("%d clients are left, %d of them wait", all, waiting)
	}
	if n := h.most.Load(); n != 1 {
		t.Errorf("the server had %d clients at once, want 1", n)
	}
}

// Who goes away while it waits makes room at once.
func TestClientLeavesTheQueue(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		leave  func(net.Conn)
		reason string
	}{
		{"close", func(c net.Conn) { c.Close() }, "client_closed"},
		{"reset", reset, "client_reset"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var h host
			p := start(t, onePlace, vars{"server": serve(t, h.serve), "first": freeAddr(t), "max": "2", "timeout": "1m"})
			holder := p.arrive(p.addr, 1)
			holder.wantServed(t, "the first client")
			second, third := p.arrive(p.addr, 2), p.arrive(p.addr, 3)
			test.leave(second.stream)
			p.wantEnd(5*time.Second, test.reason, 200)
			if all, waiting := p.inside("u"); all != 2 || waiting != 1 {
				t.Errorf("%d clients are left, %d of them wait", all, waiting)
			}
			fourth := p.arrive(p.addr, 3) // has the place in the queue
			holder.Close()
			third.wantServed(t, "the third client")
			third.Close()
			fourth.wantServed(t, "the fourth client")
		})
	}
}

// What a client says while it waits is kept, however much it is, and goes to the
// server that it gets.
func TestClientSpeaksInTheQueue(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	p := start(t, onePlace, vars{"server": serve(t, echo), "first": freeAddr(t), "max": "2", "timeout": "1m"})
	holder := dial(t, p.addr)
	roundTrip(t, holder)
	c := dial(t, p.addr)
	sent := make(chan error, 1)
	go func() {
		_, err := io.Copy(struct{ io.Writer }{c}, random(size))
		sent <- err
	}()
	eventually(t, 5*time.Second, "it waits", func() bool { _, waiting := p.inside("u"); return waiting == 1 })
	holder.Close()
	got, want := sha256.New(), sha256.New()
	io.Copy(want, random(size))
	if _, err := io.CopyN(got, c, size); err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil || !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		t.Errorf("sent with %v, and the echo is another one", err)
	}
}

// A reload that makes room serves those who wait.
func TestReloadServesTheQueue(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		old, new string
	}{
		{"max_conns is raised", "max_conns = 1", "max_conns = 10"},
		{"max_conns goes", "max_conns = 1", ""},
		{"a server comes", "# another", `server "ANOTHER" {}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			const waiting = 5
			var h, another host
			p := start(t, onePlace, vars{"server": serve(t, h.serve), "first": freeAddr(t), "max": "100", "timeout": "1m"})
			p.arrive(p.addr, 1).wantServed(t, "the first client")
			var guests []*guest
			for i := range waiting {
				guests = append(guests, p.arrive(p.addr, i+2))
			}
			p.rewrite(test.old, strings.Replace(test.new, "ANOTHER", serve(t, another.serve), 1), "reloaded")
			for i, g := range guests {
				g.wantServed(t, "client "+strconv.Itoa(i+1)+" of those who waited")
			}
			if all, left := p.inside("u"); all != waiting+1 || left != 0 {
				t.Errorf("%d clients are there, %d of them wait", all, left)
			}
		})
	}
}

// What the control API says of the load, on the wire: null is what there is not.
func TestLoadOnTheWire(t *testing.T) {
	t.Parallel()
	p := start(t, `
		admin {
		  listen = "unix:$dir/admin.sock"
		}
		upstream "unbounded" {
		  server "127.0.0.1:9" {}
		}
		upstream "bounded" {
		  server "127.0.0.1:9" {}
		  queue {
		    max = 7
		  }
		  circuit_breaker {
		    failures = 5
		  }
		  adaptive_limit "aimd" {
		    initial = 30
		    target  = "200ms"
		  }
		}
		listener "l" {
		  listen   = ["$listen"]
		  upstream = "unbounded"
		}
		listener "m" {
		  listen   = ["$other"]
		  upstream = "bounded"
		}`, vars{"other": freeAddr(t)})
	want := map[string]string{
		"unbounded": `{"sessions":0,"pending":0,"retries":0,"queue":null,"circuit":null,"limit":null}`,
		"bounded": `{"sessions":0,"pending":0,"retries":0,"queue":{"waiting":0,"max":7},"circuit":{"state":"closed","for_seconds":0,"opened_total":0},` +
			`"limit":{"algorithm":"aimd","apply_to":"turn","limit":30,"in_flight":0,"waiting":0,"latency_seconds":0,"windows_total":0,"enforced":true}}`,
	}
	for _, path := range []string{"/v1/status", "/v1/upstreams"} {
		var answer struct {
			Upstreams []struct {
				Name string
				Load json.RawMessage
			}
		}
		if err := p.control.Do(t.Context(), "GET", path, nil, &answer); err != nil {
			t.Fatal(err)
		}
		for _, u := range answer.Upstreams {
			var compact bytes.Buffer
			json.Compact(&compact, u.Load)
			if compact.String() != want[u.Name] {
				t.Errorf("%s says of %s\n%s, want\n%s", path, u.Name, &compact, want[u.Name])
			}
		}
		if len(answer.Upstreams) != len(want) {
			t.Errorf("%s has %d upstreams", path, len(answer.Upstreams))
		}
	}
}

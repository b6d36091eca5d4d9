package integration_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/weirlb/weir/integration/dnstest"
)

// toldSession is a client that learns who the server is, and stays.
type toldSession struct{ conn net.Conn }

// asTold connects to servers that say their name when asked.
func asTold(addr string) func(context.Context) (caller, error) {
	return func(ctx context.Context) (caller, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		return toldSession{c}, nil
	}
}

func (g toldSession) call(ctx context.Context) (string, error) {
	deadline, _ := ctx.Deadline()
	g.conn.SetDeadline(deadline)
	if _, err := io.WriteString(g.conn, "?"); err != nil {
		return "", err
	}
	buf := make([]byte, 32)
	n, err := io.ReadAtLeast(g.conn, buf, 1)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(buf[:n])), nil
}

func (g toldSession) close() { g.conn.Close() }

// tells returns a server that answers every question with its name.
func tells(name string) func(net.Conn) {
	return func(c net.Conn) {
		for {
			if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
				return
			}
			io.WriteString(c, name+"\n")
		}
	}
}

// discovered is an upstream of a name, and of more servers.
const discovered = `
	worker { count = 2 }
	admin {
	  listen = "unix:$dir/admin.sock"
	}
	resolver {
	  servers = ["$dns"]
	  timeout = "300ms"
	}
	upstream "u" {
	  server "$name" {
	    $kind = true
	  }
	  $more
	  on_state {
	    removed = "close"
	  }
	}
	listener "l" {
	  listen   = ["$listen"]
	  upstream = "u"
	}`

// addresses returns the peers of upstream u that discovery says are present,
// but for the static one.
func addresses(p *proxy) []string {
	var all []string
	for _, peer := range p.peers("u") {
		if peer.Name != "static" && peer.Axes[axisDiscovery].Value == isPresent {
			all = append(all, peer.Address)
		}
	}
	slices.Sort(all)
	return all
}

// waitAddresses waits until the present peers are those, and returns when that
// was seen.
func waitAddresses(t *testing.T, d time.Duration, p *proxy, want ...string) time.Time {
	t.Helper()
	slices.Sort(want)
	var got []string
	for deadline := time.Now().Add(scaled(d)); ; time.Sleep(5 * time.Millisecond) {
		if got = addresses(p); slices.Equal(got, want) {
			return time.Now()
		}
		if time.Now().After(deadline) {
			t.Fatalf("peers %v after %v, want %v", got, scaled(d), want)
		}
	}
}

// The addresses of a name change every second, its servers fail, say nothing and
// say that there is none: no session is without a peer.
func TestDiscoveryByAddress(t *testing.T) {
	t.Parallel()
	const name, ttl = "db.weir.test.", time.Second
	failure := 4 * time.Second
	if long {
		failure = 20 * time.Second
	}
	port := fmt.Sprint(freePorts(t, 1))
	at := func(ip string) string { return net.JoinHostPort(ip, port) }
	const one, two, three = "127.0.0.11", "127.0.0.12", "127.0.0.13"
	for _, ip := range []string{one, two, three} {
		serveOn(t, "tcp", at(ip), tells(ip))
	}
	serveOn(t, "tcp", at("127.0.0.1"), tells("static"))
	zone := dnstest.Start(t)
	zone.SetA(name, ttl, one)
	p := start(t, discovered, vars{"dns": zone.Addr(), "name": at("db.weir.test"), "kind": "resolve",
		"more": `server "` + at("127.0.0.1") + `" {
		  name   = "static"
		  backup = true
		}`})
	l := &timeline{t: t, p: p}
	l.event("weir has started, the name has one address")
	waitAddresses(t, 5*time.Second, p, at(one))
	l.axes("u")
	visitors := gather(t, manner{clients: 4, pause: 10 * time.Millisecond, once: true}, asTold(p.addr))
	loyal := gather(t, manner{clients: 3, pause: 10 * time.Millisecond}, asTold(p.addr))
	loyal.waitDone(5*time.Second, 3, one, time.Time{})

	// Up to 10 % are added to the TTL, and the question takes its time.
	const answered = ttl * 11 / 10
	for _, ip := range []string{two, three, one} {
		changed := l.event("the name's address becomes %s", ip)
		zone.SetA(name, ttl, ip)
		seen := waitAddresses(t, 10*time.Second, p, at(ip))
		l.promised(ip+" is the only peer", seen, changed, answered, time.Second)
		last := loyal.waitDone(5*time.Second, 3, ip, changed)
		l.at(last.done, "at once", "a session of the removed peer was closed, and its client is back")
		for _, d := range visitors.done() {
			if d.began.After(seen) && d.server != ip {
				t.Errorf("a session that began %v after the change went to %s", d.began.Sub(seen), d.server)
			}
		}
	}
	removed := endedWith(p.endings(), endRemoved)
	l.at(time.Now(), "3 for each flip", "%d sessions were closed because their peer was removed", len(removed))
	if len(removed) < 9 {
		t.Errorf("%d sessions were closed with %s, want 3 for each of 3 changes", len(removed), endRemoved)
	}
	l.axes("u")

	for _, outage := range []struct {
		what       string
		begin, end func()
	}{
		{"the name server answers SERVFAIL", func() { zone.SetFailure(dns.RcodeServerFailure) }, func() { zone.SetFailure(dns.RcodeSuccess) }},
		{"the name server says nothing", func() { zone.SetSilent(true) }, func() { zone.SetSilent(false) }},
	} {
		began := l.event("%s", outage.what)
		outage.begin()
		for time.Since(began) < failure {
			if got := addresses(p); !slices.Equal(got, []string{at(one)}) {
				t.Fatalf("peers %v after %v of outage, want the last good set", got, time.Since(began))
			}
			time.Sleep(20 * time.Millisecond)
		}
		l.at(time.Now(), "the last good set is kept", "the peers are %v", addresses(p))
		outage.end()
	}
	l.axes("u")
	zone.SetA(name, ttl, two)
	waitAddresses(t, 60*time.Second, p, at(two))
	l.at(time.Now(), "", "the name server is asked again: the address is %s", two)

	emptied := l.event("the answer is empty")
	zone.SetA(name, ttl)
	seen := waitAddresses(t, 10*time.Second, p)
	l.promised("the peer is removed", seen, emptied, answered, time.Second)
	visitors.waitDone(5*time.Second, 20, "static", seen)
	l.axes("u")
	filled := l.event("there is an address again")
	zone.SetA(name, ttl, three)
	seen = waitAddresses(t, 60*time.Second, p, at(three))
	l.at(seen, "", "the peer is present")
	visitors.waitDone(5*time.Second, 20, three, filled)

	// Too many for a datagram: the answer is truncated and asked for over TCP.
	var many, all []string
	for i := range 40 {
		ip := fmt.Sprintf("127.0.1.%d", i+1)
		serveOn(t, "tcp", at(ip), tells(ip))
		many, all = append(many, ip), append(all, at(ip))
	}
	zone.SetUDPBytes(512) // as a server without EDNS would
	grown := l.event("the name has 40 addresses")
	zone.SetA(name, ttl, many...)
	seen = waitAddresses(t, 10*time.Second, p, all...)
	l.promised("40 peers are present", seen, grown, answered, time.Second)
	if zone.QuestionsOverTCP() == 0 {
		t.Error("nobody has asked over TCP")
	}
	eventually(t, 10*time.Second, "each of 40 peers has had a session", func() bool {
		n := servers(filter(visitors.done(), func(d deed) bool { return d.began.After(seen) }))
		return len(n) >= 40
	})
	visitors.disperse()
	loyal.disperse()
	wantNoGap(t, p, visitors)
}

// wantNoGap checks that no session was without a peer.
func wantNoGap(t *testing.T, p *proxy, visitors *clientele) {
	t.Helper()
	reasons := map[string]int{}
	for _, e := range p.endings() {
		reasons[e.CloseReason]++
	}
	t.Logf("%d visits; sessions ended with %v", len(visitors.done()), reasons)
	for _, reason := range []string{"no_peer", "connect_failed", "connect_timeout"} {
		if n := reasons[reason]; n > 0 {
			t.Errorf("%d sessions ended with %s", n, reason)
		}
	}
	// A visit may meet the end of its peer, but only by the verdict.
	if n, most := len(visitors.suffered()), reasons[endRemoved]; n > most {
		t.Errorf("%d visitors were let down, and %d sessions closed because their peer was removed; the first: %v", n, most, visitors.suffered()[0])
	}
}

// A service has targets of two priorities: the second serves when the first is
// gone, and not before.
func TestDiscoveryByService(t *testing.T) {
	t.Parallel()
	const name, ttl = "_db._tcp.weir.test.", time.Second
	addr := map[string]string{"a": "127.0.0.21", "b": "127.0.0.22", "c": "127.0.0.23"}
	zone := dnstest.Start(t)
	record := map[string]dnstest.SRV{}
	full, stop := map[string]string{}, map[string]func(){}
	for server, ip := range addr {
		full[server], stop[server] = serveUntil(t, ip, tells(server))
		zone.SetA(server+".weir.test.", ttl, ip)
		record[server] = dnstest.SRV{Priority: 10, Weight: 1, Port: netip.MustParseAddrPort(full[server]).Port(), Target: server + ".weir.test."}
	}
	set := func(names ...string) {
		var records []dnstest.SRV
		for _, n := range names {
			records = append(records, record[n])
		}
		zone.SetSRV(name, ttl, records...)
	}
	weigh := func(server string, priority, weight uint16) {
		r := record[server]
		r.Priority, r.Weight = priority, weight
		record[server] = r
	}
	weigh("b", 10, 3)
	weigh("c", 20, 1)
	set("a", "b", "c")
	p := start(t, discovered, vars{"dns": zone.Addr(), "name": "_db._tcp.weir.test", "kind": "service", "more": ""})
	l := &timeline{t: t, p: p}
	l.event("weir has started: a and b have priority 10 and weights 1 and 3, c has priority 20")
	waitAddresses(t, 5*time.Second, p, full["a"], full["b"], full["c"])
	l.axes("u")
	visitors := gather(t, manner{clients: 4, pause: 10 * time.Millisecond, once: true}, asTold(p.addr))
	visitors.waitDone(10*time.Second, 50, "a", time.Time{})
	n := servers(visitors.done())
	l.at(time.Now(), "1 : 3 : 0", "a, b and c have served %d, %d and %d", n["a"], n["b"], n["c"])
	if n["c"] > 0 || n["b"] < 2*n["a"] {
		t.Errorf("sessions went to %v, want a and b as 1 to 3, and none to c", n)
	}

	l.event("a and b are killed")
	stop["a"]()
	stop["b"]()
	first := visitors.waitDone(10*time.Second, 20, "c", l.begin)
	l.at(first.done, "", "c has its first session")
	l.axes("u")

	changed := l.event("the service has c alone, with priority 10")
	weigh("c", 10, 1)
	set("c")
	seen := waitAddresses(t, 10*time.Second, p, full["c"])
	l.promised("c is the only target", seen, changed, ttl*11/10, time.Second)
	visitors.waitDone(10*time.Second, 20, "c", seen)
	l.axes("u")
	visitors.disperse()
	for _, e := range p.endings() {
		if e.CloseReason == "no_peer" {
			t.Error("a session was without a peer")
		}
	}
}

// serveUntil is serve on an address of choice, with an end that may come before
// the test's.
func serveUntil(t *testing.T, ip string, f func(net.Conn)) (addr string, stop func()) {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				f(c)
			})
		}
	})
	stop = sync.OnceFunc(func() {
		ln.Close()
		running.Wait()
	})
	t.Cleanup(stop)
	return ln.Addr().String(), stop
}

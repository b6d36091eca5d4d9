package discovery

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/weirlb/weir/integration/dnstest"
)

const pg = "_pg._tcp.example"

// serviceServer returns a DNS server with a service of three targets.
func serviceServer(t *testing.T) *dnstest.Server {
	t.Helper()
	s := dnstest.Start(t)
	s.SetA("a.example", time.Second, "10.0.0.1", "fd00::1")
	s.SetA("b.example", time.Second, "10.0.0.2")
	s.SetA("c.example", time.Second, "10.0.0.3")
	s.SetSRV(pg, time.Second,
		dnstest.SRV{Priority: 20, Weight: 7, Port: 5433, Target: "c.example"},
		dnstest.SRV{Priority: 10, Weight: 0, Port: 5432, Target: "B.example"},
		dnstest.SRV{Priority: 10, Weight: 60, Port: 5432, Target: "a.example"},
	)
	return s
}

func threeTargets() []string {
	return []string{
		"10.0.0.1:5432=a.example:5432*60",
		"10.0.0.2:5432=b.example:5432",
		"[fd00::1]:5432=a.example:5432*60",
		"10.0.0.3:5433=c.example:5433*7+",
	}
}

func TestFollowsService(t *testing.T) {
	for name, additional := range map[string][]uint16{"additional section": {dns.TypeA, dns.TypeAAAA}, "half of it": {dns.TypeA}, "asked for": nil} {
		t.Run(name, func(t *testing.T) {
			s := serviceServer(t)
			s.SetAdditional(additional...)
			d, r := start(t, Options{})
			c := config(fast(s.Addr()), serviceAt(pg))
			wantServers(t, adopt(t, d, c), threeTargets()...)
			if asked := s.Questions("a.example", dns.TypeA); asked > 0 == (additional != nil) {
				t.Errorf("asked %d times for a target", asked)
			}

			// The next priority moves up when the first goes.
			s.SetSRV(pg, time.Second, dnstest.SRV{Priority: 30, Weight: 1, Port: 1, Target: "b.example"}, dnstest.SRV{Priority: 20, Weight: 7, Port: 5433, Target: "c.example"})
			become(t, d, c, "10.0.0.3:5433=c.example:5433*7", "10.0.0.2:1=b.example:1+")
			await(t, "it is told", func() bool { return r.calls("db") > 0 })

			// A change of a weight alone is one too.
			s.SetSRV(pg, time.Second, dnstest.SRV{Priority: 20, Weight: 9, Port: 5433, Target: "c.example"})
			become(t, d, c, "10.0.0.3:5433=c.example:5433*9")
			if lines := r.lines(`altered="[c.example:5433 (10.0.0.3:5433)]"`); len(lines) == 0 {
				t.Errorf("logged %q", r.lines(""))
			}
		})
	}
}

func TestServiceKeepsSettings(t *testing.T) {
	s := serviceServer(t)
	d, _ := start(t, Options{})
	block := serviceAt(pg)
	block.Name, block.MaxConns, block.Backup, block.Weight = "main", 9, true, 5
	c := config(fast(s.Addr()), block)
	list := d.Expand(t.Context(), &c.Resolver, &c.Upstreams[0])
	if len(list) != 4 {
		t.Fatalf("got %+v", list)
	}
	want := block
	want.Service, want.Address, want.Weight = false, list[0].Address, 60
	want.Host, want.Origin = "a.example", "a target of "+block.Address.Host
	if list[0] != want || list[0].Address.String() != "10.0.0.1:5432" {
		t.Errorf("got %+v, want %+v", list[0], want)
	}
}

func TestServiceIsNotThere(t *testing.T) {
	for name, set := range map[string]func(*dnstest.Server){
		"target is a dot":         func(s *dnstest.Server) { s.SetSRV(pg, time.Second, dnstest.SRV{Target: ".", Port: 1}) },
		"NXDOMAIN":                func(s *dnstest.Server) { s.Remove(pg) },
		"no records":              func(s *dnstest.Server) { s.SetSRV(pg, time.Second) },
		"targets without address": func(s *dnstest.Server) { s.Remove("a.example"); s.SetA("b.example", 0); s.Remove("c.example") },
	} {
		t.Run(name, func(t *testing.T) {
			s := serviceServer(t)
			d, _ := start(t, Options{})
			c := config(fast(s.Addr()), serviceAt(pg))
			adopt(t, d, c)
			set(s)
			become(t, d, c)
			if got := sourceOf(t, d); !got.StaleSince.IsZero() {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestServiceFails(t *testing.T) {
	s := serviceServer(t)
	s.SetAdditional()
	d, r := start(t, Options{})
	c := config(fast(s.Addr()), serviceAt(pg))
	adopt(t, d, c)
	failAndRecover(t, d, c, r, func() { s.SetFailure(dns.RcodeServerFailure) }, func() { s.SetFailure(dns.RcodeSuccess) })
	failAndRecover(t, d, c, r, func() { s.SetFailureOf(dns.TypeSRV, dns.RcodeRefused) }, func() { s.SetFailureOf(dns.TypeSRV, dns.RcodeSuccess) })

	// One target's address can't be asked for: its last ones stay, and the
	// others move.
	failAndRecover(t, d, c, r, func() { s.SetCNAME("a.example", 0, "a.example") }, func() { s.SetA("a.example", time.Second, "10.0.0.1", "fd00::1") })
	s.SetCNAME("a.example", 0, "a.example")
	s.SetA("b.example", time.Second, "10.0.0.9")
	become(t, d, c, "10.0.0.1:5432=a.example:5432*60", "10.0.0.9:5432=b.example:5432", "[fd00::1]:5432=a.example:5432*60", "10.0.0.3:5433=c.example:5433*7+")

	s.SetA("a.example", time.Second, "10.0.0.1", "fd00::1")
	await(t, "the source is fresh", func() bool { return sourceOf(t, d).StaleSince.IsZero() })

	// All targets are new, and none can be asked for: nobody has said that there
	// is no server.
	s.SetCNAME("new.example", 0, "new.example")
	failAndRecover(t, d, c, r, func() {
		s.SetSRV(pg, time.Second, dnstest.SRV{Port: 1, Target: "new.example"})
	}, func() {
		s.SetSRV(pg, time.Second,
			dnstest.SRV{Priority: 1, Weight: 60, Port: 5432, Target: "a.example"},
			dnstest.SRV{Priority: 1, Weight: 1, Port: 5432, Target: "b.example"},
			dnstest.SRV{Priority: 2, Weight: 7, Port: 5433, Target: "c.example"})
	})
}

func TestManyTargets(t *testing.T) {
	s := dnstest.Start(t)
	s.SetUDPBytes(512)
	var targets []dnstest.SRV
	for i := range 40 {
		name := fmt.Sprintf("host-%d.example", i)
		s.SetA(name, time.Second, fmt.Sprintf("10.0.1.%d", i), fmt.Sprintf("10.0.2.%d", i))
		targets = append(targets, dnstest.SRV{Priority: uint16(i / 30), Weight: 1, Port: 5432, Target: name})
	}
	s.SetSRV(pg, time.Second, append(targets, targets[0])...) // one is listed twice
	s.SetAdditional()
	d, _ := start(t, Options{})
	got := adopt(t, d, config(fast(s.Addr()), serviceAt(pg)))
	if len(got) != 80 || s.QuestionsOverTCP() == 0 {
		t.Errorf("%d servers, %d questions over TCP", len(got), s.QuestionsOverTCP())
	}
	backups := 0
	for _, text := range got {
		if strings.HasSuffix(text, "+") {
			backups++
		}
	}
	if backups != 20 || strings.HasSuffix(got[59], "+") {
		t.Errorf("%d of 80 are backups, want the last 20: %q", backups, got)
	}
}

// A service found in one domain of the search list is not replaced by that of
// another while the first can't be asked for.
func TestServiceInSearchList(t *testing.T) {
	s := dnstest.Start(t)
	_, port, _ := net.SplitHostPort(s.Addr())
	path := filepath.Join(t.TempDir(), "resolv.conf")
	write(t, path, "nameserver 127.0.0.1\nsearch one.example two.example\noptions ndots:5\n")
	s.SetA("a.example", time.Second, "10.0.0.1")
	s.SetA("b.example", time.Second, "10.0.0.2")
	s.SetSRV("_pg._tcp.one.example", time.Second, dnstest.SRV{Port: 1, Target: "a.example"})
	s.SetSRV("_pg._tcp.two.example", time.Second, dnstest.SRV{Port: 2, Target: "b.example"})
	d, r := start(t, Options{ResolvConf: path, port: port})
	c := config(fast(), serviceAt("_pg._tcp"))
	wantServers(t, adopt(t, d, c), "10.0.0.1:1=a.example:1")
	failAndRecover(t, d, c, r,
		func() { s.SetCNAME("_pg._tcp.one.example", 0, "_pg._tcp.one.example") },
		func() {
			s.SetSRV("_pg._tcp.one.example", time.Second, dnstest.SRV{Port: 1, Target: "a.example"})
		})
	s.Remove("_pg._tcp.one.example")
	become(t, d, c, "10.0.0.2:2=b.example:2")
}

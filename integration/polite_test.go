package integration_test

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/weirlb/weir/integration/dnstest"
	"github.com/weirlb/weir/integration/netns"
)

// Two thousand checks of MariaDB and of PostgreSQL leave no complaint in their
// logs and do not get weir's host blocked (error 1129). MariaDB counts only
// errors of other hosts, so weir lives in a namespace of its own. What clients
// do that are not polite shows that the servers would have complained.
func TestChecksArePolite(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	const checks = 2000
	near, far := netns.New(t), netns.New(t)
	_, farEnd := netns.Join(t, near, far)
	serveNoNames(t, far)
	pg := newPostgres(t, "pg")
	pg.inside, pg.host = far, farEnd.Addr
	pg.create()
	pg.start()
	pg.sql("create role weir login")
	maria := newMariaDB(t, "maria", "--max-connect-errors=10", "--log-warnings=4")
	maria.host = farEnd.Addr
	maria.create()
	far.Do(t, func() { maria.start() })
	maria.prepare()
	pgLog, mariaLog := complaintsFromNow(pg.program), complaintsFromNow(maria.program)
	aborts := func() string { return maria.status("aborted_connects") + " and " + maria.status("aborted_clients") }
	before := aborts()

	config := "admin {\n  listen = \"unix:$dir/admin.sock\"\n}\n"
	for i, u := range []struct{ name, addr, check string }{
		{"pg", pg.addr(), "postgres"},
		{"maria", maria.addr(), "mysql"},
	} {
		servers := ""
		for n := range 20 { // all the same, for more checks in a second
			servers += fmt.Sprintf("  server %q { name = \"s%d\" }\n", u.addr, n)
		}
		config += fmt.Sprintf(`
			upstream %q {
			  %s
			  health_check %q {
			    user     = "weir"
			    interval = "100ms"
			    timeout  = "10s"
			  }
			}
			listener %q {
			  listen   = ["127.0.0.1:%d"]
			  upstream = %q
			}`, u.name, servers, u.check, u.name, 7001+i, u.name)
	}
	p := startAt(t, where{namespace: near}, config, nil)
	l := &timeline{t: t, p: p}
	l.event("weir has started")
	passed := func(upstream string) (n uint64) {
		for _, peer := range p.peers(upstream) {
			n += peer.Checks[0].Passed
		}
		return n
	}
	eventually(t, 60*time.Second, fmt.Sprintf("%d checks of each server", checks), func() bool {
		time.Sleep(200 * time.Millisecond) // asking is work too
		return passed("pg") >= checks && passed("maria") >= checks
	})
	l.at(time.Now(), "", "%d checks of PostgreSQL and %d of MariaDB have passed, over %s and %s connections", passed("pg"), passed("maria"),
		pg.sql("select sessions from pg_stat_database where datname = 'postgres'"), maria.status("connections"))
	for _, upstream := range []string{"pg", "maria"} {
		for _, peer := range p.peers(upstream) {
			if peer.Axes[axisActive].Value != isHealthy || peer.Checks[0].Failed > 0 {
				t.Errorf("%s/%s is %s, and %d checks have failed", upstream, peer.Name, peer.Axes[axisActive].Value, peer.Checks[0].Failed)
			}
		}
	}
	for name, complaints := range map[string]func() []string{"PostgreSQL": pgLog, "MariaDB": mariaLog} {
		if got := complaints(); len(got) > 0 {
			t.Errorf("%s complains in %d lines, the first: %s", name, len(got), got[0])
		}
	}
	if after := aborts(); after != before {
		t.Errorf("MariaDB has counted %s aborted connects and clients, before the checks %s", after, before)
	}

	welcome := func() error {
		var err error
		near.Do(t, func() {
			db := openMySQL("app", "tcp", maria.addr())
			defer db.Close()
			err = db.Ping()
		})
		return err
	}
	p.stop() // its successful connects would have MariaDB forget the errors
	l.at(time.Now(), "", "weir has stopped, and cut off %d checks of PostgreSQL and %d of MariaDB", len(pgLog()), len(mariaLog()))
	if err := welcome(); err != nil {
		t.Errorf("MariaDB says to weir's host: %v", err)
	}
	near.Do(t, func() {
		for range 11 {
			rude(t, pg.addr())
			rude(t, maria.addr())
		}
	})
	eventually(t, 5*time.Second, "the servers complain of clients that are not polite", func() bool {
		n, _ := strconv.Atoi(maria.status("aborted_connects"))
		return len(pgLog()) >= 11 && n >= 11
	})
	if err := welcome(); err == nil || !strings.Contains(err.Error(), "1129") {
		t.Errorf("MariaDB says to the host of clients that are not polite: %v, want error 1129", err)
	}
}

// rude is a client that goes in the middle of the handshake.
func rude(t *testing.T, addr string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c.Write([]byte{0})
	c.Close()
}

// complaintsFromNow returns how to get the lines of a server's log that complain
// of clients, without those that are there already.
func complaintsFromNow(p *program) func() []string {
	before := strings.Count(p.log.String(), "\n")
	return func() []string {
		return filter(strings.Split(p.log.String(), "\n")[before:], func(line string) bool {
			for _, words := range []string{"incomplete startup packet", "could not receive", "unexpected EOF", "invalid length", "FATAL", "Aborted connection", "blocked"} {
				if strings.Contains(line, words) {
					return true
				}
			}
			return false
		})
	}
}

// serveNoNames has the machine's name servers, as they are seen in a namespace,
// say that they know no name. Without an answer MariaDB does not count a host's
// errors.
func serveNoNames(t *testing.T, n *netns.Namespace) {
	t.Helper()
	config, err := dns.ClientConfigFromFile("/etc/resolv.conf")
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range config.Servers {
		if ip, err := netip.ParseAddr(server); err != nil || !ip.IsLoopback() {
			n.IP(t, "address", "add", server, "dev", "lo")
		}
		n.Do(t, func() { dnstest.StartOn(t, net.JoinHostPort(server, config.Port)) })
	}
}

package integration_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// startPostgres runs a fresh server on a loopback port and on a unix socket,
// and returns both addresses.
func startPostgres(t *testing.T) (tcp, unix string) {
	t.Helper()
	n := newPostgres(t, "postgres")
	n.create()
	n.start()
	return n.addr(), fmt.Sprintf("unix:%s/.s.PGSQL.%s", n.dir, n.port)
}

func TestPostgres(t *testing.T) {
	psql, pgbench := need(t, "psql", "postgresql-client"), need(t, "pgbench", "postgresql-contrib")
	tcp, unix := startPostgres(t)
	p := start(t, `
		upstream "tcp" {
		  server "$tcp" {}
		}
		upstream "unix" {
		  server "$unix" {}
		}
		listener "tcp" {
		  listen   = ["$listen"]
		  upstream = "tcp"
		}
		listener "unix" {
		  listen   = ["unix:$dir/.s.PGSQL.5432"]
		  upstream = "unix"
		}`, vars{"tcp": tcp, "unix": unix})

	_, port, _ := net.SplitHostPort(p.addr)
	overTCP := []string{"-h", "127.0.0.1", "-p", port, "-U", "postgres"}
	overUnix := []string{"-h", p.dir, "-p", "5432", "-U", "postgres"}
	bench := func(args ...string) {
		t.Helper()
		out := run(t, load+30*time.Second, pgbench, append(args, "postgres")...)
		if strings.Contains(out, "number of transactions") && !strings.Contains(out, "number of failed transactions: 0 ") {
			t.Errorf("pgbench %v:\n%s", args, out)
		}
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, "tps") {
				t.Logf("pgbench %v: %s", args, strings.TrimSpace(line))
			}
		}
	}
	T := seconds(load)
	bench(append(overTCP, "-i", "-q")...)
	for _, over := range [][]string{overTCP, overUnix} {
		bench(append(over, "-S", "-c", "16", "-T", T)...)
		bench(append(over, "-S", "-c", "16", "-C", "-T", T)...)
		out := run(t, 10*time.Second, psql, append(over, "-At", "-c", "select count(*) from pgbench_accounts", "postgres")...)
		if strings.TrimSpace(out) != "100000" {
			t.Errorf("psql says %q, want 100000 accounts", out)
		}
	}

	p.wantNoSessions(10 * time.Second)
	p.stop()
	want := map[string]string{"tcp": tcp, "unix": unix}
	seen := map[string]int{}
	for _, e := range p.entries() {
		seen[e.Listener]++
		// A server process that ends may see its client gone first or last.
		closed := e.CloseReason == "client_closed" || e.CloseReason == "peer_closed"
		if e.UpstreamAddr != want[e.Listener] || e.Upstream != e.Listener || e.Status != 200 || e.Tries != 1 || !closed {
			t.Fatalf("unexpected line in the access log: %+v", e)
		}
	}
	for name := range want {
		if seen[name] < 16+16+1 {
			t.Errorf("%d lines in the access log for listener %s, want one for each session", seen[name], name)
		}
	}
}

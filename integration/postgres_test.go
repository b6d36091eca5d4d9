package integration_test

import (
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// startPostgres runs a fresh server on a loopback port and on a unix socket,
// and returns both addresses.
func startPostgres(t *testing.T) (tcp, unix string) {
	t.Helper()
	initdb, postgres, psql := need(t, "initdb", "postgresql"), need(t, "postgres", "postgresql"), need(t, "psql", "postgresql-client")
	dir := tempDir(t)
	create := exec.Command(initdb, "-D", dir+"/data", "-U", "postgres", "--auth=trust", "--no-sync")
	create.Dir, create.SysProcAttr = dir, asUser(t, dir)
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	port := strconv.Itoa(freePorts(t, 1))
	server := exec.Command(postgres, "-D", dir+"/data", "-p", port, "-k", dir,
		"-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "max_connections=100")
	server.Dir, server.SysProcAttr = dir, asUser(t, dir)
	startProgram(t, server)
	eventually(t, 20*time.Second, "postgres answers", func() bool {
		_, err := tryRun(5*time.Second, psql, "-h", dir, "-p", port, "-U", "postgres", "-c", "select 1")
		return err == nil
	})
	return "127.0.0.1:" + port, fmt.Sprintf("unix:%s/.s.PGSQL.%s", dir, port)
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

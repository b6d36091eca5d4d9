package integration_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Three servers behind one listener for writers and one for readers.
const postgresRoles = `
	worker { count = 2 }
	admin {
	  listen = "unix:$dir/admin.sock"
	}
	upstream "writers" {
	  server "$a" { name = "a" }
	  server "$b" { name = "b" }
	  health_check "postgres" {
	    role     = "primary"
	    user     = "weir"
	    interval = "500ms"
	    timeout  = "500ms"
	    rise     = 1
	    fall     = 2
	  }
	  exactly_one = true
	  on_state {
	    unhealthy = "close"
	    standby   = "close"
	    pace      = "200/s"
	  }
	}
	upstream "readers" {
	  server "$a" { name = "a" }
	  server "$b" { name = "b" }
	  server "$c" { name = "c" }
	  health_check "postgres" {
	    role     = "replica"
	    max_lag  = "1s"
	    user     = "weir"
	    interval = "500ms"
	    timeout  = "500ms"
	    rise     = 1
	    fall     = 2
	  }
	  on_state {
	    lagging = "keep"
	  }
	}
	listener "writers" {
	  listen   = ["$listen"]
	  upstream = "writers"
	}
	listener "readers" {
	  listen   = ["$readers"]
	  upstream = "readers"
	}`

// checkInterval and maxLag are what the configuration above has.
const (
	checkInterval = 500 * time.Millisecond
	maxLag        = time.Second
)

// oneWrite adds a row that says which server has written it. It insists on
// writing: a server that was only told to be read-only by default takes it, so
// that weir alone keeps writes away from it.
const oneWrite = "begin read write; insert into writes default values returning server; commit"

// preparePostgres makes what the tests' clients and checks need, on a primary.
func preparePostgres(primary *postgresNode) {
	primary.sql("create role weir login")
	primary.sql("create table writes (server text default current_setting('cluster_name'), at timestamptz default clock_timestamp())")
}

func TestPostgresRoles(t *testing.T) {
	need(t, "pgbench", "postgresql-contrib")
	a, b, c := newPostgres(t, "a"), newPostgres(t, "b"), newPostgres(t, "c")
	a.create()
	a.start()
	preparePostgres(a)
	for _, standby := range []*postgresNode{b, c} {
		standby.copyOf(a)
		standby.start()
	}
	readers := freeAddr(t)
	p := start(t, postgresRoles, vars{"a": a.addr(), "b": b.addr(), "c": c.addr(), "readers": readers})
	l := &timeline{t: t, p: p}
	l.event("weir has started")
	p.waitAxis(10*time.Second, "writers/a", axisRole, isPrimary)
	p.waitAxis(10*time.Second, "writers/b", axisRole, isStandby)
	for _, name := range []string{"b", "c"} {
		p.waitAxis(10*time.Second, "readers/"+name, axisRole, isReplica)
	}
	l.axes("writers")
	l.axes("readers")

	writers := gather(t, manner{clients: 10, pause: 20 * time.Millisecond}, asPostgres(p.addr, oneWrite))
	t.Run("lag", func(t *testing.T) { replicaLags(t, p, readers, b) })
	t.Run("switchover", func(t *testing.T) { switchOver(t, p, writers, a, b) })
}

// A replica that falls behind gets no new readers, and keeps the one that reads.
func replicaLags(t *testing.T, p *proxy, listener string, slow *postgresNode) {
	l := &timeline{t: t, p: p}
	ctx, cancel := context.WithTimeout(context.Background(), scaled(60*time.Second))
	defer cancel()
	// A session on the replica that will lag.
	var running caller
	for running == nil {
		s, err := asPostgres(listener, whoAnswers)(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		name, err := s.call(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if name == slow.name {
			running = s
		}
	}
	conn := running.(postgresSession).conn
	readers := gather(t, manner{clients: 4, pause: 20 * time.Millisecond, once: true}, asPostgres(listener, whoAnswers))
	readers.waitDone(5*time.Second, 5, slow.name, time.Time{})

	var selecting sync.WaitGroup
	var ended time.Time
	var err error
	selecting.Go(func() {
		_, err = simpleQuery(ctx, conn, "select pg_sleep(4)")
		ended = time.Now()
	})
	defer selecting.Wait()
	paused := l.event("replay on %s is paused, while writes go on", slow.name)
	slow.sql("select pg_wal_replay_pause()")
	verdict := p.waitAxis(10*time.Second, "readers/"+slow.name, axisRole, isLagging)
	l.promised(slow.name+" lags, max_lag and an interval", verdict.Since, paused, maxLag+checkInterval*11/10, time.Second)
	l.axes("readers")
	readers.waitDone(5*time.Second, 20, "c", verdict.Since)
	if late := filter(readers.done(), func(d deed) bool { return d.server == slow.name && d.began.After(verdict.Since) }); len(late) > 0 {
		t.Errorf("%d readers were sent to %s after the verdict, the first began %v after it", len(late), slow.name, late[0].began.Sub(verdict.Since))
	}
	selecting.Wait()
	if err != nil {
		t.Errorf("the running select: %v", err)
	}
	l.at(ended, "left alone", "the select that ran on %s has ended in its own time: %v", slow.name, err == nil)
	if now := p.axed("readers/" + slow.name).Axes[axisRole]; now.Value != isLagging || !ended.After(verdict.Since) {
		t.Errorf("the select ended at %v, and the role is %v: it should have ended while its server lagged", ended, now)
	}

	resumed := l.event("replay on %s goes on", slow.name)
	slow.sql("select pg_wal_replay_resume()")
	verdict = p.waitAxis(10*time.Second, "readers/"+slow.name, axisRole, isReplica)
	l.promised(slow.name+" is a replica again", verdict.Since, resumed, checkInterval*11/10, time.Second)
	first := readers.waitDone(5*time.Second, 1, slow.name, verdict.Since)
	l.at(first.done, "", "%s has its first new reader", slow.name)
	readers.disperse()
	if m := readers.suffered(); len(m) > 0 {
		t.Errorf("%d readers were let down, the first: %v", len(m), m[0])
	}
}

// switchOver promotes b over a. There is a time in which both claim to be the
// primary, one in which a still takes writes that insist, and one in which it is
// down; then a comes back as b's standby.
func switchOver(t *testing.T, p *proxy, writers *clientele, a, b *postgresNode) {
	l := &timeline{t: t, p: p}
	bench := startPgbench(t, p, time.Minute) // until its clients are cut off
	eventually(t, 10*time.Second, "pgbench's 50 clients are connected", func() bool { return p.axed("writers/a").Conns >= 60 })
	l.event("50 pgbench clients and 10 others write")
	l.axes("writers")

	promoted := l.event("b is promoted, and a not demoted: both claim")
	b.sql("select pg_promote()")
	conflict := p.waitAxis(10*time.Second, "writers/b", axisRole, isConflict)
	l.promised("b is in conflict", conflict.Since, promoted, checkInterval*11/10, 2*time.Second)
	writers.waitDone(10*time.Second, 500, "a", conflict.Since)
	l.axes("writers")
	if n := servers(writers.done())["b"]; n > 0 || b.sql("select count(*) from writes where server = 'b'") != "0" {
		t.Errorf("%d writes reached b, which only claims to be the primary", n)
	}

	demoted := l.event("a is demoted: read-only by default")
	a.sql("alter system set default_transaction_read_only = on")
	a.sql("select pg_reload_conf()")
	verdict := p.waitAxis(10*time.Second, "writers/a", axisRole, isStandby)
	l.promised("the verdict on a", verdict.Since, demoted, checkInterval*11/10, time.Second)
	heir := p.waitAxis(10*time.Second, "writers/b", axisRole, isPrimary)
	l.promised("the verdict on b", heir.Since, demoted, checkInterval*11/10, time.Second)
	eventually(t, 10*time.Second, "a has no session", func() bool { return p.axed("writers/a").Conns == 0 })
	first := writers.waitDone(10*time.Second, 1, "b", demoted)
	l.promised("the first write on b", first.done, heir.Since, checkInterval, time.Second)
	l.axes("writers")
	var closed []ending
	eventually(t, 5*time.Second, "60 sessions were closed for the verdict", func() bool {
		closed = endedWith(p.endings(), endStandby)
		return len(closed) >= 60
	})
	l.at(closed[0].Time, "", "the first of %d sessions of a was closed", len(closed))
	l.promised("the last session of a was closed", closed[len(closed)-1].Time, verdict.Since, checkInterval, time.Second)
	for _, e := range closed {
		if e.Peer != a.addr() {
			t.Errorf("a session of %s was closed with %s", e.Peer, endStandby)
		}
	}
	writers.waitDone(10*time.Second, 100, "b", first.done)
	for _, d := range writers.done() {
		if d.server == "a" && d.began.After(verdict.Since) {
			t.Errorf("a session that began %v after the verdict wrote to a", d.began.Sub(verdict.Since))
		}
	}
	bound := verdict.Since.Add(checkInterval + scaled(time.Second)).Format(time.RFC3339Nano)
	if n := a.sql("select count(*) from writes where server = 'a' and at > '" + bound + "'"); n != "0" {
		t.Errorf("%s writes reached a after its sessions' end", n)
	}
	l.at(time.Now(), "none by a new session", "a took %s more writes after the verdict, the last %s s after it",
		a.sql("select count(*) from writes where server = 'a' and at > '"+verdict.Since.Format(time.RFC3339Nano)+"'"),
		a.sql("select coalesce(extract(epoch from max(at) - '"+verdict.Since.Format(time.RFC3339Nano)+"')::numeric(9, 3)::text, '-') from writes where server = 'a'"))
	eventually(t, 10*time.Second, "pgbench has given up", bench.ended)
	if n := strings.Count(bench.log.String(), " aborted in command "); n != 50 {
		t.Errorf("%d of pgbench's clients were cut off, want 50:\n%s", n, bench.log)
	}

	before := len(writers.suffered())
	sessions := p.axed("writers/a").Sessions
	l.event("a goes down, is rewound and comes back as the standby of b")
	a.stop()
	p.waitAxis(10*time.Second, "writers/a", axisActive, isUnhealthy)
	l.axes("writers")
	a.rewind(b)
	a.start()
	back := p.waitAxis(10*time.Second, "writers/a", axisActive, isHealthy)
	role := p.waitAxis(10*time.Second, "writers/a", axisRole, isStandby)
	l.at(back.Since, "", "a is healthy again, and a standby since %v", role.Since.Format("15:04:05.000"))
	l.axes("writers")
	p.waitAxis(10*time.Second, "readers/a", axisRole, isReplica)
	l.axes("readers")
	bench = startPgbench(t, p, load)
	eventually(t, load+20*time.Second, "pgbench has ended", bench.ended)
	if text := bench.log.String(); !strings.Contains(text, "number of failed transactions: 0 ") {
		t.Errorf("pgbench could not write all through weir:\n%s", text)
	}
	if n := p.axed("writers/a").Sessions; n != sessions {
		t.Errorf("a standby was given %d sessions of writers", n-sessions)
	}
	writers.disperse()
	for _, m := range writers.suffered()[before:] {
		t.Errorf("a writer was let down while only the standby changed: %+v", m)
	}
	readOnly := filter(writers.suffered(), func(m mishap) bool { return isReadOnly(m.err) })
	for _, m := range readOnly {
		if m.at.After(verdict.Since.Add(checkInterval + scaled(time.Second))) {
			t.Errorf("a server refused a write %v after the verdict: %v", m.at.Sub(verdict.Since), m.err)
		}
	}
	l.at(time.Now(), "0 beyond the sessions' end", "%d writes were refused as read-only; %d mishaps in all", len(readOnly), before)
	wantWords(t, p.mustWeir("peers", "--history", "writers/a"), isPrimary, isStandby, isUnhealthy)
	t.Logf("history of writers/a:\n%s", p.mustWeir("peers", "--history", "writers/a"))
	t.Logf("history of writers/b:\n%s", p.mustWeir("peers", "--history", "writers/b"))
}

// startPgbench has 50 clients write through weir, 200 times in a second.
func startPgbench(t *testing.T, p *proxy, d time.Duration) *program {
	t.Helper()
	script := filepath.Join(tempDir(t), "write.sql")
	if err := os.WriteFile(script, []byte(strings.ReplaceAll(oneWrite, "; ", ";\n")+";\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(p.addr)
	return startProgram(t, exec.Command(need(t, "pgbench", "postgresql-contrib"), "-n", "-h", host, "-p", port, "-U", "postgres",
		"-c", "50", "-j", "2", "-R", "200", "-T", seconds(d), "-f", script, "postgres"))
}

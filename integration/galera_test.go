package integration_test

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// Two nodes of a Galera cluster, and one writer at a time. A node that is no
// longer in step with the group gets no session, though it answers; a node that
// leaves hands over to the other.
func TestGaleraFollowsTheGroup(t *testing.T) {
	t.Parallel()
	const interval = 250 * time.Millisecond
	a, b := startGalera(t)
	a.prepare()
	p := start(t, `
		worker { count = 2 }
		admin {
		  listen = "unix:$dir/admin.sock"
		}
		upstream "db" {
		  balance "single" {}
		  server "$a" { name = "a" }
		  server "$b" { name = "b" }
		  health_check "mysql" {
		    galera   = true
		    user     = "weir"
		    interval = "250ms"
		    timeout  = "250ms"
		    rise     = 1
		    fall     = 1
		  }
		  on_state {
		    unhealthy = "close"
		  }
		}
		listener "db" {
		  listen   = ["$listen"]
		  upstream = "db"
		}`, vars{"a": a.addr(), "b": b.addr()})
	l := &timeline{t: t, p: p}
	l.event("weir has started, both nodes are in step")
	p.waitAxis(10*time.Second, "db/a", axisActive, isHealthy)
	p.waitAxis(10*time.Second, "db/b", axisActive, isHealthy)
	l.axes("db")
	clients := gather(t, manner{clients: 5, pause: 20 * time.Millisecond}, asMySQL(p.addr))
	clients.waitDone(10*time.Second, 50, "a", time.Time{})
	if n := servers(clients.done()); n["b"] > 0 {
		t.Errorf("%d writes went to b, want one writer", n["b"])
	}

	desynced := l.event("a leaves the step: wsrep_desync")
	a.exec("set global wsrep_desync = on")
	verdict := p.waitAxis(10*time.Second, "db/a", axisActive, isUnhealthy)
	l.promised("a is unhealthy: "+verdict.Cause, verdict.Since, desynced, interval*11/10, time.Second)
	first := clients.waitDone(10*time.Second, 1, "b", desynced)
	l.promised("the first write on b", first.done, verdict.Since, 0, time.Second)
	l.axes("db")

	synced := l.event("a is in step again")
	a.exec("set global wsrep_desync = off")
	verdict = p.waitAxis(10*time.Second, "db/a", axisActive, isHealthy)
	l.promised("a is healthy", verdict.Since, synced, interval*11/10, time.Second)
	clients.waitDone(10*time.Second, 100, "b", verdict.Since)
	if late := filter(clients.done(), func(d deed) bool { return d.server == "a" && d.began.After(verdict.Since) }); len(late) > 0 {
		t.Errorf("%d writes went back to a, though single has no failback", len(late))
	}
	l.axes("db")

	left := l.event("b leaves the group")
	b.stop()
	first = clients.waitDone(20*time.Second, 1, "a", left)
	l.at(first.done, "", "the first write on a")
	p.waitAxis(10*time.Second, "db/b", axisActive, isUnhealthy)
	l.axes("db")
	rows := a.value("select count(*) from app.writes")
	l.at(time.Now(), "", "a has %s rows, those of b too", rows)
	if n := a.value("select count(*) from app.writes where server = 'b'"); n == "0" {
		t.Error("a has no row of b: the nodes were no group")
	}
}

// startGalera runs two nodes of a group. The second begins with the data that the
// first had when it was stopped, so that it needs no more than what came since
// (IST). The program that would copy a whole database (SST) is started all the
// same.
func startGalera(t *testing.T) (a, b *mariaNode) {
	t.Helper()
	const provider = "/usr/lib/galera/libgalera_smm.so"
	if _, err := os.Stat(provider); err != nil {
		missing(t, "Galera (Debian package galera-4): "+err.Error())
	}
	need(t, "wsrep_sst_rsync", "mariadb-server")
	var first string
	node := func(name string) *mariaNode {
		port := freePorts(t, 2)
		group := fmt.Sprintf("127.0.0.1:%d", port)
		if first == "" {
			first = group
		}
		return newMariaDB(t, name, "--wsrep-on=ON", "--wsrep-provider="+provider, "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2",
			"--wsrep-node-name="+name, "--wsrep-node-address="+group, "--wsrep-cluster-address=gcomm://"+first,
			fmt.Sprintf("--wsrep-provider-options=base_port=%d;gmcast.listen_addr=tcp://%s;ist.recv_addr=127.0.0.1:%d;gcache.size=8M", port, group, port+1))
	}
	a, b = node("a"), node("b")
	a.create()
	a.start("--wsrep-new-cluster")
	a.stop()
	b.copyOf(a)
	a.start("--wsrep-new-cluster")
	b.start()
	for _, n := range []*mariaNode{a, b} {
		eventually(t, 20*time.Second, n.name+" is in step", func() bool { return n.status("wsrep_local_state_comment") == "Synced" })
	}
	return a, b
}

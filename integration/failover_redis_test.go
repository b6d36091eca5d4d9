package integration_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// redisNode is a Redis server that can be stopped and started again, always
// with no data.
type redisNode struct {
	t       *testing.T
	name    string
	port    string
	program *program
}

func newRedis(t *testing.T, name string) *redisNode {
	t.Helper()
	_, port, _ := net.SplitHostPort(freeAddr(t))
	n := &redisNode{t: t, name: name, port: port}
	n.start()
	return n
}

func (n *redisNode) addr() string { return "127.0.0.1:" + n.port }

func (n *redisNode) start() {
	n.t.Helper()
	cmd := exec.Command(need(n.t, "redis-server", "redis-server"), "--port", n.port, "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0")
	cmd.Dir = tempDir(n.t)
	n.program = startProgram(n.t, cmd)
	waitListening(n.t, n.port)
}

func (n *redisNode) cli(args ...string) string {
	n.t.Helper()
	return run(n.t, 5*time.Second, need(n.t, "redis-cli", "redis-tools"), append([]string{"-p", n.port}, args...)...)
}

// writes returns how many commands of the tests' clients it has executed.
func (n *redisNode) writes() string {
	for line := range strings.Lines(n.cli("info", "commandstats")) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_incr:calls="); ok {
			calls, _, _ := strings.Cut(rest, ",")
			return calls
		}
	}
	return "0"
}

// redisSession is a client's: it writes, and asks for the server's port.
type redisSession struct {
	conn  net.Conn
	lines *bufio.Reader
	names map[string]string // of ports
}

func asRedis(addr string, nodes ...*redisNode) func(context.Context) (caller, error) {
	names := map[string]string{}
	for _, n := range nodes {
		names[n.port] = n.name
	}
	return func(ctx context.Context) (caller, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		return redisSession{c, bufio.NewReader(c), names}, nil
	}
}

func (s redisSession) call(ctx context.Context) (string, error) {
	deadline, _ := ctx.Deadline()
	s.conn.SetDeadline(deadline)
	if _, err := io.WriteString(s.conn, "INCR writes\r\nCONFIG GET port\r\n"); err != nil {
		return "", err
	}
	// :COUNT, then an array of two strings, each after a line with its length.
	var lines [6]string
	for i := range lines {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			return "", err
		}
		if line[0] == '-' {
			return "", errors.New("redis: " + strings.TrimSpace(line[1:]))
		}
		lines[i] = strings.TrimSpace(line)
	}
	name, ok := s.names[lines[5]]
	if !ok {
		return "", fmt.Errorf("redis: unexpected answer %q", lines)
	}
	return name, nil
}

func (s redisSession) close() { s.conn.Close() }

// Two servers claim to be the master. Traffic stays on the one that had it, the
// newcomer shows a conflict and gets no write; when the incumbent dies the other
// takes over, and its return changes nothing again.
func TestRedisWithTwoMasters(t *testing.T) {
	t.Parallel()
	const interval = 250 * time.Millisecond
	a, b := newRedis(t, "a"), newRedis(t, "b")
	b.cli("replicaof", "127.0.0.1", a.port)
	p := start(t, `
		worker { count = 2 }
		admin {
		  listen = "unix:$dir/admin.sock"
		}
		upstream "cache" {
		  server "$a" { name = "a" }
		  server "$b" { name = "b" }
		  health_check "redis" {
		    role     = "primary"
		    interval = "250ms"
		    timeout  = "250ms"
		    rise     = 1
		    fall     = 2
		  }
		  exactly_one = true
		  on_state {
		    unhealthy = "close"
		    standby   = "close"
		  }
		}
		listener "cache" {
		  listen   = ["$listen"]
		  upstream = "cache"
		}`, vars{"a": a.addr(), "b": b.addr()})
	l := &timeline{t: t, p: p}
	l.event("weir has started, a is the master and b its replica")
	p.waitAxis(10*time.Second, "cache/a", axisRole, isPrimary)
	p.waitAxis(10*time.Second, "cache/b", axisRole, isStandby)
	l.axes("cache")
	clients := gather(t, manner{clients: 10, pause: 10 * time.Millisecond}, asRedis(p.addr, a, b))
	visitors := gather(t, manner{clients: 2, pause: 10 * time.Millisecond, once: true}, asRedis(p.addr, a, b))
	clients.waitDone(5*time.Second, 50, "a", time.Time{})

	claimed := l.event("b claims to be the master too")
	b.cli("replicaof", "no", "one")
	replicated := b.writes()
	conflict := p.waitAxis(10*time.Second, "cache/b", axisRole, isConflict)
	l.promised("b is in conflict", conflict.Since, claimed, interval*11/10, time.Second)
	clients.waitDone(5*time.Second, 500, "a", conflict.Since)
	visitors.waitDone(5*time.Second, 50, "a", conflict.Since)
	l.axes("cache")
	l.at(time.Now(), "as many", "b has executed %s writes, %s when it was a replica", b.writes(), replicated)
	if n := b.writes(); n != replicated {
		t.Errorf("b has executed %s writes, want no more than the %s of its time as a replica", n, replicated)
	}

	if a.writes() == "0" {
		t.Error("a has executed no write, so what b has executed shows nothing")
	}
	killed := l.event("a is killed")
	a.program.stop(syscall.SIGKILL)
	heir := p.waitAxis(10*time.Second, "cache/b", axisRole, isPrimary)
	// Two checks must fail, each at once: nobody listens.
	l.promised("b is the master", heir.Since, killed, 2*interval*11/10, time.Second)
	first := clients.waitDone(5*time.Second, 1, "b", killed)
	l.promised("the first write on b", first.done, heir.Since, 0, time.Second)
	p.waitAxis(5*time.Second, "cache/a", axisActive, isUnhealthy)
	l.axes("cache")

	back := l.event("a is back, empty, and claims to be the master")
	a.start()
	conflict = p.waitAxis(10*time.Second, "cache/a", axisRole, isConflict)
	l.promised("a is in conflict", conflict.Since, back, interval*11/10, 2*time.Second)
	p.waitAxis(5*time.Second, "cache/a", axisActive, isHealthy)
	clients.waitDone(5*time.Second, 500, "b", conflict.Since)
	visitors.waitDone(5*time.Second, 50, "b", conflict.Since)
	l.axes("cache")
	l.at(time.Now(), "0", "a has executed %s writes", a.writes())
	if n := a.writes(); n != "0" {
		t.Errorf("a has executed %s writes since it is back, want none", n)
	}

	l.event("a follows b")
	a.cli("replicaof", "127.0.0.1", b.port)
	p.waitAxis(10*time.Second, "cache/a", axisRole, isStandby)
	l.axes("cache")
	t.Logf("history of cache/a:\n%s", p.mustWeir("peers", "--history", "cache/a"))
	t.Logf("history of cache/b:\n%s", p.mustWeir("peers", "--history", "cache/b"))
}

package integration_test

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// mariaNode is a MariaDB server with a data directory of its own.
type mariaNode struct {
	t       *testing.T
	name    string // its report_host, which it tells to everybody who asks
	dir     string
	host    string
	port    string
	options []string
	program *program // nil = not started yet
}

// newMariaDB prepares a server with no data yet.
func newMariaDB(t *testing.T, name string, options ...string) *mariaNode {
	t.Helper()
	_, port, _ := net.SplitHostPort(freeAddr(t))
	return &mariaNode{t: t, name: name, dir: tempDir(t), host: "127.0.0.1", port: port, options: options}
}

// create makes empty data.
func (n *mariaNode) create() {
	n.t.Helper()
	n.tool(need(n.t, "mariadb-install-db", "mariadb-server-core"), "--no-defaults", "--datadir="+n.dir+"/data", "--tmpdir="+n.dir,
		"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=8M")
}

// copyOf takes the data of a server that is stopped.
func (n *mariaNode) copyOf(other *mariaNode) {
	n.t.Helper()
	n.tool("cp", "-r", other.dir+"/data", n.dir+"/data")
}

func (n *mariaNode) tool(program string, args ...string) {
	n.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.SysProcAttr = n.dir, asUser(n.t, n.dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		n.t.Fatalf("%s: %v\n%s", program, err, out)
	}
}

func (n *mariaNode) addr() string { return net.JoinHostPort(n.host, n.port) }

// start runs the server and waits until it answers.
func (n *mariaNode) start(options ...string) {
	n.t.Helper()
	// In a directory for temporary files that is shared, servers that start
	// remove those of others.
	args := []string{"--no-defaults", "--datadir=" + n.dir + "/data", "--tmpdir=" + n.dir, "--socket=" + n.dir + "/socket", "--pid-file=" + n.dir + "/pid",
		"--bind-address=" + n.host, "--port=" + n.port, "--report-host=" + n.name,
		"--innodb-log-file-size=8M", "--innodb-buffer-pool-size=16M", "--innodb-flush-log-at-trx-commit=0"}
	args = append(append(args, n.options...), options...)
	cmd := exec.Command(need(n.t, "mariadbd", "mariadb-server-core"), args...)
	cmd.Dir, cmd.SysProcAttr = n.dir, asUser(n.t, n.dir)
	n.program = startProgram(n.t, cmd)
	n.program.last = syscall.SIGTERM // it ignores SIGINT
	eventually(n.t, 30*time.Second, "mariadbd answers", func() bool {
		if n.program.ended() {
			n.t.Fatalf("mariadbd has ended:\n%s", n.program.log)
		}
		return n.try("select 1") == nil
	})
}

// prepare makes what the tests' clients and checks need. Neither of the users
// may write where the server is read_only.
func (n *mariaNode) prepare() {
	n.t.Helper()
	for _, statement := range []string{
		"create database app",
		"create table app.writes (id int auto_increment primary key, server varchar(20), at timestamp(6) default current_timestamp(6))",
		"create user weir@'%'",
		"create user app@'%'",
		"grant select, insert on app.* to app@'%'",
	} {
		n.exec(statement)
	}
}

func (n *mariaNode) database() *sql.DB {
	return openMySQL("root", "unix", n.dir+"/socket")
}

func (n *mariaNode) exec(statement string) {
	n.t.Helper()
	if err := n.try(statement); err != nil {
		n.t.Fatalf("%s: %s: %v", n.name, statement, err)
	}
}

func (n *mariaNode) try(statement string) error {
	db := n.database()
	defer db.Close()
	_, err := db.Exec(statement)
	return err
}

func (n *mariaNode) stop() {
	n.t.Helper()
	n.program.stop(syscall.SIGTERM)
}

// value runs a query on the server itself.
func (n *mariaNode) value(query string) string {
	n.t.Helper()
	db := n.database()
	defer db.Close()
	var v string
	if err := db.QueryRow(query).Scan(&v); err != nil {
		n.t.Fatalf("%s: %s: %v", n.name, query, err)
	}
	return v
}

// status returns a status variable.
func (n *mariaNode) status(name string) string {
	n.t.Helper()
	return n.value("select variable_value from information_schema.global_status where variable_name = '" + name + "'")
}

func openMySQL(user, network, addr string) *sql.DB {
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr = user, network, addr
	c.Timeout = scaled(5 * time.Second)
	c.Logger = &mysql.NopLogger{} // the callers tell
	connector, err := mysql.NewConnector(c)
	if err != nil {
		panic(err) // such a configuration is always right
	}
	return sql.OpenDB(connector)
}

// mysqlSession is a client's, which writes.
type mysqlSession struct {
	db   *sql.DB
	conn *sql.Conn // its only one
}

func asMySQL(addr string) func(context.Context) (caller, error) {
	return func(ctx context.Context) (caller, error) {
		db := openMySQL("app", "tcp", addr)
		conn, err := db.Conn(ctx)
		if err != nil {
			db.Close()
			return nil, err
		}
		return mysqlSession{db, conn}, nil
	}
}

func (s mysqlSession) call(ctx context.Context) (server string, err error) {
	err = s.conn.QueryRowContext(ctx, "insert into app.writes (server) values (@@report_host) returning server").Scan(&server)
	return server, err
}

func (s mysqlSession) close() {
	s.conn.Close()
	s.db.Close()
}

// read_only is switched on at one server and off at the other: the role follows,
// and writes go only to the one that takes them.
func TestMariaDBReadOnly(t *testing.T) {
	t.Parallel()
	const interval = 250 * time.Millisecond
	a, b := newMariaDB(t, "a"), newMariaDB(t, "b")
	a.create()
	b.copyOf(a)
	a.start()
	b.start("--read-only=1")
	a.prepare()
	b.prepare()
	p := start(t, `
		worker { count = 2 }
		admin {
		  listen = "unix:$dir/admin.sock"
		}
		upstream "db" {
		  server "$a" { name = "a" }
		  server "$b" { name = "b" }
		  health_check "mysql" {
		    role     = "primary"
		    user     = "weir"
		    interval = "250ms"
		    timeout  = "250ms"
		    rise     = 1
		    fall     = 2
		  }
		  on_state {
		    standby = "close"
		  }
		}
		listener "db" {
		  listen   = ["$listen"]
		  upstream = "db"
		}`, vars{"a": a.addr(), "b": b.addr()})
	l := &timeline{t: t, p: p}
	l.event("weir has started, b is read_only")
	p.waitAxis(10*time.Second, "db/a", axisRole, isPrimary)
	p.waitAxis(10*time.Second, "db/b", axisRole, isStandby)
	l.axes("db")
	clients := gather(t, manner{clients: 10, pause: 10 * time.Millisecond}, asMySQL(p.addr))
	clients.waitDone(10*time.Second, 100, "a", time.Time{})

	from, to := a, b
	for range 2 { // there and back
		// Sessions that say nothing meet no refusal: weir has to end them.
		idle := gather(t, manner{clients: 5, pause: time.Hour}, asMySQL(p.addr))
		idle.waitDone(10*time.Second, 5, from.name, time.Time{})
		switched := l.event("read_only goes from %s to %s", to.name, from.name)
		from.exec("set global read_only = 1")
		to.exec("set global read_only = 0")
		old := p.waitAxis(10*time.Second, "db/"+from.name, axisRole, isStandby)
		l.promised(from.name+" is a standby", old.Since, switched, interval*11/10, time.Second)
		heir := p.waitAxis(10*time.Second, "db/"+to.name, axisRole, isPrimary)
		l.promised(to.name+" is the primary", heir.Since, switched, interval*11/10, time.Second)
		first := clients.waitDone(10*time.Second, 1, to.name, switched)
		l.promised("the first write on "+to.name, first.done, heir.Since, 0, time.Second)
		eventually(t, 10*time.Second, from.name+" has no session", func() bool { return p.axed("db/"+from.name).Conns == 0 })
		closed := filter(endedWith(p.endings(), endStandby), func(e ending) bool { return e.Peer == from.addr() })
		if len(closed) < 5 {
			t.Errorf("%d sessions of %s were closed with %s, want the 5 idle ones at least", len(closed), from.name, endStandby)
		}
		for _, e := range closed[max(0, len(closed)-1):] {
			l.promised(fmt.Sprintf("the last of %d sessions of %s was closed", len(closed), from.name), e.Time, old.Since, interval, time.Second)
		}
		clients.waitDone(10*time.Second, 200, to.name, first.done)
		l.axes("db")
		refused := 0
		for _, m := range clients.suffered() {
			if e, ok := m.err.(*mysql.MySQLError); ok && e.Number == 1290 && m.at.After(switched) { // --read-only
				refused++
				if m.at.After(old.Since.Add(interval + scaled(time.Second))) {
					t.Errorf("%s refused a write %v after the verdict", from.name, m.at.Sub(old.Since))
				}
			}
		}
		l.at(time.Now(), "", "%d writes were refused by %s, which was read_only before the check saw it", refused, from.name)
		for _, d := range clients.done() {
			if d.server == from.name && d.began.After(old.Since) {
				t.Errorf("a session that began %v after the verdict wrote to %s", d.began.Sub(old.Since), from.name)
			}
		}
		from, to = to, from
	}
	t.Logf("history of db/a:\n%s", p.mustWeir("peers", "--history", "db/a"))
}

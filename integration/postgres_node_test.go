package integration_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirlb/weir/integration/netns"
)

// postgresNode is a PostgreSQL server with a data directory of its own. It can
// be stopped, promoted, and made the standby of another.
type postgresNode struct {
	t       *testing.T
	name    string // its cluster_name, which it tells to everybody who asks
	dir     string // of its socket; the data is below
	host    string
	port    string
	inside  *netns.Namespace // nil = the machine's
	program *program         // nil = not started yet
}

// newPostgres prepares a server with empty data, or without any if it is to
// follow another.
func newPostgres(t *testing.T, name string) *postgresNode {
	t.Helper()
	return &postgresNode{t: t, name: name, dir: tempDir(t), host: "127.0.0.1", port: strconv.Itoa(freePorts(t, 1))}
}

func (n *postgresNode) addr() string { return net.JoinHostPort(n.host, n.port) }

// conninfo is how others reach it: by its socket, or from another namespace.
func (n *postgresNode) conninfo() string {
	host := n.dir
	if n.inside != nil {
		host = n.host
	}
	return fmt.Sprintf("host=%s port=%s user=postgres", host, n.port)
}

// tool runs one of PostgreSQL's programs where the server would run.
func (n *postgresNode) tool(program string, args ...string) {
	n.t.Helper()
	cmd := exec.Command(need(n.t, program, "postgresql"), args...)
	cmd.Dir, cmd.SysProcAttr = n.dir, asUser(n.t, n.dir)
	var out []byte
	var err error
	n.do(func() { out, err = cmd.CombinedOutput() })
	if err != nil {
		n.t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
}

func (n *postgresNode) do(f func()) {
	n.t.Helper()
	if n.inside == nil {
		f()
		return
	}
	n.inside.Do(n.t, f)
}

// create makes the data of a new primary.
func (n *postgresNode) create() {
	n.t.Helper()
	n.tool("initdb", "-D", n.dir+"/data", "-U", "postgres", "--auth=trust", "--no-sync", "--no-instructions")
	f, err := os.OpenFile(n.dir+"/data/pg_hba.conf", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		n.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("host all,replication all samenet trust\n"); err != nil {
		n.t.Fatal(err)
	}
}

// copyOf makes the data of a standby of a server that runs.
func (n *postgresNode) copyOf(primary *postgresNode) {
	n.t.Helper()
	n.tool("pg_basebackup", "-D", n.dir+"/data", "-d", primary.conninfo(), "--checkpoint=fast", "--write-recovery-conf", "--no-sync")
}

// rewind makes a stopped server the standby of one that was promoted over it.
func (n *postgresNode) rewind(primary *postgresNode) {
	n.t.Helper()
	primary.sql("checkpoint") // so that its control file knows the new timeline
	n.tool("pg_rewind", "--target-pgdata="+n.dir+"/data", "--source-server="+primary.conninfo()+" dbname=postgres", "--write-recovery-conf", "--no-sync")
}

// start runs the server and waits until it answers.
func (n *postgresNode) start() {
	n.t.Helper()
	cmd := exec.Command(need(n.t, "postgres", "postgresql"), "-D", n.dir+"/data", "-p", n.port, "-k", n.dir,
		"-c", "listen_addresses="+n.host, "-c", "cluster_name="+n.name, "-c", "max_connections=200",
		"-c", "fsync=off", "-c", "shared_buffers=32MB", "-c", "wal_log_hints=on", "-c", "wal_keep_size=512MB",
		"-c", "wal_retrieve_retry_interval=100ms", "-c", "log_line_prefix=%m [%p] ")
	cmd.Dir, cmd.SysProcAttr = n.dir, asUser(n.t, n.dir)
	n.do(func() { n.program = startProgram(n.t, cmd) })
	eventually(n.t, 20*time.Second, "postgres answers", func() bool {
		_, err := n.trySQL("select 1")
		return err == nil
	})
}

// stop ends the sessions and the server.
func (n *postgresNode) stop() {
	n.t.Helper()
	n.program.stop(syscall.SIGINT) // "fast shutdown"
}

// sql runs one command on the server itself and returns its first value.
func (n *postgresNode) sql(query string) string {
	n.t.Helper()
	value, err := n.trySQL(query)
	if err != nil {
		n.t.Fatalf("%s: %s: %v", n.name, query, err)
	}
	return value
}

func (n *postgresNode) trySQL(query string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), scaled(10*time.Second))
	defer cancel()
	// By the socket: it is there in every namespace.
	c, err := pgx.Connect(ctx, fmt.Sprintf("host=%s port=%s user=postgres database=postgres", n.dir, n.port))
	if err != nil {
		return "", err
	}
	defer c.Close(ctx)
	return simpleQuery(ctx, c, query)
}

// simpleQuery runs commands by the simple protocol and returns the last value.
func simpleQuery(ctx context.Context, c *pgx.Conn, query string) (string, error) {
	results, err := c.PgConn().Exec(ctx, query).ReadAll()
	if err != nil {
		return "", err
	}
	value := ""
	for _, r := range results {
		if len(r.Rows) > 0 && len(r.Rows[0]) > 0 {
			value = string(r.Rows[0][0])
		}
	}
	return value, nil
}

// postgresSession is a client's. Its query returns the name of the server.
type postgresSession struct {
	conn  *pgx.Conn
	query string
}

// whoAnswers is a query that writes nothing.
const whoAnswers = "select current_setting('cluster_name')"

// asPostgres returns how clients connect, for a clientele.
func asPostgres(addr, query string) func(context.Context) (caller, error) {
	host, port, _ := net.SplitHostPort(addr)
	return func(ctx context.Context) (caller, error) {
		c, err := pgx.Connect(ctx, fmt.Sprintf("host=%s port=%s user=postgres database=postgres sslmode=disable", host, port))
		if err != nil {
			return nil, err
		}
		return postgresSession{c, query}, nil
	}
}

func (s postgresSession) call(ctx context.Context) (string, error) {
	return simpleQuery(ctx, s.conn, s.query)
}

func (s postgresSession) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.conn.Close(ctx)
}

// isReadOnly reports whether a server has refused a write because of its role.
func isReadOnly(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "25006"
}

package refusal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirlb/weir/conf"
)

// refuser is a server that refuses all its clients until the test ends.
type refuser struct {
	host, port string
}

func (r *refuser) addr() string { return net.JoinHostPort(r.host, r.port) }

func startRefuser(t *testing.T, p conf.Profile) *refuser {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := New(p, text)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				c.SetDeadline(time.Now().Add(10 * time.Second))
				if err := refuse(c.(*net.TCPConn), w); err != nil {
					t.Errorf("refuse a client of %s: %v", p, err)
				}
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		running.Wait()
	})
	r := new(refuser)
	r.host, r.port, _ = net.SplitHostPort(ln.Addr().String())
	return r
}

// refuse is what a user of the package does.
func refuse(c *net.TCPConn, w *Words) error {
	input := make([]byte, 0, MostInput)
	for {
		used, reply, done := w.Next(input)
		if _, err := c.Write(reply); err != nil {
			return err
		}
		input = append(input[:0], input[used:]...)
		if done {
			break
		}
		if used > 0 {
			continue
		}
		n, err := c.Read(input[len(input):cap(input)])
		if err != nil {
			return gone(err) // it has not asked for anything
		}
		input = input[:len(input)+n]
	}
	if err := c.CloseWrite(); err != nil {
		return gone(err)
	}
	_, err := io.Copy(io.Discard, c)
	return gone(err)
}

// gone returns nil if the client has ended: it had its answer, or none to come.
func gone(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return err
	}
	return nil
}

// client runs a program that must be refused, and returns what it says.
func client(t *testing.T, program, debianPackage string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("missing: the program %s (Debian package %s)", program, debianPackage)
		}
		t.Skipf("missing: the program %s (Debian package %s)", program, debianPackage)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME=/nonexistent", "no_proxy=*")
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("%s has no end: %s", program, out)
	}
	t.Logf("%s says %q and %v", program, out, err)
	return string(out)
}

func wantWords(t *testing.T, said string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(said, w) {
			t.Errorf("%q is not in %q", w, said)
		}
	}
}

// psql does not show the SQLSTATE of a connection that failed, whatever its
// verbosity; pgx does. pg_isready shows that libpq has read one: without one it
// would say "no response".
func TestPsql(t *testing.T) {
	r := startRefuser(t, conf.ProfilePostgres)
	for _, mode := range []string{"disable", "allow", "prefer"} {
		conninfo := fmt.Sprintf("host=%s port=%s user=weir dbname=orders sslmode=%s", r.host, r.port, mode)
		wantWords(t, client(t, "psql", "postgresql-client", "-X", "-v", "VERBOSITY=verbose", "-c", "select 1", conninfo), "FATAL:  "+text+"\n")
	}
	wantWords(t, client(t, "pg_isready", "postgresql-client", "-h", r.host, "-p", r.port), "accepting connections")
}

func TestPgx(t *testing.T) {
	r := startRefuser(t, conf.ProfilePostgres)
	for _, mode := range []string{"disable", "allow", "prefer"} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := pgx.Connect(ctx, fmt.Sprintf("postgres://weir@%s/orders?sslmode=%s", r.addr(), mode))
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "53300" || refused.Severity != "FATAL" || refused.Message != text {
			t.Errorf("sslmode=%s: pgx says %v, want SQLSTATE 53300", mode, err)
		}
	}
}

// A cancellation has no answer, of whoever it is.
func TestPgxCancel(t *testing.T) {
	r := startRefuser(t, conf.ProfilePostgres)
	c, err := net.Dial("tcp", r.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(c, first(cancelRequest, "12345678"))
	if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
		t.Errorf("%q and %v, want a clean end", b, err)
	}
}

func TestMySQLClient(t *testing.T) {
	r := startRefuser(t, conf.ProfileMySQL)
	for _, program := range []string{"mysql", "mariadb"} {
		t.Run(program, func(t *testing.T) {
			args := []string{"--no-defaults", "--protocol=tcp", "-h", r.host, "-P", r.port, "-u", "weir", "-e", "select 1"}
			wantWords(t, client(t, program, "mariadb-client", append(args, "--skip-ssl")...), "ERROR 1040 (", "): "+text)
			// One that would have liked TLS adds words of its own.
			wantWords(t, client(t, program, "mariadb-client", args...), "1040", text)
		})
	}
}

func TestMySQLDriver(t *testing.T) {
	r := startRefuser(t, conf.ProfileMySQL)
	for _, parameters := range []string{"", "?tls=preferred", "?tls=true"} {
		db, err := sql.Open("mysql", "weir@tcp("+r.addr()+")/orders"+parameters)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		err = db.PingContext(t.Context())
		var refused *mysql.MySQLError
		if !errors.As(err, &refused) || refused.Number != 1040 || refused.Message != text {
			t.Errorf("%q: go-sql-driver says %v, want error 1040", parameters, err)
		}
	}
}

func TestRedisCLI(t *testing.T) {
	r := startRefuser(t, conf.ProfileRedis)
	for _, args := range [][]string{{}, {"-3"}, {"-n", "1"}} {
		said := client(t, "redis-cli", "redis-tools", append(args, "-h", r.host, "-p", r.port, "ping")...)
		wantWords(t, said, "ERR "+text)
	}
}

func TestCurl(t *testing.T) {
	r := startRefuser(t, conf.ProfileHTTP)
	big := t.TempDir() + "/body"
	if err := os.WriteFile(big, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"HTTP/1.1 503 Service Unavailable\r\n", "Retry-After: 1\r\n", text}},
		{[]string{"--http1.0"}, []string{"503 Service Unavailable", text}},
		{[]string{"-I"}, []string{"503 Service Unavailable", "Retry-After: 1"}},
		{[]string{"-T", big}, []string{"503 Service Unavailable", text}}, // it is refused while it still sends
		{[]string{"-H", "Expect:", "-T", big}, []string{"503 Service Unavailable", text}},
	} {
		said := client(t, "curl", "curl", append(test.args, "-sS", "-i", "-m", "20", "http://"+r.addr()+"/")...)
		wantWords(t, said, test.want...)
	}
}

// Go's client, which does not bear an answer before the question, has it every
// time.
func TestNetHTTP(t *testing.T) {
	r := startRefuser(t, conf.ProfileHTTP)
	c := &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}
	defer c.CloseIdleConnections()
	for range 50 {
		answer, err := c.Get("http://" + r.addr())
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusServiceUnavailable || string(body) != text+"\n" {
			t.Fatalf("%s: %q, %v", answer.Status, body, err)
		}
	}
}

package health

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/weirlb/weir/conf"
)

// fakePostgres lets anybody in and answers queries with f's rows, nil = NULL.
func fakePostgres(f func(query string) [][]byte) func(net.Conn) {
	return func(c net.Conn) {
		b := pgproto3.NewBackend(c, c)
		if _, err := b.ReceiveStartupMessage(); err != nil {
			return
		}
		b.Send(&pgproto3.AuthenticationOk{})
		b.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{1, 2, 3, 4}})
		for {
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
			if b.Flush() != nil {
				return
			}
			m, err := b.Receive()
			q, ok := m.(*pgproto3.Query)
			if err != nil || !ok {
				return
			}
			row := f(q.String)
			if row == nil {
				b.Send(&pgproto3.ErrorResponse{Severity: "ERROR", Code: "42883", Message: "function pg_is_in_recovery() does not exist"})
				continue
			}
			fields := make([]pgproto3.FieldDescription, len(row))
			for i := range fields {
				fields[i] = pgproto3.FieldDescription{Name: []byte("?column?"), DataTypeOID: 25}
			}
			b.Send(&pgproto3.RowDescription{Fields: fields})
			repeat := 1
			if len(row[0]) > 1 {
				repeat = 10_000 // rows without end, nearly
			}
			for range repeat {
				b.Send(&pgproto3.DataRow{Values: row})
			}
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
		}
	}
}

func TestPostgres(t *testing.T) {
	row := func(columns ...string) [][]byte {
		var list [][]byte
		for _, c := range columns {
			if c == "" {
				list = append(list, nil)
			} else {
				list = append(list, []byte(c))
			}
		}
		return list
	}
	for _, test := range []struct {
		name   string
		row    [][]byte
		want   conf.Role
		maxLag time.Duration
		role   conf.Role
		lag    time.Duration
		note   string
		cause  string
	}{
		{"primary", row("f", "off"), conf.Primary, 0, conf.Primary, -1, "pg_is_in_recovery is false", ""},
		{"replica", row("t", "on"), conf.Primary, 0, conf.Replica, -1, "pg_is_in_recovery is true", ""},
		{"read-only primary", row("f", "on"), conf.Primary, 0, conf.AnyRole, -1, "default_transaction_read_only is on", ""},
		{"in time", row("t", "on", "t", "3600.5"), conf.Replica, time.Second, conf.Replica, 0, "pg_is_in_recovery is true", ""},
		{"late", row("t", "on", "f", "3600.5"), conf.Replica, time.Second, conf.Replica, 3600500 * time.Millisecond, "pg_is_in_recovery is true", ""},
		{"a clock that is ahead", row("t", "on", "f", "-0.5"), conf.Replica, time.Second, conf.Replica, 0, "pg_is_in_recovery is true", ""},
		{"nothing replayed", row("t", "on", "", ""), conf.Replica, time.Second, conf.Replica, -1, "pg_is_in_recovery is true", ""},
		{"primary, asked for its lag", row("f", "off", "", ""), conf.Replica, time.Second, conf.Primary, -1, "pg_is_in_recovery is false", ""},
		{"not PostgreSQL", nil, conf.Primary, 0, 0, 0, "", "asking for its role: ERROR: function pg_is_in_recovery() does not exist"},
		{"another shape", row("f"), conf.Primary, 0, 0, 0, "", "an answer of another shape"},
	} {
		t.Run(test.name, func(t *testing.T) {
			target := serve(t, fakePostgres(func(string) [][]byte { return test.row }))
			p := newProber(t, target, conf.CheckPostgres, func(h *conf.HealthCheck) {
				h.User, h.Role, h.MaxLag = "weir", test.want, test.maxLag
			})
			if test.cause != "" {
				p.wantFailure(test.cause)
				return
			}
			if r := p.wantOK(test.note); r.role != test.role || r.lag != test.lag {
				t.Errorf("read %v and lag %v, want %v and %v", r.role, r.lag, test.role, test.lag)
			}
		})
	}
}

// No more is read than a check may.
func TestPostgresSendsTooMuch(t *testing.T) {
	value := make([]byte, 1<<10)
	p := newProber(t, serve(t, fakePostgres(func(string) [][]byte { return [][]byte{value, value} })), conf.CheckPostgres, asWeir)
	p.wantFailure("asking for its role: the server sends more than 64 KiB")

	// What one check has read is not counted in the next.
	p = newProber(t, serve(t, fakePostgres(func(string) [][]byte { return [][]byte{[]byte("f"), []byte("off")} })), conf.CheckPostgres, asWeir)
	for range 2000 {
		p.wantOK("pg_is_in_recovery is false")
	}
}

func TestPostgresRefusesTLS(t *testing.T) {
	target := serve(t, func(c net.Conn) {
		if _, err := pgproto3.NewBackend(c, c).ReceiveStartupMessage(); err == nil {
			c.Write([]byte("N"))
			silent(c)
		}
	})
	secure := func(h *conf.HealthCheck) { h.TLS = &conf.CheckTLSOptions{} }
	newProber(t, target, conf.CheckPostgres, nil).wantOK("answers")
	newProber(t, target, conf.CheckPostgres, secure).wantFailure("the server does not offer TLS")
	newProber(t, target, conf.CheckPostgres, func(h *conf.HealthCheck) { secure(h); h.User = "weir" }).
		wantFailure("logging in: server refused TLS connection")
}

// What a replica's lag is when it is not in time any more.
func TestPostgresLag(t *testing.T) {
	start := time.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	var p postgres
	for _, step := range []struct {
		inTime  bool
		age     time.Duration
		now     int
		want    time.Duration
		because string
	}{
		{false, -1, 0, -1, "it has told nothing"},
		{false, time.Hour, 1, time.Hour, "it is not known to have been in time since"},
		{true, time.Hour, 2, 0, "its primary is idle"},
		{false, time.Hour, 3, time.Second, "its primary is gone, and had nothing to say before"},
		{false, time.Hour, 7, 5 * time.Second, "and still is"},
		{false, 2 * time.Second, 8, 2 * time.Second, "it follows again, late"},
		{true, 2 * time.Second, 9, 0, "and has caught up"},
		{false, -1, 11, 2 * time.Second, "it has restarted"},
	} {
		if got := p.lag(step.inTime, step.age, at(step.now)); got != step.want {
			t.Errorf("%s: lag %v, want %v", step.because, got, step.want)
		}
	}
}

// A realPostgres is a server that lets the users postgres (without a password)
// and weir (with "hunter2") in.
type realPostgres struct {
	Target
	dir  string
	log  *output
	stop func()
}

// sql runs statements as the superuser.
func (p *realPostgres) sql(t *testing.T, text string) string {
	t.Helper()
	cmd := exec.Command(need(t, "psql", "postgresql-client"), "-h", p.dir, "-p", strconv.Itoa(int(p.Addr.Port())), "-U", "postgres", "-Atqc", text)
	return strings.TrimSpace(run(t, cmd))
}

// initPostgres makes the directory of a primary.
func initPostgres(t *testing.T) string {
	t.Helper()
	dir := openDir(t)
	cmd := exec.Command(need(t, "initdb", "postgresql"), "-D", dir+"/data", "-U", "postgres", "--auth=trust", "--no-sync")
	cmd.Dir, cmd.SysProcAttr = dir, asUser(t, dir)
	run(t, cmd)
	const access = "local all,replication all trust\nhost replication all all trust\nhost all postgres all trust\nhost all all all scram-sha-256\n"
	if err := os.WriteFile(dir+"/data/pg_hba.conf", []byte(access), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func startPostgres(t *testing.T, dir string, settings ...string) *realPostgres {
	t.Helper()
	port := freePort(t)
	p := &realPostgres{Target: loopback(port), dir: dir}
	args := []string{"-D", dir + "/data", "-p", strconv.Itoa(port), "-k", dir, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "max_connections=50"}
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	cmd := exec.Command(need(t, "postgres", "postgresql"), args...)
	cmd.Dir, cmd.SysProcAttr = dir, asUser(t, dir)
	p.log, p.stop = startProgram(t, cmd)
	eventually(t, 30*time.Second, "PostgreSQL answers", func() bool {
		return exec.Command(need(t, "psql", "postgresql-client"), "-h", dir, "-p", strconv.Itoa(port), "-U", "postgres", "-c", "select 1").Run() == nil
	})
	return p
}

// asWeir is the login of the tests.
func asWeir(h *conf.HealthCheck) { h.User, h.Password = "weir", "hunter2" }

func TestRealPostgres(t *testing.T) {
	primary := startPostgres(t, initPostgres(t), "wal_level=replica")
	primary.sql(t, "create role weir login password 'hunter2'")
	asPrimary := func(h *conf.HealthCheck) { asWeir(h); h.Role = conf.Primary }
	asReplica := func(h *conf.HealthCheck) { asWeir(h); h.Role, h.MaxLag = conf.Replica, 5*time.Second }
	a := newProber(t, primary.Target, conf.CheckPostgres, asPrimary)
	if r := a.wantOK("pg_is_in_recovery is false"); r.role != conf.Primary {
		t.Errorf("the primary is read as %+v", r)
	}
	newProber(t, primary.Target, conf.CheckPostgres, func(h *conf.HealthCheck) { asWeir(h); h.Password = "hunter3" }).
		wantFailure(`logging in: FATAL: password authentication failed for user "weir"`)
	newProber(t, primary.Target, conf.CheckPostgres, func(h *conf.HealthCheck) { asWeir(h); h.Database = "nowhere" }).
		wantFailure(`logging in: FATAL: database "nowhere" does not exist`)
	newProber(t, primary.Target, conf.CheckPostgres, nil).wantOK("answers")
	newProber(t, Target{Path: fmt.Sprintf("%s/.s.PGSQL.%d", primary.dir, primary.Addr.Port())}, conf.CheckPostgres, asPrimary).
		wantOK("pg_is_in_recovery is false")

	// A setting of the whole server is seen on the kept connection.
	primary.sql(t, "alter system set default_transaction_read_only = on")
	primary.sql(t, "select pg_reload_conf()")
	eventually(t, 10*time.Second, "the primary is read-only", func() bool {
		r, failure := a.once()
		return failure == "" && r.role == conf.AnyRole && r.note == "default_transaction_read_only is on"
	})
	primary.sql(t, "alter system reset default_transaction_read_only")
	primary.sql(t, "select pg_reload_conf()")
	eventually(t, 10*time.Second, "the primary takes writes", func() bool { r, _ := a.once(); return r.role == conf.Primary })

	dir := openDir(t)
	backup := exec.Command(need(t, "pg_basebackup", "postgresql-client"), "-h", primary.dir, "-p", strconv.Itoa(int(primary.Addr.Port())), "-U", "postgres", "-D", dir+"/data", "-R", "-c", "fast", "--no-sync")
	backup.SysProcAttr = asUser(t, dir)
	run(t, backup)
	replica := startPostgres(t, dir)
	b := newProber(t, replica.Target, conf.CheckPostgres, asReplica)
	eventually(t, 30*time.Second, "the replica is in time", func() bool {
		r, failure := b.once()
		return failure == "" && r.role == conf.Replica && r.lag == 0
	})
	// It is held up: what it replayed last gets older.
	replica.sql(t, "select pg_wal_replay_pause()")
	primary.sql(t, "create table x as select generate_series(1, 1000)")
	eventually(t, 30*time.Second, "the replica lags", func() bool { r, _ := b.once(); return r.lag > 500*time.Millisecond })
	replica.sql(t, "select pg_wal_replay_resume()")
	eventually(t, 30*time.Second, "the replica is in time again", func() bool { r, _ := b.once(); return r.lag == 0 })
	// The primary goes: it gets older from then on.
	primary.stop()
	gone := time.Now()
	a.wantFailure("asking for its role: FATAL: terminating connection due to administrator command")
	eventually(t, 30*time.Second, "the replica lags without its primary", func() bool {
		r, failure := b.once()
		if failure != "" || r.role != conf.Replica {
			t.Fatalf("%+v, %q", r, failure)
		}
		if r.lag > time.Since(gone)+time.Second {
			t.Fatalf("lag %v, %v after the primary went", r.lag, time.Since(gone))
		}
		return r.lag > 500*time.Millisecond
	})
	// It is promoted, under the kept connection.
	replica.sql(t, "select pg_promote()")
	if r := b.wantOK("pg_is_in_recovery is false"); r.role != conf.Primary || r.lag != -1 {
		t.Errorf("after its promotion the replica is read as %+v", r)
	}
	replica.stop()
	b.wantFailure("asking for its role: FATAL: terminating connection due to administrator command")
	b.wantFailure("connecting to " + replica.Addr.String() + ": connection refused")
}

// A session that the server ends is no failure.
func TestRealPostgresEndsSession(t *testing.T) {
	p := startPostgres(t, initPostgres(t))
	k := newProber(t, p.Target, conf.CheckPostgres, func(h *conf.HealthCheck) { h.User = "postgres" })
	k.wantOK("pg_is_in_recovery is false")
	p.sql(t, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'weir'")
	k.wantOK("pg_is_in_recovery is false") // on a fresh connection
	if n := p.sql(t, "select count(*) from pg_stat_activity where application_name = 'weir'"); n != "1" {
		t.Errorf("%s sessions of the check", n)
	}
}

// Two thousand checks of each kind leave nothing in PostgreSQL's log, and some
// hundreds that do a TLS handshake each.
func TestPostgresLogStaysClean(t *testing.T) {
	config, _ := testTLS(t)
	dir := initPostgres(t)
	writePair(t, dir, config)
	settings := fmt.Sprintf("ssl = on\nssl_cert_file = '%s/cert.pem'\nssl_key_file = '%s/key.pem'\n", dir, dir)
	if err := os.WriteFile(dir+"/data/postgresql.conf", []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	p := startPostgres(t, dir)
	p.sql(t, "create role weir login password 'hunter2'")
	before := p.log.String()
	in, out, inTLS := conf.NewHealthCheck(conf.CheckPostgres), conf.NewHealthCheck(conf.CheckPostgres), conf.NewHealthCheck(conf.CheckPostgres)
	asWeir(&in)
	asWeir(&inTLS)
	inTLS.TLS = &conf.CheckTLSOptions{}
	politely(t, p.Target, 2000, in, inTLS)
	politely(t, p.Target, 50, out, out, out, out)
	p.sql(t, "alter system set ssl = off")
	p.sql(t, "select pg_reload_conf()")
	politely(t, p.Target, 500, out, out, out, out)
	p.stop()
	said, _, _ := strings.Cut(strings.TrimPrefix(p.log.String(), before), "LOG:  received fast shutdown request")
	for line := range strings.Lines(said[:strings.LastIndexByte(said, '\n')+1]) {
		if !strings.Contains(line, "checkpoint") && !strings.Contains(line, "SIGHUP") && !strings.Contains(line, `parameter "`) && !strings.Contains(line, "postgresql.conf") {
			t.Errorf("PostgreSQL says: %s", strings.TrimSpace(line))
		}
	}
	// The test would see it: leaving within the handshake is logged.
	again := startPostgres(t, dir)
	again.sql(t, "alter system set ssl = on")
	again.sql(t, "select pg_reload_conf()")
	eventually(t, 10*time.Second, "PostgreSQL logs a client that leaves early", func() bool {
		c, err := net.Dial("tcp", again.Addr.String())
		if err != nil {
			t.Fatal(err)
		}
		c.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47}) // SSLRequest
		c.Read(make([]byte, 1))
		c.Close()
		return strings.Contains(again.log.String(), "could not accept SSL connection")
	})
}

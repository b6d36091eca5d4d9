package health

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/weirlb/weir/conf"
)

// newPostgres returns a probe that logs in and asks for the server's role. A
// primary is not in recovery and takes writes; a server that is neither that nor
// in recovery (default_transaction_read_only) is no replica either.
//
// Without a user it asks whether TLS is to be had, as any client may, and leaves.
// PostgreSQL does not log that, unless log_connections is on. It answers so
// while it still starts, too.
//
// A replica is in time when it has replayed all that it has received and is
// connected to its primary. Else it lags by the time since it was last seen in
// time, or by the age of the last transaction that it has replayed, whichever is
// less. So when the primary is gone, its replicas age from then on, and none
// lags at once only because the primary had been idle. What this can't see:
// a primary that vanishes in silence, until wal_receiver_timeout has passed
// (1 min), and what a primary has not sent yet. The clocks of both matter.
func newPostgres(h *conf.HealthCheck, at *endpoint) (probe, error) {
	if h.User == "" {
		if h.Role != conf.AnyRole {
			return nil, errors.New("role needs a user")
		}
		return &visit{at: at, bare: true, talk: func(ctx context.Context, c net.Conn) (reading, error) {
			return askPostgresTLS(ctx, c.(*link), at.tls)
		}}, nil
	}
	config, err := postgresConfig(h, at.tls)
	if err != nil {
		return nil, err
	}
	p := &postgres{check: h}
	return &keeper{at: at, bare: true, open: func(ctx context.Context, l *link, _ net.Conn) (session, error) {
		in := newBounded(l, maxBytes)
		conn, err := openPostgres(ctx, config, in)
		return &postgresSession{p, conn, in}, err
	}}, nil
}

// askPostgresTLS sends an SSLRequest and finishes what it starts: PostgreSQL logs
// a client that leaves within the TLS handshake, but not one that leaves after it.
func askPostgresTLS(ctx context.Context, l *link, config *tls.Config) (reading, error) {
	const sslRequest = 80877103
	if err := binary.Write(l, binary.BigEndian, [2]uint32{8, sslRequest}); err != nil {
		return reading{}, doing("sending SSLRequest", err)
	}
	var answer [1]byte
	if _, err := io.ReadFull(l, answer[:]); err != nil {
		return reading{}, doing("waiting for the answer to SSLRequest", err)
	}
	switch {
	case answer[0] == 'N' && config == nil:
		return alive("answers"), nil
	case answer[0] == 'N':
		return reading{}, errors.New("the server does not offer TLS")
	case answer[0] != 'S':
		return reading{}, fmt.Errorf("the answer to SSLRequest is %q", answer)
	}
	if config == nil {
		config = &tls.Config{InsecureSkipVerify: true}
	}
	c, err := handshake(ctx, l, config)
	if err != nil {
		return reading{}, err
	}
	c.(*tls.Conn).CloseWrite()
	return alive("answers"), nil
}

// postgresConfig ignores the environment (PGHOST, PGPASSFILE and the others),
// which is somebody else's.
func postgresConfig(h *conf.HealthCheck, tls *tls.Config) (*pgconn.Config, error) {
	config, err := pgconn.ParseConfig("host=localhost port=5432 user=weir dbname=postgres sslmode=disable connect_timeout=0 target_session_attrs=any passfile=/dev/null")
	if err != nil {
		return nil, err
	}
	config.User, config.Password, config.Database = h.User, h.Password, h.Database
	config.TLSConfig = tls
	config.Fallbacks, config.ValidateConnect = nil, nil
	config.RuntimeParams = map[string]string{"application_name": "weir"}
	config.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		f := pgproto3.NewFrontend(r, w)
		f.SetMaxBodyLen(maxBytes)
		return f
	}
	config.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	return config, nil
}

func openPostgres(ctx context.Context, config *pgconn.Config, c net.Conn) (*pgconn.PgConn, error) {
	config = config.Copy()
	used := false
	config.DialFunc = func(context.Context, string, string) (net.Conn, error) {
		if used { // for a CancelRequest, after the check's time is up
			return nil, net.ErrClosed
		}
		used = true
		return c, nil
	}
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, postgresError("logging in", err)
	}
	return conn, nil
}

// postgresError returns what the server said, if it was the server.
func postgresError(what string, err error) error {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return fmt.Errorf("%s: %s: %s", what, e.Severity, e.Message)
	}
	return doing(what, err)
}

// postgres is what is known of a server over all connections.
type postgres struct {
	check  *conf.HealthCheck
	inTime time.Time // when a replica was last seen in time; zero = never
}

type postgresSession struct {
	*postgres
	conn *pgconn.PgConn
	in   *bounded // below conn
}

const (
	askRole = "select pg_is_in_recovery(), current_setting('transaction_read_only')"
	// The LSN of what was received starts at a segment's beginning, so that it
	// may be less than what was replayed.
	askLag = askRole + `, pg_last_wal_receive_lsn() <= pg_last_wal_replay_lsn() and exists (select from pg_stat_wal_receiver),
		extract(epoch from clock_timestamp() - pg_last_xact_replay_timestamp())`
)

func (s *postgresSession) ask(ctx context.Context) (reading, error) {
	defer s.in.renew()
	query, columns := askRole, 2
	if s.check.Role == conf.Replica && s.check.MaxLag != conf.Off {
		query, columns = askLag, 4
	}
	results, err := s.conn.Exec(ctx, query).ReadAll()
	if err != nil {
		return reading{}, postgresError("asking for its role", err)
	}
	if len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) != columns {
		return reading{}, errors.New("an answer of another shape")
	}
	row := results[0].Rows[0]
	r := alive("pg_is_in_recovery is false")
	switch {
	case string(row[0]) == "t":
		r.role, r.note = conf.Replica, "pg_is_in_recovery is true"
	case string(row[1]) == "on":
		r.note = "default_transaction_read_only is on"
	default:
		r.role = conf.Primary
	}
	if columns == 4 && r.role == conf.Replica {
		r.lag = s.lag(string(row[2]) == "t", postgresAge(row[3]), time.Now())
	}
	return r, nil
}

// lag returns a replica's lag; age is that of the last transaction that it has
// replayed, or -1 if it has replayed none.
func (p *postgres) lag(inTime bool, age time.Duration, now time.Time) time.Duration {
	if inTime {
		p.inTime = now
		return 0
	}
	if since := now.Sub(p.inTime); !p.inTime.IsZero() && (age < 0 || since < age) {
		return since
	}
	return age
}

// postgresAge reads a number of seconds, nil = NULL.
func postgresAge(seconds []byte) time.Duration {
	s, err := strconv.ParseFloat(string(seconds), 64)
	if err != nil {
		return -1
	}
	return time.Duration(max(0, s) * float64(time.Second))
}

func (s *postgresSession) bye() {
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	s.conn.Close(ctx)
	<-s.conn.CleanupDone()
}

package health

import (
	"bufio"
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/weirlb/weir/conf"
)

// newMySQL returns a probe that logs in to MySQL or MariaDB and asks for what
// the check wants: is it read-only, how late is it, is it in sync with its
// Galera cluster. The user needs no rights, except for max_lag REPLICATION
// CLIENT (MySQL) or REPLICA MONITOR (MariaDB).
//
// Without a user it logs in as nobody, and being refused is a success. It has to:
// a host that leaves before that, max_connect_errors times in a row, is blocked
// (error 1129). The server may log each refusal.
func newMySQL(h *conf.HealthCheck, at *endpoint) (probe, error) {
	if h.User != "" {
		return &keeper{at: at, bare: true, open: func(ctx context.Context, l *link, _ net.Conn) (session, error) {
			return openMySQL(ctx, h, at, l)
		}}, nil
	}
	if h.Role != conf.AnyRole || h.Galera {
		return nil, errors.New("role and galera need a user")
	}
	return &visit{at: at, bare: true, talk: func(ctx context.Context, c net.Conn) (reading, error) {
		s, err := openMySQL(ctx, h, at, c)
		var e *mysql.MySQLError
		if errors.As(err, &e) && (e.Number == accessDenied || e.Number == accessDeniedNoPassword) {
			return alive("answers, and wants a user"), nil
		}
		if err != nil {
			return reading{}, err
		}
		s.bye()
		return alive(""), nil
	}}, nil
}

// Numbers of errors, the same in MySQL and MariaDB.
const (
	accessDenied           = 1045 // ER_ACCESS_DENIED_ERROR
	syntaxError            = 1064 // ER_PARSE_ERROR
	accessDeniedNoPassword = 1698 // ER_ACCESS_DENIED_NO_PASSWORD_ERROR
)

// mysqlConn is what the driver's connections are.
type mysqlConn interface {
	driver.Conn
	driver.QueryerContext
}

// mysqlBytes bounds what a check reads: a replica lists all GTIDs that it has
// executed, of each of its sources.
const mysqlBytes = 4 * maxBytes

func openMySQL(ctx context.Context, h *conf.HealthCheck, at *endpoint, c net.Conn) (*mysqlSession, error) {
	config := mysql.NewConfig()
	config.User, config.Passwd = h.User, h.Password
	config.Net, config.Addr = at.network, at.addr
	config.TLS = at.tls
	config.ConnectionAttributes = "program_name:weir"
	config.Logger = &mysql.NopLogger{}
	s := &mysqlSession{check: h, in: newBounded(c, mysqlBytes)}
	greeted, err := readGreeting(s.in)
	if err != nil {
		return nil, err
	}
	config.DialFunc = func(context.Context, string, string) (net.Conn, error) {
		return &greetedConn{Conn: c, in: s.in, r: greeted, hidden: at.tls != nil}, nil
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	conn, err := connector.Connect(ctx)
	if err != nil {
		return nil, s.error("logging in", err)
	}
	s.conn = conn.(mysqlConn)
	return s, nil
}

// A greetedConn is a connection whose greeting was looked at. It ends before a
// packet that the driver would make too much room for, unless TLS hides it.
type greetedConn struct {
	net.Conn
	in     *bounded
	r      *bufio.Reader // of in
	hidden bool
	left   int // bytes of the packet that is being read
}

func (c *greetedConn) Read(b []byte) (int, error) {
	if c.hidden {
		return c.r.Read(b)
	}
	if c.left == 0 {
		var err error
		if c.left, err = c.packet(); err != nil {
			return 0, err
		}
	}
	n, err := c.r.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}

// packet returns the size of the next packet, its header included.
func (c *greetedConn) packet() (int, error) {
	b, err := c.r.Peek(mysqlHeader)
	if err != nil {
		return 0, err
	}
	size, number := mysqlSize(b), b[3]
	if size > mysqlBytes {
		return 0, c.in.spend()
	}
	if number != 1 || size == mysqlHeader {
		return size, nil
	}
	// The first that answers a query, with the number of columns: one of more
	// than a byte begins with one of these.
	if b, err = c.r.Peek(mysqlHeader + 1); err != nil {
		return 0, err
	}
	if kind := b[mysqlHeader]; 0xfc <= kind && kind <= 0xfe {
		return 0, c.in.spend()
	}
	return size, nil
}

// mysqlHeader is the size of a packet's header: length (3 bytes) and number.
const mysqlHeader = 4

// mysqlSize returns the size of a packet by its header, that included.
func mysqlSize(header []byte) int {
	return mysqlHeader + int(header[0]) + int(header[1])<<8 + int(header[2])<<16
}

// readGreeting waits for the server's first packet, and leaves it to be read
// again if the driver can read it. Where it can't the driver panics, and one that
// panics before it is logged in leaves a goroutine behind.
func readGreeting(c net.Conn) (*bufio.Reader, error) {
	r := bufio.NewReader(c)
	b, err := r.Peek(mysqlHeader)
	if err != nil {
		return nil, doing("logging in", err)
	}
	if size := mysqlSize(b); size <= r.Size() {
		if b, err = r.Peek(size); err != nil {
			return nil, doing("logging in", err)
		}
		if isGreeting(b[mysqlHeader:]) {
			return r, nil
		}
	}
	b, _ = r.Peek(r.Buffered())
	return nil, fmt.Errorf("the server greets with %s, which is not MySQL's protocol", quote(b))
}

// isGreeting reports whether the first packet has all that its kind begins with:
// an error, or a handshake of version 10, which all servers since 3.21 speak.
func isGreeting(b []byte) bool {
	switch {
	case len(b) > 3 && b[0] == 0xff: // number (2 bytes), perhaps # and state (5 bytes), text
		return b[3] != '#' || len(b) >= 9
	case len(b) > 1 && b[0] == 10:
		const (
			first  = 4 + 8 + 1 + 2           // connection, scramble, filler, capabilities
			second = 1 + 2 + 2 + 1 + 10 + 13 // charset, status, capabilities, length, reserved, scramble; not before 4.1
		)
		_, rest, ok := bytes.Cut(b[1:], []byte{0}) // after the version
		return ok && (len(rest) == first || len(rest) >= first+second)
	}
	return false
}

type mysqlSession struct {
	check     *conf.HealthCheck
	in        *bounded // below conn
	conn      mysqlConn
	statement int // in replicaStatements, the first that this server may know
}

// error returns what the server said, if it was the server.
func (s *mysqlSession) error(what string, err error) error {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return fmt.Errorf("%s: %w", what, e)
	}
	if errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, driver.ErrBadConn) {
		err = io.EOF // that is what the driver means
	}
	if spent := s.in.spent(); spent != nil {
		err = spent
	}
	return doing(what, err)
}

func (s *mysqlSession) bye() { s.conn.Close() }

func (s *mysqlSession) ask(ctx context.Context) (reading, error) {
	defer s.in.renew()
	if s.check.Galera {
		if err := s.askGalera(ctx); err != nil {
			return reading{}, err
		}
	}
	// SHOW, because a variable that the server does not have is no error there.
	vars, err := s.pairs(ctx, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('read_only', 'super_read_only')")
	if err != nil {
		return reading{}, err
	}
	r := alive("read_only is " + vars["read_only"])
	r.role = conf.Primary
	if vars["super_read_only"] == "ON" {
		r.note = "super_read_only is ON"
	}
	// MariaDB 12 has other values of read_only than ON.
	if vars["read_only"] != "OFF" || vars["super_read_only"] == "ON" {
		r.role = conf.Replica
	}
	if r.role == conf.Replica && s.check.Role == conf.Replica && s.check.MaxLag != conf.Off {
		r.lag, err = s.lag(ctx)
	}
	return r, err
}

func (s *mysqlSession) askGalera(ctx context.Context) error {
	status, err := s.pairs(ctx, "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_ready', 'wsrep_local_state', 'wsrep_local_state_comment')")
	if err != nil {
		return err
	}
	return galera(status)
}

// galera says what is wrong with a node by its status.
func galera(status map[string]string) error {
	const synced = "4"
	switch {
	case status["wsrep_ready"] == "":
		return errors.New("it has no wsrep")
	case status["wsrep_ready"] != "ON":
		return fmt.Errorf("wsrep_ready is %s", status["wsrep_ready"])
	case status["wsrep_local_state"] != synced:
		return fmt.Errorf("wsrep_local_state is %s (%s)", status["wsrep_local_state"], status["wsrep_local_state_comment"])
	}
	return nil
}

// replicaStatements ask how a replica is doing: MariaDB from 10.5, then MySQL
// from 8.0.22, then what came before them.
var replicaStatements = [...]string{"SHOW ALL REPLICAS STATUS", "SHOW REPLICA STATUS", "SHOW ALL SLAVES STATUS", "SHOW SLAVE STATUS"}

// lag returns how late the latest of the replica's sources is, or -1 if one of
// them does not say so, because replication is broken, or if there is none.
func (s *mysqlSession) lag(ctx context.Context) (time.Duration, error) {
	var rows []map[string]string
	for {
		var err error
		rows, err = s.query(ctx, replicaStatements[s.statement])
		var e *mysql.MySQLError
		if errors.As(err, &e) && e.Number == syntaxError && s.statement < len(replicaStatements)-1 {
			s.statement++
			continue
		}
		if err != nil {
			return 0, err
		}
		return mysqlLag(rows), nil
	}
}

func mysqlLag(rows []map[string]string) time.Duration {
	most := time.Duration(-1)
	for _, row := range rows {
		behind := row["Seconds_Behind_Source"]
		if behind == "" {
			behind = row["Seconds_Behind_Master"]
		}
		seconds, err := strconv.ParseUint(behind, 10, 32)
		if err != nil {
			return -1
		}
		most = max(most, time.Duration(seconds)*time.Second)
	}
	return most
}

// pairs returns an answer of SHOW VARIABLES or SHOW STATUS.
func (s *mysqlSession) pairs(ctx context.Context, query string) (map[string]string, error) {
	rows, err := s.query(ctx, query)
	pairs := map[string]string{}
	for _, row := range rows {
		pairs[strings.ToLower(row["Variable_name"])] = row["Value"]
	}
	return pairs, err
}

// query returns rows by column. NULL is absent. It keeps no more than a hundred
// of them, and reads all.
func (s *mysqlSession) query(ctx context.Context, query string) ([]map[string]string, error) {
	rows, err := s.conn.QueryContext(ctx, query, nil)
	if err != nil {
		return nil, s.error(query, err)
	}
	defer rows.Close()
	columns := rows.Columns()
	values := make([]driver.Value, len(columns))
	var list []map[string]string
	for len(list) < 100 {
		if err := rows.Next(values); err == io.EOF {
			break
		} else if err != nil {
			return nil, s.error(query, err)
		}
		row := map[string]string{}
		for i, v := range values {
			switch v := v.(type) {
			case nil:
			case []byte:
				row[columns[i]] = string(v)
			default:
				row[columns[i]] = fmt.Sprint(v)
			}
		}
		list = append(list, row)
	}
	if err := rows.Close(); err != nil {
		return nil, s.error(query, err)
	}
	return list, nil
}

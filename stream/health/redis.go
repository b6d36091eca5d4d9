package health

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/weirlb/weir/conf"
)

// newRedis returns a probe that sends PING, and ROLE if a role is wanted.
//
// A replica is as late as its primary has been silent: a primary that has
// nothing to tell sends a ping every repl-ping-replica-period, 10 s by default,
// and max_lag must be more than that. Without a link to its primary a replica is
// as late as the link has been down.
func newRedis(h *conf.HealthCheck, at *endpoint) (probe, error) {
	return &keeper{at: at, open: func(_ context.Context, _ *link, c net.Conn) (session, error) {
		s := &redisSession{check: h, conn: c, r: bufio.NewReader(c)}
		return s, s.auth()
	}}, nil
}

type redisSession struct {
	check *conf.HealthCheck
	conn  net.Conn
	r     *bufio.Reader
}

func (s *redisSession) auth() error {
	args := []string{"AUTH", s.check.Password}
	switch {
	case s.check.User != "":
		args = []string{"AUTH", s.check.User, s.check.Password} // a user of nopass takes any, and the empty one
	case s.check.Password == "":
		return nil
	}
	_, err := s.do(args...)
	return err
}

func (s *redisSession) ask(context.Context) (reading, error) {
	_, err := s.do("PING")
	var e redisError
	if errors.As(err, &e) && strings.HasPrefix(string(e), "NOAUTH") && s.check.Password == "" && s.check.Role == conf.AnyRole {
		return alive("answers, and wants a password"), nil
	}
	if err != nil || s.check.Role == conf.AnyRole {
		return alive(""), err
	}
	v, err := s.do("ROLE")
	if err != nil {
		return reading{}, err
	}
	list, _ := v.([]any)
	if len(list) == 0 {
		return reading{}, errors.New("ROLE: no list")
	}
	role, _ := list[0].(string)
	r := alive("ROLE is " + role)
	switch role {
	case "master":
		r.role = conf.Primary
	case "slave":
		r.role = conf.Replica
		if len(list) > 3 {
			r.note += fmt.Sprintf(", its link is %v", list[3])
		}
		if s.check.MaxLag != conf.Off {
			r.lag, err = s.lag()
		}
	}
	return r, err
}

func (s *redisSession) lag() (time.Duration, error) {
	v, err := s.do("INFO", "replication")
	if err != nil {
		return 0, err
	}
	text, _ := v.(string)
	return redisLag(text), nil
}

// redisLag finds a replica's lag in the answer to INFO, or returns -1.
func redisLag(info string) time.Duration {
	up, down := time.Duration(-1), time.Duration(-1)
	linked := false
	for l := range strings.Lines(info) {
		key, value, _ := strings.Cut(strings.TrimSpace(l), ":")
		switch key {
		case "master_link_status":
			linked = value == "up"
		case "master_last_io_seconds_ago":
			up = wholeSeconds(value)
		case "master_link_down_since_seconds":
			down = wholeSeconds(value)
		}
	}
	if linked {
		return up
	}
	return down
}

func wholeSeconds(text string) time.Duration {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return -1
	}
	return time.Duration(n) * time.Second
}

func (s *redisSession) bye() {} // QUIT is deprecated

// do sends a command and returns the reply: a string, a list ([]any), or nil.
func (s *redisSession) do(args ...string) (any, error) {
	cmd := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		cmd = fmt.Appendf(cmd, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := s.conn.Write(cmd); err != nil {
		return nil, doing("sending "+args[0], err)
	}
	p := respReader{s.r, maxBytes}
	v, err := p.value(0)
	if err != nil {
		return nil, doing("waiting for the reply to "+args[0], err)
	}
	if e, ok := v.(redisError); ok {
		return nil, fmt.Errorf("%s: %w", args[0], e)
	}
	return v, nil
}

// A redisError is a reply that is an error.
type redisError string

func (e redisError) Error() string { return string(e) }

// A respReader reads replies of RESP 2 (https://redis.io/docs/latest/develop/reference/protocol-spec/).
// The clients that there are allocate whatever length a server announces; this
// one takes no more than left bytes.
type respReader struct {
	r    *bufio.Reader
	left int
}

var (
	errRESP     = errors.New("it is not Redis's protocol")
	errTooLarge = errors.New("the reply is too large")
)

// value returns a string (also for integers), redisError, []any or nil.
func (p *respReader) value(depth int) (any, error) {
	head, err := p.line()
	if err != nil {
		return nil, err
	}
	if head == "" {
		return nil, errRESP
	}
	rest := head[1:]
	switch head[0] {
	case '+', ':':
		return rest, nil
	case '-':
		return redisError(rest), nil
	case '$', '*':
		n, err := strconv.Atoi(rest)
		if err != nil || n < -1 {
			return nil, errRESP
		}
		if n < 0 {
			return nil, nil
		}
		if head[0] == '$' {
			return p.bulk(n)
		}
		return p.list(n, depth)
	}
	return nil, errRESP
}

func (p *respReader) bulk(n int) (any, error) {
	if n > p.left-2 {
		return nil, errTooLarge
	}
	p.left -= n + 2
	b := make([]byte, n+2)
	if _, err := io.ReadFull(p.r, b); err != nil {
		return nil, err
	}
	if string(b[n:]) != "\r\n" {
		return nil, errRESP
	}
	return string(b[:n]), nil
}

func (p *respReader) list(n, depth int) (any, error) {
	const shortest = 3 // bytes of an element, such as "+\r\n"
	if depth == 4 || n > p.left/shortest {
		return nil, errTooLarge
	}
	list := make([]any, n)
	for i := range list {
		var err error
		if list[i], err = p.value(depth + 1); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (p *respReader) line() (string, error) {
	b, err := p.r.ReadSlice('\n')
	if err == bufio.ErrBufferFull || len(b) > p.left {
		return "", errTooLarge
	}
	if err != nil {
		return "", err
	}
	p.left -= len(b)
	text, ok := strings.CutSuffix(string(b), "\r\n")
	if !ok {
		return "", errRESP
	}
	return text, nil
}

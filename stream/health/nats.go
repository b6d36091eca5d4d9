package health

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/weirlb/weir/conf"
)

// newNATS returns a probe that connects as a client, sends PING and waits for
// PONG (https://docs.nats.io/reference/reference-protocols/nats-protocol). A
// server in lame duck mode, which is about to stop, is a failure. Where a login
// is wanted and the check has none, its greeting is enough: a new one each time.
func newNATS(h *conf.HealthCheck, at *endpoint) (probe, error) {
	return &keeper{at: at, bare: true, open: func(ctx context.Context, l *link, _ net.Conn) (session, error) {
		return openNATS(ctx, h, at.tls, l)
	}}, nil
}

// natsLine bounds a line, of which INFO with the addresses of a whole cluster is
// the longest.
const natsLine = 16 << 10

type natsSession struct {
	conn   net.Conn
	r      *bufio.Reader
	closed bool // no login: only the greeting was read
}

// natsInfo is what INFO says that matters here.
type natsInfo struct {
	AuthRequired bool `json:"auth_required"`
	TLSRequired  bool `json:"tls_required"`
	TLSAvailable bool `json:"tls_available"`
	LameDuck     bool `json:"ldm"`
}

func openNATS(ctx context.Context, h *conf.HealthCheck, config *tls.Config, l *link) (*natsSession, error) {
	s := &natsSession{conn: l, r: bufio.NewReaderSize(l, natsLine)}
	op, arg, err := s.line("INFO")
	if err != nil {
		return nil, err
	}
	if op != "INFO" {
		return nil, fmt.Errorf("the server greets with %s, not INFO", quote([]byte(op)))
	}
	info, err := parseNATSInfo(arg)
	if err != nil {
		return nil, err
	}
	if config != nil && !info.TLSRequired && !info.TLSAvailable {
		return nil, errors.New("the server does not offer TLS")
	}
	if config != nil || info.TLSRequired {
		if config == nil { // whoever may read the password without TLS may do so with this too
			config = &tls.Config{InsecureSkipVerify: true}
		}
		if s.r.Buffered() > 0 {
			return nil, errors.New("bytes before the TLS handshake")
		}
		if s.conn, err = handshake(ctx, l, config); err != nil {
			return nil, err
		}
		s.r.Reset(s.conn)
	}
	if info.AuthRequired && h.User == "" && h.Password == "" {
		s.closed, l.once = true, true
		return s, nil
	}
	return s, s.login(h)
}

func (s *natsSession) login(h *conf.HealthCheck) error {
	arg, err := json.Marshal(map[string]any{
		"verbose": false, "pedantic": false, "name": "weir", "lang": "go", "version": "1",
		"protocol": 1, // INFO may come later too, to tell of lame duck mode
		"user":     h.User, "pass": h.Password,
	})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(s.conn, "CONNECT %s\r\n", arg); err != nil {
		return doing("sending CONNECT", err)
	}
	return nil
}

func (s *natsSession) ask(context.Context) (reading, error) {
	if s.closed {
		return alive("answers, and wants a login"), nil
	}
	if _, err := s.conn.Write([]byte("PING\r\n")); err != nil {
		return reading{}, doing("sending PING", err)
	}
	for {
		op, arg, err := s.line("PONG")
		if err != nil {
			return reading{}, err
		}
		switch op {
		case "PONG":
			return alive(""), nil
		case "PING": // the server asks every client, every two minutes
			if _, err := s.conn.Write([]byte("PONG\r\n")); err != nil {
				return reading{}, doing("sending PONG", err)
			}
		case "INFO":
			if _, err := parseNATSInfo(arg); err != nil {
				return reading{}, err
			}
		case "-ERR":
			return reading{}, fmt.Errorf("-ERR %s", arg)
		}
	}
}

func (s *natsSession) bye() {}

// line reads a line while the check waits for a certain one.
func (s *natsSession) line(awaited string) (op, arg string, err error) {
	b, err := s.r.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		return "", "", fmt.Errorf("a line of more than %d KiB", natsLine>>10)
	}
	if err != nil {
		return "", "", doing("waiting for "+awaited, err)
	}
	op, arg = splitNATS(string(b))
	return op, arg, nil
}

// splitNATS returns a line's operation, in upper case, and what follows it.
func splitNATS(line string) (op, arg string) {
	line = strings.TrimRight(line, "\r\n")
	end := strings.IndexAny(line, " \t")
	if end < 0 {
		return strings.ToUpper(line), ""
	}
	return strings.ToUpper(line[:end]), strings.TrimSpace(line[end:])
}

// parseNATSInfo reads INFO's argument. Lame duck mode is an error.
func parseNATSInfo(arg string) (natsInfo, error) {
	var info natsInfo
	if err := json.Unmarshal([]byte(arg), &info); err != nil {
		return natsInfo{}, errors.New("INFO is not JSON")
	}
	if info.LameDuck {
		return natsInfo{}, errors.New("lame duck")
	}
	return info, nil
}

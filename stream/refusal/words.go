package refusal

import (
	"fmt"

	"github.com/weirlb/weir/conf"
)

// MostInput is how many bytes of input are ever looked at, which is room enough
// to collect it in. With that many, Next never asks for more.
const MostInput = 8

// maxText is how many bytes of a text are kept. libmysqlclient, the tightest,
// has room for 511.
const maxText = 200

// Words are one listener's refusals. They are immutable; any goroutine may use
// them.
type Words struct {
	profile conf.Profile
	reply   []byte // the last one
}

// New returns the words for a profile, with a text for people, or nil if the
// protocol has none (also "" and "generic"): the client is to be reset. The text
// is one line of printable ASCII: other bytes become spaces, and what is beyond
// 200 bytes is cut.
func New(p conf.Profile, text string) *Words {
	text = line(text)
	w := &Words{profile: p}
	switch p {
	case conf.ProfilePostgres:
		w.reply = postgresError(text)
	case conf.ProfileMySQL:
		w.reply = mysqlError(text)
	case conf.ProfileRedis:
		w.reply = []byte("-ERR " + text + "\r\n") // a simple error (RESP specification)
	case conf.ProfileHTTP:
		w.reply = httpError(text)
	default:
		return nil
	}
	return w
}

// line makes a text what the protocols have room for.
func line(text string) string {
	b := []byte(text)
	b = b[:min(len(b), maxText)]
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = ' '
		}
	}
	return string(b)
}

// Next looks at what the client has said and not been answered yet, and tells
// what to answer. used is how many bytes of input are dealt with; reply is to be
// sent, if there is one; done says that the connection ends after it. If all are
// zero, more input is needed. It does not allocate.
//
// A client may ask for encryption again and again, and is told each time that
// there is none: it is the caller who loses patience.
func (w *Words) Next(input []byte) (used int, reply []byte, done bool) {
	switch w.profile {
	case conf.ProfilePostgres:
		return w.nextPostgres(input)
	case conf.ProfileHTTP:
		return w.nextHTTP(input)
	}
	return len(input), w.reply, true // the server speaks first
}

// handshake is the first byte of a TLS connection (RFC 8446 section 5.1).
const handshake = 0x16

// httpError returns a response (RFC 9110 sections 15.6.4 and 10.2.3).
func httpError(text string) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 503 Service Unavailable\r\n"+
		"Content-Type: text/plain\r\nContent-Length: %d\r\n"+
		"Retry-After: 1\r\nConnection: close\r\n\r\n%s\n", len(text)+1, text)
}

func (w *Words) nextHTTP(input []byte) (used int, reply []byte, done bool) {
	switch {
	case len(input) == 0:
		return 0, nil, false
	case input[0] == handshake:
		return len(input), nil, true
	}
	return len(input), w.reply, true
}

// mysqlError returns an ERR packet. That of a server which has not said what it
// is capable of has no SQL state (MySQL manual, "Connection Phase"; MariaDB 10.11
// sends none either): Oracle's clients would take "#08004" for the beginning of
// the text.
func mysqlError(text string) []byte {
	const tooManyConnections = 1040
	size := 3 + len(text)
	head := []byte{byte(size), byte(size >> 8), 0, 0, // length, and the number in the sequence
		0xff, tooManyConnections & 0xff, tooManyConnections >> 8}
	return append(head, text...)
}

package health

import (
	"context"
	"net"
)

// maxBytes bounds what a check keeps of what a server sends.
const maxBytes = 64 << 10

// A visit is a probe that connects anew each time.
type visit struct {
	at   *endpoint
	bare bool // talk is given the connection before any TLS
	talk func(ctx context.Context, c net.Conn) (reading, error)

	// between check and end
	link *link
	conn net.Conn // on link
}

func (v *visit) check(ctx context.Context) (reading, error) {
	l, err := v.at.dial(ctx)
	if err != nil {
		return reading{}, err
	}
	v.link, v.conn = l, l
	defer l.until(ctx)()
	if !v.bare {
		c, err := v.at.secure(ctx, l)
		if err != nil {
			return reading{}, err
		}
		v.conn = c
	}
	return v.talk(ctx, v.conn)
}

func (v *visit) end(bool) {
	if v.link != nil {
		leave(v.conn, v.link)
		v.link, v.conn = nil, nil
	}
}

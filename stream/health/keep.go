package health

import (
	"context"
	"errors"
	"net"
)

// A session is one connection that has logged in. Its link is closed when a
// check's time is up, which must end whatever it waits for.
type session interface {
	ask(ctx context.Context) (reading, error)
	bye() // says goodbye; takes no longer than [goodbye]
}

// A keeper is a probe that keeps one connection and asks on it each time, unless
// open has marked its link as good for once. It connects anew if that fails: the
// server may have closed the connection for reasons of its own, such as a time
// limit. Only if a fresh one fails too the check has failed. A kept connection on
// which no answer comes takes all of the check's time, though.
type keeper struct {
	at   *endpoint
	bare bool // open is given the connection before any TLS
	open func(ctx context.Context, l *link, c net.Conn) (session, error)

	// of the kept connection; nil = none
	link    *link
	conn    net.Conn // on link
	session session
}

func (k *keeper) check(ctx context.Context) (reading, error) {
	var said error // on the kept connection
	if k.session != nil {
		var r reading
		if r, said = k.ask(ctx); said == nil || ctx.Err() != nil {
			return r, said
		}
	}
	if err := k.connect(ctx); err != nil {
		// What the server itself has said tells more than that it is gone.
		if said != nil && isSaid(said) {
			return reading{}, said
		}
		return reading{}, err
	}
	return k.ask(ctx)
}

func (k *keeper) connect(ctx context.Context) error {
	l, err := k.at.dial(ctx)
	if err != nil {
		return err
	}
	defer l.until(ctx)()
	defer func() {
		if k.link != l { // open may have panicked, too
			l.Close()
		}
	}()
	var c net.Conn = l
	if !k.bare {
		if c, err = k.at.secure(ctx, l); err != nil {
			return err
		}
	}
	s, err := k.open(ctx, l, c)
	if err != nil {
		return err
	}
	k.link, k.conn, k.session = l, c, s
	return nil
}

// isSaid reports whether the error of a check is what the server has said.
func isSaid(err error) bool {
	step := new(stepError)
	return !errors.As(err, &step)
}

// ask asks on the kept connection, and keeps it only if all is well.
func (k *keeper) ask(ctx context.Context) (reading, error) {
	release := k.link.until(ctx)
	r, err := k.session.ask(ctx)
	switch works := release(); {
	case works && err == nil:
	case works && isSaid(err):
		k.end(true)
	default:
		k.link.Close()
		k.session.bye() // it may hold more than the link
		k.link, k.conn, k.session = nil, nil, nil
	}
	return r, err
}

func (k *keeper) end(last bool) {
	if k.session != nil && (last || k.link.once) {
		k.session.bye()
		leave(k.conn, k.link)
		k.link, k.conn, k.session = nil, nil, nil
	}
}

package metrics

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/sys"
)

// maxConns bounds the connections to the endpoint: descriptors that are set
// aside for all that is not a session are few. More wait in the kernel.
const maxConns = 12

// listen opens the endpoint's socket. The port may be one that the endpoint has
// already, at another address of the machine, for as long as it moves; hence
// SO_REUSEPORT, and hence a first socket without it: nobody else's port may be
// shared.
func listen(a conf.Address, ownPort bool) (net.Listener, error) {
	network := "tcp6"
	if ip, ok := a.IP(); !ok {
		return nil, fmt.Errorf("metrics: listen on %s: not an IP address", a)
	} else if ip.Is4() {
		network = "tcp4" // to Go, 0.0.0.0 is every address of both families
	}
	if !ownPort {
		probe, err := net.Listen(network, a.String())
		if err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
		probe.Close()
	}
	share := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		controlErr := c.Control(func(fd uintptr) {
			if errno := sys.SetOption(int32(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); errno != 0 {
				err = errno
			}
		})
		if controlErr != nil {
			return controlErr
		}
		return err
	}}
	ln, err := share.Listen(context.Background(), network, a.String())
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return &bounded{Listener: ln, places: make(chan struct{}, maxConns), closed: make(chan struct{})}, nil
}

// bounded is a listener that has so many connections at the same time.
type bounded struct {
	net.Listener
	places chan struct{}
	once   sync.Once
	closed chan struct{}
}

// Accept implements net.Listener.
func (l *bounded) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &placed{Conn: c, leave: sync.OnceFunc(func() { <-l.places })}, nil
}

// Close implements net.Listener.
func (l *bounded) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// placed is a connection that gives its place back.
type placed struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *placed) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

package metrics

import (
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/port"
)

// maxConns bounds the connections to the endpoint: descriptors that are set
// aside for all that is not a session are few. More wait in the kernel.
const maxConns = 12

// listen opens the endpoint's socket. ownPort says that the endpoint, which moves, or
// the one of the process that is taken over from, has the address already, or a part
// of it.
func listen(a conf.Address, ownPort bool) (net.Listener, error) {
	ip, ok := a.IP()
	if !ok {
		return nil, fmt.Errorf("metrics: listen on %s: not an IP address", a)
	}
	ln, err := port.Listen(netip.AddrPortFrom(ip, a.Port), ownPort)
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

package health

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlb/weir/conf"
)

// goodbye bounds what a probe may take to end a connection as the server likes it.
const goodbye = 100 * time.Millisecond

// An endpoint is where a check's connections go. It knows those that are open.
type endpoint struct {
	network, addr string // as for net.Dial
	host          string // of the target
	port          uint16 // 0 of a unix socket
	tls           *tls.Config

	mu   sync.Mutex
	open map[*link]bool // guarded by mu; nil = closed for ever
}

func newEndpoint(h *conf.HealthCheck, t Target) (*endpoint, error) {
	e := &endpoint{network: "tcp", host: t.Host, open: map[*link]bool{}}
	if h.Kind == conf.CheckUDP {
		e.network = "udp"
	}
	switch {
	case t.Addr.IsValid():
		addr := t.Addr
		if h.Port != 0 {
			addr = netip.AddrPortFrom(addr.Addr(), uint16(h.Port))
		}
		e.addr, e.port = addr.String(), addr.Port()
	case h.Kind == conf.CheckUDP || h.Port != 0:
		return nil, errors.New("a unix socket has no ports")
	case t.Path == "":
		return nil, errors.New("the server has no address")
	default:
		e.network, e.addr = "unix", t.Path
	}
	if h.TLS == nil {
		return e, nil
	}
	var err error
	e.tls, err = clientTLS(h.TLS, t.Host)
	return e, err
}

// clientTLS reads the files that the options name.
func clientTLS(o *conf.CheckTLSOptions, host string) (*tls.Config, error) {
	c := &tls.Config{ServerName: o.ServerName, NextProtos: o.ALPN, InsecureSkipVerify: !o.Verify}
	if c.ServerName == "" {
		c.ServerName = host
	}
	if c.ServerName == "" && o.Verify {
		return nil, errors.New("tls: a server without a host name needs server_name to be verified")
	}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls: no certificate in %s", o.CAFile)
		}
	}
	if o.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
		c.Certificates = []tls.Certificate{cert}
	}
	return c, nil
}

// A link is one connection of an endpoint.
type link struct {
	net.Conn
	at   *endpoint
	once bool // good for one check: a keeper does not keep it
}

// dial connects. The caller closes the link.
func (e *endpoint) dial(ctx context.Context) (*link, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, e.network, e.addr)
	if err != nil {
		return nil, doing("connecting to "+e.addr, err)
	}
	if selfConnected(c) {
		c.Close()
		return nil, doing("connecting to "+e.addr, errors.New("connected to itself, so nobody listens"))
	}
	l := &link{Conn: c, at: e}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open == nil {
		c.Close()
		return nil, doing("connecting to "+e.addr, net.ErrClosed)
	}
	e.open[l] = true
	return l, nil
}

// selfConnected reports whether c is both of its ends: where nobody listens on a
// port of the range that outgoing connections use, one may get that port and
// meet itself, by TCP's simultaneous open.
func selfConnected(c net.Conn) bool {
	local, ok := c.LocalAddr().(*net.TCPAddr)
	return ok && local.String() == c.RemoteAddr().String()
}

// Close may be called at any time, more than once, and ends what waits for the
// connection.
func (l *link) Close() error {
	l.at.mu.Lock()
	delete(l.at.open, l)
	l.at.mu.Unlock()
	return l.Conn.Close()
}

// A bounded connection gives a library no more of what a server sends than one
// check may read.
type bounded struct {
	net.Conn
	most int64        // bytes in one check
	left atomic.Int64 // of them; any goroutine, since pgx also reads on one of its own
}

func newBounded(c net.Conn, most int64) *bounded {
	b := &bounded{Conn: c, most: most}
	b.renew()
	return b
}

// renew begins another check.
func (b *bounded) renew() { b.left.Store(b.most) }

// spend ends the check's reading, as if the server had sent what it announces.
func (b *bounded) spend() error {
	b.left.Store(0)
	return b.spent()
}

// spent returns an error if the server has sent too much.
func (b *bounded) spent() error {
	if b.left.Load() > 0 {
		return nil
	}
	return fmt.Errorf("the server sends more than %d KiB", b.most>>10)
}

func (b *bounded) Read(p []byte) (int, error) {
	if err := b.spent(); err != nil {
		return 0, err
	}
	n, err := b.Conn.Read(p[:min(int64(len(p)), b.left.Load())])
	b.left.Add(-int64(n))
	return n, err
}

// until closes the link when ctx is done, unless the function that it returns
// was called before.
func (l *link) until(ctx context.Context) func() bool {
	return context.AfterFunc(ctx, func() { l.Close() })
}

// secure speaks TLS on a link if the check shall, and returns what to speak on.
func (e *endpoint) secure(ctx context.Context, l *link) (net.Conn, error) {
	if e.tls == nil {
		return l, nil
	}
	return handshake(ctx, l, e.tls)
}

func handshake(ctx context.Context, l *link, config *tls.Config) (net.Conn, error) {
	c := tls.Client(l, config)
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, doing("in the TLS handshake", err)
	}
	return c, nil
}

// close closes the connections that are left, and lets none come after them.
func (e *endpoint) close() {
	e.mu.Lock()
	left := e.open
	e.open = nil
	e.mu.Unlock()
	for l := range left {
		l.Conn.Close()
	}
}

// leave ends a connection with close_notify, if c speaks TLS on l, and FIN. Then
// it reads what the server has still to say: closing a socket with unread bytes,
// such as a greeting or the session tickets of TLS 1.3, sends a reset, which
// servers log.
func leave(c net.Conn, l *link) {
	l.SetDeadline(time.Now().Add(goodbye))
	if t, ok := c.(*tls.Conn); ok {
		t.CloseWrite()
	}
	if s, ok := l.Conn.(interface{ CloseWrite() error }); ok {
		s.CloseWrite()
		io.CopyN(io.Discard, l, maxBytes)
	}
	l.Close()
}

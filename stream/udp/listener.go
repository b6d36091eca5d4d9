package udp

import (
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/sys"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/upstream"
)

// Listener is what the sessions of one listener block have in common. It is
// immutable.
type Listener struct {
	Name        string
	Group       *upstream.Group
	IdleTimeout time.Duration
	Requests    int // 0 = any number
	Responses   int // to each request; 0 = any number, conf.NoResponses = none
	MaxSessions int // of each worker; 0 = no bound of its own
	Quarantine  time.Duration
	Limits      upstream.Limits
	Stats       []*stats.Listener // by worker, written by that worker only
}

// NewListener returns the run-time form of a listener block whose sessions go
// to g and are counted in those counters. Workers have equal shares of its
// max_sessions.
func NewListener(c *conf.Listener, g *upstream.Group, workers int, counters []*stats.Listener) *Listener {
	return &Listener{
		Name:        c.Name,
		Group:       g,
		Stats:       counters,
		IdleTimeout: c.UDP.IdleTimeout,
		Requests:    c.UDP.Requests,
		Responses:   c.UDP.Responses,
		MaxSessions: (c.UDP.MaxSessions + workers - 1) / workers,
		Quarantine:  c.UDP.Quarantine,
		Limits:      upstream.Limits{Tries: c.NextUpstream.Tries, Timeout: c.NextUpstream.Timeout},
	}
}

// counts reports whether datagrams are counted one by one, so that they must
// not come put together.
func (l *Listener) counts() bool { return l.Requests > 0 || l.Responses > 0 }

// receiveBuffer is asked for each listening socket, as far as net.core.rmem_max
// allows: a batch is at most some hundred microseconds late, and bursts come in
// that time.
const receiveBuffer = 4 << 20

// Listen opens one listening socket on the address and returns it with the
// address it is bound to, which differs if the port was 0. Several sockets may
// share an address if all are opened with reusePort; the kernel then spreads
// clients over them.
func (l *Listener) Listen(a conf.Address, reusePort bool) (fd int32, bound conf.Address, err error) {
	ip, ok := a.IP()
	if !ok {
		return -1, a, fmt.Errorf("listen on %s: not an IP address", a)
	}
	if ip, err = upstream.NumericZone(ip); err != nil {
		return -1, a, fmt.Errorf("listen on %s: %w", a, err)
	}
	var sa sys.Sockaddr
	sa.SetInet(netip.AddrPortFrom(ip, a.Port))
	fd, errno := sys.DatagramSocket(sa.Family())
	if errno != 0 {
		return -1, a, fmt.Errorf("listen on %s: open socket: %w", a, errno)
	}
	fail := func(call string, errno unix.Errno) (int32, conf.Address, error) {
		sys.Close(fd)
		return -1, a, fmt.Errorf("listen on %s: %s: %w", a, call, errno)
	}
	if errno := setOptions(fd, sa.Family(), reusePort, ip.IsUnspecified()); errno != 0 {
		return fail("set socket options", errno)
	}
	if errno := sys.Bind(fd, &sa); errno != 0 {
		return fail("bind", errno)
	}
	if reusePort {
		sys.SetOption(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 0) // see setOptions
	}
	if a.Port == 0 {
		if errno := sys.LocalAddr(fd, &sa); errno != 0 {
			return fail("read bound address", errno)
		}
		e := sa.Endpoint()
		a.Port = e.Port
	}
	return fd, a, nil
}

// Adopt sets up a bound socket that a service manager opened for the address.
// One worker receives from it; for others Listen opens more, which needs the
// same user.
func (l *Listener) Adopt(fd int32, a conf.Address) error {
	fail := func(call string, err error) error { return fmt.Errorf("listen on %s: %s: %w", a, call, err) }
	if err := unix.SetNonblock(int(fd), true); err != nil {
		return fail("set non-blocking", err)
	}
	if errno := sys.SetOption(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); errno != 0 {
		return fail("set socket options", errno)
	}
	ip, _ := a.IP()
	family := unix.AF_INET
	if ip.Is6() {
		family = unix.AF_INET6
	}
	if errno := setBuffers(fd, family, ip.IsUnspecified()); errno != 0 {
		return fail("set socket options", errno)
	}
	return nil
}

func setOptions(fd int32, family int, reusePort, wildcard bool) unix.Errno {
	if reusePort {
		if errno := sys.SetOption(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); errno != 0 {
			return errno
		}
		// For the bind alone: beside sockets that Unserve has taken out of the group.
		if errno := sys.SetOption(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); errno != 0 {
			return errno
		}
	}
	if family == unix.AF_INET6 {
		// [::] is IPv6 only; IPv4 is listened to by its own address.
		if errno := sys.SetOption(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); errno != 0 {
			return errno
		}
	}
	return setBuffers(fd, family, wildcard)
}

func setBuffers(fd int32, family int, wildcard bool) unix.Errno {
	sys.SetOption(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer) // as far as it goes
	sys.SetOption(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, receiveBuffer)
	if wildcard {
		// An answer must leave from the address that was asked.
		return sys.WantPacketInfo(fd, family)
	}
	return 0
}

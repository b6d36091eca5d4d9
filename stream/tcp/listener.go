package tcp

import (
	"fmt"
	"math"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/sys"
	"github.com/weirlb/weir/stream/refusal"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/upstream"
)

// Listener is what the sessions of one listener block have in common. It is
// immutable.
type Listener struct {
	Name             string
	Group            *upstream.Group
	ConnectTimeout   time.Duration
	IdleTimeout      time.Duration // conf.Off = none
	HalfCloseTimeout time.Duration // conf.Off = IdleTimeout holds
	DeadPeerTimeout  time.Duration // conf.Off = none
	Limits           upstream.Limits
	Backoff          time.Duration // conf.Off = none
	Hold             bool          // next_upstream.before_first_byte
	Priority         int
	Hedge            *conf.Hedge // nil = none
	ClientLimits     conf.Limits
	Clients          *Clientele
	UploadRate       conf.ByteRate
	DownloadRate     conf.ByteRate
	Congestion       string            // of the clients' sockets; "" = the system's
	Stats            []*stats.Listener // by worker, written by that worker only

	needsExtras bool                          // its sessions do
	cancels     bool                          // its clients may be PostgreSQL's
	hedges      []hedgeBudget                 // by worker, that worker's alone
	words       [stats.Reasons]*refusal.Words // nil = the client is reset
}

// NewListener returns the run-time form of a listener block whose sessions go
// to g and are counted in those counters and among those clients.
func NewListener(c *conf.Listener, g *upstream.Group, counters []*stats.Listener, clients *Clientele) *Listener {
	return &Listener{
		Name:             c.Name,
		Group:            g,
		Stats:            counters,
		ConnectTimeout:   c.ConnectTimeout,
		IdleTimeout:      c.IdleTimeout,
		HalfCloseTimeout: c.HalfCloseTimeout,
		DeadPeerTimeout:  c.DeadPeerTimeout,
		Limits:           upstream.Limits{Tries: c.NextUpstream.Tries, Timeout: c.NextUpstream.Timeout},
		Backoff:          c.NextUpstream.Backoff,
		Hold:             c.NextUpstream.BeforeFirstByte,
		Priority:         c.Priority,
		Hedge:            c.Hedge,
		ClientLimits:     c.Limits,
		Clients:          clients,
		UploadRate:       c.Limits.UploadRate,
		DownloadRate:     c.Limits.DownloadRate,
		Congestion:       c.Congestion,

		needsExtras: c.Hedge != nil || c.NextUpstream.BeforeFirstByte || c.Limits.UploadRate+c.Limits.DownloadRate > 0,
		cancels:     c.Profile == conf.ProfilePostgres,
		hedges:      make([]hedgeBudget, len(counters)),
		words:       makeWords(c),
	}
}

// Listen opens one listening socket on the address and returns it with the
// address it is bound to, which differs if the port was 0. Several sockets may
// share a TCP address if all are opened with reusePort; the kernel then spreads
// new connections over them.
func (l *Listener) Listen(a conf.Address, reusePort bool) (fd int32, bound conf.Address, err error) {
	var sa sys.Sockaddr
	ip, isIP := a.IP()
	switch {
	case a.IsUnix():
		sa.SetUnix(a.Path)
	case isIP:
		if ip, err = upstream.NumericZone(ip); err != nil {
			return -1, a, fmt.Errorf("listen on %s: %w", a, err)
		}
		sa.SetInet(netip.AddrPortFrom(ip, a.Port))
	default:
		return -1, a, fmt.Errorf("listen on %s: not an IP address", a)
	}
	fd, errno := sys.StreamSocket(sa.Family())
	if errno != 0 {
		return -1, a, fmt.Errorf("listen on %s: open socket: %w", a, errno)
	}
	fail := func(call string, errno unix.Errno) (int32, conf.Address, error) {
		sys.Close(fd)
		return -1, a, fmt.Errorf("listen on %s: %s: %w", a, call, errno)
	}
	if !a.IsUnix() {
		if errno := l.setListenOptions(fd, sa.Family(), reusePort); errno != 0 {
			return fail("set socket options", errno)
		}
		if l.Congestion != "" {
			if errno := sys.SetCongestion(fd, l.Congestion); errno != 0 {
				return fail(fmt.Sprintf("set congestion %q (see net.ipv4.tcp_available_congestion_control)", l.Congestion), errno)
			}
		}
	} else if err := removeStale(a, &sa); err != nil {
		sys.Close(fd)
		return -1, a, err
	}
	if errno := sys.Bind(fd, &sa); errno != 0 {
		return fail("bind", errno)
	}
	if a.IsUnix() {
		// Any local user may connect, as with nginx; the directory decides.
		if err := os.Chmod(a.Path, 0o666); err != nil {
			sys.Close(fd)
			return -1, a, fmt.Errorf("listen on %s: %w", a, err)
		}
	}
	// The kernel lowers the backlog to net.core.somaxconn.
	if errno := sys.Listen(fd, math.MaxInt32); errno != 0 {
		return fail("listen", errno)
	}
	if a.Port == 0 && !a.IsUnix() {
		if errno := sys.LocalAddr(fd, &sa); errno != 0 {
			return fail("read bound address", errno)
		}
		e := sa.Endpoint()
		a.Port = e.Port
	}
	return fd, a, nil
}

// Adopt sets up a bound socket that a service manager opened for the address.
// All workers accept from it. Its congestion control is left as it is.
func (l *Listener) Adopt(fd int32, a conf.Address) error {
	fail := func(call string, err error) error { return fmt.Errorf("listen on %s: %s: %w", a, call, err) }
	if err := unix.SetNonblock(int(fd), true); err != nil {
		return fail("set non-blocking", err)
	}
	if !a.IsUnix() {
		if errno := sys.SetNoDelay(fd); errno != 0 {
			return fail("set socket options", errno)
		}
	}
	// It may listen already; then this is about the backlog.
	if errno := sys.Listen(fd, math.MaxInt32); errno != 0 {
		return fail("listen", errno)
	}
	return nil
}

// setListenOptions sets what accepted sockets inherit, and how the address may
// be shared.
func (l *Listener) setListenOptions(fd int32, family int, reusePort bool) unix.Errno {
	if errno := sys.SetOption(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); errno != 0 {
		return errno
	}
	if reusePort {
		if errno := sys.SetOption(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); errno != 0 {
			return errno
		}
	}
	if family == unix.AF_INET6 {
		// [::] is IPv6 only; IPv4 is listened to by its own address.
		if errno := sys.SetOption(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); errno != 0 {
			return errno
		}
	}
	return sys.SetNoDelay(fd)
}

// removeStale deletes a unix socket that a crashed process left behind, and
// refuses to touch one that is in use or anything else.
func removeStale(a conf.Address, sa *sys.Sockaddr) error {
	info, err := os.Lstat(a.Path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listen on %s: %w", a, err)
	}
	if info.Mode()&os.ModeSocket == 0 {
		return fmt.Errorf("listen on %s: the path exists and is no socket", a)
	}
	fd, errno := sys.StreamSocket(unix.AF_UNIX)
	if errno != 0 {
		return fmt.Errorf("listen on %s: open socket: %w", a, errno)
	}
	errno = sys.Connect(fd, sa)
	sys.Close(fd)
	if errno != unix.ECONNREFUSED {
		return fmt.Errorf("listen on %s: bind: %w", a, unix.EADDRINUSE)
	}
	if err := os.Remove(a.Path); err != nil {
		return fmt.Errorf("listen on %s: remove stale socket: %w", a, err)
	}
	return nil
}

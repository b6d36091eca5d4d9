package stream

import (
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/sys"
	"github.com/weirlb/weir/stream/upstream"
)

// checkLoops refuses peers that are our own listeners: the balancer would
// connect to itself until the descriptors run out. Names are resolved by now,
// so this sees what a look at the file can't.
func checkLoops(cfg *conf.Config, u *conf.Upstream, peers []*upstream.Peer) error {
	for i := range cfg.Listeners {
		l := &cfg.Listeners[i]
		if !speaks(cfg, u, l.Protocol) {
			continue // a port of TCP and the same one of UDP are two
		}
		for _, a := range l.Listen {
			for _, p := range peers {
				if reaches(p, a) {
					return fmt.Errorf("upstream %q: server %s is listener %q itself (%s): weir would connect to itself for ever", u.Name, p, l.Name, a)
				}
			}
		}
	}
	return nil
}

// speaks reports whether sessions to the upstream can be of that protocol.
func speaks(cfg *conf.Config, u *conf.Upstream, protocol conf.Protocol) bool {
	for i := range cfg.Listeners {
		if l := &cfg.Listeners[i]; l.Upstream == u.Name && l.Protocol == protocol {
			return true
		}
	}
	return false
}

func reaches(p *upstream.Peer, a conf.Address) bool {
	if p.IsUnix() || a.IsUnix() {
		return p.Path == a.Path
	}
	ip, ok := a.IP()
	if !ok || p.Addr.Port() != a.Port {
		return false
	}
	if ip.IsUnspecified() {
		return ip.Is4() == p.Addr.Addr().Is4() && isLocal(p.Addr.Addr())
	}
	return ip == p.Addr.Addr()
}

// isLocal reports whether the address is one of this machine's.
func isLocal(ip netip.Addr) bool {
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			if local, ok := netip.AddrFromSlice(n.IP); ok && local.Unmap() == ip.WithZone("") {
				return true
			}
		}
	}
	return false
}

// checkCongestion finds out whether the kernel lets us use an algorithm, and
// returns its name: that of the system's for "".
func checkCongestion(name string) (string, error) {
	fd, errno := sys.StreamSocket(unix.AF_INET)
	if errno != 0 {
		return "", fmt.Errorf("open socket: %w", errno)
	}
	defer sys.Close(fd)
	if name == "" {
		name, err := congestionOf(fd)
		if err != nil {
			return "", fmt.Errorf("read congestion: %w", err)
		}
		return name, nil
	}
	if errno := sys.SetCongestion(fd, name); errno != 0 {
		return "", fmt.Errorf("set congestion %q (see net.ipv4.tcp_available_congestion_control): %w", name, errno)
	}
	return name, nil
}

func congestionOf(fd int32) (string, error) {
	return unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
}

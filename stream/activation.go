package stream

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
)

// This file takes listening sockets that a service manager opened
// (sd_listen_fds(3)). One is a listener's if it has the listener's address, as
// getsockname(2) tells it; names of descriptors have no say. A TCP socket is
// shared by all workers, since a socket of another user can't be in one
// SO_REUSEPORT group with theirs; steering leaves it alone.

// activated makes an estate of bound sockets. Each must be for a listener: one
// that nobody accepts from would keep its clients waiting. It owns fds.
func activated(cfg *conf.Config, fds []int32) (_ *estate, err error) {
	e := &estate{sockets: map[place]*legacy{}}
	taken := 0
	defer func() {
		if err != nil {
			for _, fd := range fds[taken:] {
				_ = unix.Close(int(fd))
			}
			e.close()
		}
	}()
	for _, fd := range fds {
		p, err := placeOf(int(fd))
		if err != nil {
			return nil, fmt.Errorf("take socket %d of the service manager: %w", fd, err)
		}
		configured, ok := configuredPlace(cfg, p)
		switch {
		case !ok:
			return nil, fmt.Errorf("the service manager opened %s, and no listener has that address", p)
		case e.sockets[configured] != nil:
			return nil, fmt.Errorf("the service manager opened two sockets for %s", p)
		}
		e.sockets[configured] = &legacy{bound: configured.addr, fds: []int32{fd}, steered: -1, kept: true}
		taken++
	}
	return e, nil
}

// configuredPlace finds the listener's address, which may be written another way.
func configuredPlace(cfg *conf.Config, p place) (place, bool) {
	ip, _ := p.addr.IP()
	for i := range cfg.Listeners {
		l := &cfg.Listeners[i]
		if l.Protocol != p.protocol {
			continue
		}
		for _, a := range l.Listen {
			at, ok := a.IP()
			if a == p.addr || ok && !p.addr.IsUnix() && at == ip && a.Port == p.addr.Port {
				return place{l.Protocol, a}, true
			}
		}
	}
	return place{}, false
}

// placeOf tells what a bound socket is.
func placeOf(fd int) (place, error) {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return place{}, err
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return place{}, err
	}
	var p place
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		p.addr = conf.Address{Host: netip.AddrFrom4(sa.Addr).String(), Port: uint16(sa.Port)}
	case *unix.SockaddrInet6:
		ip := netip.AddrFrom16(sa.Addr)
		p.addr = conf.Address{Host: ip.String(), Port: uint16(sa.Port)}
		if only, err := unix.GetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY); ip.IsUnspecified() && (err != nil || only == 0) {
			return place{}, fmt.Errorf("%s takes IPv4 too; write BindIPv6Only=ipv6-only, and IPv4's address beside it", p.addr)
		}
	case *unix.SockaddrUnix:
		p.addr = conf.Address{Path: sa.Name}
	default:
		return place{}, fmt.Errorf("address family of %T", sa)
	}
	switch {
	case kind == unix.SOCK_STREAM:
		p.protocol = conf.TCP
	case kind == unix.SOCK_DGRAM && !p.addr.IsUnix():
		p.protocol = conf.UDP
	default:
		return place{}, fmt.Errorf("%s is neither a stream nor UDP", p.addr)
	}
	return p, nil
}

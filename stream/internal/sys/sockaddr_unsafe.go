package sys

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sockaddr is a socket address as the kernel reads and writes it.
type Sockaddr struct {
	raw unix.RawSockaddrAny
	len uint32
}

// Family returns AF_INET, AF_INET6 or AF_UNIX.
func (s *Sockaddr) Family() int { return int(s.raw.Addr.Family) }

// SetInet makes s an internet address. A zone must be an interface's index.
func (s *Sockaddr) SetInet(ap netip.AddrPort) {
	ip := ap.Addr()
	if ip.Is4() || ip.Is4In6() {
		in := (*unix.RawSockaddrInet4)(unsafe.Pointer(&s.raw))
		*in = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: swap16(ap.Port()), Addr: ip.Unmap().As4()}
		s.len = unix.SizeofSockaddrInet4
		return
	}
	in6 := (*unix.RawSockaddrInet6)(unsafe.Pointer(&s.raw))
	*in6 = unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: swap16(ap.Port()), Addr: ip.As16()}
	if zone, err := strconv.ParseUint(ip.Zone(), 10, 32); err == nil {
		in6.Scope_id = uint32(zone)
	}
	s.len = unix.SizeofSockaddrInet6
}

// SetUnix makes s the address of a unix socket; path is at most 107 bytes.
func (s *Sockaddr) SetUnix(path string) {
	un := (*unix.RawSockaddrUnix)(unsafe.Pointer(&s.raw))
	*un = unix.RawSockaddrUnix{Family: unix.AF_UNIX}
	for i := range min(len(path), len(un.Path)-1) {
		un.Path[i] = int8(path[i])
	}
	s.len = uint32(2 + len(path) + 1)
}

// Endpoint returns the internet address in s, or an Endpoint with family
// AF_UNIX and nothing else.
func (s *Sockaddr) Endpoint() Endpoint {
	switch s.raw.Addr.Family {
	case unix.AF_INET:
		in := (*unix.RawSockaddrInet4)(unsafe.Pointer(&s.raw))
		e := Endpoint{family: unix.AF_INET, Port: swap16(in.Port)}
		copy(e.ip[:4], in.Addr[:])
		return e
	case unix.AF_INET6:
		in6 := (*unix.RawSockaddrInet6)(unsafe.Pointer(&s.raw))
		return Endpoint{family: unix.AF_INET6, Port: swap16(in6.Port), ip: in6.Addr, zone: in6.Scope_id}
	}
	return Endpoint{family: unix.AF_UNIX}
}

// setEndpoint makes s the address of an endpoint that is not a unix socket.
func (s *Sockaddr) setEndpoint(e *Endpoint) {
	if e.family == unix.AF_INET {
		in := (*unix.RawSockaddrInet4)(unsafe.Pointer(&s.raw))
		*in = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: swap16(e.Port), Addr: [4]byte(e.ip[:4])}
		s.len = unix.SizeofSockaddrInet4
		return
	}
	in6 := (*unix.RawSockaddrInet6)(unsafe.Pointer(&s.raw))
	*in6 = unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: swap16(e.Port), Addr: e.ip, Scope_id: e.zone}
	s.len = unix.SizeofSockaddrInet6
}

// Endpoint is an internet address and port in 24 bytes without pointers, or
// the note that the other side is a unix socket. Endpoints are comparable.
type Endpoint struct {
	ip     [16]byte // the first 4 for IPv4
	zone   uint32
	Port   uint16
	family uint16
}

// IsUnix reports whether the endpoint is a unix socket.
func (e *Endpoint) IsUnix() bool { return e.family == unix.AF_UNIX }

// Addr returns the IP address; an IPv4 address mapped into IPv6 comes out as
// IPv4. It is not valid for a unix socket.
func (e *Endpoint) Addr() netip.Addr {
	switch e.family {
	case unix.AF_INET:
		return netip.AddrFrom4([4]byte(e.ip[:4]))
	case unix.AF_INET6:
		ip := netip.AddrFrom16(e.ip).Unmap()
		if e.zone != 0 {
			ip = ip.WithZone(strconv.FormatUint(uint64(e.zone), 10))
		}
		return ip
	}
	return netip.Addr{}
}

// AddrPort returns Addr with the port; not valid for a unix socket.
func (e *Endpoint) AddrPort() netip.AddrPort {
	if e.IsUnix() || e.family == 0 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(e.Addr(), e.Port)
}

// String returns the address and port, or "unix:", as nginx writes a client of a
// unix socket.
func (e *Endpoint) String() string {
	if e.IsUnix() {
		return "unix:"
	}
	return e.AddrPort().String()
}

// EndpointOf returns the endpoint of an internet address and port; a unix socket
// if it is not valid.
func EndpointOf(a netip.AddrPort) Endpoint {
	if !a.IsValid() {
		return Endpoint{family: unix.AF_UNIX}
	}
	var s Sockaddr
	s.SetInet(a)
	return s.Endpoint()
}

// swap16 converts between host and network byte order.
func swap16(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}

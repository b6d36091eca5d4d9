package simulate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"net/netip"
	"strings"
)

// clientPort is the port of clients that were given an address only.
const clientPort = 50000

// loopback is where clients come from that were given no address.
var loopback = clients{first: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), clientPort)}

// clients are the addresses that the sessions of one connect come from. The
// zero value is that of loopback.
type clients struct {
	first netip.AddrPort
	unix  bool
	count counted
}

// counted is what goes up by one from session to session.
type counted uint8

const (
	nothingCounted counted = iota
	addrCounted            // 10.0.0.1+
	portCounted            // 10.0.0.1:50000+
)

// parseClients reads an address, an address with a port, or unix. A plus sign
// after it counts its last number up.
func parseClients(text string) (clients, error) {
	if text == "unix" || text == "unix:" {
		return clients{unix: true}, nil
	}
	base, counting := strings.CutSuffix(text, "+")
	c := clients{}
	ip, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(base, "["), "]"))
	if err == nil {
		c.first = netip.AddrPortFrom(ip.Unmap(), clientPort)
		c.count = addrCounted
	} else if c.first, err = netip.ParseAddrPort(base); err == nil {
		c.first = netip.AddrPortFrom(c.first.Addr().Unmap(), c.first.Port())
		c.count = portCounted
	}
	switch {
	case err != nil:
		return clients{}, fmt.Errorf("%q is not the address of a client", text)
	case c.first.Addr().Zone() != "":
		return clients{}, errors.New("the address of a client has no zone here")
	case c.first.Port() == 0:
		return clients{}, errors.New("no client has port 0")
	case !counting:
		c.count = nothingCounted
	}
	return c, nil
}

// reach reports whether there are addresses for n sessions.
func (c *clients) reach(n int) bool {
	switch c.count {
	case addrCounted:
		_, ok := later(c.first.Addr(), uint64(n-1))
		return ok
	case portCounted:
		return int(c.first.Port())+n-1 <= math.MaxUint16
	}
	return true
}

// at returns where session i, from 0, comes from. It is not valid for a unix
// socket.
func (c *clients) at(i int) netip.AddrPort {
	switch {
	case c.unix:
		return netip.AddrPort{}
	case !c.first.IsValid():
		return loopback.first
	case c.count == addrCounted:
		ip, _ := later(c.first.Addr(), uint64(i))
		return netip.AddrPortFrom(ip, c.first.Port())
	case c.count == portCounted:
		return netip.AddrPortFrom(c.first.Addr(), c.first.Port()+uint16(i))
	}
	return c.first
}

// later returns the address that comes n after ip, if there is one.
func later(ip netip.Addr, n uint64) (netip.Addr, bool) {
	if ip.Is4() {
		b := ip.As4()
		at := uint64(binary.BigEndian.Uint32(b[:])) + n
		binary.BigEndian.PutUint32(b[:], uint32(at))
		return netip.AddrFrom4(b), at <= math.MaxUint32
	}
	b := ip.As16()
	low, carry := bits.Add64(binary.BigEndian.Uint64(b[8:]), n, 0)
	high, over := bits.Add64(binary.BigEndian.Uint64(b[:8]), 0, carry)
	binary.BigEndian.PutUint64(b[:8], high)
	binary.BigEndian.PutUint64(b[8:], low)
	return netip.AddrFrom16(b), over == 0
}

func clientText(a netip.AddrPort) string {
	if !a.IsValid() {
		return "unix"
	}
	return a.String()
}

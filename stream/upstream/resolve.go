package upstream

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/weirlb/weir/conf"
)

// LookupFunc returns the addresses of a host name; net.Resolver's LookupNetIP
// with network "ip" is one.
type LookupFunc func(ctx context.Context, host string) ([]netip.Addr, error)

// Resolve turns the servers of an upstream into peers for that many workers. A
// host name becomes one peer for each of its addresses, all with the server's
// whole weight, as in nginx. It asks the resolver once; a name that does not
// resolve is an error.
func Resolve(ctx context.Context, u *conf.Upstream, workers int, lookup LookupFunc) ([]*Peer, error) {
	var peers []*Peer
	for i := range u.Servers {
		s := &u.Servers[i]
		if s.Address.IsUnix() {
			peers = append(peers, newPeer(s, netip.AddrPort{}, workers))
			continue
		}
		addrs := []netip.Addr{}
		if ip, ok := s.Address.IP(); ok {
			addrs = append(addrs, ip)
		} else {
			found, err := lookup(ctx, s.Address.Host)
			if err != nil {
				return nil, fmt.Errorf("resolve server %q of upstream %q: %w", s.Address, u.Name, err)
			}
			if len(found) == 0 {
				return nil, fmt.Errorf("resolve server %q of upstream %q: the name has no address", s.Address, u.Name)
			}
			addrs = append(addrs, found...)
		}
		for _, ip := range addrs {
			numeric, err := NumericZone(ip.Unmap())
			if err != nil {
				return nil, fmt.Errorf("resolve server %q of upstream %q: %w", s.Address, u.Name, err)
			}
			peers = append(peers, newPeer(s, netip.AddrPortFrom(numeric, s.Address.Port), workers))
		}
	}
	return peers, nil
}

// NumericZone replaces the interface name in a link-local address by the
// interface's index, which is what the kernel wants. Other addresses come back
// as they are.
func NumericZone(ip netip.Addr) (netip.Addr, error) {
	zone := ip.Zone()
	if _, err := strconv.ParseUint(zone, 10, 32); zone == "" || err == nil {
		return ip, nil
	}
	nic, err := net.InterfaceByName(zone)
	if err != nil {
		return ip, fmt.Errorf("find interface %q: %w", zone, err)
	}
	return ip.WithZone(strconv.Itoa(nic.Index)), nil
}

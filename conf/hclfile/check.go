package hclfile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/weirlb/weir/conf"
)

// check holds the blocks of the file against each other.
func (d *decoder) check(root *body, empty bool) {
	switch {
	case d.incomplete(root):
		// What seems to be missing may be in a block that was not understood.
	case empty:
		d.errorf(hcl.Range{Filename: root.headerAt.Filename}, "the configuration is empty",
			"The smallest useful one is\n%s", smallest)
	case len(d.listeners) == 0:
		d.errorf(hcl.Range{}, "the configuration has no listener", "Without one there is nothing to do. Add\n%s", smallestListener(d.upstreams))
	}
	d.users = map[string][]*declaredListener{}
	for i := range d.listeners {
		l := &d.listeners[i]
		d.users[l.Upstream] = append(d.users[l.Upstream], l)
	}
	d.checkUpstreams(root)
	d.profiles()
	d.checkDatagramServers()
	d.checkAddresses()
	d.checkAdmin()
	d.checkLoops()
}

const smallest = `upstream "db" {
  server "10.0.0.11:5432" {}
}
listener "db" {
  listen   = ["0.0.0.0:5432"]
  upstream = "db"
}`

func smallestListener(upstreams []declaredUpstream) string {
	name := "db"
	if len(upstreams) > 0 {
		name = upstreams[0].Name
	}
	return fmt.Sprintf("listener %q {\n  listen   = [\"0.0.0.0:5432\"]\n  upstream = %q\n}", name, name)
}

// checkUpstreams refuses listeners whose upstream is not in the file.
func (d *decoder) checkUpstreams(root *body) {
	var names []string
	for _, u := range d.upstreams {
		names = append(names, u.Name)
	}
	for _, l := range d.listeners {
		switch {
		case (l.upstreamAt == hcl.Range{}), contains(names, l.Upstream):
		case nearest(l.Upstream, names) != "":
			d.errorf(l.upstreamAt, fmt.Sprintf("unknown upstream %q", l.Upstream), "Write upstream = %q", nearest(l.Upstream, names))
		case d.incomplete(root):
		case len(names) == 0:
			d.errorf(l.upstreamAt, fmt.Sprintf("unknown upstream %q", l.Upstream), "The file has none. Add\nupstream %q {\n  server \"10.0.0.11:5432\" {}\n}", l.Upstream)
		default:
			d.errorf(l.upstreamAt, fmt.Sprintf("unknown upstream %q", l.Upstream), "The file has %s.", and(names[:min(len(names), 10)]))
		}
	}
}

// and writes names as a sentence does: "a", "b" and "c".
func and(names []string) string {
	text := oneOf(names)
	if i := strings.LastIndex(text, " or "); i >= 0 {
		return text[:i] + " and " + text[i+4:]
	}
	return text
}

// place identifies what a listener binds: an address and port of a protocol,
// or a path. Host is the zero Addr for a unix socket. The ports of TCP and UDP
// have nothing to do with one another.
type place struct {
	protocol conf.Protocol
	host     netip.Addr
	port     uint16
	path     string
}

func placeOf(protocol conf.Protocol, a conf.Address) place {
	ip, _ := a.IP()
	return place{protocol: protocol, host: ip, port: a.Port, path: a.Path}
}

// bound is one address of a listener.
type bound struct {
	entry    *listenEntry
	listener *declaredListener
}

// bindings maps everything that is bound to who binds it, first come first.
func (d *decoder) bindings() map[place]bound {
	all := map[place]bound{}
	for i := range d.listeners {
		l := &d.listeners[i]
		if l.vague {
			continue
		}
		for j := range l.entries {
			for _, a := range l.entries[j].addrs {
				p := placeOf(l.Protocol, a)
				if _, ok := all[p]; !ok {
					all[p] = bound{&l.entries[j], l}
				}
			}
		}
	}
	return all
}

// checkAddresses refuses addresses that are bound twice. Workers bind with
// SO_REUSEPORT, so the kernel would not: it would give each of the two
// listeners a share of the connections or of the clients' datagrams.
func (d *decoder) checkAddresses() {
	first := map[place]bound{}
	for i := range d.listeners {
		l := &d.listeners[i]
		if l.vague {
			continue
		}
		for j := range l.entries {
			e := &l.entries[j]
			reported := false
			for _, a := range e.addrs {
				p := placeOf(l.Protocol, a)
				other, taken := first[p]
				if !taken {
					first[p] = bound{e, l}
					continue
				}
				if reported || other.entry == e {
					continue
				}
				reported = true // one mistake, however many ports two ranges share
				who := fmt.Sprintf("listener %q", other.listener.Name)
				if other.listener == l {
					who = "the same listener"
				}
				d.report(e.at, fmt.Sprintf("%s is listened on twice", a), fmt.Sprintf("It is taken by %s. Change one of the two, or remove it.", who), related{other.entry.at, "first listened on here"})
			}
		}
	}
}

// checkLoops refuses servers that are listeners of this very file: each
// session would open another one until no file descriptor is left.
func (d *decoder) checkLoops() {
	all := d.bindings()
	for _, u := range d.upstreams {
		protocols := d.protocolsOf(u.Name)
		for _, s := range u.servers {
			for _, p := range reaches(protocols, s.Address) {
				l, ok := all[p]
				if !ok {
					continue
				}
				d.report(s.addressAt, fmt.Sprintf("server %s is a listener of this file", s.Address),
					fmt.Sprintf("Sessions would go round in a loop: listener %q listens on it. Name the address of the real server, or another port.", l.listener.Name),
					related{l.entry.at, "listened on here"})
				break
			}
		}
	}
}

// protocolsOf lists the protocols that an upstream is used with. One that
// nobody uses yet counts as used with TCP, the default.
func (d *decoder) protocolsOf(upstream string) []conf.Protocol {
	var out []conf.Protocol
	for _, l := range d.users[upstream] {
		if !l.vague && !slices.Contains(out, l.Protocol) {
			out = append(out, l.Protocol)
		}
	}
	if len(d.users[upstream]) == 0 {
		return []conf.Protocol{conf.TCP}
	}
	return out
}

// reaches lists the places whose listener a session to the address would come
// to, as far as that can be told without asking the machine.
func reaches(protocols []conf.Protocol, a conf.Address) []place {
	if a.IsUnix() {
		return []place{{path: a.Path}}
	}
	loopback4, loopback6 := netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()
	any4, any6 := netip.IPv4Unspecified(), netip.IPv6Unspecified()
	ip, isIP := a.IP()
	var hosts []netip.Addr
	switch {
	case !isIP && strings.EqualFold(strings.TrimSuffix(a.Host, "."), "localhost"):
		hosts = []netip.Addr{loopback4, loopback6, any4, any6}
	case !isIP:
	// connect(2) to the unspecified address goes to the loopback one.
	case ip == any4:
		hosts = []netip.Addr{any4, loopback4}
	case ip == any6:
		hosts = []netip.Addr{any6, loopback6}
	case ip.IsLoopback() && ip.Is4():
		hosts = []netip.Addr{ip, any4}
	case ip.IsLoopback():
		hosts = []netip.Addr{ip, any6}
	default:
		hosts = []netip.Addr{ip}
	}
	var out []place
	for _, protocol := range protocols {
		for _, h := range hosts {
			out = append(out, place{protocol: protocol, host: h, port: a.Port})
		}
	}
	return out
}

package hclfile

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/weirlb/weir/conf"
)

// Limits are bounds of the machine that a configuration can run into. A zero
// field is unknown, and nothing is said about it.
type Limits struct {
	OpenFiles     uint64 // RLIMIT_NOFILE, the hard limit
	Workers       int    // what worker.count = "auto" is
	SomaxConn     int    // net.core.somaxconn
	FirstPort     int    // net.ipv4.ip_local_port_range
	LastPort      int
	PipePagesSoft int // fs.pipe-user-pages-soft, if it binds this user
}

// lint warns of what is legal and probably not meant. Each warning has the
// numbers of the file at hand. It runs on files without errors only.
func (d *decoder) lint(c *conf.Config, limits Limits) {
	for i := range d.upstreams {
		u := &d.upstreams[i]
		if len(d.users[u.Name]) == 0 {
			d.warn(u.nameAt, fmt.Sprintf("upstream %q is not used", u.Name), "No listener names it.", related{})
		}
		d.lintServers(u)
		d.lintBalance(u)
		d.lintHealth(u)
		d.lintUsers(u)
		d.lintQueue(u)
	}
	for i := range d.listeners {
		l := &d.listeners[i]
		if l.Protocol == conf.UDP {
			d.lintDatagrams(l, &c.Worker)
		}
		d.lintKeepalive(l)
		d.lintOverload(l)
	}
	d.lintResolver()
	d.lintKafka()
	d.lintWildcards()
	d.lintAdmin()
	d.lintLimits(c, limits)
}

// lintResolver warns of a resolver block that nobody asks: names without resolve
// are looked up once, the system's way, as with /etc/hosts.
func (d *decoder) lintResolver() {
	if (d.resolverAt == hcl.Range{}) {
		return
	}
	for i := range d.upstreams {
		for _, s := range d.upstreams[i].servers {
			if s.Resolve || s.Service {
				return
			}
		}
		if d.upstreams[i].ServerFile != "" {
			return // its names are followed
		}
	}
	d.warn(d.resolverAt, "the resolver block has no effect", "No server has resolve = true or service = true. Names without them are looked up once at start, the way the system does. Add resolve = true, or remove the block.", related{})
}

func (d *decoder) lintServers(u *declaredUpstream) {
	first := map[string]hcl.Range{}
	down := 0
	for _, s := range u.servers {
		address := s.Label()
		if at, ok := first[address]; ok {
			d.warn(s.addressAt, fmt.Sprintf("server %s is listed twice in upstream %q", address, u.Name), twice(&u.Balance), related{at, "first listed here"})
		} else {
			first[address] = s.addressAt
		}
		if s.Down {
			down++
		}
	}
	if down > 0 && down == len(u.servers) && u.ServerFile == "" {
		d.warn(u.nameAt, fmt.Sprintf("every server of upstream %q is down", u.Name), "Its listeners will refuse all sessions.", related{})
	}
	if !alone(&u.Upstream) {
		return
	}
	s := u.servers[0]
	if s.MaxFails > 0 && (s.maxFailsAt != hcl.Range{}) {
		d.warn(s.maxFailsAt, fmt.Sprintf("max_fails = %d has no effect on a single server", s.MaxFails),
			fmt.Sprintf("Upstream %q has no other server to turn to, so this one is never unavailable. Remove the line, or add a server.", u.Name), related{})
	}
	if s.SlowStart != conf.Off {
		d.warn(s.slowStartAt, "slow_start has no effect on a single server",
			fmt.Sprintf("Upstream %q has no other server that could take the rest of the sessions. Remove the line, or add a server.", u.Name), related{})
	}
}

// alone reports whether there will be one peer for sure: a host name may have
// several addresses, each a peer, and a server_file any number.
func alone(u *conf.Upstream) bool {
	if len(u.Servers) != 1 || u.ServerFile != "" {
		return false
	}
	_, isIP := u.Servers[0].Address.IP()
	return isIP || u.Servers[0].Address.IsUnix()
}

// lintWildcards warns of a listener that takes one address out of another's
// wildcard.
func (d *decoder) lintWildcards() {
	all := d.bindings()
	for i := range d.listeners {
		l := &d.listeners[i]
		for j := range l.entries {
			e := &l.entries[j]
			for _, a := range e.addrs {
				ip, ok := a.IP()
				if !ok || ip.IsUnspecified() {
					continue
				}
				wildcard := netip.IPv4Unspecified()
				if ip.Is6() {
					wildcard = netip.IPv6Unspecified()
				}
				if other, ok := all[place{protocol: l.Protocol, host: wildcard, port: a.Port}]; ok {
					what := "Connections"
					if l.Protocol == conf.UDP {
						what = "Datagrams"
					}
					d.warn(e.at, fmt.Sprintf("%s is part of %s", a, other.entry.text),
						fmt.Sprintf("%s to it come to listener %q, those to all other addresses with port %d to listener %q.", what, l.Name, a.Port, other.listener.Name),
						related{other.entry.at, "the wildcard is here"})
					break
				}
			}
		}
	}
}

// lintLimits holds what the file asks for against the machine. What it leaves
// to "auto" is fitted to the machine at start, so there is nothing to say.
func (d *decoder) lintLimits(c *conf.Config, limits Limits) {
	connections := slices.ContainsFunc(c.Listeners, func(l conf.Listener) bool { return l.Protocol == conf.TCP })
	room := unbounded
	if limits.OpenFiles > 0 {
		workers := max(1, cmp.Or(c.Worker.Count, limits.Workers))
		sockets := c.ListeningSockets(workers)
		var err error
		if room, err = conf.ShareDescriptors(limits.OpenFiles, workers, sockets); err != nil {
			d.warn(d.listeners[0].nameAt, fmt.Sprintf("%d listening sockets exceed the limit of open files", sockets),
				fmt.Sprintf("weir does not start so. The hard RLIMIT_NOFILE of this user is %d. Raise it (LimitNOFILE= in systemd, ulimit -Hn), or listen on fewer ports.", limits.OpenFiles), related{})
			room = unbounded
		}
	}
	d.lintDatagramPorts(c, limits)
	if c.Worker.MaxSessions == 0 {
		for i := range d.listeners {
			if l := &d.listeners[i]; l.UDP.MaxSessions > 0 {
				d.lintOpenFiles(l.UDP.MaxSessions, l.udp.valueRange("max_sessions"), room, false, limits)
			}
		}
		return
	}
	d.lintOpenFiles(c.Worker.MaxSessions, d.maxSessionsAt, room, connections, limits)
	if connections {
		d.lintConnections(c, limits)
	}
}

// unbounded is for a machine whose limit is unknown.
var unbounded = conf.Descriptors{Sessions: math.MaxInt}

// lintOpenFiles warns of more sessions than the limit of open files leaves
// room for.
func (d *decoder) lintOpenFiles(sessions int, at hcl.Range, room conf.Descriptors, connections bool, limits Limits) {
	if sessions <= room.Sessions {
		return
	}
	each := "two for each session"
	if !connections {
		each = "one for each session and as many for idle sockets"
	}
	d.warn(at, fmt.Sprintf("max_sessions = %d needs more open files than allowed", sessions),
		fmt.Sprintf("It takes %d, %s. The hard RLIMIT_NOFILE of this user is %d, enough for %d sessions. Raise it (LimitNOFILE= in systemd, ulimit -Hn), or write max_sessions = \"auto\".",
			room.Need(sessions), each, limits.OpenFiles, room.Sessions), related{})
}

// lintConnections holds max_sessions against what only TCP sessions take.
func (d *decoder) lintConnections(c *conf.Config, limits Limits) {
	sessions, at := c.Worker.MaxSessions, d.maxSessionsAt
	d.lintPorts(c, limits)
	const busy, shortQueue = 1024, 512
	if limits.SomaxConn > 0 && limits.SomaxConn < shortQueue && sessions >= busy {
		d.warn(at, fmt.Sprintf("the accept queue of %d is short for max_sessions = %d", limits.SomaxConn, sessions),
			"When more clients than that connect at once, for example after a restart, some wait for a retransmission. Raise it: sysctl net.core.somaxconn=4096", related{})
	}
	// A pipe of 256 KiB is lent to each direction of a session that moves bulk
	// data; one in eight sessions doing so at once is a busy machine.
	const pagesPerPipe = 64
	if need := sessions / 8 * 2 * pagesPerPipe; limits.PipePagesSoft > 0 && need > limits.PipePagesSoft {
		d.warn(at, fmt.Sprintf("pipes for max_sessions = %d exceed fs.pipe-user-pages-soft = %d", sessions, limits.PipePagesSoft),
			fmt.Sprintf("If one session in eight moves bulk data at once, their pipes want %d pages; above the limit they get one or two each and relaying slows down. Raise it: sysctl fs.pipe-user-pages-soft=%d", need, need), related{})
	}
}

// lintPorts warns of upstreams whose servers can't take max_sessions because
// each connection to one server needs a local port of its own. For UDP see
// lintDatagramPorts.
func (d *decoder) lintPorts(c *conf.Config, limits Limits) {
	ports := limits.LastPort - limits.FirstPort + 1
	if limits.LastPort == 0 || ports < 1 {
		return
	}
	for i := range d.upstreams {
		u := &d.upstreams[i]
		room := 0
		distinct := map[string]bool{}
		for _, s := range u.servers {
			_, isIP := s.Address.IP()
			if s.Address.IsUnix() || !isIP {
				room = 0 // no ports needed, or an unknown number of addresses
				distinct = nil
				break
			}
			if !distinct[s.Address.String()] {
				distinct[s.Address.String()] = true
				room += ports
			}
		}
		if d.usedWith(u.Name, conf.TCP) && distinct != nil && u.ServerFile == "" && c.Worker.MaxSessions > room {
			d.warn(u.nameAt, fmt.Sprintf("upstream %q can't take max_sessions = %d", u.Name, c.Worker.MaxSessions),
				fmt.Sprintf("net.ipv4.ip_local_port_range %d-%d has %d ports for each server, %d for the %d of it. Widen it: sysctl net.ipv4.ip_local_port_range=\"1024 65535\", or add servers.",
					limits.FirstPort, limits.LastPort, ports, room, len(distinct)), related{d.maxSessionsAt, "max_sessions is set here"})
		}
	}
}

package discovery

import (
	"bytes"
	"cmp"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// maxNameservers is how many servers of resolv.conf are used (MAXNS).
const maxNameservers = 3

// system is what resolv.conf says.
type system struct {
	servers []string // host:port
	search  []string // with a dot at the end
	ndots   int
}

// parseSystem reads a resolv.conf(5). Without a server in it, the machine's own
// is meant. What can't be read is left out, as the C library does.
func parseSystem(data []byte, port string) system {
	c, err := dns.ClientConfigFromReader(bytes.NewReader(data))
	if err != nil {
		c = &dns.ClientConfig{Ndots: 1}
	}
	s := system{ndots: c.Ndots}
	for _, host := range c.Servers {
		if _, err := netip.ParseAddr(host); err == nil && len(s.servers) < maxNameservers {
			s.servers = append(s.servers, net.JoinHostPort(host, port))
		}
	}
	if s.servers == nil {
		s.servers = []string{net.JoinHostPort("127.0.0.1", port), net.JoinHostPort("::1", port)}
	}
	for _, domain := range c.Search {
		if domain != "." { // the root, where the name itself is looked up anyway
			s.search = append(s.search, dns.Fqdn(domain))
		}
	}
	return s
}

// candidates returns the names that a name as written may stand for, in the
// order in which to ask. A dot at its end makes it absolute.
func (s *system) candidates(name string) []string {
	if strings.HasSuffix(name, ".") {
		return []string{name}
	}
	absolute := name + "."
	var out []string
	for _, domain := range s.search {
		if full := absolute + domain; len(full) <= 254 {
			out = append(out, full)
		}
	}
	if strings.Count(name, ".") >= s.ndots {
		return slices.Insert(out, 0, absolute)
	}
	return append(out, absolute)
}

// cached is a file that is parsed again when it has changed.
type cached[T any] struct {
	path  string
	parse func([]byte) T

	mu    sync.Mutex
	info  fs.FileInfo // guarded by mu: of what was read; nil = nothing yet
	value T           // guarded by mu
	calm  bool        // guarded by mu: a later change must show in the time of change
}

// get returns what the file says. One that can't be read says what it said last,
// or nothing.
func (c *cached[T]) get() T {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := os.Stat(c.path)
	if err == nil && c.calm && os.SameFile(info, c.info) && info.Size() == c.info.Size() && info.ModTime().Equal(c.info.ModTime()) {
		return c.value
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(c.path)
	}
	if err != nil {
		if c.info == nil {
			c.value = c.parse(nil)
		}
		c.calm = false
		return c.value
	}
	// The time of change is as coarse as the kernel's tick: two writes within
	// one have the same.
	c.calm = time.Since(info.ModTime()) > time.Second
	c.info, c.value = info, c.parse(data)
	return c.value
}

// network is what all resolvers of a Directory share.
type network struct {
	// immutable
	hosts  *cached[hosts]
	system *cached[system]
	slots  chan struct{} // held by a question to a server

	mu     sync.Mutex
	silent map[string]time.Time // guarded by mu: servers that did not answer, and until when they are asked last
}

func newNetwork(opt *Options) *network {
	port := cmp.Or(opt.port, "53")
	return &network{
		hosts:  &cached[hosts]{path: cmp.Or(opt.Hosts, "/etc/hosts"), parse: parseHosts},
		system: &cached[system]{path: cmp.Or(opt.ResolvConf, "/etc/resolv.conf"), parse: func(b []byte) system { return parseSystem(b, port) }},
		slots:  make(chan struct{}, maxQuestions),
		silent: map[string]time.Time{},
	}
}

// ordered returns the servers in the order in which to ask: as given, but those
// that were silent lately at the end, so that a dead one costs its time-out
// only once in a while.
func (n *network) ordered(servers []string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	rank := func(server string) int {
		if now.Before(n.silent[server]) {
			return 1
		}
		return 0
	}
	return slices.SortedStableFunc(slices.Values(servers), func(a, b string) int { return rank(a) - rank(b) })
}

// heard notes whether a server has answered.
func (n *network) heard(server string, answered bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if answered {
		delete(n.silent, server)
	} else {
		n.silent[server] = time.Now().Add(silence)
	}
}

package discovery

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/weirlb/weir/conf"
)

// hostsTTL is after which time a name in /etc/hosts is looked up again, which
// costs a look at the file.
const hostsTTL = 5 * time.Second

// families are the types of address records.
var families = [2]uint16{dns.TypeA, dns.TypeAAAA}

// host follows the addresses of one name.
type host struct {
	// immutable
	name     string // as written
	resolver *resolver

	// owned by who asks
	at   string          // the fully qualified name that had addresses last; "" = none
	last [2][]netip.Addr // the last good addresses of each family
}

// found is what came of asking for a host's addresses once. Its fields mean what
// answer's do.
type found struct {
	addrs   []netip.Addr // sorted
	learned bool
	old     bool
	local   bool // from /etc/hosts
	ttl     time.Duration
	err     error
}

func (h *host) ask(ctx context.Context) answer {
	f := h.find(ctx)
	if !f.learned {
		return answer{err: f.err}
	}
	a := answer{learned: true, old: f.old, err: f.err, again: h.resolver.again(f.ttl)}
	if f.local {
		a.again = hostsTTL
	}
	addrs := f.addrs[:min(len(f.addrs), maxServers)]
	a.leftOut = len(f.addrs) - len(addrs)
	for _, ip := range addrs {
		a.set = append(a.set, conf.Server{Address: conf.Address{Host: ip.String()}})
	}
	return a
}

// find asks for the addresses of both families.
func (h *host) find(ctx context.Context) found {
	if addrs := h.resolver.network.hosts.get().of(h.name); addrs != nil {
		f := h.know("", byFamily(addrs, hostsTTL))
		f.local = true
		return f
	}
	system := h.resolver.network.system.get()
	ttl := maxTTL
	var failed error
	for _, name := range system.candidates(h.name) {
		answers := h.askBoth(ctx, name, [2]family{})
		err := cmp.Or(answers[0].err, answers[1].err)
		switch {
		case len(answers[0].addrs)+len(answers[1].addrs) > 0, err != nil && name == h.at:
			return h.know(name, answers)
		case err != nil:
			// A later name that has addresses is meant then, as for the C
			// library. But that one of them has none does not say that all have.
			failed = cmp.Or(failed, err)
		}
		ttl = min(ttl, answers[0].ttl, answers[1].ttl)
	}
	if failed != nil {
		return found{err: failed}
	}
	return h.know("", byFamily(nil, ttl))
}

// findBeside is find for the target of a service. A family that the additional
// section has is taken from there. One that it has not is asked for: a server may
// leave it out for want of room (RFC 2181, 9).
func (h *host) findBeside(ctx context.Context, extra []dns.RR) found {
	known := additional(extra, h.name)
	if len(known[0].addrs)+len(known[1].addrs) == 0 {
		return h.find(ctx)
	}
	return h.know(h.name, h.askBoth(ctx, h.name, known))
}

// family is the answer to the question for one type of address.
type family struct {
	addrs []netip.Addr
	ttl   time.Duration
	err   error
}

// byFamily parts addresses.
func byFamily(addrs []netip.Addr, ttl time.Duration) [2]family {
	out := [2]family{{ttl: ttl}, {ttl: ttl}}
	for _, ip := range addrs {
		i := 0
		if ip.Is6() {
			i = 1
		}
		out[i].addrs = append(out[i].addrs, ip)
	}
	return out
}

// askBoth asks for the families of which nothing is known.
func (h *host) askBoth(ctx context.Context, name string, known [2]family) (out [2]family) {
	var asked sync.WaitGroup
	for i, qtype := range families {
		if len(known[i].addrs) > 0 {
			out[i] = known[i]
			continue
		}
		asked.Go(func() {
			r, err := h.resolver.lookup(ctx, name, qtype)
			out[i] = family{addresses(r.list), r.ttl, err}
		})
	}
	asked.Wait()
	return out
}

// addresses returns the addresses in records that a server can have. Resolvers
// that block a name answer with 0.0.0.0, where this machine itself would listen.
func addresses(list []dns.RR) []netip.Addr {
	var out []netip.Addr
	for _, rr := range list {
		var ip netip.Addr
		switch rr := rr.(type) {
		case *dns.A:
			ip, _ = netip.AddrFromSlice(rr.A)
		case *dns.AAAA:
			ip, _ = netip.AddrFromSlice(rr.AAAA)
		}
		if ip = ip.Unmap(); ip.IsValid() && !ip.IsUnspecified() && !ip.IsMulticast() {
			out = append(out, ip)
		}
	}
	return out
}

// know takes over what the two families of a name have answered. One that has
// failed keeps its last addresses, if they were that name's.
func (h *host) know(name string, answers [2]family) found {
	f := found{ttl: maxTTL}
	empty := len(answers[0].addrs)+len(answers[1].addrs) == 0
	var next [2][]netip.Addr
	for i, a := range answers {
		switch {
		case a.err == nil:
			next[i], f.learned = a.addrs, true
			if empty || len(a.addrs) > 0 { // many names have one family for ever
				f.ttl = min(f.ttl, a.ttl)
			}
		case name == h.at:
			next[i] = h.last[i]
			f.old = f.old || len(next[i]) > 0
		}
		f.err = cmp.Or(f.err, a.err)
	}
	f.addrs = sorted(next)
	if f.err != nil && (!f.learned || len(f.addrs) == 0) {
		return found{err: f.err}
	}
	h.at, h.last = name, next
	return f
}

// sorted returns the addresses of both families, IPv4 first and in the order of
// their numbers, each once.
func sorted(families [2][]netip.Addr) []netip.Addr {
	out := slices.Concat(families[0], families[1])
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

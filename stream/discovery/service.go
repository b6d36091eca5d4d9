package discovery

import (
	"cmp"
	"context"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/miekg/dns"

	"github.com/weirlb/weir/conf"
)

// targetsAtOnce is how many targets of a service are asked for at once.
const targetsAtOnce = 16

// service follows the targets of one SRV name (RFC 2782).
type service struct {
	// immutable
	name     string // as written
	resolver *resolver

	// owned by who asks
	at      string           // the fully qualified name that had records last; "" = none
	targets map[string]*host // of the last answer, by name
}

func (s *service) ask(ctx context.Context) answer {
	r, err := s.lookup(ctx)
	if err != nil {
		return answer{err: err}
	}
	list, leftOut := s.records(r.list)
	found := s.resolve(ctx, list, r.extra)
	a := answer{learned: true, leftOut: leftOut}
	ttl := r.ttl
	for _, f := range found {
		a.err = cmp.Or(a.err, f.err)
		a.old = a.old || f.old
		if f.learned {
			ttl = min(ttl, f.ttl)
		}
	}
	a.again = s.resolver.again(ttl)
	a.set = servers(list, found)
	if over := len(a.set) - maxServers; over > 0 {
		a.set, a.leftOut = a.set[:maxServers], a.leftOut+over
	}
	if a.err != nil && len(a.set) == 0 {
		return answer{err: a.err} // that there is none nobody has said
	}
	return a
}

// lookup asks for the service's records.
func (s *service) lookup(ctx context.Context) (records, error) {
	system := s.resolver.network.system.get()
	ttl := maxTTL
	var failed error
	for _, name := range system.candidates(s.name) {
		r, err := s.resolver.lookup(ctx, name, dns.TypeSRV)
		switch {
		case err != nil && name == s.at:
			return records{}, err
		case err != nil:
			failed = cmp.Or(failed, err)
		case len(r.list) > 0:
			s.at = name
			return r, nil
		default:
			ttl = min(ttl, r.ttl)
		}
	}
	if failed == nil {
		s.at = ""
	}
	return records{ttl: ttl}, failed
}

// records returns the service's records, the best ones first. The target "."
// says that there is no such service here.
func (s *service) records(list []dns.RR) (out []*dns.SRV, leftOut int) {
	for _, rr := range list {
		if srv, ok := rr.(*dns.SRV); ok && srv.Target != "." && srv.Port != 0 {
			srv.Target = dns.CanonicalName(srv.Target)
			out = append(out, srv)
		}
	}
	slices.SortFunc(out, func(a, b *dns.SRV) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Port, b.Port), cmp.Compare(b.Weight, a.Weight))
	})
	if over := len(out) - maxServers; over > 0 {
		return out[:maxServers], over
	}
	return out, 0
}

// resolve returns the addresses of all targets, of which the additional section
// may have some. A target that can't be asked for keeps its last addresses.
func (s *service) resolve(ctx context.Context, list []*dns.SRV, extra []dns.RR) map[string]found {
	var mu sync.Mutex
	out := map[string]found{}
	next := map[string]*host{}
	slots := make(chan struct{}, targetsAtOnce)
	var asked sync.WaitGroup
	for _, srv := range list {
		name := srv.Target
		if next[name] != nil {
			continue
		}
		h := s.targets[name]
		if h == nil {
			h = &host{name: name, resolver: s.resolver}
		}
		next[name] = h
		slots <- struct{}{}
		asked.Go(func() {
			f := h.findBeside(ctx, extra)
			<-slots
			if !f.learned {
				f.addrs = sorted(h.last)
				f.old = len(f.addrs) > 0
			}
			mu.Lock()
			out[name] = f
			mu.Unlock()
		})
	}
	asked.Wait()
	s.targets = next
	return out
}

// additional returns the addresses of a name in an additional section, by family.
func additional(extra []dns.RR, name string) (out [2]family) {
	for i, qtype := range families {
		var list []dns.RR
		ttl := maxTTL
		for _, rr := range extra {
			if h := rr.Header(); h.Rrtype == qtype && strings.EqualFold(h.Name, name) {
				list = append(list, rr)
				ttl = min(ttl, seconds(h.Ttl))
			}
		}
		out[i] = family{addrs: addresses(list), ttl: ttl}
	}
	return out
}

// target is a server with what it is sorted by.
type target struct {
	tier int
	at   netip.AddrPort
	conf.Server
}

// servers returns the servers that records and the addresses of their targets
// make. Those of the lowest priority number that has any are primary, all others
// are backups.
func servers(list []*dns.SRV, found map[string]found) []conf.Server {
	var targets []target
	seen := map[[2]string]bool{}
	best := uint16(math.MaxUint16)
	for _, srv := range list {
		name := net.JoinHostPort(strings.TrimSuffix(srv.Target, "."), strconv.Itoa(int(srv.Port)))
		for _, ip := range found[srv.Target].addrs {
			at := netip.AddrPortFrom(ip, srv.Port)
			place := [2]string{at.String(), name}
			if seen[place] {
				continue // listed twice
			}
			seen[place] = true
			best = min(best, srv.Priority) // the list begins with the lowest
			t := target{at: at, Server: conf.Server{
				Address: conf.Address{Host: ip.String(), Port: srv.Port},
				Name:    name,
				Weight:  max(int(srv.Weight), 1),
			}}
			if srv.Priority > best {
				t.tier, t.Backup = 1, true
			}
			targets = append(targets, t)
		}
	}
	slices.SortFunc(targets, func(a, b target) int {
		return cmp.Or(cmp.Compare(a.tier, b.tier), a.at.Compare(b.at), cmp.Compare(a.Name, b.Name))
	})
	out := make([]conf.Server, len(targets))
	for i, t := range targets {
		out[i] = t.Server
	}
	return out
}

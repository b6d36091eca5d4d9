package hclfile

import (
	"fmt"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/weirlb/weir/conf"
)

// lintDatagrams warns of what a UDP listener's bounds make of its sessions.
func (d *decoder) lintDatagrams(l *declaredListener, worker *conf.Worker) {
	const name = "max_sessions"
	if n := l.UDP.MaxSessions; n > 0 && worker.MaxSessions > 0 && n > worker.MaxSessions {
		d.warn(l.udp.valueRange(name), fmt.Sprintf("max_sessions = %d is more than all listeners together may have", n),
			fmt.Sprintf("The worker block allows %d. Write at most that here, or raise it there.", worker.MaxSessions), related{d.maxSessionsAt, "max_sessions of the worker block"})
	}
	if u := d.upstreamNamed(l.Upstream); u != nil {
		d.lintDNS(l, u)
	}
}

func (d *decoder) upstreamNamed(name string) *declaredUpstream {
	for i := range d.upstreams {
		if d.upstreams[i].Name == name {
			return &d.upstreams[i]
		}
	}
	return nil
}

// lintDNS warns of sessions that outlive their answer. A resolver sends each
// query from a port of its own (RFC 5452, section 9.2), so that each is a
// session. responses = 0, written out, says that this is meant.
func (d *decoder) lintDNS(l *declaredListener, u *declaredUpstream) {
	const port, perSecond = 53, 1000
	if l.UDP.Responses != 0 || l.udp != nil && l.udp.isSet("responses") {
		return
	}
	for _, s := range u.servers {
		if s.Address.Port != port {
			continue
		}
		at := l.protocolAt
		if l.udp != nil {
			at = l.udp.headerAt
		}
		d.warn(at, "responses = 1 suits DNS: sessions end with their answer instead of after idle_timeout",
			fmt.Sprintf("Listener %q takes any number of answers, so that a query's session stays for idle_timeout = %s: %d queries a second hold %d sessions. Write udp { responses = 1 }, or responses = 0 if this is meant.",
				l.Name, conf.FormatDuration(l.UDP.IdleTimeout), perSecond, perSecond*l.UDP.IdleTimeout/time.Second),
			related{s.addressAt, "this server is DNS by its port"})
		return
	}
}

// lintUsers warns of settings of an upstream that its listeners, all of them
// UDP ones, leave without effect.
func (d *decoder) lintUsers(u *declaredUpstream) {
	users := d.users[u.Name]
	if len(users) == 0 || d.usedWith(u.Name, conf.TCP) {
		return
	}
	if u.Congestion != "" {
		d.warn(u.congestionAt, fmt.Sprintf("congestion has no effect in upstream %q", u.Name), "All its listeners are UDP ones, and UDP has no congestion control. Remove it.", related{users[0].protocolAt, "the protocol is set here"})
	}
	if alone(&u.Upstream) || !measures(u.Balance) {
		return
	}
	for _, l := range users {
		if l.UDP.Responses != conf.NoResponses {
			d.lintConnectTime(u, users)
			return
		}
	}
	l := users[0]
	set := related{l.profileAt, "responses is set by the profile"}
	if l.udp != nil && l.udp.isSet("responses") {
		set = related{l.udp.valueRange("responses"), "responses is set here"}
	}
	d.warn(u.balance.labelAt, fmt.Sprintf("%s has nothing to measure in upstream %q", u.Balance.Method, u.Name),
		fmt.Sprintf("Listener %q waits for no answer, so that the times of all %d servers stay unknown. Write balance \"round_robin\" {}, or let the listener wait: responses = 1.", l.Name, len(u.servers)), set)
}

// measures reports whether a method decides by how peers did.
func measures(b conf.Balance) bool {
	return usesTimes(b) || b.Method == conf.EpsilonGreedy
}

func usesTimes(b conf.Balance) bool {
	return b.Method == conf.LeastTime || b.Method == conf.Random && b.Choices == 2 && b.By == conf.LeastTime
}

func (d *decoder) lintConnectTime(u *declaredUpstream, users []*declaredListener) {
	if !usesTimes(u.Balance) || u.Balance.Time != conf.TimeConnect {
		return
	}
	d.warn(u.balance.valueRange("time"), fmt.Sprintf("connect times of upstream %q are all the same", u.Name),
		`All its listeners are UDP ones, and UDP has no handshake to measure. Write time = "first_byte".`, related{users[0].protocolAt, "the protocol is set here"})
}

func (d *decoder) usedWith(upstream string, protocol conf.Protocol) bool {
	for _, l := range d.users[upstream] {
		if l.Protocol == protocol {
			return true
		}
	}
	return false
}

// lintDatagramPorts warns of more UDP sessions than there are local ports. A
// UDP socket gets its port before the kernel knows whom it will talk to
// (inet_dgram_connect), so that all servers share one range, where TCP has one
// for each.
func (d *decoder) lintDatagramPorts(c *conf.Config, limits Limits) {
	ports := limits.LastPort - limits.FirstPort + 1
	if limits.LastPort == 0 || ports < 1 {
		return
	}
	sessions, at, listeners, bounded := 0, hcl.Range{}, 0, true
	for i := range d.listeners {
		l := &d.listeners[i]
		if l.Protocol != conf.UDP {
			continue
		}
		if listeners++; l.UDP.MaxSessions == 0 {
			bounded = false
			continue
		}
		if sessions += l.UDP.MaxSessions; at == (hcl.Range{}) {
			at = l.udp.valueRange("max_sessions")
		}
	}
	who := "max_sessions"
	if w := c.Worker.MaxSessions; listeners > 0 && w > 0 && (!bounded || w < sessions) {
		sessions, at = w, d.maxSessionsAt
	} else if listeners > 1 {
		who = "the sum of max_sessions"
	}
	if listeners == 0 || !bounded && c.Worker.MaxSessions == 0 || sessions <= ports {
		return
	}
	d.warn(at, fmt.Sprintf("UDP sessions run out of local ports before %s = %d", who, sessions),
		fmt.Sprintf("net.ipv4.ip_local_port_range %d-%d has %d, which all UDP sessions and idle sockets share, whatever server they go to. Widen it: sysctl net.ipv4.ip_local_port_range=\"1024 65535\", or write a lower max_sessions in the udp block.",
			limits.FirstPort, limits.LastPort, ports), related{})
}

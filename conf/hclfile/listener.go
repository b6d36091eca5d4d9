package hclfile

import (
	"fmt"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/weirlb/weir/conf"
)

var listenerBlock = &block{
	name:   "listener",
	label:  "name",
	header: `listener "NAME" {`,
	attrs: []attribute{
		{"listen", kindList, `["0.0.0.0:5432"]`},
		{"protocol", kindString, `"tcp"`},
		{"upstream", kindString, `"NAME"`},
		{"profile", kindString, `"postgres"`},
		{"priority", kindNumber, `1`},
		{"connect_timeout", kindDuration, `"3s"`},
		{"idle_timeout", kindDuration, `"10m"`},
		{"half_close_timeout", kindDuration, `"1m"`},
		{"dead_peer_timeout", kindDuration, `"30s"`},
		{"congestion", kindString, `"cubic"`},
	},
	blocks: []*block{nextUpstreamBlock, hedgeBlock, limitsBlock, udpBlock},
	later:  []string{"max_age", "proxy_protocol", "access", "source", "preread", "route"},
}

var nextUpstreamBlock = &block{
	name:   "next_upstream",
	header: "next_upstream {",
	single: true,
	attrs: []attribute{
		{"tries", kindNumber, `2`},
		{"timeout", kindDuration, `"10s"`},
		{"backoff", kindDuration, `"25ms"`},
		{"before_first_byte", kindBool, `true`},
	},
}

// MaxListenAddresses bounds the addresses of all listeners together, ranges
// expanded: four times all ports, and far more than a process can bind.
const MaxListenAddresses = 1 << 18

// maxTries is the largest number of attempts for one session.
const maxTries = 65535

// declaredListener is a listener with the places its parts were written at.
type declaredListener struct {
	conf.Listener
	nameAt, protocolAt, upstreamAt, profileAt, idleAt, priorityAt hcl.Range
	// vague says that there is no telling which protocol was meant, so that
	// nothing is said that depends on it.
	vague                    bool
	nextUpstream, hedge, udp *body // nil = none in the file
	entries                  []listenEntry
}

// listenEntry is one entry of a listen list.
type listenEntry struct {
	addrs []conf.Address
	text  string
	at    hcl.Range
}

func (d *decoder) listener(b *body) {
	name, ok := d.name(b.label, b.labelAt, "a listener")
	if ok {
		for _, other := range d.listeners {
			if other.Name == name {
				d.report(b.labelAt, fmt.Sprintf("listener %q is defined twice", name),
					"Give one of the two another name, or list both addresses in one: listen takes several.", related{other.nameAt, "first defined here"})
				break
			}
		}
	}
	l := declaredListener{Listener: conf.NewListener(name), nameAt: b.labelAt}
	d.protocol(b, &l)
	d.profile(b, &l)
	d.listen(b, &l)
	if text, at, ok := b.text("upstream"); ok {
		l.Upstream, l.upstreamAt = text, at
	} else {
		b.require("upstream", fmt.Sprintf("listener %q has no upstream", name), `Say which one takes its sessions: upstream = "NAME"`)
	}
	d.datagrams(b, &l)
	if l.Protocol == conf.UDP {
		d.refuseConnections(b, &l)
	} else {
		d.connections(b, &l)
	}
	d.listeners = append(d.listeners, l)
}

// maxDeadPeerTimeout keeps a third of it, the time to the first probe, below 32767 s
// (MAX_TCP_KEEPIDLE), and all of it in milliseconds in 31 bits (TCP_USER_TIMEOUT).
const maxDeadPeerTimeout = 24 * time.Hour

// connections reads what only TCP listeners have.
func (d *decoder) connections(b *body, l *declaredListener) {
	b.duration("connect_timeout", never, &l.ConnectTimeout)
	b.duration("idle_timeout", orOff, &l.IdleTimeout)
	l.idleAt = b.valueRange("idle_timeout")
	b.duration("half_close_timeout", orOff, &l.HalfCloseTimeout)
	b.duration("dead_peer_timeout", orOff, &l.DeadPeerTimeout)
	if l.DeadPeerTimeout > maxDeadPeerTimeout {
		d.errorf(b.valueRange("dead_peer_timeout"), "dead_peer_timeout is too long", `The kernel can't be told to wait for longer than "24h". Write less, or "off".`)
	}
	d.congestion(b, &l.Congestion)
	b.number("priority", 0, conf.Priorities-1, &l.Priority)
	l.priorityAt = b.nameRange("priority")
	if n := b.one(nextUpstreamBlock); n != nil {
		d.nextUpstream(n, l)
	}
	if h := b.one(hedgeBlock); h != nil {
		d.hedge(h, l)
	}
	if m := b.one(limitsBlock); m != nil {
		d.limits(m, l)
	}
}

func (d *decoder) listen(b *body, l *declaredListener) {
	list, at, ok := b.list("listen")
	if !ok {
		b.require("listen", fmt.Sprintf("listener %q has no listen", l.Name), `Say where it takes connections: listen = ["0.0.0.0:5432"]`)
		return
	}
	if len(list) == 0 {
		d.errorf(at, "listen is empty", `A listener needs at least one address: listen = ["0.0.0.0:5432"]`)
	}
	for _, it := range list {
		if d.listenAddresses > MaxListenAddresses {
			return
		}
		addrs, err := conf.ParseListenAddress(it.text)
		if err != nil {
			d.badListenAddress(it, err)
			continue
		}
		if l.Protocol == conf.UDP && addrs[0].IsUnix() {
			d.report(it.at, fmt.Sprintf("a UDP listener can't listen on %s", addrs[0]),
				"Unix sockets take connections here, not datagrams. Write an address and a port, such as \"0.0.0.0:53\", or move it to a listener with protocol = \"tcp\".", l.asUDP())
			continue
		}
		if d.listenAddresses += len(addrs); d.listenAddresses > MaxListenAddresses {
			d.errorf(it.at, "too many listen addresses", "With this one the listeners of the file have more than %d together: use fewer or shorter port ranges.", MaxListenAddresses)
			return
		}
		l.Listen = append(l.Listen, addrs...)
		l.entries = append(l.entries, listenEntry{addrs, it.text, it.at})
	}
}

package hclfile

import (
	"fmt"
	"slices"

	"github.com/weirlb/weir/conf"
)

func profileChoices() []choice[conf.Profile] {
	var all []choice[conf.Profile]
	for _, p := range conf.Profiles() {
		all = append(all, choice[conf.Profile]{string(p), p})
	}
	return all
}

// profile reads what a listener's clients speak, and sets the listener to its
// defaults, which whatever else the file says goes over.
func (d *decoder) profile(b *body, l *declaredListener) {
	choose(b, "profile", profileChoices(), nil, &l.Profile)
	l.profileAt = b.valueRange("profile")
	if l.Profile == conf.NoProfile || l.vague {
		return
	}
	p := l.Profile.Defaults()
	switch {
	case l.Protocol == conf.UDP && !p.UDP:
		d.report(l.profileAt, fmt.Sprintf("profile %q is for TCP listeners", l.Profile),
			fmt.Sprintf("Nobody speaks %s over UDP. Remove protocol = \"udp\", or write profile = \"generic\".", l.Profile), l.asUDP())
	case l.Protocol == conf.UDP:
		l.UDP = p.Datagrams
	case !p.TCP:
		d.errorf(l.profileAt, fmt.Sprintf("profile %q is for UDP listeners", l.Profile),
			"Over TCP a session of it is like that of any other protocol: write profile = \"generic\" and idle_timeout = \"off\". For UDP, write protocol = \"udp\".")
	default:
		l.ConnectTimeout, l.IdleTimeout, l.HalfCloseTimeout, l.DeadPeerTimeout = p.ConnectTimeout, p.IdleTimeout, p.HalfCloseTimeout, p.DeadPeerTimeout
	}
}

// profiles sets each upstream to the defaults of its listeners' profile, which
// may be one only.
func (d *decoder) profiles() {
	for i := range d.upstreams {
		u := &d.upstreams[i]
		var first *declaredListener
		for _, l := range d.users[u.Name] {
			switch {
			case l.Profile == conf.NoProfile:
			case first == nil:
				first = l
			case l.Profile != first.Profile:
				d.report(l.profileAt, fmt.Sprintf("upstream %q has listeners with two profiles", u.Name),
					fmt.Sprintf("Its health check and what becomes of its sessions come from one. Write profile = %q here too, or give listener %q an upstream of its own.", first.Profile, l.Name),
					related{first.profileAt, fmt.Sprintf("listener %q has this one", first.Name)})
			}
		}
		if first != nil {
			d.upstreamDefaults(u, first.Profile.Defaults())
		}
	}
}

// upstreamDefaults sets what the file leaves open: the health checks as a
// whole, and the fate for each verdict.
func (d *decoder) upstreamDefaults(u *declaredUpstream, p conf.ProfileDefaults) {
	check := p.TCPCheck
	if d.usedWith(u.Name, conf.UDP) {
		check = p.UDPCheck
	}
	if !u.ownChecks && check != nil {
		u.Checks = []conf.HealthCheck{*check}
	}
	for _, f := range stateFates {
		if u.onState == nil || !u.onState.isSet(f.name) {
			*f.of(&u.OnState) = *f.of(&p.OnState)
		}
	}
}

// unchecked says of upstreams whose profile has no check of its own why it has
// none.
func unchecked(c *conf.Config) []string {
	var notes []string
	for _, u := range c.Upstreams {
		i := slices.IndexFunc(c.Listeners, func(l conf.Listener) bool { return l.Upstream == u.Name && l.Profile != conf.NoProfile })
		if i < 0 || len(u.Checks) > 0 {
			continue
		}
		p := c.Listeners[i].Profile
		if why := p.Defaults().NoCheck; why != "" {
			notes = append(notes, fmt.Sprintf("upstream %q: profile %q checks no server: %s", u.Name, p, why))
		}
	}
	return notes
}

// lintKeepalive warns of an idle_timeout that cuts sessions between two
// heartbeats.
func (d *decoder) lintKeepalive(l *declaredListener) {
	keepalive := l.Profile.Defaults().Keepalive
	if keepalive == 0 || l.IdleTimeout == conf.Off || l.IdleTimeout > keepalive || l.Protocol == conf.UDP {
		return
	}
	write := "A dead end is found by dead_peer_timeout: remove the line."
	if l.Profile == conf.ProfileKafka {
		write = "Clients see resets where they would have seen the broker close. Remove the line."
	}
	d.warn(l.idleAt, fmt.Sprintf("idle_timeout = %s ends healthy sessions of %s", conf.FormatDuration(l.IdleTimeout), l.Profile),
		fmt.Sprintf("By itself a session of it may be silent for %s. %s", conf.FormatDuration(keepalive), write), related{l.profileAt, "the profile is set here"})
}

// lintKafka warns of a listener in front of several brokers: clients ask it for
// the brokers' own addresses and go there, past weir or nowhere.
func (d *decoder) lintKafka() {
	var only *declaredListener
	for i := range d.listeners {
		if l := &d.listeners[i]; l.Profile == conf.ProfileKafka {
			if only != nil {
				return
			}
			only = l
		}
	}
	if only == nil {
		return
	}
	u := d.upstreamNamed(only.Upstream)
	if u == nil || alone(&u.Upstream) {
		return
	}
	d.warn(only.profileAt, fmt.Sprintf("listener %q is the only one for the brokers of upstream %q", only.Name, u.Name),
		"Clients use it to ask which brokers there are, and then connect to the addresses that the brokers advertise (advertised.listeners). For sessions through weir, write a listener and an upstream with one server for each broker, and have each broker advertise its listener.", related{u.nameAt, "the upstream is here"})
}

package hclfile

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/weirlb/weir/conf"
)

var udpBlock = &block{
	name:   "udp",
	header: "udp {",
	single: true,
	attrs: []attribute{
		{"idle_timeout", kindDuration, `"1m"`},
		{"requests", kindNumber, `1`},
		{"responses", kindNumber, `1`},
		{"max_sessions", kindNumber, `"auto"`},
		{"quarantine", kindDuration, `"500ms"`},
	},
	noOff: map[string]string{
		"idle_timeout": `Nobody closes a UDP session, and answers get lost: some would stay for ever. Write a time, such as "1m".`,
		"quarantine":   `Write "0s" if a socket shall go to another client at once.`,
	},
}

// maxDatagrams is the largest number of datagrams that a session may be told
// to wait for.
const maxDatagrams = 1_000_000

var protocols = []choice[conf.Protocol]{{"tcp", conf.TCP}, {"udp", conf.UDP}}

// protocol reads what the listener accepts. Whatever else it holds depends on
// that.
func (d *decoder) protocol(b *body, l *declaredListener) {
	choose(b, "protocol", protocols, nil, &l.Protocol)
	l.protocolAt = b.valueRange("protocol")
	switch {
	case b.unclear("protocol"):
		l.vague = true
	case !b.isSet("protocol") && d.incomplete(b) && b.holds(udpBlock):
		l.Protocol = conf.UDP // the line is probably among those that were not understood
	}
}

// asUDP is where the file says that the listener is one for UDP.
func (l *declaredListener) asUDP() related {
	return related{l.protocolAt, "the protocol is set here"}
}

// datagrams reads the udp block.
func (d *decoder) datagrams(b *body, l *declaredListener) {
	u := b.one(udpBlock)
	if u == nil {
		return
	}
	l.udp = u
	if l.Protocol == conf.TCP && !l.vague {
		detail := `Write protocol = "udp" in the listener, or remove the block.`
		if !b.isSet("protocol") {
			detail = `The protocol is "tcp" unless it is set: write protocol = "udp" in the listener, or remove the block.`
		}
		d.report(u.headerAt, "udp block in a TCP listener", detail, l.asUDP())
	}
	u.duration("idle_timeout", never, &l.UDP.IdleTimeout)
	u.datagramCount("requests", false, &l.UDP.Requests)
	u.datagramCount("responses", true, &l.UDP.Responses)
	u.numberOrAuto("max_sessions", 1, maxSessions, &l.UDP.MaxSessions)
	u.duration("quarantine", orZero, &l.UDP.Quarantine)
}

// What people write for "none" and for "any number".
var (
	wordsForNone = []string{"none", "no", "never", "nothing", "zero", "off", "false"}
	wordsForAny  = []string{"any", "all", "auto", "unlimited", "infinite", "inf", "unset"}
)

// datagramCount reads a number of datagrams, 0 for any number, or "none" if
// orNone is set.
func (b *body) datagramCount(name string, orNone bool, into *int) {
	v, at, ok := b.value(name)
	if !ok {
		return
	}
	takes := "a number"
	if orNone {
		takes = `a number or "none"`
	}
	text := ""
	if v.Type() == cty.String {
		text = strings.ToLower(v.AsString())
	}
	switch {
	case orNone && v.Type() == cty.String && v.AsString() == "none":
		*into = conf.NoResponses
	case orNone && slices.Contains(wordsForNone, text):
		b.d.errorf(at, fmt.Sprintf("%s takes %s", name, takes), `Write "none" if servers never answer, or 0 for any number.`)
	case slices.Contains(wordsForAny, text), slices.Contains(wordsForNone, text):
		b.d.errorf(at, fmt.Sprintf("%s takes %s", name, takes), "Write %s = 0 for any number.", name)
	default:
		b.wholeNumber(name, takes, v, at, 0, maxDatagrams, into)
	}
}

// refuseConnections refuses what means something for TCP only, and says what
// there is for UDP.
func (d *decoder) refuseConnections(b *body, l *declaredListener) {
	idle := `"1m"`
	if a := b.attrs["idle_timeout"]; a != nil {
		idle = durationText(b, a, idle)
	}
	for _, refused := range []struct{ name, instead string }{
		{"connect_timeout", `UDP has no handshake to wait for: a server that does not answer costs its session idle_timeout of the udp block. Remove it.`},
		{"idle_timeout", fmt.Sprintf("It has one in its udp block: write udp { idle_timeout = %s }", idle)},
		{"half_close_timeout", `UDP has no end of input: sessions end as the udp block says, with idle_timeout, requests and responses. Remove it.`},
		{"dead_peer_timeout", `UDP has no keepalive: sessions of a peer that is gone end after idle_timeout of the udp block. Remove it.`},
		{"congestion", `UDP has no congestion control. Remove it.`},
		{"priority", `No UDP session waits for a server, so that none goes before another. Remove it.`},
	} {
		if b.isSet(refused.name) {
			d.report(b.nameRange(refused.name), "a UDP listener has no "+refused.name, refused.instead, l.asUDP())
		}
	}
	for _, refused := range []struct {
		block   *block
		instead string
	}{
		{nextUpstreamBlock, "A UDP session never moves to another peer, as in nginx: nobody keeps the datagrams that would have to be sent again. What a client sends after a refusal begins a new session, with a new peer. Remove the block."},
		{hedgeBlock, "UDP has no handshake that a second attempt could win. Remove the block."},
		{limitsBlock, "Its sessions are bounded by the udp block: write udp { max_sessions = 10000 }. There is no bound on rates. Remove the block."},
	} {
		for _, c := range b.each(refused.block) {
			d.report(c.headerAt, "a UDP listener has no "+refused.block.name, refused.instead, l.asUDP())
		}
	}
}

// durationText is a duration as the file gives it, or the example if it gives
// none.
func durationText(b *body, a *hcl.Attribute, example string) string {
	v, diags := b.eval(a)
	if diags.HasErrors() || !v.IsKnown() || v.IsNull() || v.Type() != cty.String {
		return example
	}
	if _, err := conf.ParseDuration(v.AsString()); err != nil {
		return example
	}
	return quote(v.AsString())
}

// udpInAddress matches what other programs put around an address for UDP:
// nginx's "53 udp", HAProxy's "udp4@:53", "udp://", "53/udp".
var udpInAddress = regexp.MustCompile(`^(?i:udp[46]?(?:@|://|:)([^\s/]+)|([^\s/]+)(?:\s+|/)udp(?:\s.*)?)$`)

// badListenAddress says what is wrong with an entry of a listen list.
func (d *decoder) badListenAddress(it item, err error) {
	if m := udpInAddress.FindStringSubmatch(it.text); m != nil {
		address := listenAddress(m[1] + m[2])
		if _, err := conf.ParseListenAddress(address); err == nil {
			d.errorf(it.at, "an address has no protocol", "Write %s in listen, and protocol = \"udp\" in the listener.", quote(address))
			return
		}
	}
	d.errorf(it.at, "bad address in listen", "%s.", sentence(err))
}

// listenAddress completes an address of another program, which may be a port
// alone.
func listenAddress(text string) string {
	text = strings.Trim(text, `"'`)
	if _, ok := parseNumber(text); ok {
		return "0.0.0.0:" + text
	}
	for _, any := range []string{"*:", ":"} {
		if port, ok := strings.CutPrefix(text, any); ok && !strings.Contains(port, ":") {
			return "0.0.0.0:" + port
		}
	}
	return text
}

// checkDatagramServers refuses servers that no UDP session can reach, and bounds
// that need a session to wait or to be refused.
func (d *decoder) checkDatagramServers() {
	for i := range d.upstreams {
		u := &d.upstreams[i]
		j := slices.IndexFunc(d.users[u.Name], func(l *declaredListener) bool { return l.Protocol == conf.UDP })
		if j < 0 {
			continue
		}
		l := d.users[u.Name][j]
		for _, b := range u.bounds() {
			d.report(b.headerAt, fmt.Sprintf("upstream %q has a UDP listener and no %s", u.Name, b.schema.name),
				fmt.Sprintf("Datagrams do not wait for a server, and nobody can be told that there is none: listener %q has max_sessions in its udp block. Remove the block, or give the TCP listeners an upstream of their own.", l.Name),
				related{l.upstreamAt, "used for UDP here"})
		}
		for _, s := range u.servers {
			if s.Address.IsUnix() {
				d.report(s.addressAt, fmt.Sprintf("server %s takes no UDP", s.Address),
					fmt.Sprintf("Listener %q has protocol = \"udp\", and unix sockets take connections here, not datagrams. Write the server's address and port, or give the listener an upstream without this server.", l.Name),
					related{l.upstreamAt, "used for UDP here"})
			}
		}
	}
}

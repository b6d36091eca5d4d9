package hclfile

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/weirlb/weir/conf"
)

var adminBlock = &block{
	name:   "admin",
	header: "admin {",
	single: true,
	attrs: []attribute{
		{"listen", kindString, `"unix:/run/weir/admin.sock"`},
		{"group", kindString, `"weir"`},
		{"token_file", kindString, `"/etc/weir/admin.token"`},
		{"metrics", kindString, `"127.0.0.1:9090"`},
	},
}

// declaredAdmin is the admin block with the places its parts were written at.
type declaredAdmin struct {
	conf.Admin
	headerAt, listenAt, metricsAt, tokenAt hcl.Range
}

func (d *decoder) admin(b *body) {
	a := &d.adminConf
	a.headerAt = b.headerAt
	a.listenAt, a.metricsAt, a.tokenAt = b.valueRange("listen"), b.valueRange("metrics"), b.nameRange("token_file")
	d.adminAddress(b, "listen", &a.Listen)
	d.adminAddress(b, "metrics", &a.Metrics)
	d.adminMetrics(a)
	d.adminGroup(b, a)
	d.tokenFile(b, a)
	d.adminOpen(b, a)
}

// adminAddress reads one address of this machine.
func (d *decoder) adminAddress(b *body, name string, into *conf.Address) {
	text, at, ok := b.text(name)
	if !ok {
		return
	}
	addrs, err := conf.ParseListenAddress(text)
	local := strings.Replace(listenAddress(text), "0.0.0.0:", "127.0.0.1:", 1)
	_, localErr := conf.ParseListenAddress(local)
	switch {
	case err != nil && local != text && localErr == nil:
		d.errorf(at, "bad address in "+name, "It has no host. Write %s = %s", name, quote(local))
	case err != nil:
		d.errorf(at, "bad address in "+name, "%s.", sentence(err))
	case addrs[0].IsUnix() && len(addrs[0].Path) > conf.MaxAdminPath:
		d.errorf(at, "bad address in "+name, "The path is %d bytes long, and an upgrade, which listens beside it at first, leaves room for %d: use a shorter directory.", len(addrs[0].Path), conf.MaxAdminPath)
	case len(addrs) > 1:
		d.errorf(at, fmt.Sprintf("%s takes one address, not a range of ports", name), "Write %s = %q", name, addrs[0])
	default:
		*into = addrs[0]
	}
}

// adminMetrics refuses what nobody could scrape.
func (d *decoder) adminMetrics(a *declaredAdmin) {
	switch {
	case a.Metrics.IsUnix():
		d.errorf(a.metricsAt, "metrics can't be a unix socket", `Prometheus reads over TCP. Write metrics = "127.0.0.1:9090"`)
	case !a.Metrics.IsZero() && a.Metrics.Overlaps(a.Listen):
		summary := fmt.Sprintf("%s is used twice", a.Metrics)
		if placeOf(conf.TCP, a.Metrics) != placeOf(conf.TCP, a.Listen) {
			summary = fmt.Sprintf("%s and %s overlap", a.Metrics, a.Listen)
		}
		d.report(a.metricsAt, summary, "The control API and the metrics need an address each.", related{a.listenAt, "first used here"})
	}
}

// adminGroup reads who may use the socket beside its owner.
func (d *decoder) adminGroup(b *body, a *declaredAdmin) {
	text, at, ok := b.text("group")
	if !ok {
		return
	}
	name, ok := d.name(text, at, "a group")
	switch {
	case !ok || b.unclear("listen"):
	case a.Listen.IsZero():
		d.errorf(b.nameRange("group"), "group without listen", "It says who may use the control API's unix socket. Add listen = \"unix:/run/weir/admin.sock\", or remove it.")
	case !a.Listen.IsUnix():
		d.report(b.nameRange("group"), "group is for unix sockets", "Over TCP everybody looks the same: use token_file instead, or a unix socket.", related{a.listenAt, "listen is a TCP address"})
	}
	a.Group = name
}

// tokenFile reads where the token of TCP clients is. The file is read at start,
// not here: it may belong to another user than the one who checks.
func (d *decoder) tokenFile(b *body, a *declaredAdmin) {
	text, at, ok := b.text("token_file")
	if !ok {
		return
	}
	switch {
	case !strings.HasPrefix(text, "/"):
		d.errorf(at, fmt.Sprintf("token_file can't be %q", text), `The path must be absolute, because a daemon may be started in any directory: write "/etc/weir/admin.token".`)
	case strings.HasSuffix(text, "/") || strings.ContainsRune(text, 0):
		d.errorf(at, fmt.Sprintf("token_file can't be %q", text), `It needs the path of a file, such as "/etc/weir/admin.token".`)
	case a.Listen.IsZero() && !b.unclear("listen"):
		d.errorf(b.nameRange("token_file"), "token_file without listen", "It protects the control API. Add listen = \"127.0.0.1:9091\", or remove it.")
	}
	a.TokenFile = text
}

// adminOpen refuses a control API that anybody on the network could use.
func (d *decoder) adminOpen(b *body, a *declaredAdmin) {
	if a.Listen.IsZero() || a.Listen.IsUnix() || isLoopback(a.Listen) || b.isSet("token_file") {
		return
	}
	d.errorf(a.listenAt, fmt.Sprintf("%s is open to the network and needs a token_file", a.Listen),
		"Whoever reaches it could close sessions and take servers out. Add token_file = \"/etc/weir/admin.token\" (a line of random text: openssl rand -hex 32), write listen = %s, or use a unix socket.",
		quote(conf.Address{Host: loopbackLike(a.Listen), Port: a.Listen.Port}.String()))
}

func isLoopback(a conf.Address) bool {
	ip, ok := a.IP()
	return ok && ip.IsLoopback()
}

// loopbackLike returns the loopback address of the same family.
func loopbackLike(a conf.Address) string {
	if ip, _ := a.IP(); ip.Is6() {
		return netip.IPv6Loopback().String()
	}
	return "127.0.0.1"
}

// checkAdmin refuses an admin address that is a listener's, or overlaps one: the
// clients of one of the two would come to the other.
func (d *decoder) checkAdmin() {
	a := &d.adminConf
	for _, own := range []struct {
		addr conf.Address
		at   hcl.Range
	}{{a.Listen, a.listenAt}, {a.Metrics, a.metricsAt}} {
		other, addr, taken := d.overlapping(own.addr)
		if !taken {
			continue
		}
		summary := fmt.Sprintf("%s is listened on twice", own.addr)
		if placeOf(conf.TCP, addr) != placeOf(conf.TCP, own.addr) {
			summary = fmt.Sprintf("%s and %s overlap", own.addr, addr)
		}
		d.report(own.at, summary, fmt.Sprintf("It is taken by listener %q. Change one of the two.", other.listener.Name), related{other.entry.at, "first listened on here"})
	}
}

// overlapping finds the first listener that takes connections for an address, or
// for a part of it.
func (d *decoder) overlapping(a conf.Address) (bound, conf.Address, bool) {
	for i := range d.listeners {
		l := &d.listeners[i]
		if l.vague || l.Protocol != conf.TCP || a.IsZero() {
			continue
		}
		for j := range l.entries {
			for _, addr := range l.entries[j].addrs {
				if addr.Overlaps(a) {
					return bound{&l.entries[j], l}, addr, true
				}
			}
		}
	}
	return bound{}, conf.Address{}, false
}

// lintAdmin warns of an admin block that does less than it seems to.
func (d *decoder) lintAdmin() {
	a := &d.adminConf
	switch {
	case (a.headerAt == hcl.Range{}):
	case a.Listen.IsZero() && a.Metrics.IsZero():
		d.warn(a.headerAt, "the admin block opens nothing", `Add listen = "unix:/run/weir/admin.sock" for the commands, or metrics = "127.0.0.1:9090" for Prometheus.`, related{})
	case a.Listen.IsUnix() && a.TokenFile != "":
		d.warn(a.tokenAt, "token_file has no effect on a unix socket", "Its owner and group say who may use it. Remove the line, or listen on a TCP address.", related{a.listenAt, "listen is a unix socket"})
	}
}

// openToMachine says that every user of the machine may use the control API.
func openToMachine(c *conf.Config) []string {
	if a := c.Admin; !a.Listen.IsZero() && !a.Listen.IsUnix() && a.TokenFile == "" {
		return []string{fmt.Sprintf("admin: every user of this machine may use %s, as there is no token_file", a.Listen)}
	}
	return nil
}

package hclfile

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/weirlb/weir/conf"
)

var resolverBlock = &block{
	name:   "resolver",
	header: "resolver {",
	single: true,
	attrs: []attribute{
		{"servers", kindList, `["127.0.0.1:53"]`},
		{"timeout", kindDuration, `"5s"`},
		{"valid", kindDuration, `"30s"`},
	},
	noOff: map[string]string{"valid": `Write "ttl" to ask again when an answer's time is up.`},
}

// resolver reads how names are followed.
func (d *decoder) resolver(b *body, r *conf.Resolver) {
	b.duration("timeout", never, &r.Timeout)
	d.nameServers(b, r)
	// The one word beside durations; conf.Off would mean something else.
	if v, _, ok := b.value("valid"); ok && v.Type() == cty.String && v.AsString() == "ttl" {
		r.Valid = 0
		return
	}
	b.duration("valid", never, &r.Valid)
}

func (d *decoder) nameServers(b *body, r *conf.Resolver) {
	list, at, ok := b.list("servers")
	if !ok {
		return
	}
	if len(list) == 0 {
		d.errorf(at, "servers is empty", "Remove the attribute for the servers of /etc/resolv.conf, or write one: servers = [\"127.0.0.1:53\"]")
	}
	first := map[conf.Address]item{}
	for _, it := range list {
		addr, err := conf.ParseServerAddress(it.text)
		_, isIP := addr.IP()
		const port = "53"
		withPort := net.JoinHostPort(strings.Trim(it.text, "[]"), port)
		completed, completedErr := conf.ParseServerAddress(withPort)
		_, completedIP := completed.IP()
		switch other, twice := first[addr]; {
		case err != nil && completedErr == nil && completedIP:
			d.errorf(it.at, "bad address of a name server", "It has no port. Write %s.", quote(withPort))
		case err != nil && completedErr != nil:
			d.errorf(it.at, "bad address of a name server", "%s.", sentence(err))
		case !isIP:
			d.errorf(it.at, "bad address of a name server", "It needs an IP address and a port, such as \"127.0.0.1:53\": who would look up its name?")
		case twice:
			d.report(it.at, fmt.Sprintf("name server %s is listed twice", addr), "Remove one of the two.", related{other.at, "first listed here"})
		default:
			first[addr] = it
			r.Servers = append(r.Servers, addr)
		}
	}
}

// serverAddress reads the label of a server block.
func (d *decoder) serverAddress(b *body, service bool) (conf.Address, bool) {
	parse := conf.ParseServerAddress
	if service {
		parse = conf.ParseServiceName
	}
	addr, err := parse(b.label)
	if err == nil {
		return addr, true
	}
	_, serviceErr := conf.ParseServiceName(b.label)
	switch {
	case b.unclear("service"), serviceErr == nil && d.incomplete(b): // there is no telling which of the two it is
	case service:
		d.errorf(b.labelAt, "bad name of a service", "%s.", sentence(err))
	case serviceErr == nil && strings.HasPrefix(b.label, "_"):
		d.errorf(b.labelAt, "bad address of a server", "It has no port. If its SRV records say the port, write service = true in the block.")
	default:
		d.errorf(b.labelAt, "bad address of a server", "%s.", sentence(err))
	}
	return conf.Address{}, false
}

// discovery reads how the addresses of a server are found.
func (d *decoder) discovery(b *body, s *declaredServer) {
	b.boolean("resolve", &s.Resolve)
	_, isIP := s.Address.IP()
	switch at := b.nameRange("resolve"); {
	case !s.Resolve:
	case s.Service:
		d.report(at, "resolve and service exclude each other", "With service = true the names in the SRV records are followed too. Remove resolve.", related{b.nameRange("service"), "service is set here"})
	case s.Address.IsZero(): // was reported
	case s.Address.IsUnix():
		d.errorf(at, "resolve needs a host name", "%s is a unix socket. Remove resolve.", s.Address)
	case isIP:
		d.errorf(at, "resolve needs a host name", "%s is an address already. Remove resolve, or write a name: server \"db.example:%d\"", s.Address.Host, s.Address.Port)
	}
}

// serverFile reads where more servers will be. The file may come later.
func (d *decoder) serverFile(b *body, u *declaredUpstream) {
	path, at, ok := b.path("server_file", &u.ServerFile)
	if !ok {
		return
	}
	_, err := d.read(path)
	switch {
	case errors.Is(err, errDirectory):
		d.errorf(at, "server_file is a directory", "Name the file in it that lists the servers, such as \"peers.json\".")
	case errors.Is(err, errTooBig): // for a value; who follows it takes more
	case err != nil:
		d.notes = append(d.notes, fmt.Sprintf("upstream %q: its server_file can't be read now (%s); its servers join when it can", u.Name, cause(path, err)))
	}
}

package upstream

import (
	"net/netip"
	"os"
	"strconv"

	"github.com/weirlb/weir/conf"
)

// Facts are what is known of a session when its first peer is picked.
type Facts struct {
	Client     netip.AddrPort // not valid for a unix socket
	Server     netip.AddrPort // where the client connected to; as Client
	Listener   string
	Protocol   conf.Protocol
	Connection uint64
}

// keyPart appends its part of a key.
type keyPart func(b []byte, f *Facts) []byte

// binaryAddress is the key of ip_hash: like binary_remote_addr, but nothing
// for a client on a unix socket.
const binaryAddress conf.Variable = "ip_hash"

// keyParts are the variables of a key, in the form that nginx's have.
var keyParts = map[conf.Variable]keyPart{
	conf.VarRemoteAddr: func(b []byte, f *Facts) []byte { return appendAddr(b, f.Client) },
	conf.VarRemotePort: func(b []byte, f *Facts) []byte { return appendPort(b, f.Client) },
	conf.VarBinaryRemoteAddr: func(b []byte, f *Facts) []byte {
		if !f.Client.IsValid() {
			return append(b, "unix:"...)
		}
		return appendBytes(b, f.Client)
	},
	conf.VarServerAddr: func(b []byte, f *Facts) []byte { return appendAddr(b, f.Server) },
	conf.VarServerPort: func(b []byte, f *Facts) []byte { return appendPort(b, f.Server) },
	conf.VarProtocol:   func(b []byte, f *Facts) []byte { return append(b, f.Protocol.String()...) },
	conf.VarListener:   func(b []byte, f *Facts) []byte { return append(b, f.Listener...) },
	conf.VarConnection: func(b []byte, f *Facts) []byte { return strconv.AppendUint(b, f.Connection, 10) },
	binaryAddress:      func(b []byte, f *Facts) []byte { return appendBytes(b, f.Client) },
}

// compileKey turns a template into its parts. What is the same for all
// sessions becomes text.
func compileKey(t conf.Template, upstream string) []keyPart {
	var parts []keyPart
	for _, p := range t {
		text := p.Text
		switch p.Variable {
		case conf.VarUpstream:
			text = upstream
		case conf.VarHostname:
			text, _ = os.Hostname()
		case conf.VarPid:
			text = strconv.Itoa(os.Getpid())
		}
		part, ok := keyParts[p.Variable]
		if !ok {
			part = func(b []byte, _ *Facts) []byte { return append(b, text...) }
		}
		parts = append(parts, part)
	}
	return parts
}

// Keyed reports whether the group's method hashes a key.
func (g *Group) Keyed() bool { return g.shape.Load().keyed }

// AppendKey appends the key of a session to b. It allocates nothing but what b
// lacks.
func (g *Group) AppendKey(b []byte, f *Facts) []byte {
	for _, part := range g.shape.Load().key {
		b = part(b, f)
	}
	return b
}

func appendAddr(b []byte, a netip.AddrPort) []byte {
	if !a.IsValid() {
		return append(b, "unix:"...)
	}
	return a.Addr().AppendTo(b)
}

func appendPort(b []byte, a netip.AddrPort) []byte {
	if !a.IsValid() {
		return b
	}
	return strconv.AppendUint(b, uint64(a.Port()), 10)
}

func appendBytes(b []byte, a netip.AddrPort) []byte {
	switch ip := a.Addr(); {
	case ip.Is4():
		four := ip.As4()
		return append(b, four[:]...)
	case ip.Is6():
		sixteen := ip.As16()
		return append(b, sixteen[:]...)
	}
	return b
}

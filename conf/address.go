package conf

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// MaxUnixPath is the longest path of a unix socket in bytes (unix(7):
// sun_path is 108 bytes with its terminating zero).
const MaxUnixPath = 107

// MaxAdminPath is the longest path of the control API's unix socket: a process
// that takes over listens at that path and ".new" until it does.
const MaxAdminPath = MaxUnixPath - len(".new")

// Address is where a listener binds or a server is reached: a host and port,
// or the path of a unix socket. The zero Address is not valid.
type Address struct {
	Host string // IP literal or host name; "" for a unix socket
	Port uint16 // 0 in a server that is a service; a listener built by hand may use 0 for any free port
	Path string // of a unix socket; "" for a host and port
}

// IsUnix reports whether the address is a unix socket.
func (a Address) IsUnix() bool { return a.Path != "" }

// IsZero reports whether there is no address.
func (a Address) IsZero() bool { return a == Address{} }

// IP returns the address's IP literal, and false for host names and unix
// sockets. An IPv4 address mapped into IPv6 is returned as IPv4.
func (a Address) IP() (netip.Addr, bool) {
	ip, err := netip.ParseAddr(a.Host)
	return ip.Unmap(), err == nil
}

// Covers reports whether a is b, or the wildcard of b's family with the same
// port. As in a listener, [::] is IPv6 only.
func (a Address) Covers(b Address) bool {
	if a == b {
		return true
	}
	x, okX := a.IP()
	y, okY := b.IP()
	return okX && okY && a.Port == b.Port && x.Is4() == y.Is4() && (x == y || x.IsUnspecified())
}

// Overlaps reports whether both have an address in common.
func (a Address) Overlaps(b Address) bool { return a.Covers(b) || b.Covers(a) }

// String returns the address as a configuration file writes it.
func (a Address) String() string {
	if a.IsUnix() {
		return "unix:" + a.Path
	}
	return net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port)))
}

// ParseServerAddress reads the label of a server block: "host:port" with an IP
// literal or a host name, or "unix:/path".
func ParseServerAddress(text string) (Address, error) {
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		return parseUnix(path)
	}
	host, port, err := splitHostPort(text)
	if err != nil {
		return Address{}, err
	}
	n, err := parsePort(port)
	if err != nil {
		return Address{}, err
	}
	if err := CheckHost(host); err != nil {
		return Address{}, err
	}
	return Address{Host: host, Port: n}, nil
}

// ParseServiceName reads the label of a server block with service = true: the
// name of SRV records, such as "_pg._tcp.example", whose answers have the hosts
// and the ports (RFC 2782). The address has that name as its host and port 0.
func ParseServiceName(text string) (Address, error) {
	if text == "" {
		return Address{}, errors.New(`the name is empty: write that of the SRV records, such as "_pg._tcp.example"`)
	}
	if strings.HasPrefix(text, "unix:") {
		return Address{}, fmt.Errorf("%q is a unix socket and has no SRV records: remove service", text)
	}
	host, port, err := net.SplitHostPort(text)
	if _, ipErr := netip.ParseAddr(strings.Trim(text, "[]")); ipErr == nil {
		return Address{}, fmt.Errorf("%q is an address already: remove service, and write its port", text)
	}
	if _, ipErr := netip.ParseAddr(host); err == nil && ipErr == nil {
		return Address{}, fmt.Errorf("%q is an address already: remove service", text)
	}
	if err == nil && CheckHost(host) == nil {
		return Address{}, fmt.Errorf("the SRV records of a service say the port: write %q without %q", host, ":"+port)
	}
	if err := CheckHost(text); err != nil {
		return Address{}, err
	}
	return Address{Host: text}, nil
}

// ParseListenAddress reads one entry of `listen`: "ip:port", "ip:first-last"
// or "unix:/path". A range becomes one address for each of its ports.
func ParseListenAddress(text string) ([]Address, error) {
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		a, err := parseUnix(path)
		if err != nil {
			return nil, err
		}
		return []Address{a}, nil
	}
	if _, err := strconv.ParseUint(text, 10, 16); err == nil {
		return nil, fmt.Errorf("%q has no address: write \"0.0.0.0:%s\" for IPv4, \"[::]:%s\" for IPv6, or list both", text, text, text)
	}
	host, port, err := splitHostPort(text)
	if err != nil {
		return nil, err
	}
	switch host {
	case "", "*":
		return nil, fmt.Errorf("%q has no address: write \"0.0.0.0:%s\" for IPv4, \"[::]:%s\" for IPv6, or list both", text, port, port)
	}
	if _, err := netip.ParseAddr(host); err != nil {
		return nil, fmt.Errorf("%q is not an IP address: a listener binds an address of this machine, such as \"127.0.0.1:%s\" or \"0.0.0.0:%s\"", host, port, port)
	}
	first, last, isRange := strings.Cut(port, "-")
	lo, err := parsePort(first)
	if err != nil {
		return nil, err
	}
	hi := lo
	if isRange {
		if hi, err = parsePort(last); err != nil {
			return nil, err
		}
		if hi < lo {
			return nil, fmt.Errorf("port range %q ends before it starts: write \"%d-%d\"", port, hi, lo)
		}
	}
	out := make([]Address, 0, int(hi-lo)+1)
	for p := int(lo); p <= int(hi); p++ {
		out = append(out, Address{Host: host, Port: uint16(p)})
	}
	return out, nil
}

func parseUnix(path string) (Address, error) {
	switch {
	case path == "":
		return Address{}, errors.New(`a unix socket needs a path, such as "unix:/run/weir/db.sock"`)
	case path[0] == '@':
		return Address{}, fmt.Errorf("abstract unix sockets (%q) are not supported: write a path that starts with /", path)
	case path[0] != '/':
		return Address{}, fmt.Errorf("the path of a unix socket must be absolute: write \"unix:/%s\"", path)
	case strings.IndexByte(path, 0) >= 0:
		return Address{}, errors.New("the path of a unix socket must not hold a zero byte")
	case len(path) > MaxUnixPath:
		return Address{}, fmt.Errorf("the path of a unix socket is %d bytes long, the kernel takes %d: use a shorter directory", len(path), MaxUnixPath)
	}
	return Address{Path: path}, nil
}

func splitHostPort(text string) (host, port string, err error) {
	if text == "" {
		return "", "", errors.New(`the address is empty: write "host:port" or "unix:/path"`)
	}
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		return "", "", fmt.Errorf("an address has no scheme: write %q without %q", rest, scheme+"://")
	}
	host, port, err = net.SplitHostPort(text)
	if err == nil {
		return host, port, nil
	}
	if i := strings.LastIndexByte(text, ':'); i > 0 && text[0] != '[' {
		// "::1:5432" is an IPv6 address too, but nobody means that one.
		ip, ipErr := netip.ParseAddr(text[:i])
		if _, portErr := parsePort(text[i+1:]); ipErr == nil && ip.Is6() && portErr == nil {
			return "", "", fmt.Errorf("an IPv6 address with a port needs brackets: write \"[%s]:%s\"", text[:i], text[i+1:])
		}
	}
	if _, ipErr := netip.ParseAddr(strings.Trim(text, "[]")); ipErr == nil && strings.Contains(text, ":") {
		return "", "", fmt.Errorf("an IPv6 address with a port needs brackets: write \"[%s]:5432\" with your port", strings.Trim(text, "[]"))
	}
	if !strings.Contains(text, ":") {
		if text[0] == '/' {
			return "", "", fmt.Errorf("a unix socket needs its prefix: write \"unix:%s\"", text)
		}
		return "", "", fmt.Errorf("%q has no port: write \"%s:5432\" with your port", text, text)
	}
	return "", "", fmt.Errorf("%q is not an address: write \"host:port\", \"[ipv6]:port\" or \"unix:/path\"", text)
}

func parsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not a port: write a number from 1 to 65535", text)
	}
	return uint16(n), nil
}

// CheckHost accepts IP literals and host names that a resolver could know
// (RFC 1123 letters, digits, hyphens and dots, plus the underscore that
// service names use).
func CheckHost(host string) error {
	if host == "" {
		return errors.New(`the address has no host: write "127.0.0.1:5432" or "db.example:5432"`)
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	if len(host) > 253 {
		return fmt.Errorf("the host name is %d characters long, DNS allows 253", len(host))
	}
	if strings.Trim(host, "0123456789.") == "" {
		return fmt.Errorf("%q is not an IPv4 address: it has four numbers from 0 to 255", host)
	}
	for _, label := range strings.Split(strings.TrimSuffix(host, "."), ".") {
		if label == "" || len(label) > 63 {
			return fmt.Errorf("%q is not a host name: its parts between dots are 1 to 63 characters long", host)
		}
		for _, c := range label {
			switch {
			case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
			default:
				return fmt.Errorf("%q is not a host name: %q can't be part of one", host, c)
			}
		}
	}
	return nil
}

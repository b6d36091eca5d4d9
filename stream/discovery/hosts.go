package discovery

import (
	"net/netip"
	"strings"
)

// hosts are the addresses of the names in /etc/hosts, lower case and without a
// dot at the end.
type hosts map[string][]netip.Addr

// parseHosts reads a hosts(5) file. Lines that are none are left out, as the C
// library does.
func parseHosts(data []byte) hosts {
	h := hosts{}
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		ip, err := netip.ParseAddr(fields[0])
		if err != nil {
			continue
		}
		for _, name := range fields[1:] {
			name = hostKey(name)
			h[name] = append(h[name], ip)
		}
	}
	return h
}

// of returns the addresses of a name, or nil.
func (h hosts) of(name string) []netip.Addr { return h[hostKey(name)] }

func hostKey(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

package integration_test

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlb/weir/integration/netns"
)

// linkLocal waits for the link-local address of an interface of the calling
// thread's namespace and returns it with its zone.
func linkLocal(t *testing.T, name string) netip.Addr {
	t.Helper()
	var found netip.Addr
	eventually(t, 10*time.Second, "a link-local address is ready", func() bool {
		text, _ := os.ReadFile("/proc/thread-self/net/if_inet6")
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line) // address, index, prefix length, scope, flags, name
			if f[5] != name || f[3] != "20" || f[4] != "80" {
				continue // another one, or still tentative
			}
			ip := new(strings.Builder)
			for i := 0; i < 32; i += 4 {
				if i > 0 {
					ip.WriteByte(':')
				}
				ip.WriteString(f[0][i : i+4])
			}
			found = netip.MustParseAddr(ip.String()).WithZone(name)
		}
		return found.IsValid()
	})
	return found
}

// On wildcard addresses the answer comes from the address that was asked.
//
//	near                                         far
//	peer - weir - veth0 10.77.0.1 =============== veth0 10.77.0.2 - client
//	                    10.77.0.101                     fd77::2
//	                    fd77::1, fd77::101              fe80::...
//	                    fe80::...
func TestUDPAnswersFromTheAddressAsked(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
		missing(t, "IPv6: "+err.Error())
	}
	near, far := netns.New(t), netns.New(t)
	nearEnd, farEnd := netns.Join(t, near, far)
	near.IP(t, "address", "add", "10.77.0.101/24", "dev", nearEnd.Name)
	for _, ip := range []string{"fd77::1", "fd77::101"} {
		near.IP(t, "address", "add", ip+"/64", "dev", nearEnd.Name, "nodad")
	}
	far.IP(t, "address", "add", "fd77::2/64", "dev", farEnd.Name, "nodad")
	var server string
	var nearLocal, farLocal netip.Addr
	near.Do(t, func() {
		server, _ = serveUDP(t, echoUDP)
		nearLocal = linkLocal(t, nearEnd.Name)
	})
	far.Do(t, func() { farLocal = linkLocal(t, farEnd.Name) })
	p := startAt(t, where{namespace: near}, `
		worker {
		  count            = 2
		  shutdown_timeout = "100ms"
		}
		upstream "u" {
		  server "$server" {}
		}
		listener "l" {
		  listen   = ["0.0.0.0:5300", "[::]:5300"]
		  protocol = "udp"
		  upstream = "u"
		  udp {
		    responses = 1
		  }
		}`+udpLog, vars{"listen": "0.0.0.0:5300", "server": server})
	asked := []string{"10.77.0.1", "10.77.0.101", "fd77::1", "fd77::101", nearLocal.WithZone(farEnd.Name).String()}
	for _, ip := range asked {
		to := netip.AddrPortFrom(netip.MustParseAddr(ip), 5300)
		own := "10.77.0.2:0"
		switch {
		case to.Addr().IsLinkLocalUnicast():
			own = "[" + farLocal.String() + "]:0"
		case to.Addr().Is6():
			own = "[fd77::2]:0"
		}
		var c *net.UDPConn
		far.Do(t, func() { c = udpSocket(t, own) })
		c.SetDeadline(time.Now().Add(scaled(5 * time.Second)))
		for _, n := range []int{1, 1200, 20000} {
			if _, err := c.WriteToUDPAddrPort(make([]byte, n), to); err != nil {
				t.Fatalf("ask %s: %v", to, err)
			}
			buf := make([]byte, 1<<16)
			got, from, err := c.ReadFromUDPAddrPort(buf)
			from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
			if err != nil || got != n || from != to {
				t.Errorf("asked %s with %d bytes: %d bytes from %s, %v", to, n, got, from, err)
			}
		}
	}
	eventually(t, 5*time.Second, "all sessions have ended", func() bool { return p.lines() >= 3*len(asked) })
	var logged []string
	for _, e := range p.udpEntries() {
		if e.CloseReason != "answered" {
			t.Errorf("session %+v", e)
		}
		if !slices.Contains(logged, e.ServerAddr) {
			logged = append(logged, e.ServerAddr)
		}
	}
	asked[4] = nearLocal.WithZone("").String()
	slices.Sort(logged) // workers log on their own
	slices.Sort(asked)
	if !slices.Equal(logged, asked) {
		t.Errorf("the log says that %v were asked, want %v", logged, asked)
	}
}

// A broadcast is answered from the interface's own address.
func TestUDPBroadcast(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	near, far := netns.New(t), netns.New(t)
	nearEnd, farEnd := netns.Join(t, near, far)
	var server string
	near.Do(t, func() { server, _ = serveUDP(t, echoUDP) })
	startAt(t, where{namespace: near}, oneUDPServer, vars{"listen": "0.0.0.0:5300", "server": server, "udp": "responses = 1"})
	var c *net.UDPConn
	far.Do(t, func() { c = udpSocket(t, farEnd.Addr+":0") })
	c.SetDeadline(time.Now().Add(scaled(5 * time.Second)))
	if _, err := c.WriteToUDPAddrPort([]byte("who is there?"), netip.MustParseAddrPort("10.77.0.255:5300")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	n, from, err := c.ReadFromUDPAddrPort(buf)
	if err != nil || string(buf[:n]) != "who is there?" || from.Addr().Unmap().String() != nearEnd.Addr {
		t.Errorf("got %q from %s, %v; want an answer from %s", buf[:n], from, err, nearEnd.Addr)
	}
}

// A datagram too large for a link on its way makes a router complain, and the
// kernel cut the next ones. That is no refusal of the peer.
//
//	near             far, a router
//	weir - veth0 === veth0 - narrow (MTU 1280) - the peer's address
func TestUDPPathMTUIsNoRefusal(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	near, far := netns.New(t), netns.New(t)
	nearEnd, farEnd := netns.Join(t, near, far)
	far.IP(t, "link", "add", "narrow", "mtu", "1280", "type", "veth", "peer", "name", "nowhere")
	far.IP(t, "address", "add", "10.88.0.1/24", "dev", "narrow")
	far.IP(t, "link", "set", "nowhere", "up")
	far.IP(t, "link", "set", "narrow", "up")
	far.IP(t, "neighbour", "add", "10.88.0.5", "lladdr", "02:00:00:00:88:05", "dev", "narrow", "nud", "permanent")
	far.Do(t, func() {
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
			t.Fatal(err)
		}
	})
	near.IP(t, "route", "add", "10.88.0.0/24", "via", farEnd.Addr, "dev", nearEnd.Name)
	p := startAt(t, where{namespace: near}, oneUDPServer+udpLog, vars{"listen": "127.0.0.1:5300", "server": "10.88.0.5:7000", "udp": `idle_timeout = "500ms"`})
	var c *net.UDPConn
	near.Do(t, func() { c = dialUDP(t, p.addr) })
	for range 3 {
		if _, err := c.Write(make([]byte, 1400)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	eventually(t, 5*time.Second, "the session has ended", func() bool { return p.lines() > 0 })
	all := p.udpEntries()
	if len(all) != 1 || all[0].CloseReason != "idle_timeout" || all[0].BytesReceived != 3*1400 {
		t.Errorf("sessions %+v, want one with 3 datagrams and idle_timeout", all)
	}
}

// Local ports that run out are this machine's fault: sessions end with
// local_error, and no server is blamed.
func TestUDPPortsRunOut(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	const ports = 16
	n := netns.New(t)
	var a, b string
	n.Do(t, func() {
		a, _ = serveUDPOn(t, "127.0.0.1:7001", echoUDP)
		b, _ = serveUDPOn(t, "127.0.0.1:7002", echoUDP)
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("40000 40015"), 0); err != nil {
			t.Fatal(err)
		}
	})
	p := startAt(t, where{namespace: n}, `
		worker {
		  count            = 1
		  shutdown_timeout = "100ms"
		}
		upstream "u" {
		  server "$a" {}
		  server "$b" {}
		}
		listener "l" {
		  listen   = ["$listen"]
		  protocol = "udp"
		  upstream = "u"
		  udp {
		    idle_timeout = "1s"
		  }
		}`+udpLog, vars{"listen": "127.0.0.1:5300", "a": a, "b": b})
	ask := func(port int, d time.Duration) bool {
		var c *net.UDPConn
		n.Do(t, func() {
			var err error
			c, err = net.DialUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(p.addr)))
			if err != nil {
				t.Fatal(err)
			}
		})
		defer c.Close()
		return askUDP(c, "?", d) == "?"
	}
	for i := range ports + 8 {
		ask(20000+i, 200*time.Millisecond)
	}
	// Once the sessions are over there are ports again, and both servers.
	eventually(t, 5*time.Second, "all sessions have ended", func() bool { return p.lines() == ports+8 })
	if got := reasonsOf(p.udpEntries()); got["idle_timeout"] < ports {
		t.Errorf("sessions ended with %v, there are ports for %d", got, ports)
	}
	if !ask(20100, 3*time.Second) || !ask(20101, 3*time.Second) {
		t.Error("no answer although there are ports again")
	}
	eventually(t, 5*time.Second, "the last sessions have ended", func() bool { return p.lines() == ports+8+2 })
	all := p.udpEntries()
	for _, e := range all {
		if e.CloseReason != "idle_timeout" && e.CloseReason != "local_error" && e.CloseReason != "evicted" {
			t.Errorf("session ended with %s after %d tries: %s", e.CloseReason, e.Tries, e.UpstreamAddr)
		}
		if e.CloseReason == "idle_timeout" && e.BytesSent != 1 {
			t.Errorf("a session that had a port had no answer: %+v", e)
		}
	}
	last := all[len(all)-2:]
	if last[0].UpstreamAddr == last[1].UpstreamAddr {
		t.Errorf("both of the last sessions went to %s: the other server was blamed", last[0].UpstreamAddr)
	}
}

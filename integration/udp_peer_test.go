package integration_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// oneUDPServer is a configuration with one UDP listener; $udp is the inside of
// its udp block. Sessions that are left when the test ends are cut off.
const oneUDPServer = `
	worker {
	  shutdown_timeout = "100ms"
	}
	upstream "u" {
	  server "$server" {}
	}
	listener "l" {
	  listen   = ["$listen"]
	  protocol = "udp"
	  upstream = "u"
	  udp {
	    $udp
	  }
	}`

// udpSocket opens a UDP socket on that address until the test ends. It is not
// connected: it takes datagrams from anybody.
func udpSocket(t *testing.T, addr string) *net.UDPConn {
	t.Helper()
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(addr)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// dialUDP returns a socket that is connected to that address until the test
// ends.
func dialUDP(t *testing.T, addr string) *net.UDPConn {
	t.Helper()
	c, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.UDPConn)
}

// serveUDP receives on a loopback port of the kernel's choice until the test
// ends, or until the returned function is called, and has f see each datagram.
func serveUDP(t *testing.T, f func(c *net.UDPConn, b []byte, from netip.AddrPort)) (addr string, stop func()) {
	t.Helper()
	return serveUDPOn(t, "127.0.0.1:0", f)
}

func serveUDPOn(t *testing.T, at string, f func(c *net.UDPConn, b []byte, from netip.AddrPort)) (addr string, stop func()) {
	t.Helper()
	c := udpSocket(t, at)
	c.SetReadBuffer(4 << 20)
	var running sync.WaitGroup
	running.Go(func() {
		for buf := make([]byte, 1<<16); ; {
			n, from, err := c.ReadFromUDPAddrPort(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				f(c, buf[:n], from)
			}
		}
	})
	stop = func() {
		c.Close()
		running.Wait()
	}
	t.Cleanup(stop)
	return c.LocalAddr().String(), stop
}

// echoUDP sends back what it gets.
func echoUDP(c *net.UDPConn, b []byte, from netip.AddrPort) { c.WriteToUDPAddrPort(b, from) }

// freeUDPPort returns a port on which nobody listens, with TCP or UDP.
func freeUDPPort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := freePorts(t, 1)
		c, err := net.ListenUDP("udp", &net.UDPAddr{Port: port})
		if err == nil {
			c.Close()
			return strconv.Itoa(port)
		}
	}
	t.Fatal("no free port")
	return ""
}

// startUDP runs weir with a configuration whose $listen is an address that is
// free for TCP and UDP.
func startUDP(t *testing.T, config string, v vars) *proxy {
	t.Helper()
	if v["listen"] == "" {
		v["listen"] = "127.0.0.1:" + freeUDPPort(t)
	}
	return start(t, config, v)
}

// askUDP sends a datagram and returns the next one that comes back, or "" if
// there is none for a while.
func askUDP(c *net.UDPConn, text string, d time.Duration) string {
	c.SetDeadline(time.Now().Add(scaled(d)))
	if _, err := c.Write([]byte(text)); err != nil {
		return ""
	}
	buf := make([]byte, 1<<16)
	n, err := c.Read(buf)
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

// rssAnon returns the bytes of memory that belong to a process alone.
func rssAnon(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "RssAnon:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// udpEntry is what an access-log line with all fields says of a UDP session.
type udpEntry struct {
	entry
	Protocol     string `json:"protocol"`
	RemoteAddr   string `json:"remote_addr"`
	RemotePort   int    `json:"remote_port"`
	ServerAddr   string `json:"server_addr"`
	UpstreamSent int64  `json:"upstream_bytes_sent"`
}

// udpLog is the log block that udpEntries wants.
const udpLog = `
	log {
	  format = "json"
	  access = "$access"
	  fields = ["protocol", "listener", "remote_addr", "remote_port", "server_addr", "upstream_addr", "tries", "status", "close_reason", "bytes_received", "bytes_sent", "upstream_bytes_sent", "session_time"]
	}`

// udpEntries returns what the access log of a configuration with udpLog holds.
func (p *proxy) udpEntries() []udpEntry {
	p.t.Helper()
	return accessLog[udpEntry](p)
}

// reasonsOf counts how sessions ended.
func reasonsOf(all []udpEntry) map[string]int {
	reasons := map[string]int{}
	for _, e := range all {
		reasons[e.CloseReason]++
	}
	return reasons
}

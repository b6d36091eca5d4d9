package integration_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlb/weir/integration/netns"
)

func TestIPv6(t *testing.T) {
	t.Parallel()
	if ln, err := net.Listen("tcp", "[::1]:0"); err != nil {
		missing(t, "IPv6 on the loopback interface: "+err.Error())
	} else {
		ln.Close()
	}
	server := serveOn(t, "tcp", "[::1]:0", echo)
	port := strconv.Itoa(freePorts(t, 1))
	// [::] and 0.0.0.0 are two sockets: the one does not take the other's.
	p := start(t, `
		upstream "u" {
		  server "$server" {}
		}
		listener "l" {
		  listen   = ["[::]:$port", "0.0.0.0:$port"]
		  upstream = "u"
		}`, vars{"server": server, "port": port})
	for _, host := range []string{"::1", "127.0.0.1"} {
		c := dial(t, net.JoinHostPort(host, port))
		roundTrip(t, c)
		c.Close()
	}
	p.waitEntries(5*time.Second, 2)
	p.stop()
	for _, e := range p.entries() {
		if e.UpstreamAddr != server {
			t.Errorf("upstream_addr is %s, want %s", e.UpstreamAddr, server)
		}
	}
	if text, _ := os.ReadFile(p.access); !strings.Contains(string(text), `"remote_addr":"::1"`) || !strings.Contains(string(text), `"remote_addr":"127.0.0.1"`) {
		t.Errorf("the access log does not name both clients:\n%s", text)
	}
}

func TestUnixListener(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	path := dir + "/weir.sock"
	// A crashed process leaves its socket behind.
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	ln.Close()

	server := serveOn(t, "unix", dir+"/peer.sock", echo)
	p := start(t, oneServer, vars{"listen": "unix:" + path, "server": "unix:" + server})
	for range 10 {
		c := dial(t, "unix:"+path)
		roundTrip(t, c)
		c.Close()
	}

	second := launch(t, where{}, oneServer, vars{"listen": "unix:" + path, "server": "unix:" + server})
	second.wantStartFailure("bind: address already in use")
	c := dial(t, "unix:"+path)
	roundTrip(t, c)
	c.Close()

	p.stop()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is still there after a stop: %v", err)
	}
}

func TestPortRange(t *testing.T) {
	t.Parallel()
	first := freePorts(t, 5)
	start(t, `
		upstream "u" {
		  server "$server" {}
		}
		listener "l" {
		  listen   = ["127.0.0.1:$first-$last"]
		  upstream = "u"
		}`, vars{"server": serve(t, says("hello")), "first": strconv.Itoa(first), "last": strconv.Itoa(first + 4)})
	for port := first; port < first+5; port++ {
		if got := ask(t, fmt.Sprintf("127.0.0.1:%d", port)); got != "hello" {
			t.Errorf("port %d answers %q, want hello", port, got)
		}
	}
}

// Listeners that share an upstream share its turns.
func TestListenersShareAnUpstream(t *testing.T) {
	t.Parallel()
	one, two := freeAddr(t), freeAddr(t)
	p := start(t, `
		upstream "u" {
		  server "$a" {}
		  server "$b" {}
		}
		listener "one" {
		  listen   = ["$one"]
		  upstream = "u"
		}
		listener "two" {
		  listen   = ["$two"]
		  upstream = "u"
		}`, vars{"a": serve(t, says("a")), "b": serve(t, says("b")), "one": one, "two": two})
	if got := ask(t, one) + ask(t, two) + ask(t, one) + ask(t, two); got != "abab" {
		t.Errorf("sessions went to %s, want abab", got)
	}
	names := map[string]int{}
	for _, e := range p.waitEntries(5*time.Second, 4) {
		names[e.Listener]++
	}
	if names["one"] != 2 || names["two"] != 2 {
		t.Errorf("the access log names listeners %v, want each twice", names)
	}
}

func TestHostNameBecomesItsAddresses(t *testing.T) {
	t.Parallel()
	addrs, err := net.LookupIP("localhost")
	if err != nil || len(addrs) == 0 {
		missing(t, "the name localhost")
	}
	port := strconv.Itoa(freePorts(t, 1))
	want := map[string]bool{}
	for _, ip := range addrs {
		addr := net.JoinHostPort(ip.String(), port)
		if !want[addr] {
			want[addr] = true
			serveOn(t, "tcp", addr, says("hello"))
		}
	}
	p := start(t, oneServer, vars{"server": "localhost:" + port})
	for range 2 * len(want) {
		if got := ask(t, p.addr); got != "hello" {
			t.Errorf("got %q, want hello", got)
		}
	}
	got := map[string]bool{}
	for _, e := range p.waitEntries(5*time.Second, 2*len(want)) {
		got[e.UpstreamAddr] = true
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("sessions went to %v, want %v", got, want)
	}
}

// A connection to a port of the ephemeral range on which nobody listens can be
// given that very port as its source and meet itself. That is no peer.
func TestNoSessionWithItself(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	n := netns.New(t)
	n.Do(t, func() {
		// One port is all there is, so that every attempt meets itself.
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("40000 40000"), 0); err != nil {
			t.Fatal(err)
		}
	})
	path := tempDir(t) + "/s"
	p := startAt(t, where{namespace: n}, oneServer, vars{"listen": "unix:" + path, "server": "127.0.0.1:40000"})
	wantEOF(t, dial(t, "unix:"+path))
	p.wantEnd(5*time.Second, "connect_failed", 502)
}

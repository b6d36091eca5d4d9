package stream_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream"
	"github.com/weirlb/weir/stream/stats"
)

// serveUDP starts a server that answers each datagram.
func serveUDP(t *testing.T, answer func(string) string) conf.Address {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, from, err := c.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			c.WriteToUDPAddrPort([]byte(answer(string(buf[:n]))), from)
		}
	}()
	return conf.Address{Host: "127.0.0.1", Port: uint16(c.LocalAddr().(*net.UDPAddr).Port)}
}

// freeUDPPort returns an address whose port nobody has at the moment.
func freeUDPPort(t *testing.T) conf.Address {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return conf.Address{Host: "127.0.0.1", Port: uint16(c.LocalAddr().(*net.UDPAddr).Port)}
}

func udpConfig(edit func(*conf.Listener), servers ...conf.Address) conf.Config {
	cfg := conf.Default()
	cfg.Log.Access = conf.AccessOff
	cfg.Worker.Count = 2
	u := conf.NewUpstream("u")
	for _, a := range servers {
		u.Servers = append(u.Servers, conf.NewServer(a))
	}
	l := conf.NewListener("dns")
	l.Protocol, l.Upstream = conf.UDP, "u"
	l.Listen = []conf.Address{{Host: "127.0.0.1"}}
	edit(&l)
	cfg.Upstreams, cfg.Listeners = []conf.Upstream{u}, []conf.Listener{l}
	return cfg
}

func mustStart(t *testing.T, cfg *conf.Config) *stream.Server {
	t.Helper()
	s, err := stream.Start(context.Background(), cfg, stream.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

// Two workers, many clients: every answer comes to who has asked.
func TestDatagramsReachTheirClients(t *testing.T) {
	same := func(s string) string { return s }
	cfg := udpConfig(func(l *conf.Listener) { l.UDP.Responses = 1; l.UDP.Quarantine = 0 }, serveUDP(t, same), serveUDP(t, same))
	s := mustStart(t, &cfg)
	const clients, each = 20, 100
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			c, err := net.Dial("udp", s.Bound()[0].Addr.String())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			buf := make([]byte, 100)
			for k := range each {
				want := fmt.Sprintf("client %d question %d", i, k)
				c.Write([]byte(want))
				c.SetReadDeadline(time.Now().Add(5 * time.Second))
				n, err := c.Read(buf)
				if err != nil || string(buf[:n]) != want {
					t.Errorf("got %q (%v), want %q", buf[:n], err, want)
					return
				}
			}
		})
	}
	wg.Wait()
	eventually(t, "every session ends", func() bool { return s.Sessions() == 0 })
	answered, late := s.Read().Closed()[stats.Answered], uint64(0)
	for _, c := range s.Counters() {
		late += c.LateDatagrams.Load()
	}
	if answered != clients*each || late != 0 {
		t.Errorf("%d sessions were answered and %d answers late, want %d and 0", answered, late, clients*each)
	}
}

// A UDP and a TCP listener share a port, and an upstream.
func TestBothProtocolsOnOnePort(t *testing.T) {
	var tcp conf.Address
	var udp *net.UDPConn
	err := errors.New("not tried")
	for range 10 { // the port that the kernel gives may be taken for UDP
		if err != nil {
			tcp = serve(t, echo)
			udp, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(tcp.Port)})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	go func() {
		buf := make([]byte, 100)
		for {
			n, from, err := udp.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			udp.WriteToUDPAddrPort(buf[:n], from)
		}
	}()
	cfg := udpConfig(func(l *conf.Listener) { l.UDP.IdleTimeout = 100 * time.Millisecond }, tcp)
	l := conf.NewListener("tcp")
	l.Upstream = "u"
	l.Listen = []conf.Address{{Host: "127.0.0.1"}}
	cfg.Listeners = append(cfg.Listeners, l)
	s := mustStart(t, &cfg)
	for _, b := range s.Bound() {
		c, err := net.Dial(b.Protocol.String(), b.Addr.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.Write([]byte("hello"))
		c.SetReadDeadline(time.Now().Add(5 * time.Second))
		buf := make([]byte, 100)
		if n, err := c.Read(buf); err != nil || string(buf[:n]) != "hello" {
			t.Errorf("%s: got %q: %v", b.Protocol, buf[:n], err)
		}
	}
}

func TestLoopsAreOfOneProtocol(t *testing.T) {
	cfg := udpConfig(func(l *conf.Listener) { l.Listen[0].Port = 5399 }, conf.Address{Host: "127.0.0.1", Port: 5399})
	s, err := stream.Start(context.Background(), &cfg, stream.Options{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		stop(t, s)
	}
	if err == nil || !strings.Contains(err.Error(), "connect to itself") {
		t.Errorf("a UDP listener that is its own server: %v", err)
	}
	// A TCP listener on the port of a UDP server is none.
	other := conf.NewUpstream("other")
	other.Servers = []conf.Server{conf.NewServer(conf.Address{Host: "127.0.0.1", Port: 1})}
	l := conf.NewListener("tcp")
	l.Upstream, l.Listen = "other", []conf.Address{{Host: "127.0.0.1", Port: 5399}}
	cfg.Upstreams = append(cfg.Upstreams, other)
	cfg.Listeners[0].Listen[0].Port = 0
	cfg.Listeners = append(cfg.Listeners, l)
	mustStart(t, &cfg)
}

// A stop cuts UDP sessions that are left, and waits for no idle timeout.
func TestStopEndsDatagramSessions(t *testing.T) {
	base := openFDs(t)
	cfg := udpConfig(func(*conf.Listener) {}, serveUDP(t, func(s string) string { return s }))
	s := mustStart(t, &cfg)
	c, err := net.Dial("udp", s.Bound()[0].Addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write([]byte("x"))
	eventually(t, "a session", func() bool { return s.Sessions() == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if n := s.Stop(ctx); n != 1 {
		t.Errorf("%d sessions were cut, want 1", n)
	}
	if n := openFDs(t); n > base+2 { // the client's and the server's
		t.Errorf("%d descriptors after the stop, %d before the start", n, base)
	}
}

// A UDP client goes to the new upstream with its next datagram when its
// listener's old one is removed.
func TestDatagramsLeaveARemovedUpstream(t *testing.T) {
	name := func(s string) conf.Address { return serveUDP(t, func(string) string { return s }) }
	for _, keep := range []bool{false, true} {
		cfg := udpConfig(func(*conf.Listener) {}, name("blue"))
		if keep {
			cfg.Upstreams[0].OnState.Removed = conf.Keep
		}
		s := mustStart(t, &cfg)
		addr := s.Bound()[0].Addr
		c, err := net.Dial("udp", addr.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ask := func() string {
			c.SetDeadline(time.Now().Add(5 * time.Second))
			c.Write([]byte("who"))
			buf := make([]byte, 100)
			n, err := c.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			return string(buf[:n])
		}
		if got := ask(); got != "blue" {
			t.Fatalf("%s answered", got)
		}
		next := udpConfig(func(l *conf.Listener) { l.Upstream = "v" }, name("green"))
		next.Upstreams[0].Name = "v"
		next.Listeners[0].Listen = cfg.Listeners[0].Listen
		change := mustReload(t, s, &next)
		want, ended := "green", 1
		if keep {
			want, ended = "blue", 0
		}
		if got := ask(); got != want {
			t.Errorf("%s answered after the reload, want %s", got, want)
		}
		if change.Affected != 1 || change.Ended != ended {
			t.Errorf("the change is %+v, want %d ended", change, ended)
		}
		// With its listener gone too, a session has nowhere to go.
		if change = mustReload(t, s, reloadConfig(freePort(t), name("tcp"))); change.Affected != 1 || change.Ended != 0 {
			t.Errorf("without a listener the change is %+v, want none ended", change)
		}
		if got := ask(); got != want {
			t.Errorf("%s answered without a listener, want %s", got, want)
		}
		now, cancel := context.WithCancel(context.Background())
		cancel()
		s.Stop(now) // it does not wait for the idle session
	}
}

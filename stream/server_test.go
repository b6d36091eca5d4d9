package stream_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/tcp"
)

// serve serves connections with f until the test ends and returns its address.
func serve(t *testing.T, f func(net.Conn)) conf.Address {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go f(c)
		}
	}()
	a := ln.Addr().(*net.TCPAddr)
	return conf.Address{Host: "127.0.0.1", Port: uint16(a.Port)}
}

func echo(c net.Conn) {
	io.Copy(c, c)
	c.(*net.TCPConn).CloseWrite()
	c.Close()
}

// start runs a server with one listener in front of the peers.
func start(t *testing.T, relay tcp.Relay, edit func(*conf.Config), peers ...conf.Address) (*stream.Server, string) {
	t.Helper()
	cfg := conf.Default()
	cfg.Log.Access = conf.AccessOff
	u := conf.NewUpstream("u")
	for _, p := range peers {
		u.Servers = append(u.Servers, conf.NewServer(p))
	}
	cfg.Upstreams = []conf.Upstream{u}
	l := conf.NewListener("l")
	l.Listen = []conf.Address{{Host: "127.0.0.1"}}
	l.Upstream = "u"
	cfg.Listeners = []conf.Listener{l}
	if edit != nil {
		edit(&cfg)
	}
	s, err := stream.Start(context.Background(), &cfg, stream.Options{Logger: slog.New(slog.DiscardHandler), Relay: relay})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s, s.Bound()[0].Addr.String()
}

// stop ends a server, giving sessions five seconds.
func stop(t *testing.T, s *stream.Server) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return s.Stop(ctx)
}

func TestEchoWithHalfClose(t *testing.T) {
	for _, relay := range []tcp.Relay{tcp.Auto, tcp.Copy, tcp.Splice} {
		s, addr := start(t, relay, nil, serve(t, echo))
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]byte, 20<<20)
		rand.Read(want)
		go func() {
			c.Write(want)
			c.(*net.TCPConn).CloseWrite()
		}()
		c.SetDeadline(time.Now().Add(20 * time.Second))
		got, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		if sha256.Sum256(got) != sha256.Sum256(want) {
			t.Fatalf("relay %d: got %d bytes that differ, want %d", relay, len(got), len(want))
		}
		if !bytes.Equal(got, want) {
			t.Fatal("bytes differ")
		}
		c.Close()
		eventually(t, "the session ends", func() bool { return s.Sessions() == 0 })
	}
}

// eventually polls until f holds.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not seen in time: %s", what)
		}
	}
}

func TestNamesBecomeAPeerForEachAddress(t *testing.T) {
	peer := serve(t, echo)
	cfg := conf.Default()
	cfg.Log.Access = conf.AccessOff
	u := conf.NewUpstream("u")
	server := conf.NewServer(conf.Address{Host: "db.example", Port: peer.Port})
	server.Weight = 7
	u.Servers = []conf.Server{server}
	l := conf.NewListener("l")
	l.Listen, l.Upstream = []conf.Address{{Host: "127.0.0.1"}}, "u"
	cfg.Upstreams, cfg.Listeners = []conf.Upstream{u}, []conf.Listener{l}
	lookup := func(_ context.Context, host string) ([]netip.Addr, error) {
		if host != "db.example" {
			t.Errorf("asked for %q", host)
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("::1")}, nil
	}
	s, err := stream.Start(t.Context(), &cfg, stream.Options{Logger: slog.New(slog.DiscardHandler), Lookup: lookup})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, s)
	peers := s.Peers("u")
	if len(peers) != 3 || peers[2].Balance.Weight != 7 || peers[2].Name != "db.example:"+strconv.Itoa(int(peer.Port)) {
		t.Fatalf("peers are %+v", peers)
	}
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := uint16(taken.Addr().(*net.TCPAddr).Port)
	for _, c := range []struct {
		name string
		edit func(*conf.Config)
		want string
	}{
		{"address in use", func(c *conf.Config) { c.Listeners[0].Listen[0].Port = port }, "address already in use"},
		{"name without address", func(c *conf.Config) { c.Upstreams[0].Servers[0].Address.Host = "nowhere.example" }, `resolve server "nowhere.example:1" of upstream "u"`},
		{"no such congestion control", func(c *conf.Config) { c.Listeners[0].Congestion = "warp" }, `congestion "warp"`},
		{"no such congestion control upstream", func(c *conf.Config) { c.Upstreams[0].Congestion = "warp" }, `congestion "warp"`},
		{"loop", func(c *conf.Config) {
			c.Listeners[0].Listen[0].Port = 1
		}, "connect to itself"},
		{"log directory missing", func(c *conf.Config) { c.Log.Access = "/nowhere/access.log" }, "open access log"},
		{"not an address of this machine", func(c *conf.Config) { c.Listeners[0].Listen[0].Host = "192.0.2.1" }, "cannot assign requested address"},
		{"too many sessions", func(c *conf.Config) { c.Worker.MaxSessions = 1 << 30 }, "RLIMIT_NOFILE"},
		{"path is no socket", func(c *conf.Config) { c.Listeners[0].Listen[0] = conf.Address{Path: "/etc/passwd"} }, "is no socket"},
	} {
		t.Run(c.name, func(t *testing.T) {
			base := openFDs(t)
			cfg := conf.Default()
			cfg.Log.Access = conf.AccessOff
			u := conf.NewUpstream("u")
			u.Servers = []conf.Server{conf.NewServer(conf.Address{Host: "127.0.0.1", Port: 1})}
			l := conf.NewListener("l")
			l.Listen, l.Upstream = []conf.Address{{Host: "127.0.0.1"}}, "u"
			cfg.Upstreams, cfg.Listeners = []conf.Upstream{u}, []conf.Listener{l}
			c.edit(&cfg)
			lookup := func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no such host") }
			s, err := stream.Start(t.Context(), &cfg, stream.Options{Logger: slog.New(slog.DiscardHandler), Lookup: lookup})
			if err == nil {
				stop(t, s)
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("it said %q, want %q in it", err, c.want)
			}
			if n := openFDs(t); n > base {
				t.Errorf("%d descriptors after the failure, %d before", n, base)
			}
		})
	}
}

func TestSecondServerOnOneAddressIsRefused(t *testing.T) {
	_, addr := start(t, tcp.Auto, nil, serve(t, echo))
	port, _ := strconv.ParseUint(addr[strings.LastIndexByte(addr, ':')+1:], 10, 16)
	cfg := conf.Default()
	u := conf.NewUpstream("u")
	u.Servers = []conf.Server{conf.NewServer(conf.Address{Host: "127.0.0.1", Port: 1})}
	l := conf.NewListener("l")
	l.Listen, l.Upstream = []conf.Address{{Host: "127.0.0.1", Port: uint16(port)}}, "u"
	cfg.Upstreams, cfg.Listeners = []conf.Upstream{u}, []conf.Listener{l}
	if s, err := stream.Start(t.Context(), &cfg, stream.Options{}); err == nil {
		stop(t, s)
		t.Fatal("two servers share one address")
	}
}

func TestStopWaitsForSessionsThenCuts(t *testing.T) {
	s, addr := start(t, tcp.Auto, nil, serve(t, echo))
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write([]byte("x"))
	io.ReadFull(c, make([]byte, 1))
	s.Drain()
	if d, err := net.Dial("tcp", addr); err == nil {
		d.Close()
		t.Fatal("a draining server accepts")
	}
	c.Write([]byte("y")) // the session goes on
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatalf("draining broke the session: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if cut := s.Stop(ctx); cut != 1 {
		t.Fatalf("%d sessions cut, want 1", cut)
	}
	if s.Read().Closed()[stats.Shutdown] != 1 {
		t.Error("the reason is not shutdown")
	}
}

// max_conns is strict over all workers.
func TestMaxConnsIsStrict(t *testing.T) {
	var now, most atomic.Int64
	release := make(chan struct{})
	peer := serve(t, func(c net.Conn) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-release
		now.Add(-1)
		c.Close()
	})
	s, addr := start(t, tcp.Auto, func(c *conf.Config) {
		c.Worker.Count = 4
		c.Upstreams[0].Servers[0].MaxConns = 5
	}, peer)
	for range 60 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	eventually(t, "the others are refused", func() bool { return s.Sessions() == 5 })
	if most.Load() > 5 {
		t.Errorf("the peer had %d connections, max_conns is 5", most.Load())
	}
	close(release)
}

package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream"
	"github.com/weirlb/weir/stream/stats"
)

// named serves connections with its name, a line, and then echoes.
func named(t *testing.T, name string) conf.Address {
	return serve(t, func(c net.Conn) {
		defer c.Close()
		fmt.Fprintln(c, name)
		io.Copy(c, c)
	})
}

// freePort returns an address whose port nobody has at the moment.
func freePort(t *testing.T) conf.Address {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return conf.Address{Host: "127.0.0.1", Port: uint16(l.Addr().(*net.TCPAddr).Port)}
}

// reloadConfig is one upstream and one listener.
func reloadConfig(at conf.Address, servers ...conf.Address) *conf.Config {
	cfg := conf.Default()
	cfg.Log.Access = conf.AccessOff
	cfg.Worker.Count = 2
	u := conf.NewUpstream("u")
	for _, a := range servers {
		u.Servers = append(u.Servers, conf.NewServer(a))
	}
	l := conf.NewListener("l")
	l.Upstream, l.Listen = "u", []conf.Address{at}
	cfg.Upstreams, cfg.Listeners = []conf.Upstream{u}, []conf.Listener{l}
	return &cfg
}

func mustReload(t *testing.T, s *stream.Server, cfg *conf.Config) *stream.Change {
	t.Helper()
	c, err := s.Reload(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// dial connects and reads the name of the server.
func dial(t *testing.T, addr string) (net.Conn, string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(10 * time.Second))
	return c, line(t, c)
}

func line(t *testing.T, c net.Conn) string {
	t.Helper()
	var b []byte
	for one := make([]byte, 1); ; {
		if _, err := c.Read(one); err != nil {
			t.Errorf("after %q: %v", b, err)
			return ""
		}
		if one[0] == '\n' {
			return string(b)
		}
		b = append(b, one[0])
	}
}

func echoes(t *testing.T, c net.Conn) {
	t.Helper()
	fmt.Fprintln(c, "still here")
	if got := line(t, c); got != "still here" {
		t.Errorf("got %q", got)
	}
}

// Sessions of a peer and of a listener that go run on; new ones are the new
// configuration's.
func TestReloadEndsNoSession(t *testing.T) {
	at, other := freePort(t), freePort(t)
	a, b := named(t, "a"), named(t, "b")
	cfg := reloadConfig(at, a)
	cfg.Listeners[0].Listen = append(cfg.Listeners[0].Listen, other)
	s := mustStart(t, cfg)
	onStaying, _ := dial(t, at.String())
	onGoing, _ := dial(t, other.String())
	defer onStaying.Close()
	defer onGoing.Close()

	change := mustReload(t, s, reloadConfig(at, b))
	if !slices.Equal(change.Closed, []string{"tcp " + other.String()}) || len(change.Opened) != 0 ||
		!slices.Equal(change.Added, []string{"u/" + b.String()}) || !slices.Equal(change.Removed, []string{"u/" + a.String()}) {
		t.Errorf("the change is %+v", change)
	}
	echoes(t, onStaying)
	echoes(t, onGoing)
	for range 5 {
		c, name := dial(t, at.String())
		c.Close()
		if name != "b" {
			t.Errorf("a new session went to %s", name)
		}
	}
	if c, err := net.Dial("tcp", other.String()); err == nil {
		c.Close()
		t.Error("the address that was removed still accepts")
	}
	// And back again, with what was removed.
	mustReload(t, s, cfg)
	c, name := dial(t, other.String())
	defer c.Close()
	if name != "a" {
		t.Errorf("the address that came back goes to %s", name)
	}
	echoes(t, onStaying)
	echoes(t, onGoing)
}

// A reload of the same changes nothing at all.
func TestReloadOfTheSame(t *testing.T) {
	at := freePort(t)
	a, b := named(t, "a"), named(t, "b")
	s := mustStart(t, reloadConfig(at, a, b))
	var got []string
	for i := range 6 {
		if i == 3 {
			if change := mustReload(t, s, reloadConfig(at, a, b)); !change.Empty() {
				t.Errorf("the change is %+v", change)
			}
		}
		c, name := dial(t, at.String())
		defer c.Close()
		got = append(got, name)
	}
	if strings.Join(got, "") != "ababab" {
		t.Errorf("the sessions went to %v", got)
	}
	if peers := s.Peers("u"); peers[0].Balance.Conns != 3 || peers[1].Balance.Conns != 3 || peers[0].Sessions != 3 {
		t.Errorf("the peers are %+v", peers)
	}
}

// What can't be done is not half done.
func TestReloadThatFails(t *testing.T) {
	at := freePort(t)
	a := named(t, "a")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s := mustStart(t, reloadConfig(at, a))
	base := openSockets(t)
	for name, edit := range map[string]func(*conf.Config){
		"address in use": func(c *conf.Config) {
			c.Worker.Count = 3
			c.Listeners[0].Listen = append(c.Listeners[0].Listen, freePort(t), conf.Address{Host: "127.0.0.1", Port: uint16(taken.Addr().(*net.TCPAddr).Port)})
		},
		"no such name":      func(c *conf.Config) { c.Upstreams[0].Servers[0].Address.Host = "nowhere.invalid" },
		"no log directory":  func(c *conf.Config) { c.Log.Access = "/nowhere/access.log"; c.Worker.Count = 4 },
		"too many sessions": func(c *conf.Config) { c.Worker.MaxSessions = 1 << 30 },
		"table is too small": func(c *conf.Config) {
			c.Upstreams[0].Balance = conf.DefaultBalance(conf.Maglev)
			c.Upstreams[0].Balance.TableSize = 4
		},
	} {
		cfg := reloadConfig(at, named(t, "b"))
		edit(cfg)
		if _, err := s.Reload(t.Context(), cfg); err == nil {
			t.Errorf("%s: it reloaded", name)
		}
		c, got := dial(t, at.String())
		c.Close()
		if got != "a" {
			t.Errorf("%s: a new session went to %s", name, got)
		}
		if n := s.Workers(); n != 2 {
			t.Errorf("%s: %d workers", name, n)
		}
	}
	eventually(t, "all that was opened is closed", func() bool { return openSockets(t) <= base+5 }) // the b servers
	if _, err := unix.FcntlInt(0, unix.F_GETFD, 0); err != nil {
		t.Errorf("standard input: %v", err)
	}
}

func TestReloadChangesWorkers(t *testing.T) {
	at := freePort(t)
	a := named(t, "a")
	cfg := reloadConfig(at, a)
	s := mustStart(t, cfg)
	threads := func() int { return runtime.NumGoroutine() }
	before := threads()
	var held []net.Conn
	hold := func() {
		for range 16 {
			c, _ := dial(t, at.String())
			held = append(held, c)
		}
	}
	for _, n := range []int{4, 1, 3, 2} {
		hold()
		next := reloadConfig(at, a)
		next.Worker.Count = n
		if change := mustReload(t, s, next); change.Workers[1] != n {
			t.Errorf("workers went from %d to %d", change.Workers[0], change.Workers[1])
		}
		if s.Workers() != n {
			t.Errorf("%d workers, want %d", s.Workers(), n)
		}
		for _, c := range held {
			echoes(t, c)
		}
	}
	hold()
	for _, c := range held {
		c.Close()
	}
	eventually(t, "the sessions end", func() bool { return s.Sessions() == 0 })
	eventually(t, "the workers that left are gone", func() bool { return threads() <= before+2 })
	if p := s.Peers("u")[0]; p.Sessions != uint64(len(held)) || p.Balance.Conns != 0 {
		t.Errorf("the peer counts %d sessions and %d connections, want %d and 0", p.Sessions, p.Balance.Conns, len(held))
	}
}

// Unix sockets and logs are taken over too.
func TestReloadOfLogsAndUnixSockets(t *testing.T) {
	dir := t.TempDir()
	a := named(t, "a")
	cfg := func(log string, socks ...string) *conf.Config {
		c := reloadConfig(freePort(t), a)
		c.Log.Access = filepath.Join(dir, log)
		c.Log.Fields = []conf.Variable{conf.VarListener}
		c.Listeners[0].Listen = nil
		for _, s := range socks {
			c.Listeners[0].Listen = append(c.Listeners[0].Listen, conf.Address{Path: filepath.Join(dir, s)})
		}
		return c
	}
	use := func(sock string) {
		t.Helper()
		c, err := net.Dial("unix", filepath.Join(dir, sock))
		if err != nil {
			t.Fatal(err)
		}
		if name := line(t, c); name != "a" {
			t.Errorf("%s goes to %q", sock, name)
		}
		c.Close()
	}
	lines := func(log string, want int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d lines in %s", want, log), func() bool {
			b, _ := os.ReadFile(filepath.Join(dir, log))
			return strings.Count(string(b), "\n") == want
		})
	}
	s := mustStart(t, cfg("1.log", "x", "y"))
	use("x")
	use("y")
	lines("1.log", 2)
	mustReload(t, s, cfg("2.log", "y", "z"))
	use("y")
	use("z")
	lines("2.log", 2)
	lines("1.log", 2)
	if _, err := os.Lstat(filepath.Join(dir, "x")); err == nil {
		t.Error("the path of the socket that was removed is still there")
	}
}

// congestions lists the congestion controls of this process's sockets that are
// bound to the address.
func congestions(t *testing.T, at conf.Address) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		fd, _ := strconv.Atoi(e.Name())
		sa, err := unix.Getsockname(fd)
		if in, ok := sa.(*unix.SockaddrInet4); err != nil || !ok || in.Port != int(at.Port) {
			continue
		}
		name, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// Another congestion control of a listener holds for its clients from the reload,
// or the upgrade, on.
func TestReloadOfCongestion(t *testing.T) {
	at := freePort(t)
	a := named(t, "a")
	with := func(name string) *conf.Config {
		cfg := reloadConfig(at, a)
		cfg.Listeners[0].Congestion = name
		return cfg
	}
	s := mustStart(t, with(""))
	system := congestions(t, at)
	want := func(when string, want ...string) {
		t.Helper()
		c, _ := dial(t, at.String()) // which inherits it
		defer c.Close()
		if got := congestions(t, at); !slices.Equal(got, want) {
			t.Errorf("%s: the sockets have %v, want %v", when, got, want)
		}
		c.Close()
		eventually(t, "the session ends", func() bool { return s.Sessions() == 0 })
	}
	mustReload(t, s, with("reno"))
	want("set by a reload", "reno")
	if _, err := s.Reload(t.Context(), with("warp")); err == nil || !strings.Contains(err.Error(), `listener "l": set congestion "warp"`) {
		t.Errorf("reload with one that there is not: %v", err)
	}
	want("after a reload that failed", "reno")
	mustReload(t, s, with(""))
	want("removed by a reload", system...)

	s = successor(t, s, with("reno"), true)
	want("set by an upgrade", "reno")
	if _, _, err := tryHandOver(t, s, with("warp"), true); err == nil {
		t.Error("an upgrade to one that there is not succeeded")
	}
	want("after an upgrade that failed", "reno")
	s = successor(t, s, with(""), true)
	want("removed by an upgrade", system...)
}

// openSockets counts the sockets of this process. The pipes of io.Copy, which
// the servers here use, are left until a garbage collection.
func openSockets(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// Under load, reloads that add, remove and reweight peers and listeners cost no
// connection, and leave no descriptor behind.
func TestReloadUnderLoad(t *testing.T) {
	at, extra := freePort(t), freePort(t)
	servers := []conf.Address{named(t, "a"), named(t, "b"), named(t, "c")}
	build := func(i int) *conf.Config {
		cfg := reloadConfig(at, servers[i%3], servers[(i+1)%3])
		cfg.Upstreams[0].Balance = conf.DefaultBalance([]string{conf.LeastConn, conf.RoundRobin, conf.Random}[i%3])
		cfg.Upstreams[0].Servers[0].Weight = 1 + i%5
		cfg.Listeners[0].IdleTimeout = time.Duration(i+1) * time.Minute
		if i%2 == 1 {
			cfg.Listeners[0].Listen = append(cfg.Listeners[0].Listen, extra)
		}
		return cfg
	}
	s := mustStart(t, build(0))
	var long []net.Conn
	for range 20 {
		c, _ := dial(t, at.String())
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Minute))
		long = append(long, c)
	}
	stop := make(chan struct{})
	var sessions, failed atomic.Int64
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				c, err := net.Dial("tcp", at.String())
				if err == nil {
					c.SetDeadline(time.Now().Add(10 * time.Second))
					_, err = io.ReadFull(c, make([]byte, 2))
					c.Close()
				}
				sessions.Add(1)
				if err != nil {
					failed.Add(1)
					t.Errorf("session %d: %v", sessions.Load(), err)
				}
			}
		})
	}
	fds := 0
	for i := 1; i <= 100; i++ {
		mustReload(t, s, build(i))
		echoes(t, long[i%len(long)])
		if i == 20 {
			fds = openSockets(t)
		}
	}
	close(stop)
	load.Wait()
	for _, c := range long {
		echoes(t, c)
	}
	eventually(t, "the short sessions end", func() bool { return s.Sessions() == len(long) })
	eventually(t, "as many descriptors after 100 reloads as after 20", func() bool { return openSockets(t) <= fds+20 })
	mustReload(t, s, reloadConfig(at, servers...))
	conns := 0
	for _, p := range s.Peers("u") {
		conns += p.Balance.Conns
	}
	// All three servers are back, but b may have gone and come as a new peer.
	if conns > len(long) {
		t.Errorf("%d connections are counted, there are %d", conns, len(long))
	}
	t.Logf("100 reloads during %d sessions, %d failed", sessions.Load(), failed.Load())
}

func TestDiffChangesNothing(t *testing.T) {
	at := freePort(t)
	a, b := named(t, "a"), named(t, "b")
	s := mustStart(t, reloadConfig(at, a))
	next := reloadConfig(at, a, b)
	next.Upstreams[0].Servers[0].Weight = 7
	next.Listeners[0].IdleTimeout = time.Hour
	next.Log.Decisions = conf.DecisionsAll
	change, err := s.Diff(context.Background(), next)
	if err != nil {
		t.Fatal(err)
	}
	if len(change.Added) != 1 || len(change.Altered) != 1 || len(change.Changed) != 1 || !slices.Equal(change.Settings, []string{"log"}) {
		t.Errorf("the change is %+v", change)
	}
	if n := len(s.Peers("u")); n != 1 {
		t.Errorf("Diff made it %d peers", n)
	}
}

// deaf returns an address that answers no SYN: a listening socket whose queue is
// full.
func deaf(t *testing.T) conf.Address {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	at := conf.Address{Host: "127.0.0.1", Port: uint16(sa.(*unix.SockaddrInet4).Port)}
	c, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return at
}

// A session of a worker that leaves may have to try a peer that has just come:
// the worker counts it there too.
func TestLeavingWorkerTriesNewPeer(t *testing.T) {
	at, first, second := freePort(t), deaf(t), deaf(t)
	cfg := reloadConfig(at, first, second)
	cfg.Listeners[0].ConnectTimeout = 300 * time.Millisecond
	s := mustStart(t, cfg)
	const clients = 16
	var conns []net.Conn
	for range clients {
		c, err := net.Dial("tcp", at.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c)
	}
	eventually(t, "all are accepted", func() bool { return s.Sessions() == clients })
	next := reloadConfig(at, named(t, "new"))
	next.Worker.Count = 1
	mustReload(t, s, next)
	for _, c := range conns {
		c.SetDeadline(time.Now().Add(5 * time.Second))
		if got := line(t, c); got != "new" {
			t.Errorf("got %q, want the new peer", got)
		}
	}
}

// Whoever waits for a server of an upstream that a reload takes away gets none of it:
// not the room that its sessions leave behind.
func TestReloadEmptiesQueueOfUpstreamThatGoes(t *testing.T) {
	at := freePort(t)
	var sessions atomic.Int64
	server := serve(t, func(c net.Conn) {
		defer c.Close()
		sessions.Add(1)
		fmt.Fprintln(c, "a")
		io.Copy(c, c)
	})
	config := func(name string, server conf.Address) *conf.Config {
		cfg := reloadConfig(at, server)
		u := &cfg.Upstreams[0]
		u.Name, cfg.Listeners[0].Upstream = name, name
		u.Servers[0].MaxConns, u.OnState.Removed = 1, conf.CloseFate
		u.Queue = &conf.Queue{Max: 9, Timeout: time.Minute}
		return cfg
	}
	s := mustStart(t, config("u", server))
	a, _ := dial(t, at.String())
	defer a.Close()
	b, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	eventually(t, "the second session waits", func() bool { return s.Read().Upstreams[0].Load.Waiting == 1 })
	mustReload(t, s, config("v", named(t, "b")))
	if !isReset(a) {
		t.Error("the session of the server that is gone was not reset")
	}
	b.SetDeadline(time.Now().Add(5 * time.Second))
	if n, err := b.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the session that waited goes on: %d bytes, %v", n, err)
	}
	eventually(t, "both have ended", func() bool { return s.Sessions() == 0 })
	if n := sessions.Load(); n != 1 {
		t.Errorf("the server that is gone had %d sessions", n)
	}
	if n := ended(s, stats.NoPeer); n != 1 {
		t.Errorf("%d sessions ended as no_peer", n)
	}
}

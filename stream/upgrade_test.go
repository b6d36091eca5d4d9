package stream_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/handover"
)

// successor hands a server's work to a new one of that configuration, in this
// very process, and stops the old one, of which nothing may be left.
func successor(t *testing.T, old *stream.Server, cfg *conf.Config, sessions bool) *stream.Server {
	t.Helper()
	next, moved, err := tryHandOver(t, old, cfg, sessions)
	if err != nil {
		t.Fatal(err)
	}
	if sessions && old.Sessions() != 0 {
		t.Errorf("%d sessions are left in the old server, %d were moved", old.Sessions(), moved)
	}
	go stop(t, old)
	return next
}

// otherEnd makes of the file what the new process makes of its descriptor.
func otherEnd(t *testing.T, file *os.File) *handover.Conn {
	t.Helper()
	fd, err := unix.Dup(int(file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	c, err := handover.FromFD(fd)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// beginHandOver has the server hand over to an end that the test plays. failed gets
// the error.
func beginHandOver(t *testing.T, s *stream.Server) (theirs *handover.Conn, failed <-chan error) {
	t.Helper()
	ours, file, err := handover.Pair()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close() })
	c := make(chan error, 1)
	go func() {
		_, err := s.HandOver(t.Context(), ours, true)
		c <- err
	}()
	return otherEnd(t, file), c
}

func tryHandOver(t *testing.T, old *stream.Server, cfg *conf.Config, sessions bool) (*stream.Server, int, error) {
	t.Helper()
	ours, file, err := handover.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs := otherEnd(t, file)
	defer theirs.Close()
	var next *stream.Server
	var startErr error
	var started sync.WaitGroup
	started.Go(func() {
		next, startErr = stream.Start(context.Background(), cfg, stream.Options{Logger: slog.New(slog.DiscardHandler), Inherit: theirs})
		if startErr != nil {
			theirs.Close()
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	moved, err := old.HandOver(ctx, ours, sessions)
	started.Wait()
	if err == nil {
		err = startErr
	}
	if next != nil {
		t.Cleanup(func() { stop(t, next) })
	}
	return next, moved, err
}

// Established sessions, queued connections, peers' state and the addresses
// survive one change of processes after the other.
func TestHandOver(t *testing.T) {
	at := freePort(t)
	sock := t.TempDir() + "/s"
	a, b := named(t, "a"), named(t, "b")
	config := func() *conf.Config {
		cfg := reloadConfig(at, a, b)
		cfg.Upstreams[0].Balance = conf.DefaultBalance(conf.LeastConn)
		cfg.Listeners[0].Listen = append(cfg.Listeners[0].Listen, conf.Address{Path: sock})
		return cfg
	}
	s := mustStart(t, config())
	var held []net.Conn
	hold := func() {
		c, _ := dial(t, at.String())
		held = append(held, c)
		u, err := net.Dial("unix", sock)
		if err != nil {
			t.Fatal(err)
		}
		u.SetDeadline(time.Now().Add(20 * time.Second))
		line(t, u)
		held = append(held, u)
	}
	for range 8 {
		hold()
	}
	for round, workers := range []int{2, 3, 1, 2} {
		cfg := config()
		cfg.Worker.Count = workers
		s = successor(t, s, cfg, true)
		for _, c := range held {
			echoes(t, c)
		}
		hold()
		conns := 0
		peers := s.Peers("u")
		for _, p := range peers {
			conns += p.Balance.Conns
		}
		if conns != len(held) || s.Sessions() != len(held) {
			t.Errorf("round %d: %d connections are counted and %d sessions, there are %d", round, conns, s.Sessions(), len(held))
		}
		if d := peers[0].Balance.Conns - peers[1].Balance.Conns; d < -1 || d > 1 {
			t.Errorf("round %d: least_conn has %d and %d", round, peers[0].Balance.Conns, peers[1].Balance.Conns)
		}
	}
	for _, c := range held {
		c.Close()
	}
	eventually(t, "every session ends", func() bool { return s.Sessions() == 0 })
}

// Failures are remembered by the next process.
func TestHandOverOfPeers(t *testing.T) {
	at := freePort(t)
	dead := freePort(t)
	config := func() *conf.Config {
		cfg := reloadConfig(at, dead, named(t, "b"))
		cfg.Upstreams[0].Servers[0].Weight, cfg.Upstreams[0].Servers[0].MaxFails = 10, 2
		return cfg
	}
	s := mustStart(t, config())
	for range 3 {
		c, _ := dial(t, at.String())
		c.Close()
	}
	before := s.Peers("u")[0]
	if before.Balance.Fails != 2 {
		t.Fatalf("%d failures", before.Balance.Fails)
	}
	after := successor(t, s, config(), true).Peers("u")[0]
	if after.Balance.Fails != 2 || after.Balance.Effective != before.Balance.Effective || after.Balance.Current != before.Balance.Current || after.State != before.State {
		t.Errorf("the peer was %v %+v and is %v %+v", before.State, before.Balance, after.State, after.Balance)
	}
}

// A new process that can't start leaves the old one in charge, sessions and
// all.
func TestHandOverThatFails(t *testing.T) {
	at := freePort(t)
	cfg := reloadConfig(at, named(t, "a"))
	s := mustStart(t, cfg)
	c, _ := dial(t, at.String())
	defer c.Close()
	bad := *cfg
	bad.Log.Access = "/nowhere/access.log"
	if _, _, err := tryHandOver(t, s, &bad, true); err == nil {
		t.Fatal("it was handed over")
	}
	echoes(t, c)
	d, _ := dial(t, at.String())
	d.Close()
	mustReload(t, s, cfg)

	// One that goes away in the middle.
	if err := handOverToDeserter(t, s); err == nil {
		t.Fatal("it was handed over to nobody")
	}
	echoes(t, c)
	d, _ = dial(t, at.String())
	d.Close()
	successor(t, s, cfg, true)
	echoes(t, c)
}

// handOverToDeserter hands over to a process that goes away at the first session.
func handOverToDeserter(t *testing.T, s *stream.Server) error {
	t.Helper()
	ours, file, err := handover.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs := otherEnd(t, file)
	go func() {
		for {
			m, fds, err := theirs.Receive()
			handover.CloseAll(fds)
			if err != nil || m.Kind == handover.Batch && m.Count > 0 {
				break
			}
			if m.Kind == handover.Batch {
				theirs.Send(&handover.Message{Kind: handover.Adopted})
			}
			if m.Kind == handover.Inherit {
				theirs.Send(&handover.Message{Kind: handover.Ready, Sessions: handover.Sessions})
			}
		}
		theirs.Close()
	}()
	_, err = s.HandOver(t.Context(), ours, true)
	return err
}

// With fewer workers than before, clients that the kernel gives to the sockets of
// the others are served while the handover lasts, too.
func TestHandOverToFewerWorkers(t *testing.T) {
	at, slow := freePort(t), freePort(t)
	deafServer, server := deaf(t), named(t, "a")
	config := func(workers int) *conf.Config {
		cfg := reloadConfig(at, server)
		cfg.Worker.Count = workers
		u := conf.NewUpstream("deaf")
		u.Servers = []conf.Server{conf.NewServer(deafServer)}
		l := conf.NewListener("slow")
		l.Upstream, l.Listen, l.ConnectTimeout = "deaf", []conf.Address{slow}, 2*time.Second
		cfg.Upstreams, cfg.Listeners = append(cfg.Upstreams, u), append(cfg.Listeners, l)
		return cfg
	}
	s := mustStart(t, config(4))
	c, _ := dial(t, at.String())
	defer c.Close()
	connecting, err := net.Dial("tcp", slow.String())
	if err != nil {
		t.Fatal(err)
	}
	defer connecting.Close()
	eventually(t, "two sessions", func() bool { return s.Sessions() == 2 })
	var handed sync.WaitGroup
	handed.Go(func() { _, _, err = tryHandOver(t, s, config(2), true) })
	eventually(t, "the first session is moved", func() bool { return s.Sessions() == 1 })
	greet := func(n int) {
		for range n {
			d, _ := dial(t, at.String())
			d.Close()
		}
	}
	greet(40)
	handed.Wait()
	if err != nil {
		t.Fatal(err)
	}
	greet(40)
	echoes(t, c)
}

// The path of a unix socket is the old process's until the new one has taken
// over, and nobody's if that does not listen on it.
func TestHandOverOfUnixPaths(t *testing.T) {
	at, taken := freePort(t), named(t, "other")
	sock := conf.Address{Path: t.TempDir() + "/s"}
	config := func(more ...conf.Address) *conf.Config {
		cfg := reloadConfig(at, named(t, "a"))
		cfg.Listeners[0].Listen = append(cfg.Listeners[0].Listen, more...)
		return cfg
	}
	s := mustStart(t, config(sock))
	if _, _, err := tryHandOver(t, s, config(sock, taken), true); err == nil {
		t.Fatal("it was handed over")
	}
	c, err := net.Dial("unix", sock.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	line(t, c)
	s = successor(t, s, config(sock), true)
	successor(t, s, config(), true)
	echoes(t, c)
	if _, err := os.Stat(sock.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the path that nobody listens on is there: %v", err)
	}
}

// While a server hands over it can be asked whether it is ready, and sessions that
// can't be gone on with are refused for one reason and another.
func TestHandOverAtWork(t *testing.T) {
	server := serveUDP(t, func(s string) string { return s })
	x, y, z := freeUDPPort(t), freeUDPPort(t), freeUDPPort(t)
	cfg := conf.Default()
	cfg.Log.Access = conf.AccessOff
	for _, name := range []string{"u", "gone"} {
		u := conf.NewUpstream(name)
		u.Servers = []conf.Server{conf.NewServer(server)}
		cfg.Upstreams = append(cfg.Upstreams, u)
	}
	for i, at := range []conf.Address{x, y, z} {
		l := conf.NewListener(fmt.Sprint(i))
		l.Protocol, l.Upstream, l.Listen = conf.UDP, cfg.Upstreams[i/2].Name, []conf.Address{at}
		cfg.Listeners = append(cfg.Listeners, l)
	}
	s := mustStart(t, &cfg)
	for range 20 {
		for _, at := range []conf.Address{y, z} {
			c, err := net.Dial("udp", at.String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fmt.Fprint(c, "hello")
		}
	}
	eventually(t, "all sessions", func() bool { return s.Sessions() == 40 })
	var asked sync.WaitGroup
	asked.Go(func() {
		for s.NotReady() == nil {
			runtime.Gosched()
		}
	})
	less := cfg
	less.Upstreams, less.Listeners = cfg.Upstreams[:1], cfg.Listeners[:1]
	_, moved, err := tryHandOver(t, s, &less, true)
	if err != nil {
		t.Fatal(err)
	}
	asked.Wait()
	if moved != 0 {
		t.Errorf("%d sessions were moved, want none", moved)
	}
}

// The numbers of sessions that the old process still begins are not the new one's.
func TestHandOverOfNumbers(t *testing.T) {
	at := freePort(t)
	s := mustStart(t, reloadConfig(at, named(t, "a")))
	theirs, failed := beginHandOver(t, s)
	hello, _, err := theirs.Expect(handover.Hello)
	if err != nil {
		t.Fatal(err)
	}
	c, _ := dial(t, at.String())
	defer c.Close()
	for _, v := range list(t, s, stream.Filter{}) {
		if v.ID > hello.Serial {
			t.Errorf("session %d begins in the old process, and the new one numbers from %d on", v.ID, hello.Serial+1)
		}
	}
	theirs.Close()
	if err := <-failed; err == nil {
		t.Error("it was handed over to nobody")
	}
}

// What becomes of the sessions of a server that the new process's file no longer
// has, or has set down, is what a reload would make of them.
func TestHandOverFollowsOnState(t *testing.T) {
	a, b := named(t, "a"), named(t, "b")
	for name, c := range map[string]struct {
		edit  func(*conf.Upstream)
		reset bool
	}{
		"removed":       {func(u *conf.Upstream) { u.Servers, u.OnState.Removed = u.Servers[1:], conf.CloseFate }, true},
		"removed, kept": {func(u *conf.Upstream) { u.Servers, u.OnState.Removed = u.Servers[1:], conf.Keep }, false},
		"down":          {func(u *conf.Upstream) { u.Servers[0].Down, u.OnState.Drained = true, conf.CloseFate }, true},
		"backup":        {func(u *conf.Upstream) { u.Servers[0].Backup, u.OnState.Removed = true, conf.CloseFate }, false},
	} {
		t.Run(name, func(t *testing.T) {
			at := freePort(t)
			s := mustStart(t, reloadConfig(at, a, b))
			conns := map[string]net.Conn{}
			for conns["a"] == nil || conns["b"] == nil {
				conn, who := dial(t, at.String())
				defer conn.Close()
				conns[who] = conn
			}
			cfg := reloadConfig(at, a, b)
			c.edit(&cfg.Upstreams[0])
			successor(t, s, cfg, true)
			if c.reset {
				if !isReset(conns["a"]) {
					t.Error("the session of the server was not reset")
				}
			} else {
				echoes(t, conns["a"])
			}
			echoes(t, conns["b"])
		})
	}
}

// Without sessions the old process drains.
func TestHandOverWithoutSessions(t *testing.T) {
	at := freePort(t)
	cfg := reloadConfig(at, named(t, "a"))
	s := mustStart(t, cfg)
	c, _ := dial(t, at.String())
	next := successor(t, s, cfg, false)
	echoes(t, c)
	if s.Sessions() != 1 || next.Sessions() != 0 {
		t.Errorf("%d sessions in the old server, %d in the new", s.Sessions(), next.Sessions())
	}
	d, _ := dial(t, at.String())
	d.Close()
	c.Close()
}

// Streams at full speed in both directions, spliced and copied, stalled and
// half-closed, arrive byte for byte through one process after the other, under
// a load of short connections of which none is lost.
func TestHandOverUnderLoad(t *testing.T) {
	at := freePort(t)
	echoServer := serve(t, echo)
	config := func() *conf.Config { return reloadConfig(at, echoServer) }
	s := mustStart(t, config())
	const total = 64 << 20
	var streams sync.WaitGroup
	for i := range 4 {
		streams.Go(func() {
			c, err := net.Dial("tcp", at.String())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(time.Minute))
			want := make(chan []byte, 1)
			go func() {
				h := sha256.New()
				fill(io.MultiWriter(c, h), uint64(i), total, i%2 == 1)
				c.(*net.TCPConn).CloseWrite()
				want <- h.Sum(nil)
			}()
			h := sha256.New()
			n, err := drainSlowly(h, c, i)
			if sum := h.Sum(nil); err != nil || n != total || string(sum) != string(<-want) {
				t.Errorf("stream %d: %d of %d bytes came back, %v", i, n, total, err)
			}
		})
	}
	quit := make(chan struct{})
	var short sync.WaitGroup
	var sessions atomic.Int64
	for range 3 {
		short.Go(func() {
			for {
				select {
				case <-quit:
					return
				default:
				}
				c, err := net.Dial("tcp", at.String())
				if err != nil {
					t.Error(err)
					return
				}
				c.SetDeadline(time.Now().Add(20 * time.Second))
				fmt.Fprintln(c, "hello")
				c.(*net.TCPConn).CloseWrite()
				if b, err := io.ReadAll(c); err != nil || string(b) != "hello\n" {
					t.Errorf("session %d got %q: %v", sessions.Load(), b, err)
				}
				c.Close()
				sessions.Add(1)
			}
		})
	}
	rounds := 0
	finished := make(chan struct{})
	go func() { streams.Wait(); close(finished) }()
	for running := true; running; rounds++ {
		s = successor(t, s, config(), true)
		select {
		case <-finished:
			running = false
		case <-time.After(20 * time.Millisecond):
		}
	}
	close(quit)
	short.Wait()
	eventually(t, "every session ends", func() bool { return s.Sessions() == 0 })
	t.Logf("%d handovers during 4 streams of %d MiB and %d short sessions", rounds, total>>20, sessions.Load())
	if rounds < 3 {
		t.Errorf("only %d handovers", rounds)
	}
}

// fill writes pseudo-random bytes, in pieces of all sizes if uneven.
func fill(w io.Writer, seed uint64, total int, uneven bool) {
	r := rand.NewChaCha8([32]byte{byte(seed)})
	buf := make([]byte, 256<<10)
	for total > 0 {
		n := min(len(buf), total)
		if uneven {
			n = min(n, 1+int(r.Uint64()%20000))
		}
		r.Read(buf[:n])
		if _, err := w.Write(buf[:n]); err != nil {
			return
		}
		total -= n
	}
}

// drainSlowly reads to the end, the third stream with pauses.
func drainSlowly(h hash.Hash, c net.Conn, i int) (total int, err error) {
	buf := make([]byte, 128<<10)
	for {
		n, err := c.Read(buf)
		h.Write(buf[:n])
		total += n
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
		if i == 2 && total%(1<<20) < n {
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// A half-closed session stays half-closed, and UDP sessions keep their peer's
// socket.
func TestHandOverOfHalfClosedAndDatagrams(t *testing.T) {
	at := freePort(t)
	ready := make(chan struct{})
	server := serve(t, func(c net.Conn) {
		defer c.Close()
		b, _ := io.ReadAll(c)
		<-ready
		c.Write(append([]byte("got "), b...))
	})
	var froms sync.Map
	udpServer, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer udpServer.Close()
	go func() {
		buf := make([]byte, 100)
		for {
			n, from, err := udpServer.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			froms.Store(from.String(), true)
			udpServer.WriteToUDPAddrPort(buf[:n], from)
		}
	}()
	config := func() *conf.Config {
		cfg := reloadConfig(at, server)
		u := conf.NewUpstream("udp")
		u.Servers = []conf.Server{conf.NewServer(conf.Address{Host: "127.0.0.1", Port: uint16(udpServer.LocalAddr().(*net.UDPAddr).Port)})}
		l := conf.NewListener("udp")
		l.Protocol, l.Upstream, l.Listen, l.UDP.IdleTimeout = conf.UDP, "udp", []conf.Address{at}, 2*time.Second
		cfg.Upstreams, cfg.Listeners = append(cfg.Upstreams, u), append(cfg.Listeners, l)
		return cfg
	}
	s := mustStart(t, config())
	c, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprint(c, "question")
	c.(*net.TCPConn).CloseWrite()
	var flows []net.Conn
	for range 20 {
		f, err := net.Dial("udp", at.String())
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		f.SetDeadline(time.Now().Add(20 * time.Second))
		flows = append(flows, f)
	}
	ask := func(text string) {
		t.Helper()
		for i, f := range flows {
			want := fmt.Sprint(text, i)
			f.Write([]byte(want))
			buf := make([]byte, 100)
			if n, err := f.Read(buf); err != nil || string(buf[:n]) != want {
				t.Errorf("flow %d got %q: %v", i, buf[:n], err)
			}
		}
	}
	ask("before ")
	eventually(t, "21 sessions", func() bool { return s.Sessions() == 21 })
	for round := range 3 {
		s = successor(t, s, config(), true)
		if n := s.Sessions(); n != 21 {
			t.Errorf("round %d: %d sessions, want 21", round, n)
		}
		ask(fmt.Sprintf("after %d ", round))
	}
	n := 0
	froms.Range(func(any, any) bool { n++; return true })
	if n != len(flows) {
		t.Errorf("the server saw %d sockets for %d flows: some began anew", n, len(flows))
	}
	close(ready)
	if b, err := io.ReadAll(c); err != nil || string(b) != "got question" {
		t.Errorf("the half-closed session got %q: %v", b, err)
	}
}

// A datagram session whose listener goes to another upstream now is counted in
// its own one, from adoption to end.
func TestHandOverOfDatagramsToOtherUpstreams(t *testing.T) {
	x, y, server := freeUDPPort(t), freeUDPPort(t), serveUDP(t, func(s string) string { return s })
	config := func(ofX, ofY string) *conf.Config {
		cfg := conf.Default()
		cfg.Log.Access = conf.AccessOff
		cfg.Worker.Count = 1
		for _, name := range []string{"a", "b"} {
			u := conf.NewUpstream(name)
			u.Servers = []conf.Server{conf.NewServer(server)}
			cfg.Upstreams = append(cfg.Upstreams, u)
		}
		for name, l := range map[string]struct {
			at       conf.Address
			upstream string
		}{"x": {x, ofX}, "y": {y, ofY}} {
			c := conf.NewListener(name)
			c.Protocol, c.Upstream, c.Listen, c.UDP.IdleTimeout = conf.UDP, l.upstream, []conf.Address{l.at}, time.Second
			cfg.Listeners = append(cfg.Listeners, c)
		}
		return &cfg
	}
	s := mustStart(t, config("a", "a"))
	c, err := net.Dial("udp", x.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprint(c, "hello")
	if _, err := c.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	s = successor(t, s, config("b", "a"), true)
	if n := s.Sessions(); n != 1 {
		t.Errorf("%d sessions were adopted, want 1", n)
	}
	eventually(t, "the session ends", func() bool { return s.Sessions() == 0 })
	for _, u := range s.Read().Upstreams {
		if u.Load.Sessions != 0 {
			t.Errorf("upstream %s counts %d sessions, want none", u.Name, u.Load.Sessions)
		}
	}
}

// A new process of another version of sessions takes over the sockets, and the
// old one drains.
func TestHandOverToAnotherVersionOfSessions(t *testing.T) {
	at := freePort(t)
	cfg := reloadConfig(at, named(t, "a"))
	s := mustStart(t, cfg)
	c, _ := dial(t, at.String())
	ours, file, err := handover.Pair()
	if err != nil {
		t.Fatal(err)
	}
	between := otherEnd(t, file)
	onward, file, err := handover.Pair()
	if err != nil {
		t.Fatal(err)
	}
	theirs := otherEnd(t, file)
	pass := func(from, to *handover.Conn) {
		for {
			m, fds, err := from.Receive()
			if err != nil {
				to.Close()
				return
			}
			if m.Kind == handover.Ready {
				m.Sessions = 99
			}
			_ = to.Send(m, fds...)
			handover.CloseAll(fds)
		}
	}
	go pass(between, onward)
	go pass(onward, between)
	var next *stream.Server
	var startErr error
	var started sync.WaitGroup
	started.Go(func() {
		next, startErr = stream.Start(context.Background(), cfg, stream.Options{Logger: slog.New(slog.DiscardHandler), Inherit: theirs})
		theirs.Close()
	})
	moved, err := s.HandOver(t.Context(), ours, true)
	started.Wait()
	if err != nil || startErr != nil || moved != 0 {
		t.Fatalf("%d moved: %v, %v", moved, err, startErr)
	}
	ours.Close()
	t.Cleanup(func() { stop(t, next) })
	echoes(t, c)
	d, _ := dial(t, at.String())
	d.Close()
	if s.Sessions() != 1 {
		t.Errorf("%d sessions in the old server, want 1", s.Sessions())
	}
	c.Close()
}

func TestHandOverToAnotherVersion(t *testing.T) {
	ours, file, err := handover.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs := otherEnd(t, file)
	defer theirs.Close()
	if err := ours.Send(&handover.Message{Kind: handover.Hello, Version: 99}); err != nil {
		t.Fatal(err)
	}
	cfg := reloadConfig(freePort(t), named(t, "a"))
	_, err = stream.Start(t.Context(), cfg, stream.Options{Logger: slog.New(slog.DiscardHandler), Inherit: theirs})
	if err == nil || !strings.Contains(err.Error(), "99") {
		t.Errorf("a start from version 99: %v", err)
	}
}

// What an operator says while an upgrade is under way would be lost with the old
// process: it is refused, until that has come to nothing.
func TestHandOverRefusesOrders(t *testing.T) {
	s := mustStart(t, reloadConfig(freePort(t), named(t, "a")))
	peer := s.Peers("u")[0].Addr
	theirs, failed := beginHandOver(t, s)
	for {
		m, fds, err := theirs.Receive()
		handover.CloseAll(fds)
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind == handover.Inherit {
			break
		}
	}
	admin, weight := s.SetAdmin("u", peer, balance.Drain), s.SetWeight("u", peer, 7)
	theirs.Close()
	if err := <-failed; err == nil {
		t.Error("it was handed over to nobody")
	}
	wantRequestError(t, admin, stream.Busy, "an upgrade is under way")
	wantRequestError(t, weight, stream.Busy, "an upgrade is under way")
	if b := s.Peers("u")[0].Balance; b.Admin != balance.Up || b.Weight != 1 {
		t.Errorf("the peer is %v, its weight %d", b.Admin, b.Weight)
	}
	if err := s.SetAdmin("u", peer, balance.Drain); err != nil {
		t.Errorf("after it: %v", err)
	}
}

// The old process dies when it has handed over all, before it is told that this
// one serves. That is told to Options.TakenOver once, as ever.
func TestHandOverByOneThatDiesAtTheEnd(t *testing.T) {
	ours, file, err := handover.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs := otherEnd(t, file)
	defer theirs.Close()
	go func() {
		_ = ours.Send(&handover.Message{Kind: handover.Hello, Version: handover.Version})
		_ = ours.Send(&handover.Message{Kind: handover.Inherit})
		_, _, _ = ours.Expect(handover.Ready)
		for _, kind := range []handover.Kind{handover.Go, handover.Batch, handover.Datagrams, handover.Done} {
			_ = ours.Send(&handover.Message{Kind: kind})
		}
	}()
	calls := 0
	at := freePort(t)
	s, err := stream.Start(t.Context(), reloadConfig(at, named(t, "a")), stream.Options{
		Logger:  slog.New(slog.DiscardHandler),
		Inherit: theirs,
		TakenOver: func() {
			calls++
			ours.Close()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	if calls != 1 {
		t.Errorf("TakenOver was called %d times", calls)
	}
	c, _ := dial(t, at.String())
	c.Close()
}

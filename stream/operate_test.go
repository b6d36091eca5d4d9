package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/history"
	"github.com/weirlb/weir/stream/stats"
)

// operated starts a server with the listener "l" before two servers "a" and "b".
func operated(t *testing.T, edit func(*conf.Config)) (*stream.Server, *conf.Config) {
	t.Helper()
	cfg := reloadConfig(freePort(t), named(t, "a"), named(t, "b"))
	cfg.Upstreams[0].Servers[0].Name, cfg.Upstreams[0].Servers[1].Name = "a", "b"
	if edit != nil {
		edit(cfg)
	}
	return mustStart(t, cfg), cfg
}

func list(t *testing.T, s *stream.Server, f stream.Filter) []history.Live {
	t.Helper()
	l, err := s.ListSessions(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return l.Sessions
}

func wantRequestError(t *testing.T, err error, kind stream.RequestKind, words string) {
	t.Helper()
	var r *stream.RequestError
	if !errors.As(err, &r) || r.Kind != kind || !strings.Contains(r.Text, words) {
		t.Errorf("the error is %v, want kind %d with %q", err, kind, words)
	}
}

func TestListSessions(t *testing.T) {
	s, cfg := operated(t, nil)
	addr := cfg.Listeners[0].Listen[0].String()
	var conns []net.Conn
	for range 6 {
		c, _ := dial(t, addr)
		defer c.Close()
		conns = append(conns, c)
	}
	echoes(t, conns[0])
	all := list(t, s, stream.Filter{})
	if len(all) != 6 || !slices.IsSortedFunc(all, func(a, b history.Live) int { return int(a.Start - b.Start) }) {
		t.Fatalf("got %d sessions %+v, want 6 in order of age", len(all), all)
	}
	first := all[0]
	if first.Client.AddrPort().String() != conns[0].LocalAddr().String() || first.Listener != "l" || first.Phase != "relaying" || first.Tries != 1 ||
		first.Received != uint64(len("still here\n")) || first.Sent != uint64(len("still here\n")+len("a\n")) {
		t.Errorf("the first session is %+v", first)
	}
	for _, filter := range []stream.Filter{
		{Peer: "a"}, {Peer: "u/a"}, {Peer: cfg.Upstreams[0].Servers[0].Address.String()},
		{Listener: "l", Limit: 3}, {Older: time.Nanosecond, Limit: 3, Peer: "b"},
	} {
		if got := list(t, s, filter); len(got) != 3 {
			t.Errorf("%+v: %d sessions, want 3", filter, len(got))
		}
	}
	if l, _ := s.ListSessions(t.Context(), stream.Filter{Limit: 2}); l.Total != 6 || len(l.Sessions) != 2 || l.Sessions[0].ID != first.ID {
		t.Errorf("the limit of 2 gives %d of %d", len(l.Sessions), l.Total)
	}
	if got := list(t, s, stream.Filter{Older: time.Hour}); len(got) != 0 {
		t.Errorf("%d sessions are an hour old", len(got))
	}
	_, err := s.ListSessions(t.Context(), stream.Filter{Listener: "ll"})
	wantRequestError(t, err, stream.NotFound, `there is no listener "ll"; there is l`)
	_, err = s.ListSessions(t.Context(), stream.Filter{Peer: "zzz"})
	wantRequestError(t, err, stream.NotFound, `there is a, b`)
}

// More sessions than a worker is asked for at a time, while they come and go.
func TestListManySessions(t *testing.T) {
	s, cfg := operated(t, nil)
	addr := cfg.Listeners[0].Listen[0].String()
	const n = 1000
	for range n {
		c, _ := dial(t, addr)
		defer c.Close()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 200 {
			c, err := net.Dial("tcp", addr)
			if err == nil {
				c.Close()
			}
		}
	}()
	for range 20 {
		l, err := s.ListSessions(t.Context(), stream.Filter{Limit: 10})
		if err != nil || l.Total < n || len(l.Sessions) != 10 {
			t.Fatalf("%d of %d sessions, want 10 of at least %d: %v", len(l.Sessions), l.Total, n, err)
		}
	}
	<-done
}

func TestCloseSession(t *testing.T) {
	s, cfg := operated(t, nil)
	c, _ := dial(t, cfg.Listeners[0].Listen[0].String())
	defer c.Close()
	id := list(t, s, stream.Filter{})[0].ID
	if err := s.CloseSession(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client got %v, want a reset", err)
	}
	wantRequestError(t, s.CloseSession(t.Context(), id), stream.NotFound, "has ended already: closed_by_operator")
	wantRequestError(t, s.CloseSession(t.Context(), 1<<60), stream.NotFound, "there is no session")
	if n := s.Read().Closed()[stats.ClosedByOperator]; n != 1 {
		t.Errorf("%d sessions counted as closed by the operator", n)
	}
}

func TestCloseDatagramSession(t *testing.T) {
	s, addr := datagrams(t)
	c, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := func() {
		t.Helper()
		c.SetDeadline(time.Now().Add(5 * time.Second))
		fmt.Fprint(c, "hello")
		if _, err := c.Read(make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	all := list(t, s, stream.Filter{})
	if len(all) != 1 || all[0].Protocol != conf.UDP || all[0].Phase != "relaying" || all[0].Received != 5 || all[0].Sent != 5 {
		t.Fatalf("the sessions are %+v", all)
	}
	if err := s.CloseSession(t.Context(), all[0].ID); err != nil {
		t.Fatal(err)
	}
	ask() // another session
	if again := list(t, s, stream.Filter{}); len(again) != 1 || again[0].ID == all[0].ID {
		t.Errorf("the sessions are %+v", again)
	}
}

// datagrams starts a server for UDP before one echo server "a".
func datagrams(t *testing.T) (*stream.Server, string) {
	t.Helper()
	peer, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { peer.Close() })
	go func() {
		for buf := make([]byte, 2000); ; {
			n, from, err := peer.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			peer.WriteToUDPAddrPort(buf[:n], from)
		}
	}()
	s := mustStart(t, datagramConfig(conf.Address{Host: "127.0.0.1", Port: uint16(peer.LocalAddr().(*net.UDPAddr).Port)}))
	t.Cleanup(func() { // else the stop waits for idle sessions
		l, err := s.ListSessions(context.Background(), stream.Filter{})
		for i := 0; err == nil && i < len(l.Sessions); i++ {
			err = s.CloseSession(context.Background(), l.Sessions[i].ID)
		}
		if err != nil {
			t.Error(err)
		}
	})
	return s, s.Bound()[0].Addr.String()
}

func datagramConfig(peer conf.Address) *conf.Config {
	cfg := reloadConfig(conf.Address{Host: "127.0.0.1"}, peer)
	cfg.Listeners[0].Protocol = conf.UDP
	return cfg
}

func TestSetPeer(t *testing.T) {
	s, cfg := operated(t, nil)
	addr := cfg.Listeners[0].Listen[0].String()
	next := func() string {
		c, name := dial(t, addr)
		c.Close()
		return name
	}
	held, was := dial(t, addr)
	defer held.Close()
	if err := s.SetAdmin("u", was, balance.Drain); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if got := next(); got == was {
			t.Errorf("a new session came to %s, which is drained", got)
		}
	}
	echoes(t, held)
	if err := s.SetAdmin("u", cfg.Upstreams[0].Servers[0].Address.String(), balance.Up); err != nil {
		t.Fatal(err)
	}
	if err := s.SetWeight("u", "b", 3); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for range 8 {
		counts[next()]++
	}
	if counts["a"] != 2 || counts["b"] != 6 {
		t.Errorf("with weights 1 and 3 the sessions went to %v", counts)
	}
	wantRequestError(t, s.SetAdmin("U1", "a", balance.Up), stream.NotFound, `there is no upstream "U1"`)
	wantRequestError(t, s.SetAdmin("u", "c", balance.Up), stream.NotFound, `there is no peer in upstream "u" called "c"`)
	wantRequestError(t, s.SetWeight("u", "a", 0), stream.Invalid, "from 1 to 65535")
}

func TestAmbiguousPeers(t *testing.T) {
	s, _ := operated(t, func(cfg *conf.Config) {
		cfg.Upstreams[0].Servers = append(cfg.Upstreams[0].Servers, conf.NewServer(conf.Address{Host: "10.0.0.1", Port: 1}), conf.NewServer(conf.Address{Host: "10.0.0.1", Port: 1}))
	})
	wantRequestError(t, s.SetAdmin("u", "10.0.0.1:1", balance.Down), stream.Ambiguous, "name one of 10.0.0.1:1#1, 10.0.0.1:1#2")
	if err := s.SetAdmin("u", "10.0.0.1:1#2", balance.Down); err != nil {
		t.Fatal(err)
	}
	states, err := s.UpstreamStates("u")
	if err != nil || len(states) != 1 {
		t.Fatal(states, err)
	}
	for i, p := range states[0].Peers {
		if (p.Balance.Admin == balance.Down) != (i == 3) {
			t.Errorf("peer %d is %s", i, p.Balance.Admin)
		}
	}
}

// What is said of the next session is what it gets.
func TestForecast(t *testing.T) {
	s, cfg := operated(t, func(cfg *conf.Config) { cfg.Upstreams[0].Servers[0].Weight = 3 })
	for range 8 {
		d, _, err := s.Forecast(stream.Question{Upstream: "u"})
		if err != nil {
			t.Fatal(err)
		}
		c, got := dial(t, cfg.Listeners[0].Listen[0].String())
		c.Close()
		if d.Peer.Name != got {
			t.Errorf("the forecast was %s, the session went to %s", d.Peer.Name, got)
		}
	}
	_, _, err := s.Forecast(stream.Question{Upstream: "u", Listener: "nothing"})
	wantRequestError(t, err, stream.NotFound, `there is no listener of upstream "u" called "nothing"; there is l`)
}

func TestForecastOfAKey(t *testing.T) {
	s, cfg := operated(t, func(cfg *conf.Config) {
		cfg.Upstreams[0].Balance = conf.DefaultBalance(conf.Hash)
		cfg.Upstreams[0].Balance.Key = conf.Template{{Variable: conf.VarRemoteAddr}, {Text: ":"}, {Variable: conf.VarServerPort}}
	})
	_, _, err := s.Forecast(stream.Question{Upstream: "u"})
	wantRequestError(t, err, stream.Invalid, "it depends on the client")
	for i := range 8 {
		client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(i + 1)}), 0)
		d, _, err := s.Forecast(stream.Question{Upstream: "u", Client: client})
		if err != nil {
			t.Fatal(err)
		}
		dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(client)}
		c, err := dialer.Dial("tcp", cfg.Listeners[0].Listen[0].String())
		if err != nil {
			t.Fatal(err)
		}
		if got := line(t, c); got != d.Peer.Name {
			t.Errorf("%s: the forecast was %s, the session went to %s", client, d.Peer.Name, got)
		}
		c.Close()
	}
}

func explain(t *testing.T, s *stream.Server, id uint64) *stream.Explanation {
	t.Helper()
	e, err := s.Explain(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// The facts of a session are always known; why its peer was picked, if that was
// asked for when it was.
func TestExplainSession(t *testing.T) {
	s, cfg := operated(t, func(cfg *conf.Config) {
		dead := conf.NewServer(conf.Address{Host: "127.0.0.1", Port: 1})
		dead.Name, dead.Weight, dead.MaxFails = "dead", 10, 0
		cfg.Upstreams[0].Servers = append(cfg.Upstreams[0].Servers, dead)
	})
	session := func() (net.Conn, uint64) {
		c, _ := dial(t, cfg.Listeners[0].Listen[0].String())
		all := list(t, s, stream.Filter{})
		return c, all[len(all)-1].ID
	}
	end := func(c net.Conn, id uint64) *history.Session {
		c.Close()
		eventually(t, "the session is known as ended", func() bool { return explain(t, s, id).Ended != nil })
		return explain(t, s, id).Ended
	}
	c, id := session()
	if e := end(c, id); e.Reason != stats.ClientClosed || e.Connection != id || len(e.Trail.Records) != 0 || e.Forgotten {
		t.Errorf("the session without recording is %+v", e)
	}

	s.Record(true, 0)
	if on, until := s.Recording(); !on || !until.IsZero() {
		t.Errorf("recording is %v until %v", on, until)
	}
	c, id = session()
	live := explain(t, s, id).Live
	if live == nil || len(live.Trail.Records) == 0 {
		t.Fatalf("the running session is %+v", live)
	}
	e := end(c, id)
	last := e.Trail.Records[len(e.Trail.Records)-1]
	if e.Tries < 2 || len(e.Trail.Records) != 2*e.Tries-1 || last.Decision == nil || last.Session != id || !strings.HasPrefix(last.Sentence(), "picked ") {
		t.Errorf("the recorded session has %d tries and %+v", e.Tries, e.Trail)
	}
	if first := e.Trail.Records[1]; first.Failure == nil || !strings.Contains(first.Sentence(), "connecting to dead (127.0.0.1:1) failed: connection refused") {
		t.Errorf("the failed attempt is %q", first.Sentence())
	}
	if latest := s.LatestSessions(t.Context(), "l", 10); len(latest) != 2 || latest[0].Connection != id {
		t.Errorf("the latest sessions are %+v", latest)
	}

	s.Record(true, 20*time.Millisecond)
	eventually(t, "the recording ends", func() bool { on, _ := s.Recording(); return !on })
	c, id = session()
	if e := end(c, id); len(e.Trail.Records) != 0 {
		t.Errorf("recorded although that was over: %+v", e.Trail)
	}
	_, err := s.Explain(t.Context(), 1<<60)
	wantRequestError(t, err, stream.NotFound, "there is no session")
}

// Workers that come record, and those that go are still remembered.
func TestRecordingSurvivesReload(t *testing.T) {
	s, cfg := operated(t, func(cfg *conf.Config) { cfg.Worker.Count = 1 })
	s.Record(true, time.Hour)
	next := *cfg
	next.Worker.Count = 3
	mustReload(t, s, &next)
	var ids []uint64
	for range 30 {
		c, _ := dial(t, cfg.Listeners[0].Listen[0].String())
		ids = append(ids, list(t, s, stream.Filter{})[0].ID)
		c.Close()
		eventually(t, "the session ends", func() bool { return s.Sessions() == 0 })
	}
	mustReload(t, s, cfg)
	for _, id := range ids {
		if e := explain(t, s, id); e.Ended == nil || len(e.Ended.Trail.Records) != 1 {
			t.Errorf("session %d is %+v", id, e)
		}
	}
}

func TestReloadCountsSessions(t *testing.T) {
	s, cfg := operated(t, nil)
	for range 4 {
		c, _ := dial(t, cfg.Listeners[0].Listen[0].String())
		defer c.Close()
		go io.Copy(io.Discard, c)
	}
	next := *cfg
	next.Upstreams = slices.Clone(cfg.Upstreams)
	next.Upstreams[0].Servers = next.Upstreams[0].Servers[1:]
	diff, err := s.Diff(t.Context(), &next)
	if err != nil || diff.Affected != 2 || diff.Ended != 0 {
		t.Errorf("without a the change is %+v: %v", diff, err)
	}
	elsewhere := *cfg
	elsewhere.Listeners = slices.Clone(cfg.Listeners)
	elsewhere.Listeners[0].Listen = []conf.Address{freePort(t)}
	if diff, err := s.Diff(t.Context(), &elsewhere); err != nil || diff.Affected != 4 {
		t.Errorf("with another address the change is %+v: %v", diff, err)
	}
	refused := errors.New("no")
	_, err = s.ReloadIf(t.Context(), &next, func(c *stream.Change) error {
		if c.Affected != 2 {
			t.Errorf("asked to agree to %+v", c)
		}
		return refused
	})
	if !errors.Is(err, refused) || len(s.Peers("u")) != 2 {
		t.Errorf("reloaded although nobody agreed: %v", err)
	}
}

// What on_state does with the sessions of a peer that goes is counted as what it
// is, so that a reload can be refused for it.
func TestReloadCountsSessionsThatOnStateEnds(t *testing.T) {
	at := freePort(t)
	a, b := named(t, "a"), named(t, "b")
	cfg := reloadConfig(at, a)
	s := mustStart(t, cfg)
	c, _ := dial(t, at.String())
	defer c.Close()
	for _, test := range []struct {
		fate    conf.Fate
		forEver bool // shutdown_timeout is off
		ended   int
	}{
		{conf.FateDefault, false, 0}, {conf.Keep, false, 0}, {conf.DrainFate, false, 1}, {conf.DrainFate, true, 0}, {conf.CloseFate, false, 1},
	} {
		removed, down := reloadConfig(at, b), reloadConfig(at, a)
		removed.Upstreams[0].OnState.Removed = test.fate
		down.Upstreams[0].OnState.Drained, down.Upstreams[0].Servers[0].Down = test.fate, true
		for name, next := range map[string]*conf.Config{"removed": removed, "down": down} {
			if test.forEver {
				next.Worker.ShutdownTimeout = conf.Off
			}
			if diff, err := s.Diff(t.Context(), next); err != nil || diff.Ended != test.ended {
				t.Errorf("%s with %+v: the change is %+v: %v", name, test, diff, err)
			}
		}
	}
}

// A session of UDP goes to another peer when its own is removed or set down.
func TestReloadCountsSessionsThatEnd(t *testing.T) {
	s, addr := datagrams(t)
	c, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprint(c, "x")
	c.Read(make([]byte, 1))
	bound := s.Bound()[0].Addr
	peer, _ := netip.ParseAddrPort(s.Peers("u")[0].Addr)
	same := conf.Address{Host: "127.0.0.1", Port: peer.Port()}

	removed := datagramConfig(conf.Address{Host: "127.0.0.1", Port: 9})
	removed.Listeners[0].Listen[0] = bound
	down := datagramConfig(same)
	down.Upstreams[0].Servers[0].Down = true
	for name, cfg := range map[string]*conf.Config{"removed": removed, "down": down} {
		if diff, err := s.Diff(t.Context(), cfg); err != nil || diff.Ended != 1 || diff.Affected != 1 {
			t.Errorf("%s: the change is %+v: %v", name, diff, err)
		}
	}
	removed.Upstreams[0].OnState.Removed = conf.Keep
	if diff, err := s.Diff(t.Context(), removed); err != nil || diff.Ended != 0 || diff.Affected != 1 {
		t.Errorf("the change with removed = keep is %+v: %v", diff, err)
	}
	if diff, err := s.Diff(t.Context(), datagramConfig(same)); err != nil || diff.Ended+diff.Affected != 0 {
		t.Errorf("the change to the same is %+v: %v", diff, err)
	}
}

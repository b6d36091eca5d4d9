package stream_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/tcp"
	"github.com/weirlb/weir/stream/upstream"
)

// judged is a server that says its name to clients, on one port, and its role to
// checks, on another, as Redis does. All of a test have the same two ports, each
// on an address of its own.
type judged struct {
	addr    conf.Address
	role    atomic.Value // "master", "slave", "late" = one that lags, or "" = it answers with an error
	checked atomic.Int64
}

// stage is some of them.
type stage struct {
	t       *testing.T
	servers []*judged
	check   conf.HealthCheck
}

// newStage starts servers of these roles, the first at 127.0.0.2.
func newStage(t *testing.T, roles ...string) *stage {
	t.Helper()
	st := &stage{t: t, check: conf.NewHealthCheck(conf.CheckRedis)}
	st.check.Interval, st.check.Timeout, st.check.Role = 20*time.Millisecond, 2*time.Second, conf.Primary
	var port, checkPort int
	for i, role := range roles {
		j := &judged{}
		j.role.Store(role)
		ip := fmt.Sprintf("127.0.0.%d", i+2)
		port = st.listen(ip, port, func(c net.Conn) {
			fmt.Fprintf(c, "%s\n", ip)
			echo(c)
		})
		checkPort = st.listen(ip, checkPort, j.answer)
		j.addr = conf.Address{Host: ip, Port: uint16(port)}
		st.servers = append(st.servers, j)
	}
	st.check.Port = checkPort
	return st
}

func (st *stage) listen(ip string, port int, f func(net.Conn)) int {
	st.t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
	if err != nil {
		st.t.Fatal(err)
	}
	st.t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go f(c)
		}
	}()
	return ln.Addr().(*net.TCPAddr).Port
}

// answer speaks Redis's protocol as far as checks need it.
func (j *judged) answer(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		n, _ := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "*")))
		var words []string
		for range n {
			if _, err := r.ReadString('\n'); err != nil {
				return
			}
			word, err := r.ReadString('\n')
			if err != nil {
				return
			}
			words = append(words, strings.ToUpper(strings.TrimSpace(word)))
		}
		if len(words) == 0 {
			return
		}
		switch role := j.role.Load().(string); {
		case words[0] == "HELLO":
			io.WriteString(c, "-ERR unknown command\r\n")
		case role == "":
			io.WriteString(c, "-LOADING Redis is loading the dataset in memory\r\n")
		case words[0] == "PING":
			j.checked.Add(1)
			io.WriteString(c, "+PONG\r\n")
		case words[0] == "ROLE" && role == "master":
			io.WriteString(c, "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n")
		case words[0] == "ROLE":
			io.WriteString(c, "*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:6379\r\n$9\r\nconnected\r\n:0\r\n")
		case words[0] == "INFO":
			lag := map[bool]int{true: 60}[role == "late"]
			text := fmt.Sprintf("master_link_status:up\nmaster_last_io_seconds_ago:%d", lag)
			fmt.Fprintf(c, "$%d\r\n%s\r\n", len(text), text)
		default:
			io.WriteString(c, "+OK\r\n")
		}
	}
}

// start runs a server in front of the stage.
func (st *stage) start(edit func(*conf.Upstream)) (*stream.Server, string) {
	st.t.Helper()
	var addrs []conf.Address
	for _, j := range st.servers {
		addrs = append(addrs, j.addr)
	}
	return start(st.t, tcp.Auto, func(c *conf.Config) {
		c.Worker.Count = 2
		c.Upstreams[0].Checks = []conf.HealthCheck{st.check}
		if edit != nil {
			edit(&c.Upstreams[0])
		}
	}, addrs...)
}

// wantAxis waits for the nth peer to come to a value on an axis.
func (st *stage) wantAxis(s *stream.Server, n int, a upstream.Axis, value string) {
	st.t.Helper()
	eventually(st.t, fmt.Sprintf("peer %d is %s", n, value), func() bool { return s.Peers("u")[n].Axes[a].Value == value })
}

// open opens sessions, which must all go to one server.
func (st *stage) open(addr string, n int, want *judged) (conns []net.Conn) {
	st.t.Helper()
	for range n {
		c, who := dial(st.t, addr)
		if who != want.addr.Host {
			st.t.Fatalf("a session went to %s, want %s", who, want.addr.Host)
		}
		conns = append(conns, c)
	}
	return conns
}

// ended returns how many sessions have ended for a reason.
func ended(s *stream.Server, r stats.CloseReason) int { return int(s.Read().Closed()[r]) }

// isReset reports whether a connection is reset within a while.
func isReset(c net.Conn) bool {
	c.SetDeadline(time.Now().Add(5 * time.Second))
	_, err := io.Copy(io.Discard, c)
	return err != nil && strings.Contains(err.Error(), "reset")
}

// A server that is no longer the primary loses its sessions, each reset for that
// reason, and new ones go to the one that is.
func TestDemotedPrimaryLosesItsSessions(t *testing.T) {
	st := newStage(t, "master", "slave")
	s, addr := st.start(func(u *conf.Upstream) {
		u.OnState.Standby = conf.CloseFate
		u.OnState.Pace = 1000
	})
	a, b := st.servers[0], st.servers[1]
	st.wantAxis(s, 0, upstream.AxisRole, upstream.IsPrimary)
	st.wantAxis(s, 1, upstream.AxisRole, upstream.Standby)
	held := st.open(addr, 100, a)

	b.role.Store("master")
	st.wantAxis(s, 1, upstream.AxisRole, upstream.IsPrimary) // both say so for a moment
	a.role.Store("slave")
	for _, c := range held {
		if !isReset(c) {
			t.Fatal("a session of the demoted server was not reset")
		}
	}
	st.open(addr, 10, b)
	if n := ended(s, stats.PeerStandby); n != 100 {
		t.Errorf("%d sessions ended as peer_standby", n)
	}
	if got := s.Peers("u")[0].Axes[upstream.AxisRole]; got.Value != upstream.Standby || got.Cause == "" {
		t.Errorf("the role of the demoted server is %+v", got)
	}
	_, all, total, err := s.PeerHistory("u", a.addr.String())
	if err != nil || total < 3 || all[len(all)-1].To != upstream.Standby {
		t.Errorf("its history is %v (%v)", all, err)
	}
}

// What a verdict does to running sessions is what on_state says.
func TestFates(t *testing.T) {
	for _, c := range []struct {
		fate   conf.Fate
		closed bool
	}{{conf.FateDefault, false}, {conf.Keep, false}, {conf.DrainFate, true}, {conf.CloseFate, true}} {
		t.Run(c.fate.String(), func(t *testing.T) {
			t.Parallel()
			st := newStage(t, "master", "master")
			st.check.Role = conf.AnyRole
			var addrs []conf.Address
			for _, j := range st.servers {
				addrs = append(addrs, j.addr)
			}
			s, addr := start(t, tcp.Auto, func(cfg *conf.Config) {
				cfg.Worker.ShutdownTimeout = 300 * time.Millisecond
				cfg.Upstreams[0].Checks = []conf.HealthCheck{st.check}
				cfg.Upstreams[0].OnState.Unhealthy = c.fate
			}, addrs...)
			st.wantAxis(s, 0, upstream.AxisActive, upstream.Healthy)
			st.wantAxis(s, 1, upstream.AxisActive, upstream.Healthy)
			x, first := dial(t, addr)
			y, second := dial(t, addr)
			if first == second {
				t.Fatalf("both sessions went to %s", first)
			}
			sick := 0
			if st.servers[1].addr.Host == first {
				sick = 1
			}
			begin := time.Now()
			st.servers[sick].role.Store("")
			st.wantAxis(s, sick, upstream.AxisActive, upstream.Unhealthy)
			if c.fate == conf.DrainFate {
				if !isReset(x) {
					t.Error("the session was not reset when its time to drain was over")
				}
				if took := time.Since(begin); took < 300*time.Millisecond {
					t.Errorf("it had %v", took)
				}
			} else if c.closed && !isReset(x) {
				t.Error("the session was not reset")
			}
			if !c.closed {
				echoes(t, x)
			}
			echoes(t, y)
			want := map[bool]int{true: 1}[c.closed]
			eventually(t, "the end is counted", func() bool { return ended(s, stats.PeerUnhealthy) == want })
			for range 4 {
				if _, who := dial(t, addr); who != second {
					t.Errorf("a session went to %s, which is sick", who)
				}
			}
		})
	}
}

// Sessions are closed at the pace that on_state says, over all peers.
func TestPace(t *testing.T) {
	st := newStage(t, "master")
	s, addr := st.start(func(u *conf.Upstream) {
		u.OnState.Standby = conf.CloseFate
		u.OnState.Pace = 100
	})
	st.wantAxis(s, 0, upstream.AxisActive, upstream.Healthy)
	held := st.open(addr, 60, st.servers[0])
	begin := time.Now()
	st.servers[0].role.Store("slave")
	for _, c := range held {
		if !isReset(c) {
			t.Fatal("a session was not reset")
		}
	}
	// The first batch of five is free.
	if took := time.Since(begin); took < 500*time.Millisecond {
		t.Errorf("60 sessions were closed in %v, at 100 in a second", took)
	}
}

// A sick server that gets well, and a replica that catches up, keep the sessions
// that were not closed yet.
func TestRecoveryEndsTheClosing(t *testing.T) {
	for _, c := range []struct {
		well, ill  string
		want       conf.Role
		axis       upstream.Axis
		good, evil string
	}{
		{"master", "", conf.AnyRole, upstream.AxisActive, upstream.Healthy, upstream.Unhealthy},
		{"slave", "late", conf.Replica, upstream.AxisRole, upstream.IsReplica, upstream.Lagging},
	} {
		t.Run(c.evil, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, c.well)
			st.check.Role = c.want
			if c.want == conf.Replica {
				st.check.MaxLag = 20 * time.Second
			}
			s, addr := st.start(func(u *conf.Upstream) {
				u.OnState.Unhealthy, u.OnState.Lagging = conf.CloseFate, conf.CloseFate
				u.OnState.Pace = 20
			})
			st.wantAxis(s, 0, c.axis, c.good)
			held := st.open(addr, 40, st.servers[0])
			st.servers[0].role.Store(c.ill)
			st.wantAxis(s, 0, c.axis, c.evil)
			st.servers[0].role.Store(c.well)
			st.wantAxis(s, 0, c.axis, c.good)
			eventually(t, "closing has ended", func() bool {
				before := s.Sessions()
				time.Sleep(200 * time.Millisecond)
				return s.Sessions() == before
			})
			if n := s.Sessions(); n < 10 {
				t.Errorf("%d of %d sessions are left", n, len(held))
			}
		})
	}
}

// When nearly everybody is said to be sick, it is the checks that are: nobody's
// sessions are closed for it. What is still sick when that is over loses them.
func TestPanicKeepsSessions(t *testing.T) {
	st := newStage(t, "master", "master")
	st.check.Role = conf.AnyRole
	s, addr := st.start(func(u *conf.Upstream) {
		u.OnState.Unhealthy = conf.CloseFate
		u.PanicThreshold = 0.6
	})
	for i := range st.servers {
		st.wantAxis(s, i, upstream.AxisActive, upstream.Healthy)
	}
	x, first := dial(t, addr)
	y, _ := dial(t, addr)
	for i, j := range st.servers {
		j.role.Store("")
		st.wantAxis(s, i, upstream.AxisActive, upstream.Unhealthy)
	}
	got := map[string]bool{}
	for range 4 {
		c, who := dial(t, addr)
		got[who] = true
		c.Close()
	}
	if len(got) != 2 {
		t.Errorf("in a panic sessions go to %v", got)
	}
	echoes(t, x)
	echoes(t, y)
	if n := ended(s, stats.PeerUnhealthy); n != 0 {
		t.Fatalf("%d sessions were closed in a panic", n)
	}
	// One of two is enough now.
	cfg := reloadConfig(s.Bound()[0].Addr, st.servers[0].addr, st.servers[1].addr)
	cfg.Upstreams[0].Checks = []conf.HealthCheck{st.check}
	cfg.Upstreams[0].OnState.Unhealthy = conf.CloseFate
	cfg.Upstreams[0].PanicThreshold = 0.3
	st.servers[1].role.Store("master")
	st.wantAxis(s, 1, upstream.AxisActive, upstream.Healthy)
	cfg.Listeners[0].Listen[0].Port = 0
	mustReload(t, s, cfg)
	if first != st.servers[0].addr.Host {
		x, y = y, x
	}
	if !isReset(x) {
		t.Error("the session of the sick server was not reset when the panic was over")
	}
	echoes(t, y)
}

// What the operator drains, and what a file no longer names, is handled as
// on_state says; servers that stay are not touched.
func TestDrainedAndRemoved(t *testing.T) {
	st := newStage(t, "master", "master", "master")
	file := filepath.Join(t.TempDir(), "peers.json")
	write := func(servers ...*judged) {
		t.Helper()
		var entries []string
		for _, j := range servers {
			entries = append(entries, fmt.Sprintf(`{"address":%q,"name":%q}`, j.addr, j.addr.Host))
		}
		text := `{"servers":[` + strings.Join(entries, ",") + `]}`
		if err := os.WriteFile(file+".new", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	a, b, c := st.servers[0], st.servers[1], st.servers[2]
	write(a, b)
	s, addr := start(t, tcp.Auto, func(cfg *conf.Config) {
		cfg.Upstreams[0].ServerFile = file
		cfg.Upstreams[0].OnState.Drained = conf.CloseFate
		cfg.Upstreams[0].OnState.Removed = conf.CloseFate
	})
	sessions := map[string]net.Conn{}
	for len(sessions) < 2 {
		conn, who := dial(t, addr)
		if old := sessions[who]; old != nil {
			old.Close()
		}
		sessions[who] = conn
	}
	write(b, c)
	if !isReset(sessions[a.addr.Host]) {
		t.Error("the session of a server that is gone was not reset")
	}
	echoes(t, sessions[b.addr.Host])
	eventually(t, "the new server is used", func() bool { _, who := dial(t, addr); return who == c.addr.Host })
	for range 6 {
		if _, who := dial(t, addr); who == a.addr.Host {
			t.Error("a session went to the server that is gone")
		}
	}
	if n := ended(s, stats.PeerRemoved); n != 1 {
		t.Errorf("%d sessions ended as peer_removed", n)
	}
	if err := s.SetAdmin("u", b.addr.Host, 1); err != nil { // drain
		t.Fatal(err)
	}
	if !isReset(sessions[b.addr.Host]) {
		t.Error("the session of a drained server was not reset")
	}
	eventually(t, "the end is counted", func() bool { return ended(s, stats.PeerDrained) >= 1 })

	write()
	eventually(t, "nobody is left", func() bool { return len(s.Peers("u")) == 0 })
	none, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	none.SetDeadline(time.Now().Add(5 * time.Second))
	if n, _ := none.Read(make([]byte, 1)); n > 0 {
		t.Error("a session got a peer of an upstream that has none")
	}
	write(c)
	eventually(t, "the server is used again", func() bool { return len(s.Peers("u")) == 1 })
	st.open(addr, 2, c)
}

// A reload that changes checks does it in place: sessions and verdicts stay.
func TestReloadOfChecks(t *testing.T) {
	st := newStage(t, "master", "slave")
	plain := reloadConfig(freePort(t), st.servers[0].addr, st.servers[1].addr)
	s := mustStart(t, plain)
	addr := s.Bound()[0].Addr.String()
	with := func(checks ...conf.HealthCheck) *conf.Config {
		next := *plain
		next.Upstreams = slices.Clone(plain.Upstreams)
		next.Upstreams[0].Checks = checks
		return &next
	}
	var held []net.Conn
	for range 4 {
		c, _ := dial(t, addr)
		held = append(held, c)
	}
	mustReload(t, s, with(st.check))
	st.wantAxis(s, 1, upstream.AxisRole, upstream.Standby)
	st.open(addr, 4, st.servers[0])
	slower := st.check
	slower.Interval = time.Hour
	mustReload(t, s, with(slower))
	st.open(addr, 4, st.servers[0]) // the verdict stays until another comes
	mustReload(t, s, plain)
	got := map[string]bool{}
	for range 4 {
		_, who := dial(t, addr)
		got[who] = true
	}
	if len(got) != 2 {
		t.Errorf("without checks sessions go to %v", got)
	}
	for _, c := range held {
		echoes(t, c)
	}
}

// A UDP client goes elsewhere with its next datagram when its server is sick.
func TestDatagramsLeaveTheSick(t *testing.T) {
	st := newStage(t, "master", "master")
	st.check.Role = conf.AnyRole
	names := map[string]*judged{}
	var addrs []conf.Address
	for _, j := range st.servers {
		pc, err := net.ListenPacket("udp", j.addr.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { pc.Close() })
		go func() {
			buf := make([]byte, 100)
			for {
				_, from, err := pc.ReadFrom(buf)
				if err != nil {
					return
				}
				pc.WriteTo([]byte(j.addr.Host), from)
			}
		}()
		names[j.addr.Host] = j
		addrs = append(addrs, j.addr)
	}
	cfg := udpConfig(func(*conf.Listener) {}, addrs...)
	cfg.Upstreams[0].Checks = []conf.HealthCheck{st.check}
	s := mustStart(t, &cfg)
	for i := range st.servers {
		eventually(t, "all are healthy", func() bool {
			return s.Peers("u")[i].Axes[upstream.AxisActive].Value == upstream.Healthy
		})
	}
	c, err := net.Dial("udp", s.Bound()[0].Addr.String())
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
	first := ask()
	if again := ask(); again != first {
		t.Fatalf("%s answered, then %s", first, again)
	}
	names[first].role.Store("")
	eventually(t, "another server answers", func() bool { return ask() != first })
}

// Who drains a server again after it was up gives its sessions all of their time
// again: the order from before does not cut it short.
func TestDrainAgainBeginsAnew(t *testing.T) {
	const patience = time.Second
	s, addr := start(t, tcp.Auto, func(cfg *conf.Config) {
		cfg.Worker.ShutdownTimeout = patience
		cfg.Upstreams[0].OnState.Drained = conf.DrainFate
	}, named(t, "a"))
	c, _ := dial(t, addr)
	defer c.Close()
	set := func(a balance.Admin) {
		t.Helper()
		if err := s.SetAdmin("u", s.Peers("u")[0].Addr, a); err != nil {
			t.Fatal(err)
		}
	}
	set(balance.Drain)
	time.Sleep(patience / 2) // some of its time passes
	set(balance.Up)
	again := time.Now()
	set(balance.Drain)
	if !isReset(c) {
		t.Error("the session was not reset when its time to drain was over")
	}
	if took := time.Since(again); took < patience {
		t.Errorf("it had %v", took)
	}
}

package integration_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirlb/weir/stream/handover"
)

// This file has upgrades fail.

// heirVariable makes this test binary a new process that fails: its value says
// where.
const heirVariable = "WEIR_TEST_HEIR"

func init() {
	if where := os.Getenv(heirVariable); where != "" { // before flags are read, which are weir's
		os.Exit(runHeir(where))
	}
}

// runHeir takes part in the handover and is killed where it is told: "start",
// or "after-" and what it has received or sent last. Some do something else.
func runHeir(where string) int {
	reached := func(place string) {
		if place == where {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	reached("start")
	raw, _ := syscall.Dup(3)
	c, err := handover.FromFD(3)
	if err != nil {
		return 4
	}
	for {
		m, fds, err := c.Receive()
		if err != nil {
			return 5
		}
		handover.CloseAll(fds)
		if m.Kind != handover.Batch || m.Count > 0 {
			reached("after-" + string(m.Kind))
		}
		switch m.Kind {
		case handover.Inherit:
			switch where {
			case "garbage":
				syscall.Write(raw, []byte("no JSON"))
			case "failed":
				c.Send(&handover.Message{Kind: handover.Failed, Error: "this one does not like the weather"})
			case "other":
				c.Send(&handover.Message{Kind: handover.Bye})
			case "end":
				return 7
			}
			sessions := handover.Sessions
			if where == "stranger" {
				sessions = 99
			}
			// As text: versions before that of sessions had a number too.
			syscall.Write(raw, fmt.Appendf(nil, `{"Kind": "ready", "Sessions": %d}`, sessions))
			reached("after-ready")
		case handover.Batch:
			c.Send(&handover.Message{Kind: handover.Adopted})
			if m.Count > 0 {
				reached("after-adopted")
			}
		case handover.Done:
			c.Send(&handover.Message{Kind: handover.Bye})
		}
	}
}

// script writes a program. Not this process does: a child that another test
// starts meanwhile would hold the file open for writing, and it could not be run
// (ETXTBSY).
func script(t *testing.T, mode, text string) string {
	t.Helper()
	path := filepath.Join(tempDir(t), "weir-new")
	cmd := exec.Command("install", "-m", mode, "/dev/stdin", path)
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// heir is a program that fails in that place.
func heir(t *testing.T, where string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return script(t, "755", fmt.Sprintf("#!/bin/sh\nexport %s=%s\nexec %s\n", heirVariable, where, self))
}

const upgradeBoth = `
	admin {
	  listen = "unix:$dir/run/admin.sock"
	}
	worker {
	  count            = 2
	  shutdown_timeout = "1s"
	}
	upstream "u" {
	  server "$server" {}
	}
	upstream "d" {
	  server "$datagrams" {}
	}
	listener "l" {
	  listen   = ["$listen", "unix:$dir/l.sock"]
	  upstream = "u"
	}
	listener "d" {
	  listen   = ["$listen"]
	  protocol = "udp"
	  upstream = "d"
	}`

// intact is sessions that must not notice anything.
type intact struct {
	p     *proxy
	tcp   []net.Conn
	udp   []*net.UDPConn
	mu    sync.Mutex
	froms map[netip.AddrPort]bool // guarded by mu
}

func startIntact(t *testing.T) *intact {
	t.Helper()
	o := &intact{froms: map[netip.AddrPort]bool{}}
	datagrams, _ := serveUDP(t, func(c *net.UDPConn, b []byte, from netip.AddrPort) {
		o.mu.Lock()
		o.froms[from] = true
		o.mu.Unlock()
		echoUDP(c, b, from)
	})
	dir := tempDir(t)
	if err := os.Mkdir(dir+"/run", 0o755); err != nil {
		t.Fatal(err)
	}
	config := strings.ReplaceAll(upgradeBoth, "$dir", dir)
	o.p = startUpgradable(t, config, vars{"server": serve(t, echo), "datagrams": datagrams, "listen": "127.0.0.1:" + freeUDPPort(t), "dir": dir})
	for i := range 10 {
		addr := o.p.addr
		if i%3 == 2 {
			addr = "unix:" + dir + "/l.sock"
		}
		o.tcp = append(o.tcp, dial(t, addr))
		o.udp = append(o.udp, dialUDP(t, o.p.addr))
	}
	o.check(t)
	return o
}

func (o *intact) check(t *testing.T) {
	t.Helper()
	for i, c := range o.tcp {
		c.SetDeadline(time.Now().Add(scaled(5 * time.Second)))
		if err := tryRoundTrip(c); err != nil {
			t.Errorf("session %d: %v", i, err)
		}
	}
	for i, c := range o.udp {
		if got := askUDP(c, fmt.Sprint("question ", i), 2*time.Second); got != fmt.Sprint("question ", i) {
			t.Errorf("UDP session %d got %q", i, got)
		}
	}
	o.mu.Lock()
	n := len(o.froms)
	o.mu.Unlock()
	if n != len(o.udp) {
		t.Errorf("UDP sessions came from %d sockets, want %d", n, len(o.udp))
	}
	for range 10 {
		c, err := tryDial(o.p.addr)
		if err == nil {
			err = tryRoundTrip(c)
			c.Close()
		}
		if err != nil {
			t.Errorf("a new session: %v", err)
		}
	}
}

// Whatever the new process does, the old one goes on with all sessions, and says
// why.
func TestUpgradeThatFails(t *testing.T) {
	t.Parallel()
	o := startIntact(t)
	p := o.p
	file := filepath.Join(p.dir, "weir.hcl")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, fds := p.pid, countFDs(p.pid)
	killed := "ended: signal: killed"
	for _, test := range []struct {
		name   string
		binary string
		config [2]string // what is replaced by what
		gone   bool      // the configuration file
		words  string    // that tell why
		log    string    // and more in the log; "" = nothing
	}{
		{name: "no such program", binary: "/nonesuch/weir", words: "/nonesuch/weir: no such file or directory"},
		{name: "not executable", binary: script(t, "644", "#!/bin/sh\n"), words: "permission denied"},
		{name: "no program", binary: script(t, "755", "\x7fELF garbage"), words: "exec format error"},
		{name: "exit 1", binary: script(t, "755", "#!/bin/sh\nexit 1\n"), words: "ended: exit status 1"},
		{name: "exit 0 with garbage", binary: script(t, "755", "#!/bin/sh\necho garbage; echo garbage >&3\n"), words: "invalid character"},
		{name: "killed at its start", binary: heir(t, "start"), words: killed},
		{name: "killed after hello", binary: heir(t, "after-hello"), words: killed},
		{name: "killed after sockets", binary: heir(t, "after-socket"), words: killed},
		{name: "killed after inherit", binary: heir(t, "after-inherit"), words: killed},
		{name: "killed after ready", binary: heir(t, "after-ready"), words: killed},
		{name: "killed after go", binary: heir(t, "after-go"), words: killed},
		{name: "killed in a batch of datagrams", binary: heir(t, "after-udp"), words: killed},
		{name: "killed instead of an answer", binary: heir(t, "after-batch"), words: killed},
		{name: "garbage instead of ready", binary: heir(t, "garbage"), words: "invalid character"},
		{name: "failed instead of ready", binary: heir(t, "failed"), words: "the other process says: this one does not like the weather"},
		{name: "something else instead of ready", binary: heir(t, "other"), words: "got bye, want ready"},
		{name: "end instead of ready", binary: heir(t, "end"), words: "ended: exit status 7"},
		{name: "mistake in the configuration", config: [2]string{"listener", "listner"}, words: "weir.hcl", log: "listner"},
		{name: "no configuration file", gone: true, words: "there is no file"},
		{name: "access log that can't be opened", config: [2]string{p.access, "/nonesuch/access.log"}, words: "/nonesuch/access.log"},
		{name: "address that is taken", config: [2]string{p.addr, p.addr + `", "` + serve(t, echo)}, words: "address already in use"},
		{name: "place of the control API that can't be", config: [2]string{"/run/admin.sock", "/nonesuch/admin.sock"}, words: "there is no directory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			args := []string{"upgrade", "--json", "--admin", adminPlace(string(good))}
			if test.binary != "" {
				args = append(args, "--binary", test.binary)
			}
			if test.config[0] != "" {
				changed := strings.ReplaceAll(string(good), test.config[0], test.config[1])
				if changed == string(good) {
					t.Fatalf("no %q in the configuration", test.config[0])
				}
				writeConfig(t, file, changed)
				defer writeConfig(t, file, string(good))
			}
			if test.gone {
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
				defer writeConfig(t, file, string(good))
			}
			before := len(p.stderr.String())
			took := within(t, 5*time.Second, "the upgrade that fails", func() {
				s := p.weirWith(nil, args...)
				if s.code == 0 {
					var u upgradeJSON
					if json.Unmarshal([]byte(s.out), &u) == nil {
						p.become(u.Pid) // to end it
					}
				}
				s.wantFailure(t, 1, "not upgraded, and everything goes on here: ")
				s.wantFailure(t, 1, test.words)
			})
			eventually(t, 5*time.Second, "the log tells", func() bool {
				text := p.stderr.String()[before:]
				return strings.Contains(text, "not upgraded: everything goes on here") && strings.Contains(text, test.words) && strings.Contains(text, test.log)
			})
			t.Logf("it took %v", took.Round(time.Millisecond))
			o.check(t)
			if left := upgradeChildren(pid); len(left) > 0 {
				t.Errorf("processes %v are left", left)
			}
		})
		if processGone(pid) {
			t.Fatal("weir has gone")
		}
	}
	eventually(t, 5*time.Second, "no descriptor is left", func() bool { return countFDs(pid) <= fds })
	writeConfig(t, file, strings.Replace(string(good), p.access, "/dev/full", 1)) // this one works, without lines
	p.upgrade()
	writeConfig(t, file, string(good))
	p.upgrade()
	p.wantGone(pid)
	o.check(t)
}

func writeConfig(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// adminPlace finds the control API in a configuration, whatever the file says.
func adminPlace(config string) string {
	_, rest, _ := strings.Cut(config, `listen = "`)
	place, _, _ := strings.Cut(rest, `"`)
	return place
}

// The old process keeps those sessions that the new one had not answered for
// when it was killed. Others are lost with it.
func TestUpgradeKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	const sessions, batch = 100, 64
	p := startUpgradable(t, strings.Replace(upgradeOne, "worker {", "worker {\n count = 1", 1), vars{"server": serve(t, echo)})
	var held []net.Conn
	for range sessions {
		c := dial(t, p.addr)
		roundTrip(t, c)
		held = append(held, c)
	}
	s := p.weir("upgrade", "--binary", heir(t, "after-adopted"))
	s.wantFailure(t, 1, "signal: killed")
	live := 0
	for _, c := range held {
		if tryRoundTrip(c) == nil {
			live++
		}
	}
	if live != sessions-batch {
		t.Errorf("%d sessions of %d live, want those that were not moved: %d", live, sessions, sessions-batch)
	}
	roundTrip(t, dial(t, p.addr))
	old := p.pid
	p.upgrade()
	p.wantGone(old)
	roundTrip(t, dial(t, p.addr))
}

// A new process that says nothing does not keep the old one from stopping.
func TestUpgradeThatHangs(t *testing.T) {
	t.Parallel()
	p := startUpgradable(t, upgradeOne, vars{"server": serve(t, echo)})
	asked := make(chan said, 1)
	hung := script(t, "755", "#!/bin/sh\nexec sleep 30\n")
	go func() { asked <- p.weir("upgrade", "--binary", hung) }()
	var child int
	eventually(t, 5*time.Second, "the new process runs", func() bool {
		for _, id := range upgradeChildren(p.pid) {
			child, _ = strconv.Atoi(id)
		}
		return child > 0
	})
	t.Cleanup(func() {
		if !processGone(child) {
			t.Error("the new process is left")
			syscall.Kill(child, syscall.SIGKILL)
		}
	})
	held := dial(t, p.addr)
	roundTrip(t, held)
	within(t, 2*time.Second, "the control API meanwhile", func() { p.statusPid() })
	within(t, 2*time.Second, "weir peers meanwhile", func() { p.mustWeir("peers") })
	p.weir("upgrade").wantFailure(t, 1, "an upgrade is under way")
	held.Close()
	within(t, 5*time.Second, "stop", func() {
		syscall.Kill(p.pid, syscall.SIGTERM)
		eventually(t, 5*time.Second, "weir has stopped", func() bool { return processGone(p.pid) })
	})
	<-asked
}

// A new process of another version of sessions gets the listening sockets only.
func TestUpgradeToAnotherVersion(t *testing.T) {
	t.Parallel()
	p := startUpgradable(t, upgradeOne, vars{"server": serve(t, echo)})
	held := dial(t, p.addr)
	roundTrip(t, held)
	old := p.pid
	var u upgradeJSON
	p.weirJSON(&u, "upgrade", "--binary", heir(t, "stranger"))
	if u.Moved != 0 || u.Left != 1 {
		t.Errorf("%+v, want 1 left", u)
	}
	eventually(t, 5*time.Second, "the log says why", func() bool {
		return len(p.logged("sessions stay here until they end: the new process speaks another version of the handover")) == 1
	})
	roundTrip(t, held)
	held.Close()
	p.wantGone(old)
	p.become(u.Pid)
}

// The sessions of an upstream that is no longer configured end in the old process,
// and all others are moved.
func TestUpgradeRemovesUpstream(t *testing.T) {
	t.Parallel()
	addr := freeAddr(t)
	p := startUpgradable(t, upgradeOne+`
	#begin
	upstream "v" {
	  server "$server" {}
	}
	listener "m" {
	  listen   = ["$other"]
	  upstream = "v"
	}
	#end
	`, vars{"server": serve(t, echo), "other": addr})
	var stay, move []stream
	for range 20 {
		stay, move = append(stay, dial(t, addr)), append(move, dial(t, p.addr))
	}
	check := func() {
		t.Helper()
		for i := range stay {
			roundTrip(t, stay[i])
			roundTrip(t, move[i])
		}
	}
	check()
	file := filepath.Join(p.dir, "weir.hcl")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(text), "#begin")
	_, tail, _ := strings.Cut(rest, "#end")
	writeConfig(t, file, head+tail)
	old := p.pid
	s := p.weir("upgrade", "--json")
	if s.code != 0 {
		t.Errorf("it says %s%s", s.out, s.err)
		check()
		return
	}
	var u upgradeJSON
	if err := json.Unmarshal([]byte(s.out), &u); err != nil {
		t.Fatalf("%v in %s", err, s.out)
	}
	p.become(u.Pid)
	if u.Moved != 20 || u.Left != 20 {
		t.Errorf("%+v, want 20 moved and 20 left", u)
	}
	check()
	for _, c := range stay {
		c.Close()
	}
	p.wantGone(old)
	for _, c := range move {
		roundTrip(t, c)
	}
	if c, err := tryDial(addr); err == nil {
		if _, err = io.ReadFull(c, make([]byte, 1)); err == nil {
			t.Error("somebody accepts for the listener that has gone")
		}
		c.Close()
	}
}

// The kernel ends a container with its first process, so that one stays.
func TestUpgradeInAContainer(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		missing(t, "root (CAP_SYS_ADMIN) for a PID namespace")
	}
	p := startAt(t, where{contained: true}, upgradeOne, vars{"server": serve(t, echo)})
	held := dial(t, p.addr)
	roundTrip(t, held)
	p.weir("upgrade").wantFailure(t, 1, "not upgraded, and everything goes on here: this process is the first of its container, which would end with it")
	p.signal(syscall.SIGUSR2)
	eventually(t, 5*time.Second, "SIGUSR2 is refused", func() bool { return len(p.logged("not upgraded: everything goes on here")) == 2 })
	roundTrip(t, held)
	held.Close()
}

package integration_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A service manager is told of the start, reloads, the stop, that all workers
// answer, and which process is the main one after an upgrade.
func TestSystemdIsTold(t *testing.T) {
	told := manager(t, "400000")
	p := launch(t, where{}, `
		upstream "u" {
		  server "$a" {}
		}
		listener "l" {
		  listen   = ["$listen"]
		  upstream = "u"
		}`, vars{"a": serve(t, says("a"))})
	told("READY=1")
	told("WATCHDOG=1")
	signalPid(t, p.cmd.Process.Pid, syscall.SIGHUP)
	if text := told("RELOADING=1"); !strings.Contains(text, "MONOTONIC_USEC=") {
		t.Errorf("a reload was told as %q", text)
	}
	told("READY=1")
	signalPid(t, p.cmd.Process.Pid, syscall.SIGUSR2)
	after := told("MAINPID=")
	var pid int
	if _, err := fmt.Sscanf(after, "MAINPID=%d", &pid); err != nil || pid == p.cmd.Process.Pid {
		t.Fatalf("the main process was told to be %q", after)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	told("WATCHDOG=1")
	told("WATCHDOG=1")
	signalPid(t, pid, syscall.SIGTERM)
	told("STOPPING=1")
	eventually(t, 10*time.Second, "the successor ends", func() bool { return syscall.Kill(pid, 0) != nil })
}

// manager is a service manager that asks for the watchdog every so many
// microseconds. It returns a function that waits until a state is told.
func manager(t *testing.T, watchdog string) (told func(state string) string) {
	t.Helper()
	path := filepath.Join(tempDir(t), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", watchdog)
	buf := make([]byte, 4096)
	return func(state string) string {
		t.Helper()
		c.SetReadDeadline(time.Now().Add(15 * time.Second))
		for {
			n, err := c.Read(buf)
			if err != nil {
				t.Fatalf("waiting for %s: %v", state, err)
			}
			if text := string(buf[:n]); strings.Contains(text, state) {
				return text
			}
		}
	}
}

// The watchdog is fed at once by a process that begins or hands over: nobody knows
// how long ago its predecessor was heard, or whether systemd listens to it already.
func TestWatchdogDuringAnUpgrade(t *testing.T) {
	told := manager(t, "600000000") // no test waits for half of that
	p := startUpgradable(t, upgradeOne, vars{"server": serve(t, echo)})
	told("WATCHDOG=1")
	p.upgrade()
	if text := told("MAINPID="); !strings.Contains(text, "WATCHDOG=1") {
		t.Errorf("the successor was told as %q", text)
	}
}

// A stop that comes while an upgrade waits for a session to connect is passed on
// to the successor, and systemd is told whom it has to wait for: it kills all others
// when the main process has ended.
func TestSystemdIsToldOfASuccessorThatStops(t *testing.T) {
	told := manager(t, "30000000")
	v := vars{"busy": busyPort(t), "server": serve(t, echo), "slow": freeAddr(t)}
	p := startUpgradable(t, `
		worker { shutdown_timeout = "20s" }
		upstream "slow" {
		  server "$busy" {}
		  server "$server" { backup = true }
		}
		upstream "u" {
		  server "$server" {}
		}
		listener "slow" {
		  listen          = ["$slow"]
		  upstream        = "slow"
		  connect_timeout = "3s"
		}
		listener "l" {
		  listen   = ["$listen"]
		  upstream = "u"
		}
		log {
		  format = "json"
		  access = "$access"
		  fields = ["pid"]
		}`, v)
	held := dial(t, p.addr)
	roundTrip(t, held)
	slow := dial(t, v["slow"])
	io.WriteString(slow, "ping")
	old := p.pid
	signalPid(t, old, syscall.SIGUSR2)
	eventually(t, 10*time.Second, "the new process serves", func() bool {
		c := dial(t, p.addr)
		roundTrip(t, c)
		c.Close()
		for _, e := range accessLog[struct{ Pid int }](p) {
			if e.Pid != old {
				p.become(e.Pid)
			}
		}
		return p.pid != old
	})
	signalPid(t, old, syscall.SIGTERM)
	if text := told("MAINPID="); !strings.HasPrefix(text, fmt.Sprintf("MAINPID=%d\n", p.pid)) {
		t.Errorf("the main process was told to be %q, want %d", text, p.pid)
	}
	p.wantGone(old)
	roundTrip(t, held)
	held.Close()
	slow.Close()
}

func signalPid(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

// Sockets that a service manager opened are served, through an upgrade too, and
// still accept for it when weir has stopped.
func TestSocketActivation(t *testing.T) {
	t.Parallel()
	port := freeUDPPort(t)
	addr, path := "127.0.0.1:"+port, filepath.Join(tempDir(t), "weir.sock")
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	local, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	u := udpSocket(t, addr)
	var files []*os.File
	for _, s := range []interface{ File() (*os.File, error) }{l.(*net.TCPListener), local.(*net.UnixListener), u} {
		f, err := s.File()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	datagrams, _ := serveUDP(t, echoUDP)
	const config = `
		worker {
		  count            = 2
		  shutdown_timeout = "100ms"
		}
		upstream "u" {
		  server "$a" {}
		}
		upstream "d" {
		  server "$d" {}
		}
		listener "t" {
		  listen   = ["$listen", "unix:$path"]
		  upstream = "u"
		}
		listener "d" {
		  protocol = "udp"
		  listen   = ["$udp"]
		  upstream = "d"
		}`
	v := vars{"a": serve(t, says("a")), "d": datagrams, "listen": addr, "path": path, "udp": addr}
	waiting := dial(t, addr) // since before weir runs
	p := launch(t, where{sockets: files}, config, v)
	serves := func(who string) {
		t.Helper()
		eventually(t, 10*time.Second, who+" serves TCP", func() bool { return ask(t, addr) == "a" })
		for range 20 {
			if got := ask(t, "unix:"+path); got != "a" {
				t.Fatalf("%s answers %q on the unix socket", who, got)
			}
			c := dialUDP(t, addr)
			if got := askUDP(c, "x", 5*time.Second); got != "x" {
				t.Fatalf("%s answers %q by UDP", who, got)
			}
		}
	}
	serves("weir")
	waiting.SetReadDeadline(time.Now().Add(10 * time.Second))
	if b := make([]byte, 1); true {
		if n, err := waiting.Read(b); n != 1 {
			t.Errorf("a client that came before weir got nothing: %v", err)
		}
	}
	first := p.pid
	p.guardSuccessor()
	eventually(t, 10*time.Second, "weir has started", func() bool { return len(p.logged("listening")) == 3 })
	p.upgradeBySignal()
	p.wantGone(first)
	serves("its successor")
	signalPid(t, p.pid, syscall.SIGTERM)
	p.wantExit(10*time.Second, 0)
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the service manager's unix socket has no path any more: %v", err)
	}
	dial(t, addr) // waits in the socket for the next weir

	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	f, err := other.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	refused := launch(t, where{sockets: []*os.File{f}}, config, v)
	refused.wantExit(10*time.Second, 1)
	if text := refused.stderr.String(); !strings.Contains(text, "no listener has that address") {
		t.Errorf("a socket of no listener is refused with %q", text)
	}
}

package integration_test

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A service manager is told of the start, reloads, the stop, that all workers
// answer, and which process is the main one after an upgrade.
func TestSystemdIsTold(t *testing.T) {
	path := filepath.Join(tempDir(t), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "400000")
	told := func(state string) string {
		t.Helper()
		buf := make([]byte, 4096)
		manager.SetReadDeadline(time.Now().Add(15 * time.Second))
		for {
			n, err := manager.Read(buf)
			if err != nil {
				t.Fatalf("waiting for %s: %v", state, err)
			}
			if text := string(buf[:n]); strings.Contains(text, state) {
				return text
			}
		}
	}
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
	_, after, _ := strings.Cut(told("MAINPID="), "MAINPID=")
	pid, err := strconv.Atoi(strings.TrimSpace(after))
	if err != nil || pid == p.cmd.Process.Pid {
		t.Fatalf("the main process was told to be %q", after)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	told("WATCHDOG=1")
	told("WATCHDOG=1")
	signalPid(t, pid, syscall.SIGTERM)
	told("STOPPING=1")
	eventually(t, 10*time.Second, "the successor ends", func() bool { return syscall.Kill(pid, 0) != nil })
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

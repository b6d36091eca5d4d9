package integration_test

import (
	"net"
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

package integration_test

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

const withShutdownTimeout = `
	worker {
	  shutdown_timeout = "$timeout"
	}` + oneServer

// waitRefusing waits until nobody listens any more. It looks at the kernel's
// table first, since an attempt to connect would be one more session.
func (p *proxy) waitRefusing() {
	p.t.Helper()
	_, port, _ := net.SplitHostPort(p.addr)
	eventually(p.t, 5*time.Second, "weir has stopped listening", func() bool { return !listening(port) })
	if c, err := net.Dial("tcp", p.addr); !errors.Is(err, syscall.ECONNREFUSED) {
		p.t.Errorf("a new connection is not refused: %v", err)
		if err == nil {
			c.Close()
		}
	}
}

func TestTermDrains(t *testing.T) {
	t.Parallel()
	p := start(t, withShutdownTimeout, vars{"server": serve(t, echo), "timeout": "20s"})
	c := dial(t, p.addr)
	roundTrip(t, c)
	p.signal(syscall.SIGTERM)
	p.waitRefusing()
	for range 5 {
		roundTrip(t, c)
	}
	if p.exited() {
		t.Fatal("weir ended while a session ran")
	}
	c.Close()
	p.wantExit(2*time.Second, 0)
	p.wantEnd(time.Second, "client_closed", 200)
}

func TestTermWithoutSessionsEndsAtOnce(t *testing.T) {
	t.Parallel()
	p := start(t, oneServer, vars{"server": serve(t, echo)})
	p.signal(syscall.SIGTERM)
	within(t, time.Second, "stopping", func() { p.wantExit(5*time.Second, 0) })
}

func TestShutdownTimeoutCutsSessions(t *testing.T) {
	t.Parallel()
	p := start(t, withShutdownTimeout, vars{"server": serve(t, echo), "timeout": "700ms"})
	c := dial(t, p.addr)
	roundTrip(t, c)
	begin := time.Now()
	p.signal(syscall.SIGTERM)
	io.Copy(io.Discard, c)
	lasted(t, "the cut came", time.Since(begin), 700*time.Millisecond)
	p.wantExit(2*time.Second, 0)
	p.wantEnd(time.Second, "shutdown", 200)
}

func TestSignalsThatEndAtOnce(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		sessions int
		signals  []syscall.Signal
		code     int
	}{
		{"second SIGTERM", 1, []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}, 3},
		{"SIGINT after SIGTERM", 1, []syscall.Signal{syscall.SIGTERM, syscall.SIGINT}, 3},
		{"SIGINT", 1, []syscall.Signal{syscall.SIGINT}, 3},
		{"SIGINT without sessions", 0, []syscall.Signal{syscall.SIGINT}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := start(t, withShutdownTimeout, vars{"server": serve(t, echo), "timeout": "off"})
			for range test.sessions {
				roundTrip(t, dial(t, p.addr))
			}
			for i, s := range test.signals {
				if i > 0 {
					p.waitRefusing() // one signal at a time
				}
				p.signal(s)
			}
			within(t, 2*time.Second, "stopping", func() { p.wantExit(5*time.Second, test.code) })
			if test.sessions > 0 {
				p.wantEnd(time.Second, "shutdown", 200)
			}
		})
	}
}

func TestUsr1ReopensTheAccessLog(t *testing.T) {
	t.Parallel()
	p := start(t, oneServer, vars{"server": serve(t, echo)})
	session := func() {
		c := dial(t, p.addr)
		roundTrip(t, c)
		c.Close()
	}
	session()
	p.waitEntries(5*time.Second, 1)
	rotated := p.access + ".1"
	if err := os.Rename(p.access, rotated); err != nil {
		t.Fatal(err)
	}
	session() // still goes to the old file
	eventually(t, 5*time.Second, "the old file has two lines", func() bool {
		b, _ := os.ReadFile(rotated)
		return strings.Count(string(b), "\n") == 2
	})
	p.signal(syscall.SIGUSR1)
	eventually(t, 5*time.Second, "the log is reopened", func() bool { return len(p.logged("reopened access log")) == 1 })
	session()
	p.waitEntries(5*time.Second, 1)
	if b, _ := os.ReadFile(rotated); strings.Count(string(b), "\n") != 2 {
		t.Errorf("the old file has been written to after it was closed:\n%s", b)
	}
}

// A drain may last for hours, and logs are rotated all the same.
func TestUsr1ReopensTheAccessLogDuringADrain(t *testing.T) {
	t.Parallel()
	p := start(t, oneServer, vars{"server": serve(t, echo)})
	c := dial(t, p.addr)
	roundTrip(t, c)
	p.ended = true
	p.signal(syscall.SIGTERM)
	p.waitRefusing()
	p.signal(syscall.SIGUSR1)
	eventually(t, 2*time.Second, "the log is reopened", func() bool { return len(p.logged("reopened access log")) == 1 })
	c.Close()
	p.wantExit(2*time.Second, 0)
}

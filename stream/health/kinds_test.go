package health

import (
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
)

// allKinds returns a check of each kind that needs an answer, with a user where
// that makes a difference.
func allKinds() []conf.HealthCheck {
	var list []conf.HealthCheck
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		h := conf.NewHealthCheck(kind)
		switch kind {
		case conf.CheckUDP:
			continue
		case conf.CheckSendExpect:
			h.Steps = []conf.Step{{Expect: []byte("+OK")}}
		case conf.CheckTLS:
			h.TLS.Verify = false
		case conf.CheckRedis:
			h.Role = conf.Primary
		case conf.CheckPostgres, conf.CheckMySQL:
			list = append(list, h) // once without
			h.User = "weir"
		}
		list = append(list, h)
	}
	return list
}

func name(h *conf.HealthCheck) string {
	if h.User == "" {
		return string(h.Kind)
	}
	return string(h.Kind) + " as " + h.User
}

// silent accepts and says nothing.
func silent(c net.Conn) { io.Copy(io.Discard, c) }

// Every kind gives up when its time is up, and says what it waited for.
func TestSilentServer(t *testing.T) {
	want := map[string]string{
		"amqp as guest":    "logging in",
		"http":             "waiting for the response",
		"kafka":            "waiting for the response to ApiVersions",
		"mqtt":             "waiting for CONNACK",
		"mysql":            "logging in",
		"mysql as weir":    "logging in",
		"nats":             "waiting for INFO",
		"postgres":         "waiting for the answer to SSLRequest",
		"postgres as weir": "logging in",
		"redis":            "waiting for the reply to PING",
		"send_expect":      `waiting for "+OK"`,
		"tls":              "in the TLS handshake",
	}
	target := serve(t, silent)
	for _, h := range allKinds() {
		if h.Kind == conf.CheckTCP {
			continue // that is all it wants
		}
		t.Run(name(&h), func(t *testing.T) {
			p := newProber(t, target, h.Kind, func(p *conf.HealthCheck) {
				*p = h
				p.Timeout = 50 * time.Millisecond
			})
			p.wantFailure("timed out after 50ms " + want[name(&h)])
		})
	}
}

// A server that closes, or that nobody listens for, is a failure at once.
func TestClosingServer(t *testing.T) {
	closes, refuses := serve(t, func(net.Conn) {}), nobody(t)
	for _, h := range allKinds() {
		t.Run(name(&h), func(t *testing.T) {
			edit := func(p *conf.HealthCheck) {
				*p = h
				p.Timeout = scaled(10 * time.Second)
			}
			newProber(t, refuses, h.Kind, edit).wantFailure("connecting to " + refuses.Addr.String() + ": connection refused")
			if h.Kind == conf.CheckTCP {
				return
			}
			_, failure := newProber(t, closes, h.Kind, edit).once()
			if !strings.HasSuffix(failure, ": the server closed the connection") && !strings.HasSuffix(failure, ": connection reset by peer") && !strings.HasSuffix(failure, ": broken pipe") {
				t.Errorf("failed with %q", failure)
			}
		})
	}
}

// What is no answer is a failure, whatever it is.
func TestGarbage(t *testing.T) {
	for what, text := range map[string]string{
		"noise":  "?" + rand.Text() + "\n", // not N, which PostgreSQL may answer
		"zeroes": strings.Repeat("\x00", 1000),
		"ones":   strings.Repeat("\xff", 1000),
		"line":   strings.Repeat("-", 300<<10),
		"lines":  strings.Repeat("\r\n", 100<<10),
	} {
		target := serve(t, func(c net.Conn) {
			io.WriteString(c, text)
			silent(c)
		})
		for _, h := range allKinds() {
			if h.Kind == conf.CheckTCP {
				continue
			}
			t.Run(what+" "+name(&h), func(t *testing.T) {
				p := newProber(t, target, h.Kind, func(p *conf.HealthCheck) {
					*p = h
					p.Timeout = 200 * time.Millisecond
				})
				r, failure := p.once()
				if failure == "" {
					t.Errorf("passed with %+v", r)
				}
			})
		}
	}
}

// fullBacklog returns a target whose SYNs are dropped.
func fullBacklog(t *testing.T) Target {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	target := loopback(name.(*unix.SockaddrInet4).Port)
	for range 4 {
		c, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(c) })
		if err := unix.Connect(c, name); err != unix.EINPROGRESS {
			t.Fatal(err)
		}
	}
	eventually(t, 5*time.Second, "the backlog is full", func() bool { return synSent(target) > 0 })
	return target
}

// synSent returns how many connections to target wait for an answer.
func synSent(target Target) int {
	table, _ := os.ReadFile("/proc/net/tcp")
	return strings.Count(string(table), fmt.Sprintf(" 0100007F:%04X 02 ", target.Addr.Port()))
}

// Stop ends checks that hang, wherever they do, and leaves nothing behind.
func TestStopWhileHanging(t *testing.T) {
	for where, target := range map[string]Target{"connect": fullBacklog(t), "read": serve(t, silent)} {
		t.Run(where, func(t *testing.T) {
			before := leftovers()
			var checkers []*Checker
			for _, h := range allKinds() {
				h.Timeout = time.Minute
				c, err := Start([]conf.HealthCheck{h}, target, Options{Jitter: none})
				if err != nil {
					t.Fatal(err)
				}
				checkers = append(checkers, c)
			}
			open := func() (n int) {
				for _, c := range checkers {
					n += opened(c.checks[0].at)
				}
				return n
			}
			eventually(t, 5*time.Second, "every check hangs", func() bool {
				if where == "connect" { // all, or all but as many as filled the backlog
					return synSent(target) >= len(checkers)
				}
				return open() == len(checkers)-1 // tcp has all that it wants
			})
			begun := time.Now()
			var stopping sync.WaitGroup
			for _, c := range checkers {
				stopping.Go(c.Stop)
			}
			stopping.Wait()
			t.Logf("all %d stopped within %v", len(checkers), time.Since(begun))
			if open() > 0 {
				t.Errorf("%d connections are left", open())
			}
			for _, c := range checkers {
				if s := c.Checks()[0]; s.Failed > 0 {
					t.Errorf("%s: a result by Stop: %s", s.Kind, s.Cause)
				}
			}
			eventually(t, 5*time.Second, "nothing is left behind", func() bool { return leftovers() <= before })
		})
	}
}

// A connection to a port of outgoing connections can be its own other end.
func TestSelfConnect(t *testing.T) {
	// The kernel takes the ports of bind(0) and connect from one range; a socket
	// that is bound to a port and connects to it is what may happen by chance.
	for range 100 {
		target := nobody(t)
		addr := net.TCPAddrFromAddrPort(target.Addr)
		c, err := net.DialTCP("tcp", addr, addr)
		if err != nil {
			continue
		}
		defer c.Close()
		if !selfConnected(c) {
			t.Errorf("%v to %v is not seen as one connection with itself", c.LocalAddr(), c.RemoteAddr())
		}
		return
	}
	t.Error("no socket connects to itself")
}

// Results of a tcp check, and the way it leaves: with FIN, though the server
// has greeted.
func TestTCP(t *testing.T) {
	ends := make(chan error, 10)
	target := serve(t, func(c net.Conn) {
		io.WriteString(c, "220 hello\r\n")
		_, err := io.Copy(io.Discard, c)
		ends <- err
	})
	p := newProber(t, target, conf.CheckTCP, nil)
	for range 3 {
		p.wantOK("")
		if err := <-ends; err != nil {
			t.Errorf("the server's connection ends with %v, want a FIN", err)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	ln, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	target := serveOn(t, ln, func(c net.Conn) { io.WriteString(c, "+OK\r\n") })
	newProber(t, target, conf.CheckSendExpect, func(h *conf.HealthCheck) {
		h.Steps = []conf.Step{{Expect: []byte("+OK")}}
	}).wantOK("")
}

// The check's port is another than the server's.
func TestOtherPort(t *testing.T) {
	target := serve(t, silent)
	elsewhere := nobody(t)
	p := newProber(t, elsewhere, conf.CheckTCP, func(h *conf.HealthCheck) { h.Port = int(target.Addr.Port()) })
	p.wantOK("")
}

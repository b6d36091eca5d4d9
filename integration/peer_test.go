package integration_test

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// serve accepts connections on a loopback port of the kernel's choice until the
// test ends, hands each to f on a goroutine of its own and closes it when f
// returns. It returns the address.
func serve(t *testing.T, f func(net.Conn)) string {
	t.Helper()
	return serveOn(t, "tcp", "127.0.0.1:0", f)
}

func serveOn(t *testing.T, network, addr string, f func(net.Conn)) string {
	t.Helper()
	return startServer(t, network, addr, f).addr
}

// server is a peer that startServer runs.
type server struct {
	addr     string
	accepted atomic.Int64
}

// startServer is serveOn for who wants to know how many connections came.
func startServer(t *testing.T, network, addr string, f func(net.Conn)) *server {
	t.Helper()
	ln, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	return startServerOn(t, ln, f)
}

// startServerOn is startServer for who has a listener.
func startServerOn(t *testing.T, ln net.Listener, f func(net.Conn)) *server {
	s := &server{addr: ln.Addr().String()}
	var mu sync.Mutex
	open := map[net.Conn]bool{} // guarded by mu; nil = the test has ended
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := ln.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				// For want of something that may be there again soon.
				t.Errorf("accept on %s: %v", s.addr, err)
				time.Sleep(100 * time.Millisecond)
				continue
			}
			s.accepted.Add(1)
			mu.Lock()
			if open == nil {
				c.Close()
			} else {
				open[c] = true
				running.Go(func() {
					f(c)
					c.Close()
					mu.Lock()
					delete(open, c)
					mu.Unlock()
				})
			}
			mu.Unlock()
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		open = nil
		mu.Unlock()
		running.Wait()
	})
	return s
}

// echo sends back what it gets, its end too.
func echo(c net.Conn) { io.Copy(c, c) }

// silent never sends and never closes before the other side has.
func silent(c net.Conn) { io.Copy(io.Discard, c) }

// mute reads its input to the end and then keeps the connection open.
func mute(c net.Conn) {
	io.Copy(io.Discard, c)
	waitClosed(c)
}

// waitClosed returns when the connection has been closed on our side.
func waitClosed(c net.Conn) {
	for {
		if c.SetDeadline(time.Time{}) != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// says returns a handler that greets with a name and ends.
func says(name string) func(net.Conn) {
	return func(c net.Conn) { io.WriteString(c, name) }
}

// stream is what TCP and unix connections have in common.
type stream interface {
	net.Conn
	CloseWrite() error
	syscall.Conn
}

// dial connects to "host:port" or "unix:/path" until the test ends. Reads and
// writes fail after a while instead of hanging.
func dial(t *testing.T, addr string) stream {
	t.Helper()
	c, err := tryDial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func tryDial(addr string) (stream, error) {
	network := "tcp"
	if len(addr) > 5 && addr[:5] == "unix:" {
		network, addr = "unix", addr[5:]
	}
	c, err := net.DialTimeout(network, addr, scaled(5*time.Second))
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(scaled(30 * time.Second)))
	return c.(stream), nil
}

// roundTrip sends a message and reads its echo.
func roundTrip(t *testing.T, c net.Conn) {
	t.Helper()
	if err := tryRoundTrip(c); err != nil {
		t.Fatalf("round trip: %v", err)
	}
}

func tryRoundTrip(c net.Conn) error {
	if _, err := io.WriteString(c, "ping"); err != nil {
		return err
	}
	buf := make([]byte, 4)
	if _, err := io.ReadFull(c, buf); err != nil {
		return err
	}
	if string(buf) != "ping" {
		return errors.New("echo says " + string(buf))
	}
	return nil
}

// ask connects, reads to the end and returns what it got, or the error in text.
func ask(t *testing.T, addr string) string {
	t.Helper()
	c, err := tryDial(addr)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	b, err := io.ReadAll(c)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// wantEOF reads to the end of input, which must be empty and clean.
func wantEOF(t *testing.T, c net.Conn) {
	t.Helper()
	if b, err := io.ReadAll(c); err != nil || len(b) > 0 {
		t.Errorf("read %d bytes and then %v, want a clean end", len(b), err)
	}
}

// wantReset waits for the connection to be reset.
func wantReset(t *testing.T, c net.Conn) {
	t.Helper()
	if n, err := io.Copy(io.Discard, c); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read %d bytes and then %v, want a reset", n, err)
	}
}

// waitAcknowledged waits until the other end's kernel has acknowledged all that
// was written.
func waitAcknowledged(c syscall.Conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(scaled(20 * time.Second)); ; time.Sleep(time.Millisecond) {
		var queued int
		var ioctlErr error
		if err := raw.Control(func(fd uintptr) { queued, ioctlErr = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }); err != nil {
			return err
		}
		if ioctlErr != nil || queued == 0 {
			return ioctlErr
		}
		if time.Now().After(deadline) {
			return os.ErrDeadlineExceeded
		}
	}
}

// reset closes the connection with a reset. What is not acknowledged is lost.
func reset(c net.Conn) {
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

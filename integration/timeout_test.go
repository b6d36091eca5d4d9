package integration_test

import (
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// lasted checks that something took about as long as a timeout, never less.
func lasted(t *testing.T, what string, took, want time.Duration) {
	t.Helper()
	if took < want-20*time.Millisecond || took > want+scaled(700*time.Millisecond) {
		t.Errorf("%s after %v, want about %v", what, took, want)
	}
}

func TestIdleTimeout(t *testing.T) {
	t.Parallel()
	const config = `
		upstream "u" {
		  server "$server" {}
		}
		listener "l" {
		  listen       = ["$listen"]
		  upstream     = "u"
		  idle_timeout = "600ms"
		}`
	tick := func(c net.Conn) time.Time {
		for range 12 { // 1.2 s in all
			time.Sleep(100 * time.Millisecond)
			io.WriteString(c, "x")
		}
		return time.Now()
	}
	t.Run("ends a silent session", func(t *testing.T) {
		p := start(t, config, vars{"server": serve(t, silent)})
		c := dial(t, p.addr)
		begin := time.Now()
		wantEOF(t, c)
		lasted(t, "the end came", time.Since(begin), 600*time.Millisecond)
		p.wantEnd(5*time.Second, "idle_timeout", 200)
	})
	t.Run("spares a client that only sends", func(t *testing.T) {
		p := start(t, config, vars{"server": serve(t, silent)})
		c := dial(t, p.addr)
		last := tick(c)
		wantEOF(t, c)
		lasted(t, "the end came", time.Since(last), 600*time.Millisecond)
		p.wantEnd(5*time.Second, "idle_timeout", 200)
	})
	t.Run("spares a peer that only sends", func(t *testing.T) {
		last := make(chan time.Time, 1)
		p := start(t, config, vars{"server": serve(t, func(c net.Conn) {
			last <- tick(c)
			waitClosed(c)
		})})
		if b, err := io.ReadAll(dial(t, p.addr)); err != nil || len(b) != 12 {
			t.Errorf("read %q and then %v, want 12 bytes and a clean end", b, err)
		}
		lasted(t, "the end came", time.Since(<-last), 600*time.Millisecond)
		p.wantEnd(5*time.Second, "idle_timeout", 200)
	})
	t.Run("off", func(t *testing.T) {
		p := start(t, `
			upstream "u" {
			  server "$server" {}
			}
			listener "l" {
			  listen       = ["$listen"]
			  upstream     = "u"
			  idle_timeout = "off"
			}`, vars{"server": serve(t, echo)})
		c := dial(t, p.addr)
		time.Sleep(2 * time.Second)
		roundTrip(t, c)
	})
}

func TestHalfCloseTimeout(t *testing.T) {
	t.Parallel()
	const config = `
		upstream "u" {
		  server "$server" {}
		}
		listener "l" {
		  listen             = ["$listen"]
		  upstream           = "u"
		  half_close_timeout = "500ms"
		}`
	t.Run("after the client's end", func(t *testing.T) {
		p := start(t, config, vars{"server": serve(t, mute)})
		c := dial(t, p.addr)
		c.CloseWrite()
		begin := time.Now()
		wantEOF(t, c)
		lasted(t, "the end came", time.Since(begin), 500*time.Millisecond)
		p.wantEnd(5*time.Second, "half_close_timeout", 200)
	})
	t.Run("after the peer's end", func(t *testing.T) {
		p := start(t, config, vars{"server": serve(t, func(c net.Conn) {
			c.(stream).CloseWrite()
			waitClosed(c)
		})})
		c := dial(t, p.addr)
		wantEOF(t, c)
		p.wantEnd(5*time.Second, "half_close_timeout", 200)
		p.wantNoSessions(5 * time.Second)
	})
}

// fullBacklog returns the address of a listener whose accept queue is full, so
// that a connection attempt gets no answer.
func fullBacklog(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	addr := freeAddr(t)
	a, _ := net.ResolveTCPAddr("tcp", addr)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: a.Port}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil { // room for one
		t.Fatal(err)
	}
	for range 3 {
		c, err := net.DialTimeout("tcp", addr, 300*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("a backlog of 0 takes three connections")
	return ""
}

func TestConnectTimeout(t *testing.T) {
	t.Parallel()
	const config = `
		upstream "u" {
		  server "$a" {}
		  server "$b" {}
		}
		listener "l" {
		  listen          = ["$listen"]
		  upstream        = "u"
		  connect_timeout = "400ms"
		}`
	t.Run("tries the next peer", func(t *testing.T) {
		a, b := fullBacklog(t), serve(t, says("b"))
		p := start(t, config, vars{"a": a, "b": b})
		begin := time.Now()
		if got := ask(t, p.addr); got != "b" {
			t.Errorf("got %q, want the answer of b", got)
		}
		lasted(t, "the answer came", time.Since(begin), 400*time.Millisecond)
		e := p.wantEnd(5*time.Second, "peer_closed", 200)
		if e.Tries != 2 || e.UpstreamAddr != a+", "+b {
			t.Errorf("%d tries: %s, want %s, %s", e.Tries, e.UpstreamAddr, a, b)
		}
	})
	t.Run("of every peer", func(t *testing.T) {
		a, b := fullBacklog(t), fullBacklog(t)
		p := start(t, config, vars{"a": a, "b": b})
		c := dial(t, p.addr)
		begin := time.Now()
		wantEOF(t, c)
		lasted(t, "the end came", time.Since(begin), 800*time.Millisecond)
		e := p.wantEnd(5*time.Second, "connect_timeout", 502)
		if e.Tries != 2 || e.UpstreamAddr != a+", "+b || e.ConnectTime != nil {
			t.Errorf("%d tries: %s, connect time %v, want %s, %s and none", e.Tries, e.UpstreamAddr, e.ConnectTime, a, b)
		}
	})
}

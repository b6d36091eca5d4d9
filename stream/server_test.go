package stream_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream"
	"github.com/weirlb/weir/stream/tcp"
)

// echo serves connections with f until the test ends and returns its address.
func serve(t *testing.T, f func(net.Conn)) conf.Address {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go f(c)
		}
	}()
	a := ln.Addr().(*net.TCPAddr)
	return conf.Address{Host: "127.0.0.1", Port: uint16(a.Port)}
}

func echo(c net.Conn) {
	io.Copy(c, c)
	c.(*net.TCPConn).CloseWrite()
	c.Close()
}

// start runs a server with one listener in front of the peers.
func start(t *testing.T, relay tcp.Relay, edit func(*conf.Config), peers ...conf.Address) (*stream.Server, string) {
	t.Helper()
	cfg := conf.Default()
	cfg.Log.Access = conf.AccessOff
	u := conf.NewUpstream("u")
	for _, p := range peers {
		u.Servers = append(u.Servers, conf.NewServer(p))
	}
	cfg.Upstreams = []conf.Upstream{u}
	l := conf.NewListener("l")
	l.Listen = []conf.Address{{Host: "127.0.0.1"}}
	l.Upstream = "u"
	cfg.Listeners = []conf.Listener{l}
	if edit != nil {
		edit(&cfg)
	}
	s, err := stream.Start(context.Background(), &cfg, stream.Options{Logger: slog.New(slog.DiscardHandler), Relay: relay})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		s.Stop(ctx)
	})
	return s, s.Bound()[0].Addr.String()
}

func TestEchoWithHalfClose(t *testing.T) {
	for _, relay := range []tcp.Relay{tcp.Auto, tcp.Copy, tcp.Splice} {
		s, addr := start(t, relay, nil, serve(t, echo))
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]byte, 20<<20)
		rand.Read(want)
		go func() {
			c.Write(want)
			c.(*net.TCPConn).CloseWrite()
		}()
		c.SetDeadline(time.Now().Add(20 * time.Second))
		got, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		if sha256.Sum256(got) != sha256.Sum256(want) {
			t.Fatalf("relay %d: got %d bytes that differ, want %d", relay, len(got), len(want))
		}
		if !bytes.Equal(got, want) {
			t.Fatal("bytes differ")
		}
		c.Close()
		eventually(t, "the session ends", func() bool { return s.Sessions() == 0 })
	}
}

// eventually polls until f holds.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not seen in time: %s", what)
		}
	}
}

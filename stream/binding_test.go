package stream_test

import (
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
)

// at returns an address with another host.
func at(host string, a conf.Address) conf.Address { return conf.Address{Host: host, Port: a.Port} }

func TestOneAddressBesideTheWildcard(t *testing.T) {
	port := freePort(t)
	cfg := reloadConfig(at("0.0.0.0", port), named(t, "all"))
	u, l := conf.NewUpstream("one"), conf.NewListener("one")
	u.Servers = []conf.Server{conf.NewServer(named(t, "one"))}
	l.Upstream, l.Listen = "one", []conf.Address{port}
	cfg.Upstreams, cfg.Listeners = append(cfg.Upstreams, u), append(cfg.Listeners, l)
	for range 2 {
		t.Run(cfg.Listeners[0].Name+" first", func(t *testing.T) {
			s := mustStart(t, cfg)
			for host, want := range map[string]string{"127.0.0.1": "one", "127.0.0.2": "all"} {
				for range 8 { // either worker
					if c, name := dial(t, at(host, port).String()); name != want {
						t.Errorf("a client of %s came to %q, want %q", host, name, want)
					} else {
						c.Close()
					}
				}
			}
			stop(t, s)
		})
		slices.Reverse(cfg.Listeners)
	}
}

// A listener that has gone leaves its clients what they have, though another one
// gets a part of its address.
func TestOneAddressBesideAWildcardThatHasGone(t *testing.T) {
	one := freePort(t)
	server := serveUDP(t, func(string) string { return "all" })
	cfg := udpConfig(func(l *conf.Listener) { l.Listen = []conf.Address{at("0.0.0.0", one)} }, server)
	s := mustStart(t, &cfg)
	c, err := net.Dial("udp", at("127.0.0.2", one).String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := func() {
		t.Helper()
		c.SetDeadline(time.Now().Add(5 * time.Second))
		c.Write([]byte("?"))
		if _, err := c.Read(make([]byte, 9)); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	mustReload(t, s, reloadConfig(freePort(t), named(t, "tcp")))
	ask()
	next := udpConfig(func(l *conf.Listener) { l.Listen = []conf.Address{one} }, server)
	mustReload(t, s, &next)
	ask()
}

func TestReloadBetweenOneAddressAndTheWildcard(t *testing.T) {
	one := freePort(t)
	all := at("0.0.0.0", one)
	s := mustStart(t, reloadConfig(one, named(t, "0")))
	for i, to := range []conf.Address{all, one, all} {
		want := fmt.Sprint(i + 1)
		mustReload(t, s, reloadConfig(to, named(t, want)))
		for range 8 {
			if c, name := dial(t, one.String()); name != want {
				t.Errorf("after the reload to %s a client came to %q, want %q", to, name, want)
			} else {
				c.Close()
			}
		}
	}
}

// Sessions of the address that goes are left, so that its sockets are too.
func TestReloadOfDatagramsBetweenOneAddressAndTheWildcard(t *testing.T) {
	one := freePort(t)
	all := at("0.0.0.0", one)
	config := func(a conf.Address, name string) *conf.Config {
		cfg := udpConfig(func(l *conf.Listener) { l.Listen = []conf.Address{a} }, serveUDP(t, func(string) string { return name }))
		return &cfg
	}
	ask := func(want string) {
		t.Helper()
		c, err := net.Dial("udp", one.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(10 * time.Second))
		buf := make([]byte, 64)
		c.Write([]byte("?"))
		if n, err := c.Read(buf); err != nil || string(buf[:n]) != want {
			t.Fatalf("a new client got %q, %v, want %q", buf[:n], err, want)
		}
	}
	s := mustStart(t, config(one, "0"))
	ask("0")
	for i, to := range []conf.Address{all, one, all, one} {
		want := fmt.Sprint(i + 1)
		mustReload(t, s, config(to, want))
		for range 8 {
			ask(want)
		}
	}
}

package metrics

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream"
)

var quiet = slog.New(slog.DiscardHandler)

func newTestEndpoint() *Endpoint {
	return newEndpoint(Options{Logger: quiet, Version: "v1", Revision: "abc"})
}

// echoTCP serves connections with what they send, until the test ends.
func echoTCP(t testing.TB) conf.Address {
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
			go func() {
				io.Copy(c, c)
				c.Close()
			}()
		}
	}()
	return addressOf(ln.Addr().(*net.TCPAddr).Port)
}

// echoUDP answers each datagram with itself.
func echoUDP(t testing.TB) conf.Address {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			c.WriteTo(buf[:n], from)
		}
	}()
	return addressOf(c.LocalAddr().(*net.UDPAddr).Port)
}

// nobody returns an address on which nobody listens.
func nobody(t testing.TB) conf.Address {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return addressOf(ln.Addr().(*net.TCPAddr).Port)
}

func addressOf(port int) conf.Address { return conf.Address{Host: "127.0.0.1", Port: uint16(port)} }

// balancer is a configuration to add upstreams and listeners to.
func balancer() *conf.Config {
	cfg := conf.Default()
	cfg.Log.Access = conf.AccessOff
	cfg.Worker.Count = 2
	return &cfg
}

// add adds a listener with its upstream. Servers are named a, b, c.
func add(cfg *conf.Config, name string, p conf.Protocol, servers ...conf.Address) *conf.Listener {
	u := conf.NewUpstream(name)
	for i, a := range servers {
		s := conf.NewServer(a)
		s.Name = string(rune('a' + i%26))
		if i >= 26 {
			s.Name = fmt.Sprintf("peer-%d", i)
		}
		u.Servers = append(u.Servers, s)
	}
	l := conf.NewListener(name)
	l.Protocol, l.Upstream, l.Listen = p, name, []conf.Address{addressOf(0)}
	cfg.Upstreams, cfg.Listeners = append(cfg.Upstreams, u), append(cfg.Listeners, l)
	return &cfg.Listeners[len(cfg.Listeners)-1]
}

// run starts a server, which is stopped with the test.
func run(t testing.TB, cfg *conf.Config) *stream.Server {
	t.Helper()
	s, err := stream.Start(context.Background(), cfg, stream.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		s.Stop(ctx)
	})
	return s
}

// at returns where a listener can be reached.
func at(t testing.TB, s *stream.Server, listener string) string {
	t.Helper()
	for _, b := range s.Bound() {
		if b.Listener == listener {
			return b.Addr.String()
		}
	}
	t.Fatalf("no listener %q", listener)
	return ""
}

// exchange sends so many bytes and reads them back.
func exchange(t testing.TB, c net.Conn, n int) {
	t.Helper()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	var sent sync.WaitGroup
	sent.Go(func() { c.Write(make([]byte, n)) })
	if _, err := io.ReadFull(c, make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	sent.Wait()
}

func dial(t testing.TB, network, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// eventually polls until f holds.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not seen in time: %s", what)
		}
	}
}

// scrape is what was gathered: values by name and labels, as
// name{label="value",…}, with the labels in alphabetical order. Of a histogram
// it holds the count.
type scrape map[string]float64

func gather(t testing.TB, g prometheus.Gatherer) scrape {
	t.Helper()
	all, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := scrape{}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			key := f.GetName()
			for i, l := range m.GetLabel() {
				key += fmt.Sprintf("%c%s=%q", ",{"[min(1, 1-min(i, 1))], l.GetName(), l.GetValue())
			}
			if len(m.GetLabel()) > 0 {
				key += "}"
			}
			switch {
			case m.Counter != nil:
				out[key] = m.Counter.GetValue()
			case m.Gauge != nil:
				out[key] = m.Gauge.GetValue()
			case m.Histogram != nil:
				out[key] = float64(m.Histogram.GetSampleCount())
			}
		}
	}
	return out
}

// want compares some values.
func (s scrape) want(t testing.TB, values map[string]float64) {
	t.Helper()
	for key, want := range values {
		if got, ok := s[key]; !ok || got != want {
			t.Errorf("%s is %v (there: %v), want %v", key, got, ok, want)
		}
	}
}

func openFDs(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

package stream_test

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/integration/dnstest"
	"github.com/weirlb/weir/stream"
)

// A reload that is called off while it waits for a name changes nothing, though a name
// that is followed may be without an answer.
func TestReloadThatIsCalledOff(t *testing.T) {
	names := dnstest.Start(t)
	names.SetSilent(true)
	at := freePort(t)
	s := mustStart(t, reloadConfig(at, named(t, "a")))
	before := s.Peers("u")
	next := reloadConfig(at, conf.Address{Host: "svc.example", Port: 1})
	next.Upstreams[0].Servers[0].Resolve = true
	server, err := conf.ParseServerAddress(names.Addr())
	if err != nil {
		t.Fatal(err)
	}
	next.Resolver.Servers, next.Resolver.Timeout = []conf.Address{server}, time.Minute
	for name, change := range map[string]func(context.Context, *conf.Config) (*stream.Change, error){"reload": s.Reload, "dry run": s.Diff} {
		ctx, callOff := context.WithCancel(t.Context())
		asked := names.Questions("svc.example", dns.TypeA)
		failed := make(chan error)
		go func() {
			_, err := change(ctx, next)
			failed <- err
		}()
		eventually(t, "the name server is asked", func() bool { return names.Questions("svc.example", dns.TypeA) > asked })
		callOff()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		if now := s.Peers("u"); len(now) != 1 || now[0].Addr != before[0].Addr {
			t.Errorf("%s: the peers are %v", name, now)
		}
	}
}

// A name that is resolved once keeps its addresses while others of its upstream
// change, whatever the resolver would say of it now, until a reload.
func TestRediscoveryKeepsWhatIsResolvedOnce(t *testing.T) {
	names := dnstest.Start(t)
	names.SetA("svc.example", time.Second, "127.0.0.2")
	cfg := reloadConfig(freePort(t), conf.Address{Host: "old.example", Port: 1}, conf.Address{Host: "svc.example", Port: 1}, conf.Address{Host: "old.example", Port: 2})
	cfg.Upstreams[0].Servers[1].Resolve = true
	server, err := conf.ParseServerAddress(names.Addr())
	if err != nil {
		t.Fatal(err)
	}
	cfg.Resolver.Servers, cfg.Resolver.Valid = []conf.Address{server}, 20*time.Millisecond

	var broken atomic.Bool
	var address atomic.Value
	address.Store("127.0.0.1")
	lookup := func(context.Context, string) ([]netip.Addr, error) {
		if broken.Load() {
			return nil, errors.New("the resolver is down")
		}
		return []netip.Addr{netip.MustParseAddr(address.Load().(string))}, nil
	}
	s, err := stream.Start(t.Context(), cfg, stream.Options{Logger: slog.New(slog.DiscardHandler), Lookup: lookup})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	want := func(what string, want ...string) {
		t.Helper()
		eventually(t, what, func() bool {
			var got []string
			for _, p := range s.Peers("u") {
				got = append(got, p.Addr)
			}
			return slices.Equal(got, want)
		})
	}
	want("the start", "127.0.0.1:1", "127.0.0.2:1", "127.0.0.1:2")
	broken.Store(true)
	names.SetA("svc.example", time.Second, "127.0.0.3")
	want("a change while the other name does not resolve", "127.0.0.1:1", "127.0.0.3:1", "127.0.0.1:2")
	broken.Store(false)
	address.Store("127.0.0.9")
	names.SetA("svc.example", time.Second, "127.0.0.4")
	want("a change after the other name's", "127.0.0.1:1", "127.0.0.4:1", "127.0.0.1:2")
	mustReload(t, s, cfg)
	want("a reload", "127.0.0.9:1", "127.0.0.4:1", "127.0.0.9:2")
}

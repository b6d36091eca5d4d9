package discovery

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/integration/dnstest"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// await polls until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// record is a log and the calls of Changed.
type record struct {
	mu      sync.Mutex
	log     bytes.Buffer
	changed map[string]int
}

func (r *record) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(b)
}

// lines returns the log lines that hold a text.
func (r *record) lines(text string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for line := range strings.Lines(r.log.String()) {
		if strings.Contains(line, text) {
			out = append(out, line)
		}
	}
	return out
}

func (r *record) calls(upstream string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed[upstream]
}

// start returns a Directory that reads none of the machine's own files, and what
// it says and does.
func start(t *testing.T, opt Options) (*Directory, *record) {
	t.Helper()
	r := &record{changed: map[string]int{}}
	opt.Logger = slog.New(slog.NewTextHandler(r, nil))
	if opt.Changed == nil {
		opt.Changed = func(upstream string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.changed[upstream]++
		}
	}
	none := filepath.Join(t.TempDir(), "none")
	if opt.Hosts == "" {
		opt.Hosts = none
	}
	if opt.ResolvConf == "" {
		opt.ResolvConf = none
	}
	d := New(opt)
	t.Cleanup(d.Stop)
	return d, r
}

// write puts a file into place at once.
func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// fast is a resolver that asks these servers again after a moment.
func fast(servers ...string) conf.Resolver {
	r := conf.Resolver{Timeout: 5 * time.Second, Valid: 20 * time.Millisecond}
	for _, s := range servers {
		a, err := conf.ParseServerAddress(s)
		if err != nil {
			panic(err)
		}
		r.Servers = append(r.Servers, a)
	}
	return r
}

// server returns a server block with that address.
func server(addr string) conf.Server {
	a, err := conf.ParseServerAddress(addr)
	if err != nil {
		panic(err)
	}
	return conf.NewServer(a)
}

func resolved(addr string) conf.Server {
	s := server(addr)
	s.Resolve = true
	return s
}

func serviceAt(name string) conf.Server {
	s := conf.NewServer(conf.Address{Host: name})
	s.Name, s.Service = name, true
	return s
}

// config is a configuration with one upstream "db".
func config(r conf.Resolver, servers ...conf.Server) *conf.Config {
	c := conf.Default()
	c.Resolver = r
	u := conf.NewUpstream("db")
	u.Servers = servers
	c.Upstreams = []conf.Upstream{u}
	return &c
}

// expand returns the servers of an upstream as words: "address", with "=name",
// "*weight" and "+" for a backup where they are not the default.
func expand(t *testing.T, d *Directory, c *conf.Config) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out []string
	for _, s := range d.Expand(ctx, &c.Resolver, &c.Upstreams[0]) {
		if s.Resolve || s.Service {
			if _, numeric := s.Address.IP(); numeric {
				t.Errorf("%s is still to be followed", s.Address)
			}
		}
		text := s.Address.String()
		if s.Name != text {
			text += "=" + s.Name
		}
		if s.Weight != 1 {
			text += fmt.Sprint("*", s.Weight)
		}
		if s.Backup {
			text += "+"
		}
		out = append(out, text)
	}
	return out
}

// adopt expands and follows a configuration.
func adopt(t *testing.T, d *Directory, c *conf.Config) []string {
	t.Helper()
	out := expand(t, d, c)
	d.Follow(c)
	return out
}

// become waits until the upstream has these servers.
func become(t *testing.T, d *Directory, c *conf.Config, want ...string) {
	t.Helper()
	var got []string
	deadline := time.Now().Add(patience)
	for got = expand(t, d, c); !slices.Equal(got, want); got = expand(t, d, c) {
		if time.Now().After(deadline) {
			t.Fatalf("servers are %q, want %q", got, want)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func wantServers(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("servers are %q, want %q", got, want)
	}
}

// sourceOf returns the only source of the only upstream.
func sourceOf(t *testing.T, d *Directory) Source {
	t.Helper()
	list := d.Sources()
	if len(list) != 1 {
		t.Fatalf("there are %d sources, want one: %+v", len(list), list)
	}
	return list[0]
}

// failAndRecover checks that the servers stay while a fault lasts, and that the
// source is stale meanwhile.
func failAndRecover(t *testing.T, d *Directory, c *conf.Config, r *record, fail, recover func()) {
	t.Helper()
	before := expand(t, d, c)
	was := sourceOf(t, d)
	stale, fresh := len(r.lines("not up to date")), len(r.lines("up to date again"))
	fail()
	await(t, "two questions have failed", func() bool { return sourceOf(t, d).Failures >= was.Failures+2 })
	wantServers(t, expand(t, d, c), before...)
	s := sourceOf(t, d)
	if s.StaleSince.IsZero() || s.Error == "" || s.Changes != was.Changes || s.Servers != was.Servers {
		t.Errorf("the source says %+v", s)
	}
	recover()
	await(t, "the source is fresh again", func() bool { return sourceOf(t, d).StaleSince.IsZero() })
	wantServers(t, expand(t, d, c), before...)
	await(t, "both is logged", func() bool { return len(r.lines("up to date again")) > fresh })
	if s, f := r.lines("not up to date")[stale:], r.lines("up to date again")[fresh:]; len(s) != 1 || len(f) != 1 {
		t.Errorf("logged %q and %q, want one line each", s, f)
	}
}

// dnsServer returns a DNS server that knows db.example.
func dnsServer(t *testing.T, addrs ...string) *dnstest.Server {
	t.Helper()
	s := dnstest.Start(t)
	s.SetA("db.example", time.Second, addrs...)
	return s
}

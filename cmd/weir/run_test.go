package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream"
)

// What signals ask for while the server starts is done when it is up, each once.
func TestSignalsDuringTheStart(t *testing.T) {
	u := conf.NewUpstream("u")
	u.Servers = []conf.Server{conf.NewServer(conf.Address{Host: "127.0.0.1", Port: 1})}
	l := conf.NewListener("l")
	l.Listen, l.Upstream = []conf.Address{{Host: "127.0.0.1"}}, "u"
	cfg := conf.Default()
	cfg.Upstreams, cfg.Listeners = []conf.Upstream{u}, []conf.Listener{l}
	for range 20 {
		signals := make(chan os.Signal, 8)
		for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGUSR1, unix.SIGHUP, unix.SIGHUP} {
			signals <- sig
		}
		s, err := startServer(t.Context(), &cfg, stream.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}, signals)
		if err != nil {
			t.Fatal(err)
		}
		s.Stop(t.Context())
		got := map[os.Signal]int{}
		for len(signals) > 0 {
			got[<-signals]++
		}
		if got[unix.SIGHUP] == 0 || got[unix.SIGUSR1] != 1 {
			t.Fatalf("left of SIGHUP, SIGUSR1 and two more SIGHUP: %v", got)
		}
	}
}

// A signal to stop does not wait for a name that a reload resolves, and calls the
// reload off. What other signals ask for meanwhile is done.
func TestStopDuringAReload(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "weir.hcl")
	write := func(host string) {
		text := `upstream "u" {
  server "` + host + `:1" {}
}
listener "l" {
  listen   = ["unix:` + dir + `/l.sock"]
  upstream = "u"
}
`
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("127.0.0.1")
	cfg := readConfig(path).Config
	var log bytes.Buffer
	d := &daemon{
		path: path, stderr: io.Discard, logger: slog.New(slog.NewTextHandler(&log, nil)),
		signals: make(chan os.Signal, 8), orders: make(chan func()), ended: make(chan struct{}), upgraded: make(chan upgraded, 1),
	}
	d.logs.set(&cfg.Log)
	if err := d.openMetrics(cfg, false); err != nil {
		t.Fatal(err)
	}
	looking := make(chan struct{}, 1)
	lookup := func(ctx context.Context, _ string) ([]netip.Addr, error) {
		looking <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	var err error
	if d.server, err = startServer(t.Context(), cfg, stream.Options{Logger: d.logger, Lookup: lookup}, d.signals); err != nil {
		t.Fatal(err)
	}
	d.attach(nil)
	ended := make(chan error, 1)
	go func() { ended <- d.serve() }()
	write("nobody.example")
	d.signals <- unix.SIGHUP
	<-looking
	d.signals <- unix.SIGUSR1
	d.signals <- unix.SIGTERM
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the reload goes on")
	}
	rest := log.String()
	for _, words := range []string{"not reloaded", "called off by signal: terminated", "reopened access log", "draining", "stopped"} {
		var found bool
		if _, rest, found = strings.Cut(rest, words); !found {
			t.Fatalf("%q is not told, or not in this order:\n%s", words, &log)
		}
	}
}

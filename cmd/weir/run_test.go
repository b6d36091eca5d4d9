package main

import (
	"io"
	"log/slog"
	"os"
	"testing"

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

package stream_test

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream"
	"github.com/weirlb/weir/stream/stats"
)

// listenerOf returns what was counted of a listener, or nil.
func listenerOf(r *stream.Reading, name string) *stream.ListenerTotals {
	for i := range r.Listeners {
		if r.Listeners[i].Name == name {
			t := r.Listeners[i].Totals()
			return &t
		}
	}
	return nil
}

// Counters stay with a listener across reloads that change it; those of one that
// goes are there until its last session is over.
func TestCountersAcrossReloads(t *testing.T) {
	at, a := freePort(t), named(t, "a")
	s := mustStart(t, reloadConfig(at, a))
	held, _ := dial(t, at.String())
	defer held.Close()
	c, _ := dial(t, at.String())
	c.Close()
	eventually(t, "one session ends", func() bool { return s.Sessions() == 1 })

	next := reloadConfig(at, a, named(t, "b"))
	next.Worker.Count = 3
	next.Listeners[0].IdleTimeout = time.Hour
	mustReload(t, s, next)
	got := listenerOf(s.Read(), "l")
	if got == nil || got.Sessions != 2 || got.Active != 1 || got.Closed[stats.ClientClosed] != 1 {
		t.Fatalf("after a reload: %+v", got)
	}

	other := reloadConfig(freePort(t), a)
	other.Listeners[0].Name = "other"
	mustReload(t, s, other)
	if got := listenerOf(s.Read(), "l"); got == nil || got.Active != 1 {
		t.Errorf("its session is still there: %+v", got)
	}
	if got := listenerOf(s.Read(), "other"); got == nil || got.Sessions != 0 {
		t.Errorf("the new listener: %+v", got)
	}
	held.Close()
	eventually(t, "the last session ends", func() bool { return s.Sessions() == 0 })
	mustReload(t, s, other)
	if got := listenerOf(s.Read(), "l"); got != nil {
		t.Errorf("it is not forgotten: %+v", got)
	}
}

// A reading does not wait for the names of a reload.
func TestReadDuringReload(t *testing.T) {
	at := freePort(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	lookup := func(context.Context, string) ([]netip.Addr, error) {
		close(asked)
		<-answer
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	s, err := stream.Start(t.Context(), reloadConfig(at, named(t, "a")), stream.Options{Logger: slog.New(slog.DiscardHandler), Lookup: lookup})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, s)
	reloaded := make(chan error, 1)
	go func() {
		_, err := s.Reload(context.Background(), reloadConfig(at, conf.Address{Host: "slow.example", Port: 1}))
		reloaded <- err
	}()
	<-asked
	read := make(chan error, 1)
	go func() {
		s.Read()
		read <- s.NotReady()
	}()
	select {
	case err := <-read:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("it waits")
	}
	close(answer)
	if err := <-reloaded; err != nil {
		t.Error(err)
	}
}

// Workers and their threads are told of, and what waits in their sockets.
func TestReading(t *testing.T) {
	cfg := reloadConfig(freePort(t), named(t, "a"))
	s := mustStart(t, cfg)
	eventually(t, "both workers run", func() bool {
		ran := 0
		for _, w := range s.Read().Workers {
			if w.CPU > 0 && w.Turns > 0 {
				ran++
			}
		}
		return ran == 2
	})
	r := s.Read()
	if len(r.Queues) != 2 || r.Queues[0].Limit < 1 || r.MaxSessions < 1 || r.NotReady != nil {
		t.Errorf("got %+v", r)
	}
	s.Drain()
	if r := s.Read(); r.NotReady == nil || len(r.Queues) != 0 {
		t.Errorf("draining: %v, %d queues", r.NotReady, len(r.Queues))
	}
	stop(t, s)
	s.Read() // nothing of it is open any more
	if c, err := net.Dial("tcp", cfg.Listeners[0].Listen[0].String()); err == nil {
		c.Close()
		t.Error("it still accepts")
	}
}

package stream_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream"
)

// fakeSteerer counts, and steers nobody: the kernel goes on choosing.
type fakeSteerer struct {
	policy conf.Steering

	mu           sync.Mutex
	began, ended map[int]int
	sets         []string // protocol and number of sockets
	attached     int      // how often
	open         int      // groups
	closed       bool
	fail         error
}

func (f *fakeSteerer) Group(p conf.Protocol, workers int) (stream.SteererGroup, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return nil, f.fail
	}
	f.open++
	return &fakeGroup{f, p}, nil
}

func (f *fakeSteerer) Inherit(p conf.Protocol, _ int) (stream.SteererGroup, error) {
	return f.Group(p, 0)
}

func (f *fakeSteerer) Began(w int) { f.count(&f.began, w) }
func (f *fakeSteerer) Ended(w int) { f.count(&f.ended, w) }

func (f *fakeSteerer) count(in *map[int]int, w int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *in == nil {
		*in = map[int]int{}
	}
	(*in)[w]++
}

func (f *fakeSteerer) total(of *map[int]int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, k := range *of {
		n += k
	}
	return n
}

func (f *fakeSteerer) Reconcile([]int64) int64 { return 0 }

func (f *fakeSteerer) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

type fakeGroup struct {
	f *fakeSteerer
	p conf.Protocol
}

func (g *fakeGroup) Set(fds []int) error {
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	g.f.sets = append(g.f.sets, fmt.Sprintf("%s%d", g.p, len(fds)))
	return nil
}

func (g *fakeGroup) Attach(int) error {
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	g.f.attached++
	return nil
}

func (g *fakeGroup) Detach(int) error { return nil }
func (g *fakeGroup) FD() int          { return 0 }

func (g *fakeGroup) Close() error {
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	g.f.open--
	return nil
}

func (f *fakeSteerer) seen() (sets []string, open int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.sets), f.open
}

// Every session that the steerer has counted is counted off again, once, and
// those on unix sockets are counted on by the worker.
func TestSteererCounts(t *testing.T) {
	f := &fakeSteerer{}
	at := freePort(t)
	cfg := reloadConfig(at, named(t, "a"))
	sock := t.TempDir() + "/s"
	cfg.Listeners[0].Listen = append(cfg.Listeners[0].Listen, conf.Address{Path: sock})
	s, err := stream.Start(t.Context(), cfg, stream.Options{
		Logger:   slog.New(slog.DiscardHandler),
		Steering: func(p conf.Steering) (stream.Steerer, error) { f.policy = p; return f, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		c, _ := dial(t, at.String())
		c.Close()
		u, err := net.Dial("unix", sock)
		if err != nil {
			t.Fatal(err)
		}
		line(t, u)
		u.Close()
	}
	eventually(t, "20 sessions are counted off", func() bool { return f.total(&f.ended) == 20 })
	if n := f.total(&f.began); n != 10 {
		t.Errorf("%d sessions were counted on, want the 10 of the unix socket", n)
	}
	if sets, open := f.seen(); !slices.Equal(sets, []string{"tcp2"}) || open != 1 {
		t.Errorf("the groups were told %v, %d are open", sets, open)
	}
	// Nothing is steered anew that has not changed.
	mustReload(t, s, cfg)
	if sets, _ := f.seen(); len(sets) != 1 {
		t.Errorf("after a reload of the same the groups were told %v", sets)
	}
	more := *cfg
	more.Worker.Count = 3
	mustReload(t, s, &more)
	if sets, _ := f.seen(); !slices.Equal(sets, []string{"tcp2", "tcp3"}) {
		t.Errorf("with a third worker the groups were told %v", sets)
	}
	none := more
	none.Worker.Steering = conf.SteerNone
	mustReload(t, s, &none)
	if _, open := f.seen(); open != 0 || !f.closed {
		t.Errorf("without steering %d groups are open, closed is %v", open, f.closed)
	}
	c, _ := dial(t, at.String())
	c.Close()
	stop(t, s)
	if n := f.total(&f.ended); n != 20 {
		t.Errorf("%d sessions were counted off after the steerer was closed", n-20)
	}
}

// auto goes on without a steerer; an explicit policy that can't be had is an
// error.
func TestSteererThatCannotBeHad(t *testing.T) {
	sorry := errors.New("no CAP_BPF")
	for _, c := range []struct {
		policy conf.Steering
		fails  bool
	}{{conf.SteerAuto, false}, {conf.SteerNone, false}, {conf.SteerHash, true}, {conf.SteerLeastSessions, true}} {
		var log strings.Builder
		cfg := reloadConfig(freePort(t), named(t, "a"))
		cfg.Worker.Steering = c.policy
		s, err := stream.Start(context.Background(), cfg, stream.Options{
			Logger:   slog.New(slog.NewTextHandler(&log, nil)),
			Steering: func(conf.Steering) (stream.Steerer, error) { return nil, sorry },
		})
		if err == nil {
			stop(t, s)
		}
		if (err != nil) != c.fails || c.fails && !errors.Is(err, sorry) {
			t.Errorf("%v: %v", c.policy, err)
		}
		if told := strings.Contains(log.String(), "no CAP_BPF"); told != (c.policy == conf.SteerAuto) {
			t.Errorf("%v: the log says %q", c.policy, log.String())
		}
	}
	// What can't be had for one address leaves that one to the kernel.
	f := &fakeSteerer{fail: errors.New("no memory")}
	cfg := reloadConfig(freePort(t), named(t, "a"))
	s, err := stream.Start(context.Background(), cfg, stream.Options{
		Logger:   slog.New(slog.DiscardHandler),
		Steering: func(conf.Steering) (stream.Steerer, error) { return f, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	c, _ := dial(t, s.Bound()[0].Addr.String())
	c.Close()
	stop(t, s)
}

// A new process may have steered to its own workers before it went away.
func TestSteererAfterAHandOverThatFails(t *testing.T) {
	f := &fakeSteerer{}
	at := freePort(t)
	s, err := stream.Start(t.Context(), reloadConfig(at, named(t, "a")), stream.Options{
		Logger:   slog.New(slog.DiscardHandler),
		Steering: func(conf.Steering) (stream.Steerer, error) { return f, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, s)
	c, _ := dial(t, at.String())
	defer c.Close()
	before := f.attached
	if err := handOverToDeserter(t, s); err == nil {
		t.Fatal("it was handed over to nobody")
	}
	if sets, _ := f.seen(); !slices.Equal(sets, []string{"tcp2", "tcp2"}) || f.attached != before+1 {
		t.Errorf("the groups were told %v, and attached %d times", sets, f.attached-before)
	}
}

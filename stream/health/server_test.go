package health

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
)

// TestMain fails if a test leaves a goroutine or a socket behind.
func TestMain(m *testing.M) {
	before := leftovers()
	code := m.Run()
	fuzzing := flag.Lookup("test.fuzz").Value.String() != "" // which leaves a goroutine for signals
	if code == 0 && !fuzzing {
		for deadline := time.Now().Add(scaled(3 * time.Second)); leftovers() > before; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<20)
				fmt.Fprintf(os.Stderr, "left behind: %d goroutines and sockets, before %d\n%s", leftovers(), before, stacks[:runtime.Stack(stacks, true)])
				os.Exit(1)
			}
		}
	}
	os.Exit(code)
}

// leftovers counts goroutines and sockets.
func leftovers() int { return runtime.NumGoroutine() + sockets() }

func sockets() int {
	n := 0
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// scale stretches all times, for slow machines.
var scale = func() float64 {
	if s, err := strconv.ParseFloat(os.Getenv("WEIR_TEST_TIMEOUT_SCALE"), 64); err == nil {
		return s
	}
	return 1
}()

func scaled(d time.Duration) time.Duration { return time.Duration(float64(d) * scale) }

// eventually polls until f holds, and fails the test after d.
func eventually(t *testing.T, d time.Duration, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(scaled(d)); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", scaled(d), what)
		}
	}
}

// missing skips the test, or fails it where everything should be there.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("missing: %s", what)
	}
	t.Skipf("missing: %s", what)
}

func mustAddr(text string) netip.AddrPort { return netip.MustParseAddrPort(text) }

// serve accepts connections on a loopback port until the test ends, hands each
// to f on a goroutine of its own and closes it when f returns.
func serve(t *testing.T, f func(net.Conn)) Target {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, ln, f)
}

func serveOn(t *testing.T, ln net.Listener, f func(net.Conn)) Target {
	var mu sync.Mutex
	open := map[net.Conn]bool{} // guarded by mu; nil = the test has ended
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			if open == nil {
				c.Close()
			} else {
				open[c] = true
				running.Go(func() {
					f(c)
					c.Close()
					mu.Lock()
					delete(open, c)
					mu.Unlock()
				})
			}
			mu.Unlock()
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		open = nil
		mu.Unlock()
		running.Wait()
	})
	if ln.Addr().Network() == "unix" {
		return Target{Path: ln.Addr().String()}
	}
	return Target{Addr: mustAddr(ln.Addr().String()), Host: "127.0.0.1"}
}

// nobody returns a target that refuses connections, until somebody else is given
// its port.
func nobody(t *testing.T) Target {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return Target{Addr: mustAddr(ln.Addr().String()), Host: "127.0.0.1"}
}

// A prober runs the probe of one check by hand.
type prober struct {
	t *testing.T
	h conf.HealthCheck
	probe
}

func newProber(t *testing.T, target Target, kind conf.CheckKind, edit func(*conf.HealthCheck)) *prober {
	t.Helper()
	h := conf.NewHealthCheck(kind)
	h.Timeout = scaled(5 * time.Second)
	if edit != nil {
		edit(&h)
	}
	p := &prober{t: t, h: h}
	at, err := newEndpoint(&p.h, target)
	if err == nil {
		p.probe, err = newProbe(&p.h, at)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.end(true)
		eventually(t, 2*time.Second, "connections are closed", func() bool { return opened(at) == 0 })
		at.close()
	})
	return p
}

// once checks once and returns the reading, or "" and the cause.
func (p *prober) once() (reading, string) {
	ctx, cancel := context.WithTimeout(context.Background(), p.h.Timeout)
	defer cancel()
	r, err := try(ctx, p.probe)
	defer p.end(false)
	if err != nil {
		return reading{}, cause(ctx, err, p.h.Timeout, p.h.Password)
	}
	return r, ""
}

// wantOK fails the test unless a check passes, and returns what it has read.
func (p *prober) wantOK(note string) reading {
	p.t.Helper()
	r, failure := p.once()
	if failure != "" {
		p.t.Errorf("%s: failed: %s", p.h.Kind, failure)
	} else if r.note != note {
		p.t.Errorf("%s: noted %q, want %q", p.h.Kind, r.note, note)
	}
	return r
}

// wantFailure fails the test unless a check fails with that cause, in which LIMIT
// stands for the check's timeout.
func (p *prober) wantFailure(want string) {
	p.t.Helper()
	want = strings.ReplaceAll(want, "LIMIT", p.h.Timeout.String())
	r, failure := p.once()
	if failure == "" {
		p.t.Errorf("%s: passed with %+v, want %q", p.h.Kind, r, want)
	} else if failure != want {
		p.t.Errorf("%s: failed with %q, want %q", p.h.Kind, failure, want)
	}
}

// opened returns how many connections an endpoint has.
func opened(e *endpoint) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.open)
}

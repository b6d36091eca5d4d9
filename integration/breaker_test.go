package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// tarpit is a server that takes every connection and reads from it, and only
// answers if it is well.
type tarpit struct {
	well atomic.Bool

	mu   sync.Mutex
	came []time.Time // guarded by mu
}

func (s *tarpit) serve(c net.Conn) {
	s.mu.Lock()
	s.came = append(s.came, time.Now())
	s.mu.Unlock()
	if s.well.Load() {
		echo(c)
		return
	}
	silent(c)
}

// connects returns when connections came.
func (s *tarpit) connects() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.came)
}

// patience is how long a client waits for its answer before it gives up.
const patience = 200 * time.Millisecond

// visit is a client with little patience. It returns nil if it had its answer,
// and errNoAnswer if it gave up.
func visit(addr string) error {
	c, err := tryDial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetReadDeadline(time.Now().Add(patience))
	err = tryRoundTrip(c)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return errNoAnswer
	}
	return err
}

var errNoAnswer = errors.New("no answer")

// refusedByReset reports whether a client was reset, which may be while it still
// connects.
func refusedByReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// wantRefused connects and expects to be reset.
func wantRefused(t *testing.T, addr string) {
	t.Helper()
	c, err := tryDial(addr)
	if err == nil {
		defer c.Close()
		_, err = c.Read(make([]byte, 1))
	}
	if !refusedByReset(err) {
		t.Errorf("a client says %v, want a reset", err)
	}
}

// A server that takes connections and never answers: after some clients have
// given up, the others are refused at once, in their protocol, and the server has
// its peace but for one client now and then, more and more seldom, until that one
// is answered.
func TestCircuitBreaker(t *testing.T) {
	t.Parallel()
	const failures = 5
	const openFor = time.Second
	var s tarpit
	pg := freeAddr(t)
	p := start(t, `
		worker { count = 4 }
		admin {
		  listen = "unix:$dir/admin.sock"
		}
		upstream "u" {
		  server "$server" { max_fails = 0 }
		  health_check "tcp" { # instead of that which comes with the profile
		    interval = "1h"
		    initial  = "up"
		  }
		  circuit_breaker {
		    failures = 5
		    window   = "1m"
		    open_for = "1s"
		    probes   = 1
		  }
		}
		listener "l" {
		  listen   = ["$listen"]
		  upstream = "u"
		}
		listener "pg" {
		  listen   = ["$pg"]
		  upstream = "u"
		  profile  = "postgres"
		}`, vars{"server": serve(t, s.serve), "pg": pg})
	state := func() string { return p.load("u").Circuit.State }
	// A server that was never heard might be one of those that only listen.
	s.well.Store(true)
	if err := visit(p.addr); err != nil {
		t.Fatal(err)
	}
	if got := state(); got != "closed" {
		t.Errorf("at its start it is %s", got)
	}

	// It opens.
	s.well.Store(false)
	for i := range failures {
		if err := visit(p.addr); err != errNoAnswer {
			t.Fatalf("client %d: %v", i, err)
		}
		if i < failures-1 && state() != "closed" {
			t.Errorf("it is %s after %d failures", state(), i+1)
		}
	}
	eventually(t, time.Second, "it opens", func() bool { return state() == "open" })
	opened := time.Now()
	if c := p.load("u").Circuit; c.Opened != 1 || c.ForSeconds > openFor.Seconds() {
		t.Errorf("it says %+v", c)
	}
	if len(p.logged(circuitOpened)) != 1 {
		t.Errorf("the log does not say once that it has opened")
	}

	// Clients are told so, the server is not bothered.
	before := len(s.connects())
	refuseBegin := time.Now()
	if err := visit(p.addr); !refusedByReset(err) {
		t.Errorf("a client of no known protocol: %v, want a reset", err)
	}
	took := time.Since(refuseBegin)
	refuseBegin = time.Now()
	wantPostgresRefusal(t, pg)
	t.Logf("refused after %v, in the words of PostgreSQL after %v", took, time.Since(refuseBegin))
	if took := max(took, time.Since(refuseBegin)); took > scaled(100*time.Millisecond) {
		t.Errorf("a refusal took %v, want it at once", took)
	}
	if got := len(s.connects()); time.Since(opened) < openFor*8/10 && got != before {
		t.Errorf("the server saw %d connects while it was open", got-before)
	}
	eventually(t, time.Second, "the lines of both", func() bool { return len(endedWith(p.endings(), "circuit_open")) == 2 })

	// One client at a time may try, each time after a longer while.
	for len(s.connects()) < before+2 {
		if time.Since(opened) > scaled(20*time.Second) {
			t.Fatalf("the server saw %v", s.connects())
		}
		if err := visit(p.addr); err != errNoAnswer && !refusedByReset(err) {
			t.Errorf("a client of a server that does not answer: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	probes := s.connects()[before:]
	first, second := probes[0].Sub(opened), probes[1].Sub(probes[0])
	t.Logf("one tried %v after it had opened, the next %v later", first, second)
	if first < openFor*8/10 || second < 2*openFor {
		t.Errorf("they tried after %v and %v, want about 1 s and then 2 s", first, second)
	}

	// The server is well again, one client finds out and all are served.
	eventually(t, time.Second, "it is open again", func() bool { return state() == "open" })
	var spans []string
	for _, line := range p.logged(circuitOpened) {
		_, span, _ := strings.Cut(line["cause"].(string), "; ")
		spans = append(spans, span)
	}
	if want := []string{"for 1s", "for 2s", "for 4s"}; !slices.Equal(spans, want) {
		t.Errorf("it was open %q, want %q", spans, want)
	}
	s.well.Store(true)
	eventually(t, 20*time.Second, "it is closed", func() bool {
		if err := visit(p.addr); err != nil && !refusedByReset(err) {
			t.Errorf("a client of a server that is well: %v", err)
		}
		return state() == "closed"
	})
	for range 20 {
		if err := visit(p.addr); err != nil {
			t.Errorf("a client after the recovery: %v", err)
		}
	}
	if c := p.load("u").Circuit; c.State != "closed" || c.ForSeconds != 0 {
		t.Errorf("in the end it says %+v", c)
	}
	if len(p.logged(circuitClosed)) != 1 {
		t.Errorf("the log does not say once that it has closed")
	}
	for _, e := range p.entries() {
		if e.CloseReason == "circuit_open" && (e.Status != 503 || e.Tries != 0) {
			t.Errorf("a refused session has status %d after %d tries", e.Status, e.Tries)
		}
	}
}

// What the process log says.
const (
	circuitOpened = "the circuit breaker has opened: new sessions are refused"
	circuitClosed = "the circuit breaker has closed: sessions pass"
)

// wantPostgresRefusal expects PostgreSQL's word for a server that has too much to
// do.
func wantPostgresRefusal(t *testing.T, addr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scaled(5*time.Second))
	defer cancel()
	_, err := pgx.Connect(ctx, "postgres://weir@"+addr+"/u?sslmode=disable")
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "53300" {
		t.Errorf("pgx says %v, want SQLSTATE 53300", err)
	}
}

// While one tries, the others are refused: however many come at once, the server
// sees as many as there are probes.
func TestCircuitBreakerProbes(t *testing.T) {
	t.Parallel()
	var s tarpit
	p := start(t, `
		worker { count = 4 }
		admin {
		  listen = "unix:$dir/admin.sock"
		}
		upstream "u" {
		  server "$server" { max_fails = 0 }
		  circuit_breaker {
		    failures = 3
		    window   = "1m"
		    open_for = "1s"
		    probes   = 2
		  }
		}
		listener "l" {
		  listen   = ["$listen"]
		  upstream = "u"
		}`, vars{"server": serve(t, s.serve)})
	s.well.Store(true)
	if err := visit(p.addr); err != nil {
		t.Fatal(err)
	}
	s.well.Store(false)
	for range 3 {
		if err := visit(p.addr); err != errNoAnswer {
			t.Fatal(err)
		}
	}
	eventually(t, time.Second, "it opens", func() bool { return p.load("u").Circuit.State == "open" })
	before := len(s.connects())
	eventually(t, 5*time.Second, "some may try", func() bool { return p.load("u").Circuit.ForSeconds == 0 })
	var refused atomic.Int32
	done := make(chan bool)
	for range 40 {
		go func() {
			if refusedByReset(visit(p.addr)) {
				refused.Add(1)
			}
			done <- true
		}()
	}
	for range 40 {
		<-done
	}
	if got := len(s.connects()) - before; got != 2 || refused.Load() != 38 {
		t.Errorf("the server saw %d of 40 clients, %d were refused, want 2 and 38", got, refused.Load())
	}
	eventually(t, time.Second, "it is open again", func() bool { return p.load("u").Circuit.State == "open" })
	// Both must go well for it to close.
	s.well.Store(true)
	eventually(t, 5*time.Second, "some may try again", func() bool { return p.load("u").Circuit.ForSeconds == 0 })
	for i, want := range []string{"half_open", "closed"} {
		if err := visit(p.addr); err != nil {
			t.Fatalf("try %d: %v", i, err)
		}
		if got := p.load("u").Circuit.State; got != want {
			t.Errorf("after %d good tries it is %s, want %s", i+1, got, want)
		}
	}
}

// The server refuses at once, and its backup does not answer: what is on its way
// there is a retry, and stays one for long enough to be counted on a busy machine.
func TestRetriesAreBounded(t *testing.T) {
	t.Parallel()
	const clients, most = 30, 3
	b, metrics := fullBacklog(t), freeAddr(t)
	p := start(t, `
		worker { count = 4 }
		admin {
		  listen  = "unix:$dir/admin.sock"
		  metrics = "$metrics"
		}
		upstream "u" {
		  server "$a" { max_fails = 0 }
		  server "$b" {
		    max_fails = 0
		    backup    = true
		  }
		  circuit_breaker {
		    max_retries = 3
		  }
		}
		listener "l" {
		  listen          = ["$listen"]
		  upstream        = "u"
		  connect_timeout = "8s"
		}`, vars{"a": freeAddr(t), "b": b, "metrics": metrics})
	for range clients {
		if c, err := tryDial(p.addr); err == nil {
			t.Cleanup(func() { c.Close() })
		} else if !refusedByReset(err) {
			t.Fatal(err)
		}
	}
	p.waitEntries(5*time.Second, clients-most)
	if seen, told := connecting(b), p.load("u").Retries; seen != most || told != most {
		t.Errorf("%d retries are on their way, weir says %d, want %d", seen, told, most)
	}
	ends := map[string]int{}
	for _, e := range p.waitEntries(20*time.Second, clients) {
		ends[fmt.Sprint(e.CloseReason, " ", e.Status, " after ", e.Tries)]++
	}
	if ends["connect_failed 502 after 1"] != clients-most || ends["connect_timeout 502 after 2"] != most {
		t.Errorf("they ended with %v", ends)
	}
	if l := p.load("u"); l.Sessions != 0 || l.Pending != 0 || l.Retries != 0 {
		t.Errorf("at the end there are %+v", l)
	}
	wantSample(t, metrics, fmt.Sprintf(`weir_upstream_retries_total{upstream="u"} %d`, most))
	wantSample(t, metrics, fmt.Sprintf(`weir_upstream_denied_retries_total{upstream="u"} %d`, clients-most))
}

// connecting counts the connections to an IPv4 port that have no answer yet.
func connecting(addr string) (n int) {
	_, port, _ := net.SplitHostPort(addr)
	number, _ := strconv.Atoi(port)
	table, _ := os.ReadFile("/proc/net/tcp")
	return strings.Count(string(table), fmt.Sprintf(":%04X 02 ", number)) // the far end, in state SYN_SENT
}

func TestMaxSessionsOfAnUpstream(t *testing.T) {
	t.Parallel()
	const clients, most = 40, 5
	var h host
	p := start(t, `
		worker { count = 4 }
		admin {
		  listen = "unix:$dir/admin.sock"
		}
		upstream "u" {
		  server "$server" {}
		  circuit_breaker {
		    max_sessions = 5
		  }
		}
		listener "l" {
		  listen   = ["$listen"]
		  upstream = "u"
		}`, vars{"server": serve(t, h.serve)})
	served := crowdFrom(t, clients, p.addr, anywhere)
	if len(served) != most || h.most.Load() != most {
		t.Errorf("%d were served, the server had %d, want %d", len(served), h.most.Load(), most)
	}
	for _, e := range p.waitEntries(5*time.Second, clients-most) {
		if e.CloseReason != "overloaded" || e.Status != 503 || e.Tries != 0 {
			t.Errorf("a session ended with %s, status %d, after %d tries", e.CloseReason, e.Status, e.Tries)
		}
	}
	if l := p.load("u"); l.Sessions != most || l.Pending != 0 || l.Queue != nil {
		t.Errorf("it says %+v", l)
	}
	served[0].Close()
	p.waitEntries(5*time.Second, clients-most+1)
	if _, err := dial(t, p.addr).Read(make([]byte, 1)); err != nil {
		t.Errorf("a place was given back, and the next session says %v", err)
	}
}

func TestMaxPending(t *testing.T) {
	t.Parallel()
	const clients, most = 20, 4
	a := fullBacklog(t)
	p := start(t, `
		worker { count = 4 }
		admin {
		  listen = "unix:$dir/admin.sock"
		}
		upstream "u" {
		  server "$a" { max_fails = 0 }
		  circuit_breaker {
		    max_pending = 4
		  }
		}
		listener "l" {
		  listen          = ["$listen"]
		  upstream        = "u"
		  connect_timeout = "8s"
		}`, vars{"a": a})
	var all []stream
	for range clients {
		c, err := tryDial(p.addr)
		if err == nil {
			t.Cleanup(func() { c.Close() })
			all = append(all, c)
		} else if !refusedByReset(err) {
			t.Fatal(err)
		}
	}
	p.waitEntries(5*time.Second, clients-most)
	if l, n := p.load("u"), connecting(a); l.Pending != most || l.Sessions != most || n != most {
		t.Errorf("%d are on their way, weir says %+v, want %d", n, l, most)
	}
	for _, c := range all {
		io.Copy(io.Discard, c)
	}
	reasons := map[string]int{}
	for _, e := range p.waitEntries(5*time.Second, clients) {
		reasons[fmt.Sprint(e.CloseReason, " ", e.Status)]++
	}
	if reasons["overloaded 503"] != clients-most || reasons["connect_timeout 502"] != most {
		t.Errorf("they ended with %v", reasons)
	}
	if l := p.load("u"); l.Pending != 0 || l.Sessions != 0 {
		t.Errorf("at the end there are %+v", l)
	}
}

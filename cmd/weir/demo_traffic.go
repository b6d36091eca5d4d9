package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	shortClients = 8                     // one short session each at a time
	shortEvery   = 40 * time.Millisecond // so 200 sessions/s in all
	longClients  = 12                    // one long session each at a time
	longLasts    = 6 * time.Second       // on average
	longEvery    = 100 * time.Millisecond
	clientWaits  = 5 * time.Second // for an answer
)

// demoTraffic is the demo's clients, and what they saw.
type demoTraffic struct {
	addr    string
	running sync.WaitGroup

	mu    sync.Mutex
	seen  demoSeen  // guarded by mu
	taken time.Time // guarded by mu: a server last went away
}

// demoSeen is how sessions ended, as clients see it.
type demoSeen struct {
	answered int
	cut      int // ran on the server that went away
	failed   int // any other error, such as a new session without an answer
	err      error
}

// startDemoTraffic starts clients that go on until ctx is done.
func startDemoTraffic(ctx context.Context, addr string) *demoTraffic {
	t := &demoTraffic{addr: addr}
	for range shortClients {
		t.running.Go(func() { t.repeat(ctx, askOnce) })
	}
	for range longClients {
		t.running.Go(func() { t.repeat(ctx, askMuch) })
	}
	return t
}

// repeat holds sessions, one after the other.
func (t *demoTraffic) repeat(ctx context.Context, ask askFunc) {
	pause(ctx, rand.N(shortEvery))
	tick := time.NewTicker(shortEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		start := time.Now()
		err := t.session(ctx, ask)
		if ctx.Err() != nil {
			return // it was us who ended it
		}
		t.note(start, err)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (t *demoTraffic) session(ctx context.Context, ask askFunc) error {
	dialer := net.Dialer{Timeout: clientWaits}
	c, err := dialer.DialContext(ctx, "tcp", t.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	return ask(ctx, c, bufio.NewReader(c))
}

// note counts a session. An error is laid to the server that went away only if
// the session had begun before and ended with it: weir can't mend what was
// under way, but a later session must find another peer.
func (t *demoTraffic) note(start time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil:
		t.seen.answered++
	case start.Before(t.taken) && time.Since(t.taken) < time.Second:
		t.seen.cut++
	default:
		t.seen.failed++
		t.seen.err = err
	}
}

// during takes a server away by calling takeAway. Sessions that end meanwhile
// are noted afterwards.
func (t *demoTraffic) during(takeAway func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	takeAway()
	t.taken = time.Now()
}

func (t *demoTraffic) sums() demoSeen {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen
}

// askFunc is what a client does with a connection.
type askFunc func(context.Context, net.Conn, *bufio.Reader) error

func askOnce(_ context.Context, c net.Conn, in *bufio.Reader) error {
	return get(c, in, "/", len("hello from a\n"))
}

// askMuch moves bytes for a while.
func askMuch(ctx context.Context, c net.Conn, in *bufio.Reader) error {
	end := time.Now().Add(longLasts/2 + rand.N(longLasts))
	for ; time.Now().Before(end); pause(ctx, longEvery) {
		if err := get(c, in, "/bytes", demoBytes); err != nil {
			return err
		}
	}
	return nil
}

func get(c net.Conn, in *bufio.Reader, path string, want int) error {
	_ = c.SetDeadline(time.Now().Add(clientWaits))
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: demo\r\n\r\n", path); err != nil {
		return err
	}
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && int(n) != want {
		err = fmt.Errorf("read %s: got %d bytes", path, n)
	}
	return err
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

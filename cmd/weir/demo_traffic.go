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
	running sync.WaitGroup

	mu      sync.Mutex
	seen    demoSeen  // guarded by mu
	queries demoSeen  // guarded by mu: over UDP
	taken   time.Time // guarded by mu: a server last went away
	back    time.Time // guarded by mu: and last came back
}

// demoSeen is how sessions ended, as clients see it.
type demoSeen struct {
	answered int
	cut      int // ran on the server that went away
	failed   int // any other error, such as a new session without an answer
	err      error
}

// count counts a session. cut says whom an error is laid to.
func (s *demoSeen) count(err error, cut bool) {
	switch {
	case err == nil:
		s.answered++
	case cut:
		s.cut++
	default:
		s.failed++
		s.err = err
	}
}

// startDemoTraffic starts clients that go on until ctx is done.
func startDemoTraffic(ctx context.Context, addr, dnsAddr string) *demoTraffic {
	t := new(demoTraffic)
	start := func(clients int, network, addr string, ask askFunc, note noteFunc) {
		for range clients {
			t.running.Go(func() {
				repeat(ctx, func() error { return session(ctx, network, addr, ask) }, note)
			})
		}
	}
	start(shortClients, "tcp", addr, askOnce, t.note)
	start(longClients, "tcp", addr, askMuch, t.note)
	start(dnsClients, "udp", dnsAddr, askDNS, t.noteQuery)
	return t
}

// repeat holds sessions, one after the other.
func repeat(ctx context.Context, session func() error, note noteFunc) {
	pause(ctx, rand.N(shortEvery))
	tick := time.NewTicker(shortEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		start := time.Now()
		err := session()
		if ctx.Err() != nil {
			return // it was us who ended it
		}
		note(start, err)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func session(ctx context.Context, network, addr string, ask askFunc) error {
	dialer := net.Dialer{Timeout: clientWaits}
	c, err := dialer.DialContext(ctx, network, addr)
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
	t.seen.count(err, start.Before(t.taken) && time.Since(t.taken) < time.Second)
}

// during takes a server away by calling takeAway. Sessions that end meanwhile
// are noted afterwards.
func (t *demoTraffic) during(takeAway func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	takeAway()
	t.taken = time.Now()
}

// cameBack notes that the server is back.
func (t *demoTraffic) cameBack() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.back = time.Now()
}

// sums returns what clients saw over TCP and over UDP.
func (t *demoTraffic) sums() (seen, queries demoSeen) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen, t.queries
}

// noteFunc counts a session that began at start.
type noteFunc func(start time.Time, err error)

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

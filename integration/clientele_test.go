package integration_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// caller is one session of a client with a server behind weir.
type caller interface {
	// call has the server do something, and returns the server's own name.
	call(context.Context) (server string, err error)
	close()
}

// deed is something that a server did for a client.
type deed struct {
	server     string
	began      time.Time // when the client asked for the session
	sent, done time.Time
}

// mishap is a session that could not be had, or that ended under its client.
type mishap struct {
	at        time.Time
	connected bool
	err       error
}

// String tells it, for a failed test.
func (m mishap) String() string {
	return fmt.Sprintf("%s, connected %v: %v", m.at.Format("15:04:05.000"), m.connected, m.err)
}

// clientele is clients that have servers do things, and connect again whenever
// their session has ended.
type clientele struct {
	t       *testing.T
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	deeds   []deed   // guarded by mu
	mishaps []mishap // guarded by mu
}

// manner is how the clients of a clientele behave.
type manner struct {
	clients int
	pause   time.Duration // after each deed and each mishap
	once    bool          // a session for each deed
}

// gather starts a clientele, which goes on until it is dispersed or the test ends.
func gather(t *testing.T, m manner, connect func(context.Context) (caller, error)) *clientele {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &clientele{t: t, cancel: cancel}
	for range m.clients {
		c.running.Go(func() {
			for ctx.Err() == nil {
				c.attend(ctx, m, connect)
			}
		})
	}
	t.Cleanup(c.disperse)
	return c
}

// disperse ends the clients and waits for them. It may be called again.
func (c *clientele) disperse() {
	c.cancel()
	c.running.Wait()
}

// attend is one session.
func (c *clientele) attend(ctx context.Context, m manner, connect func(context.Context) (caller, error)) {
	began := time.Now()
	s, err := limited(ctx, connect)
	if err != nil {
		c.suffer(ctx, m, false, err)
		return
	}
	defer s.close()
	for ctx.Err() == nil {
		sent := time.Now()
		server, err := limited(ctx, s.call)
		if err != nil {
			c.suffer(ctx, m, true, err)
			return
		}
		c.mu.Lock()
		c.deeds = append(c.deeds, deed{server, began, sent, time.Now()})
		c.mu.Unlock()
		rest(ctx, m.pause)
		if m.once {
			return
		}
	}
}

// limited bounds what a client waits for.
func limited[T any](ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, scaled(10*time.Second))
	defer cancel()
	return f(ctx)
}

func (c *clientele) suffer(ctx context.Context, m manner, connected bool, err error) {
	if ctx.Err() != nil {
		return // the test has ended, not the session
	}
	c.mu.Lock()
	c.mishaps = append(c.mishaps, mishap{time.Now(), connected, err})
	c.mu.Unlock()
	rest(ctx, m.pause)
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// done returns the deeds so far, in the order in which they were done.
func (c *clientele) done() []deed {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.deeds)
}

// suffered returns the mishaps so far.
func (c *clientele) suffered() []mishap {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.mishaps)
}

// waitDone waits for n deeds of a server that were begun after an instant, and
// returns the first.
func (c *clientele) waitDone(d time.Duration, n int, server string, after time.Time) deed {
	c.t.Helper()
	var found []deed
	deadline := time.Now().Add(scaled(d))
	for {
		found = filter(c.done(), func(d deed) bool { return d.server == server && d.sent.After(after) })
		if len(found) >= n {
			return found[0]
		}
		if time.Now().After(deadline) {
			mishaps := c.suffered()
			c.t.Fatalf("%d deeds of %s since %v, want %d; the last mishaps: %v",
				len(found), server, after.Format("15:04:05.000"), n, mishaps[max(0, len(mishaps)-3):])
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// filter returns the elements for which keep holds.
func filter[T any](all []T, keep func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !keep(one) })
}

// servers counts deeds by server.
func servers(deeds []deed) map[string]int {
	n := map[string]int{}
	for _, d := range deeds {
		n[d.server]++
	}
	return n
}

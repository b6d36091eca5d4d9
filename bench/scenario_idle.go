package main

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// idleSpare is what a proxy needs besides two descriptors per session.
const idleSpare = 1200

var idleSessions = scenario{
	name:  "idle",
	title: "memory of idle sessions",
	setup: "as many sessions as open files allow, at most 9,000, from 4 client addresses; resident memory before, after all are connected to the backend (new), and after each has passed 64 bytes both ways (used); a fresh proxy each time; the kernel's socket buffers are not in it",
	metrics: []metric{
		{Name: "new", Unit: "KB/session", Lower: true, ProxyOnly: true},
		{Name: "used", Unit: "KB/session", Lower: true, ProxyOnly: true},
		{Name: "total", Unit: "MB", Lower: true, ProxyOnly: true},
		{Name: "sessions", Unit: "held"},
	},
	addresses: 1,
	run:       holdSessions,
	fresh:     true,
}

func holdSessions(ctx context.Context, e *env, in *instance, _ int) (sample, error) {
	n := min(maxSessions, (fileLimit()-idleSpare)/2)
	server, err := e.startHelper(roleHoldServer, in.servers...)
	if err != nil {
		return sample{}, err
	}
	defer server.stop()
	if err := server.waitListening(ctx, in.servers); err != nil {
		return sample{}, err
	}
	client, err := e.startHelper(roleHoldClient, in.target(0), strconv.Itoa(n))
	if err != nil {
		return sample{}, err
	}
	defer client.stop()

	before, err := settledRSS(ctx, in.proc)
	if err != nil {
		return sample{}, err
	}
	if _, err := client.ask(ctx, "open", 20*time.Second); err != nil {
		return sample{}, err
	}
	if err := waitHeld(ctx, server, n); err != nil {
		return sample{}, err
	}
	opened, err := settledRSS(ctx, in.proc)
	if err != nil {
		return sample{}, err
	}
	if _, err := client.ask(ctx, "use", 20*time.Second); err != nil {
		return sample{}, err
	}
	used, err := settledRSS(ctx, in.proc)
	if err != nil {
		return sample{}, err
	}
	perSession := func(after int64) float64 { return float64(after-before) / 1000 / float64(n) }
	return sample{Values: map[string]float64{
		"new": perSession(opened), "used": perSession(used), "total": float64(used) / 1e6, "sessions": float64(n),
	}}, nil
}

// waitHeld returns when the backend has accepted n sessions: a connected client
// alone may still be in the proxy's accept queue.
func waitHeld(ctx context.Context, server *helper, n int) error {
	deadline := time.Now().Add(15 * time.Second)
	for {
		text, err := server.ask(ctx, "count", 5*time.Second)
		if err != nil {
			return err
		}
		if held, err := strconv.Atoi(text); err == nil && held >= n {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("wait for sessions: %s of %d reached the backend", text, n)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// settledRSS reads the memory once it has stopped moving.
func settledRSS(ctx context.Context, p *process) (int64, error) {
	const step, most = 100 * time.Millisecond, 20
	last := int64(-1)
	for range most {
		rss, err := p.rssBytes()
		if err != nil {
			return 0, err
		}
		if rss == last {
			break
		}
		last = rss
		time.Sleep(step)
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
	return last, nil
}

package main

import (
	"context"
	"fmt"
	"time"
)

// idleSpare is what a proxy needs besides two descriptors per session.
const idleSpare = 1200

// heldSessions is how many sessions the limit of open files allows.
func heldSessions() int { return max(1, min(maxSessions, (fileLimit()-idleSpare)/2)) }

var idleScenarios = []scenario{idle("1-byte", "1 byte", 1), idle("64k", "64 KiB", 64<<10)}

func idle(name, size string, bytes int) scenario {
	return scenario{
		name:  "idle-" + name,
		title: fmt.Sprintf("memory of sessions that are idle after %s each way", size),
		setup: fmt.Sprintf("as many sessions as open files allow, at most 9,000, from 4 client addresses, one worker; resident memory before, after all are connected to the server (new), and after each in turn has passed %s both ways (used); a fresh proxy each time; the kernel's socket buffers are not in it", size),
		metrics: []metric{
			{Name: "used", Unit: "KB/session", Lower: true, ProxyOnly: true},
			{Name: "new", Unit: "KB/session", Lower: true, ProxyOnly: true},
			{Name: "total", Unit: "MB", Lower: true, ProxyOnly: true},
			{Name: "sessions", Unit: "held"},
		},
		addresses: 1,
		oneWorker: true,
		quick:     bytes == 1,
		fresh:     true,
		run: func(ctx context.Context, e *env, in *instance, _ int) (sample, error) {
			return holdSessions(ctx, e, in, bytes)
		},
	}
}

func holdSessions(ctx context.Context, e *env, in *instance, bytes int) (sample, error) {
	n := heldSessions()
	load, err := startTCPLoad(ctx, e, in.servers[0])
	if err != nil {
		return sample{}, err
	}
	defer load.stop()
	before, err := settledRSS(ctx, in.proc)
	if err != nil {
		return sample{}, err
	}
	held, err := holdOpen(ctx, e, load, in.target(0), n)
	if err != nil {
		return sample{}, err
	}
	defer held.stop()
	opened, err := settledRSS(ctx, in.proc)
	if err != nil {
		return sample{}, err
	}
	if _, err := held.ask(ctx, fmt.Sprintf("use %d", bytes), 60*time.Second); err != nil {
		return sample{}, err
	}
	used, err := settledRSS(ctx, in.proc)
	if err != nil {
		return sample{}, err
	}
	perSession := func(after int64) float64 { return float64(after-before) / 1000 / float64(n) }
	return sample{Work: float64(n), Values: map[string]float64{
		"new": perSession(opened), "used": perSession(used), "total": float64(used) / 1e6, "sessions": float64(n),
	}}, nil
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

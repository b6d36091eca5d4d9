package main

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// warmPing is how long the unmeasured ping-pong lasts.
const warmPing = 300 * time.Millisecond

var pingPong = scenario{
	name:  "ping-pong",
	title: "one message at a time",
	setup: "1 connection, 64 bytes there and back, TCP_NODELAY, client and echo server in blocking system calls, a process each; warm-up of 0.3 s; nothing pinned",
	metrics: []metric{
		{Name: "rate", Unit: "round trips/s"},
		{Name: "p50", Unit: "us", Lower: true},
		{Name: "p99", Unit: "us", Lower: true},
		{Name: "cpu", Unit: "us/round trip", Lower: true, ProxyOnly: true},
	},
	addresses: 1,
	backend:   startEcho,
	warm: func(ctx context.Context, e *env, in *instance) error {
		_, err := ping(ctx, in.target(0), warmPing)
		return err
	},
	run: func(ctx context.Context, e *env, in *instance, round int) (sample, error) {
		var got pingResult
		cpu, err := cpuPer(in, time.Microsecond, func() (float64, error) {
			var err error
			got, err = ping(ctx, in.target(round), time.Duration(e.seconds)*time.Second)
			return got.Trips, err
		})
		if err != nil {
			return sample{}, err
		}
		return sample{Values: map[string]float64{"rate": got.Rate, "p50": got.P50, "p99": got.P99, "cpu": cpu}}, nil
	},
}

func startEcho(ctx context.Context, e *env, addrs []string) (stop func(), err error) {
	h, err := e.startHelper(roleEcho, addrs...)
	if err != nil {
		return nil, err
	}
	if err := h.waitListening(ctx, addrs); err != nil {
		h.stop()
		return nil, err
	}
	return h.stop, nil
}

// ping runs the client in a process of its own and reads its line.
func ping(ctx context.Context, target string, d time.Duration) (pingResult, error) {
	out, err := runSelf(ctx, d+10*time.Second, rolePing, target, strconv.FormatInt(d.Milliseconds(), 10))
	if err != nil {
		return pingResult{}, err
	}
	var r pingResult
	if _, err := fmt.Sscanf(out, pingFormat, &r.Trips, &r.Rate, &r.P50, &r.P99); err != nil {
		return pingResult{}, fmt.Errorf("parse ping %q: %w", lastLine(out), err)
	}
	return r, nil
}

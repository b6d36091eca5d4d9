package main

import (
	"context"
	"fmt"
	"time"
)

// burstConnections is how many clients come at once.
const burstConnections = 1000

var burst = scenario{
	name:  "burst",
	title: fmt.Sprintf("%d clients at once", burstConnections),
	setup: fmt.Sprintf("%d connects at once, %d bytes on each, closed at the answer's first byte; the next burst begins when all are closed on both sides; all served is the median of a run's bursts, quantiles are from connect to the answer's first byte; %s; warm-up of %s; nothing pinned",
		burstConnections, burstBytes, tcpPlacing, warmPing),
	metrics: append([]metric{
		{Name: "all served", Unit: "ms", Lower: true},
		{Name: "p50", Unit: "us", Lower: true},
		{Name: "p99", Unit: "us", Lower: true},
		{Name: "p999", Unit: "us", Lower: true},
		{Name: "errors", Unit: "connections", Lower: true},
	}, costMetrics("us/connection")...),
	addresses: shortAddresses,
	peers:     1,
	quick:     true,
	warm: func(ctx context.Context, e *env, in *instance) error {
		_, err := runBurst(ctx, e, in, e.rounds, warmPing)
		return err
	},
	run: func(ctx context.Context, e *env, in *instance, round int) (sample, error) {
		var got burstResult
		s, err := measured(ctx, in, time.Microsecond, func() (float64, map[string]float64, error) {
			var err error
			got, err = runBurst(ctx, e, in, round, time.Duration(e.seconds)*time.Second)
			return got.Served, map[string]float64{"all served": got.Took, "p50": got.P50, "p99": got.P99, "p999": got.P999, "errors": got.Errors}, err
		})
		if got.Errors > 0 {
			s.Flaw = fmt.Sprintf("%.0f connections were not served", got.Errors)
		}
		return s, err
	},
}

func runBurst(ctx context.Context, e *env, in *instance, round int, d time.Duration) (burstResult, error) {
	load, err := startTCPLoad(ctx, e, in.servers[0])
	if err != nil {
		return burstResult{}, err
	}
	defer load.stop()
	line, err := load.ask(ctx, fmt.Sprintf("burst %s %d %d", in.target(round), burstConnections, d.Milliseconds()), d+4*tcpAnswer)
	if err != nil {
		return burstResult{}, err
	}
	return parseBurst(line)
}

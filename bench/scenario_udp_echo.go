package main

import (
	"context"
	"fmt"
	"time"
)

const (
	udpEchoFlows = 64
	udpEchoBytes = 64
)

var udpEchoOne = udpEcho(1)
var udpEchoEight = udpEcho(8)

// udpLoopMetrics are those of the closed loop. Where little of the load
// generator's time is spare, the rate is its limit; the CPU per unit still is
// the proxy's.
func udpLoopMetrics(rate, cpu string) []metric {
	return []metric{
		{Name: "rate", Unit: rate},
		{Name: "lost", Unit: "%", Lower: true},
		{Name: "p50", Unit: "us", Lower: true},
		{Name: "p99", Unit: "us", Lower: true},
		{Name: "p999", Unit: "us", Lower: true},
		{Name: "cpu", Unit: cpu, Lower: true, ProxyOnly: true},
		{Name: "spare", Unit: "% of load's time"},
	}
}

func udpEcho(window int) scenario {
	run := loopRun{flows: udpEchoFlows, window: window}
	return scenario{
		name:  fmt.Sprintf("udp-echo-%d", window),
		title: fmt.Sprintf("datagrams there and back, %d in flight per flow", window),
		setup: fmt.Sprintf("%d flows from an address each, %d bytes there and back, closed loop with %d in flight per flow; every answer is checked for its flow, number, sender and client; a round trip is two datagrams; warm-up of %s; %s",
			udpEchoFlows, udpEchoBytes, window, warmUDP, udpPlacing),
		metrics:   udpLoopMetrics("round trips/s", "us/round trip"),
		traffic:   flows,
		addresses: 1,
		traced:    window == 1,
		quick:     window == 1,
		warm:      run.warm,
		run:       run.measure,
	}
}

// loopRun is one run of the closed loop through an instance.
type loopRun struct {
	flows, window int
	sessions      bool // every datagram is a flow of its own
}

func (r loopRun) warm(ctx context.Context, e *env, in *instance) error {
	_, err := r.load(ctx, e, in, 0, warmUDP)
	return err
}

func (r loopRun) measure(ctx context.Context, e *env, in *instance, round int) (sample, error) {
	var got loopResult
	s, err := measured(ctx, in, time.Microsecond, func() (float64, map[string]float64, error) {
		var err error
		got, err = r.load(ctx, e, in, round, time.Duration(e.seconds)*time.Second)
		return got.Answers, map[string]float64{
			"rate": got.Rate, "lost": 100 * got.Lost / (got.Lost + got.Answers), "p50": got.P50, "p99": got.P99, "p999": got.P999, "spare": 100 * got.Spare,
		}, err
	})
	if err != nil {
		return sample{}, err
	}
	if got.Wrong > 0 {
		return sample{}, fmt.Errorf("%.0f answers were not what was sent, or went astray", got.Wrong)
	}
	if got.Late > 0 {
		s.Flaw = fmt.Sprintf("%.0f answers came late or twice", got.Late)
	}
	return s, nil
}

func (r loopRun) load(ctx context.Context, e *env, in *instance, round int, d time.Duration) (got loopResult, err error) {
	out, err := runUDPLoad(ctx, e, in, round, roleUDPLoop, d, udpEchoBytes, r.flows, r.window, pick(r.sessions, 1, 0))
	if err != nil {
		return got, err
	}
	if _, err := fmt.Sscanf(out, loopFormat, &got.Answers, &got.Rate, &got.Lost, &got.Late, &got.Wrong, &got.P50, &got.P99, &got.P999, &got.Spare); err != nil {
		return got, fmt.Errorf("parse loop %q: %w", lastLine(out), err)
	}
	return got, nil
}

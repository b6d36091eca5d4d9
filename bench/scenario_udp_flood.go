package main

import (
	"context"
	"fmt"
	"time"
)

const (
	udpFloodFlows = 4
	udpFloodSmall = 64
	udpFloodLarge = 1200
)

var (
	udpFlood64   = udpFloodScenario(udpFloodSmall)
	udpFlood1200 = udpFloodScenario(udpFloodLarge)
)

func udpFloodScenario(size int) scenario {
	run := floodRun{size: size, segments: 1}
	return scenario{
		name:  fmt.Sprintf("udp-flood-%d", size),
		title: fmt.Sprintf("%d bytes one way, as fast as it goes", size),
		setup: fmt.Sprintf("%d flows that take turns, datagrams of %d bytes, %d by a call, as fast as it goes for the time of a run and at most %d million; the sink checks flow and number; lost is what was sent and did not come; proxy CPU is per datagram that came; warm-up of %s; %s",
			udpFloodFlows, size, floodBatch, floodMost/1_000_000, warmUDP, udpPlacing),
		metrics: []metric{
			{Name: "rate", Unit: "datagrams/s"},
			{Name: "lost", Unit: "%", Lower: true},
			{Name: "cpu", Unit: "us/datagram", Lower: true, ProxyOnly: true},
			{Name: "sent", Unit: "datagrams/s"},
		},
		traffic:   flows,
		addresses: 1,
		quick:     size == udpFloodLarge,
		warm:      run.warm,
		run: func(ctx context.Context, e *env, in *instance, round int) (sample, error) {
			return run.measure(ctx, e, in, round, time.Microsecond, func(got floodResult) (float64, map[string]float64) {
				return float64(got.Came), map[string]float64{
					"rate": float64(got.Came) / got.Seconds, "lost": got.lost(), "sent": float64(got.Sent) / got.Seconds,
				}
			})
		},
	}
}

// lost is the share in percent.
func (r floodResult) lost() float64 { return 100 * (1 - float64(r.Came)/float64(r.Sent)) }

// floodRun is one flood through an instance.
type floodRun struct {
	size, segments int
}

func (r floodRun) warm(ctx context.Context, e *env, in *instance) error {
	_, err := r.load(ctx, e, in, 0, warmUDP)
	return err
}

// measure has figures tell the units of work in what came, and the values.
func (r floodRun) measure(ctx context.Context, e *env, in *instance, round int, unit time.Duration, figures func(floodResult) (float64, map[string]float64)) (sample, error) {
	var got floodResult
	s, err := measured(ctx, in, unit, func() (float64, map[string]float64, error) {
		var err error
		if got, err = r.load(ctx, e, in, round, time.Duration(e.seconds)*time.Second); err != nil {
			return 0, nil, err
		}
		work, values := figures(got)
		return work, values, nil
	})
	switch {
	case err != nil:
		return sample{}, err
	case got.Wrong > 0:
		return sample{}, fmt.Errorf("%d datagrams were not what was sent", got.Wrong)
	}
	switch {
	case got.Dropped > 0:
		s.Flaw = fmt.Sprintf("the sink itself lost %d messages", got.Dropped)
	case got.Backwards > 0:
		s.Flaw = fmt.Sprintf("%d datagrams came after a later one, or twice", got.Backwards)
	}
	return s, nil
}

func (r floodRun) load(ctx context.Context, e *env, in *instance, round int, d time.Duration) (got floodResult, err error) {
	out, err := runUDPLoad(ctx, e, in, round, roleUDPFlood, d, r.size, udpFloodFlows, r.segments)
	if err != nil {
		return got, err
	}
	if _, err := fmt.Sscanf(out, floodFormat, &got.Sent, &got.Seconds, &got.Came, &got.Wrong, &got.Backwards, &got.Dropped); err != nil {
		return got, fmt.Errorf("parse flood %q: %w", lastLine(out), err)
	}
	return got, nil
}

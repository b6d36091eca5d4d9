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
		warm:      run.warm,
		run: func(ctx context.Context, e *env, in *instance, round int) (sample, error) {
			return run.measure(ctx, e, in, round, func(got floodResult, cpu time.Duration) map[string]float64 {
				return map[string]float64{
					"rate": float64(got.Came) / got.Seconds, "lost": got.lost(), "sent": float64(got.Sent) / got.Seconds,
					"cpu": float64(cpu) / float64(time.Microsecond) / float64(got.Came),
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

func (r floodRun) measure(ctx context.Context, e *env, in *instance, round int, values func(floodResult, time.Duration) map[string]float64) (sample, error) {
	before := in.proc.cpuTime()
	got, err := r.load(ctx, e, in, round, time.Duration(e.seconds)*time.Second)
	if err != nil {
		return sample{}, err
	}
	cpu := in.proc.cpuTime() - before
	switch {
	case got.Wrong > 0:
		return sample{}, fmt.Errorf("%d datagrams were not what was sent", got.Wrong)
	case got.Came == 0:
		return sample{}, fmt.Errorf("nothing came of %d datagrams", got.Sent)
	}
	s := sample{Values: values(got, cpu)}
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

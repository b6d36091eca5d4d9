package main

import (
	"context"
	"fmt"
	"time"
)

// udpFloodSegments make a message of 60,000 bytes; the kernel takes 64 segments
// or 65,507 bytes.
const udpFloodSegments = 50

var udpFloodGSORun = floodRun{size: udpFloodLarge, segments: udpFloodSegments}

var udpFloodGSO = scenario{
	name:  "udp-flood-gso",
	title: "1200 bytes one way, with segmentation offload at both ends",
	setup: fmt.Sprintf("%d flows that take turns, datagrams of %d bytes, %d of them left to the kernel to cut from one message (UDP_SEGMENT), as fast as it goes for the time of a run and at most %d million; the sink has UDP_GRO and checks flow and number of each; lost is what was sent and did not come; throughput is payload that came; warm-up of %s; %s",
		udpFloodFlows, udpFloodLarge, udpFloodSegments, floodMost/1_000_000, warmUDP, udpPlacing),
	metrics: []metric{
		{Name: "throughput", Unit: "Gbit/s"},
		{Name: "lost", Unit: "%", Lower: true},
		{Name: "cpu", Unit: "ms/Gbit", Lower: true, ProxyOnly: true},
		{Name: "sent", Unit: "Gbit/s"},
	},
	traffic:   flows,
	addresses: 1,
	warm:      udpFloodGSORun.warm,
	run: func(ctx context.Context, e *env, in *instance, round int) (sample, error) {
		return udpFloodGSORun.measure(ctx, e, in, round, time.Millisecond, func(got floodResult) (float64, map[string]float64) {
			const gbit = 8 * udpFloodLarge / 1e9 // of a datagram
			came := float64(got.Came) * gbit
			return came, map[string]float64{"throughput": came / got.Seconds, "lost": got.lost(), "sent": float64(got.Sent) * gbit / got.Seconds}
		})
	},
}

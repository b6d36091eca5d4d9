package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

const (
	mixedStreams     = 8
	mixedConnections = 4
	// mixedLead is how long the streams run before and after the messages.
	mixedLead = 500 * time.Millisecond
)

var (
	mixedBulk  = iperfRun{program: "iperf3", streams: mixedStreams}
	mixedTrips = tripsRun{connections: mixedConnections, calm: true}
)

var mixed = scenario{
	name:  "mixed",
	title: "small messages beside bulk streams",
	setup: fmt.Sprintf("%d iperf3 streams, client to server, and from %s after their start on until %s before their end %d connections with one message of %d bytes at a time there and back; one proxy, a listening address and a server for each kind; %s, which sleeps when it has nothing to do; proxy CPU is that of all per Gbit of the streams; warm-up of both, one after the other; nothing pinned",
		mixedStreams, mixedLead, mixedLead, mixedConnections, pingBytes, tcpPlacing),
	metrics: append([]metric{
		{Name: "p99", Unit: "us", Lower: true},
		{Name: "p50", Unit: "us", Lower: true},
		{Name: "p999", Unit: "us", Lower: true},
		{Name: "rate", Unit: "round trips/s"},
		{Name: "throughput", Unit: "Gbit/s"},
	}, costMetrics("ms/Gbit")...),
	traffic:   bulk,
	addresses: 2,
	apart:     true,
	quick:     true,
	warm: func(ctx context.Context, e *env, in *instance) error {
		if err := mixedBulk.warm(ctx, e, in); err != nil {
			return err
		}
		_, err := mixedTrips.load(ctx, e, in, 1, warmPing)
		return err
	},
	run: func(ctx context.Context, e *env, in *instance, _ int) (sample, error) {
		return measured(ctx, in, time.Millisecond, func() (float64, map[string]float64, error) { return runMixed(ctx, e, in) })
	},
}

// runMixed returns the Gbit of the streams and the figures of both.
func runMixed(ctx context.Context, e *env, in *instance) (float64, map[string]float64, error) {
	d := time.Duration(e.seconds) * time.Second
	server, err := mixedBulk.startServer(ctx, e, in.servers[0])
	if err != nil {
		return 0, nil, err
	}
	defer server.kill()
	argv, err := mixedBulk.client(in.targets[0], "-t", strconv.FormatFloat((d+2*mixedLead).Seconds(), 'f', 0, 64))
	if err != nil {
		return 0, nil, err
	}
	var out bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout = &out
	client, err := e.startCommand("iperf3-client", syscall.SIGTERM, cmd)
	if err != nil {
		return 0, nil, err
	}
	defer client.stop()
	time.Sleep(mixedLead)
	trips, err := mixedTrips.load(ctx, e, in, 1, d)
	if err != nil {
		return 0, nil, err
	}
	select {
	case <-client.done:
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	case <-time.After(10 * time.Second):
		return 0, nil, fmt.Errorf("iperf3: no end")
	}
	got, err := mixedBulk.parse(out.String())
	values := trips.values()
	values["throughput"] = got.bits / got.seconds / 1e9
	return got.bits / 1e9, values, err
}

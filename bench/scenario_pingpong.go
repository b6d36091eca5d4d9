package main

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

const (
	// pingBytes is the message of the ping-pong in each direction.
	pingBytes = 64
	// warmPing is how long the unmeasured ping-pong lasts.
	warmPing = 300 * time.Millisecond
)

var pingPongScenarios = []scenario{pingPong(1), pingPong(16)}

func pingPong(connections int) scenario {
	run := tripsRun{connections: connections}
	return scenario{
		name:      fmt.Sprintf("ping-pong-%d", connections),
		title:     fmt.Sprintf("one message at a time on %d connection(s)", connections),
		setup:     fmt.Sprintf("%d connection(s), %d bytes there and back, TCP_NODELAY, %s; warm-up of %s; nothing pinned", connections, pingBytes, tripsPlacing, warmPing),
		metrics:   tripsMetrics,
		addresses: 1,
		quick:     true,
		traced:    connections == 1,
		warm:      run.warm,
		run:       run.measure,
	}
}

// tcpPlacing describes the load generator for the reports.
const tcpPlacing = "the load generator is one thread that is both the clients and the server, in an epoll loop with raw system calls (direct: it talks to itself)"

// tripsPlacing is that of a load generator whose core is busy.
const tripsPlacing = tcpPlacing + "; it never sleeps (spare is the share of the time in which it has nothing to do), which is in the machine's CPU"

var tripsMetrics = append(append([]metric{
	{Name: "rate", Unit: "round trips/s"},
	{Name: "p50", Unit: "us", Lower: true},
	{Name: "p99", Unit: "us", Lower: true},
	{Name: "p999", Unit: "us", Lower: true},
}, costMetrics("us/round trip")...), metric{Name: "spare", Unit: "% of load's time"})

// tripsRun is a ping-pong through an instance.
type tripsRun struct {
	connections int
	idle        int  // sessions that are open meanwhile, and have passed a message
	calm        bool // the load generator may sleep
}

func (r tripsRun) warm(ctx context.Context, e *env, in *instance) error {
	_, err := r.load(ctx, e, in, 0, warmPing)
	return err
}

// load has a load generator for one run, with the server and target of that
// number.
func (r tripsRun) load(ctx context.Context, e *env, in *instance, number int, d time.Duration) (tripsResult, error) {
	load, err := startTCPLoad(ctx, e, in.servers[number])
	if err != nil {
		return tripsResult{}, err
	}
	defer load.stop()
	return r.trips(ctx, load, in.targets[number], d)
}

func (r tripsRun) measure(ctx context.Context, e *env, in *instance, round int) (sample, error) {
	load, err := startTCPLoad(ctx, e, in.servers[0])
	if err != nil {
		return sample{}, err
	}
	defer load.stop()
	if r.idle > 0 {
		held, err := holdOpen(ctx, e, load, in.target(round), r.idle)
		if err != nil {
			return sample{}, err
		}
		defer held.stop()
		if _, err := held.ask(ctx, fmt.Sprintf("use %d", pingBytes), 20*time.Second); err != nil {
			return sample{}, err
		}
	}
	return measured(ctx, in, time.Microsecond, func() (float64, map[string]float64, error) {
		got, err := r.trips(ctx, load, in.target(round), time.Duration(e.seconds)*time.Second)
		return got.Trips, got.values(), err
	})
}

func (r tripsRun) trips(ctx context.Context, load *helper, target string, d time.Duration) (tripsResult, error) {
	command := "trips"
	if r.calm {
		command = "calm"
	}
	line, err := load.ask(ctx, fmt.Sprintf("%s %s %d %d %d", command, target, r.connections, pingBytes, d.Milliseconds()), d+3*tcpAnswer)
	if err != nil {
		return tripsResult{}, err
	}
	return parseTrips(line)
}

func (r tripsResult) values() map[string]float64 {
	return map[string]float64{"rate": r.Rate, "p50": r.P50, "p99": r.P99, "p999": r.P999, "spare": 100 * r.Spare}
}

// startTCPLoad starts a load generator that serves on an address.
func startTCPLoad(ctx context.Context, e *env, server string) (*helper, error) {
	load, err := e.startHelper(roleTCP, server)
	if err != nil {
		return nil, err
	}
	if err := load.waitListening(ctx, []string{server}); err != nil {
		load.stop()
		return nil, err
	}
	return load, nil
}

// holdOpen opens n sessions, and returns when a load generator's server has
// them all: a connected client alone may still be in the proxy's accept queue.
func holdOpen(ctx context.Context, e *env, load *helper, target string, n int) (*helper, error) {
	client, err := e.startHelper(roleHoldClient, target, strconv.Itoa(n))
	if err != nil {
		return nil, err
	}
	if _, err = client.ask(ctx, "open", 20*time.Second); err == nil {
		err = waitAccepted(ctx, load, n)
	}
	if err != nil {
		client.stop()
		return nil, err
	}
	return client, nil
}

func waitAccepted(ctx context.Context, load *helper, n int) error {
	deadline := time.Now().Add(15 * time.Second)
	for {
		text, err := load.ask(ctx, "accepted", 5*time.Second)
		if err != nil {
			return err
		}
		if accepted, err := strconv.Atoi(text); err == nil && accepted >= n {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("wait for sessions: %s of %d reached the server", text, n)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

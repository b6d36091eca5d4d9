package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

const (
	udpIperfBytes = 1200
	udpIperfMbit  = 400 // 41,667 datagrams per second
)

var (
	udpIperf        = udpIperfScenario("udp-iperf", "client to server", false)
	udpIperfReverse = udpIperfScenario("udp-iperf-reverse", "server to client", true)
)

func udpIperfScenario(name, direction string, reverse bool) scenario {
	run := udpIperfRun{reverse: reverse}
	return scenario{
		name:  name,
		title: "one stream at a fixed rate, " + direction,
		setup: fmt.Sprintf("iperf3 -u, 1 stream of %d bytes at %d Mbit/s, %s, its control connection through the same proxy by TCP; warm-up of %s; on 2 cores its client and server are pinned to the first and the proxy to the last (direct: one core each), with more every part has its own; one worker",
			udpIperfBytes, udpIperfMbit, direction, time.Second),
		metrics: []metric{
			{Name: "rate", Unit: "datagrams/s"},
			{Name: "lost", Unit: "%", Lower: true},
			{Name: "jitter", Unit: "us", Lower: true},
			{Name: "cpu", Unit: "us/datagram", Lower: true, ProxyOnly: true},
		},
		traffic:   flowsAndControl,
		addresses: 1,
		warm:      run.warm,
		run:       run.measure,
	}
}

// udpIperfRun is one iperf3 -u run through an instance.
type udpIperfRun struct{ reverse bool }

func (r udpIperfRun) warm(ctx context.Context, e *env, in *instance) error {
	_, err := r.load(ctx, e, in, 0, 1)
	return err
}

func (r udpIperfRun) measure(ctx context.Context, e *env, in *instance, round int) (sample, error) {
	return measured(ctx, in, time.Microsecond, func() (float64, map[string]float64, error) {
		got, err := r.load(ctx, e, in, round, e.seconds)
		return got.came, map[string]float64{"rate": got.came / got.seconds, "lost": 100 * (1 - got.came/got.sent), "jitter": got.jitter}, err
	})
}

// load starts a server for this one run, as iperfRun does.
func (r udpIperfRun) load(ctx context.Context, e *env, in *instance, round, seconds int) (got iperf3UDP, err error) {
	serverHost, serverPort, err := net.SplitHostPort(in.servers[0])
	if err != nil {
		return got, err
	}
	host, port, err := net.SplitHostPort(in.target(round))
	if err != nil {
		return got, err
	}
	var server *process
	core := e.places().server
	if in.proc == nil {
		core = e.places().directServer
	}
	err = onCore(core, func() (err error) {
		server, err = e.startProcess("iperf3-server", "iperf3", "-s", "-1", "-B", serverHost, "-p", serverPort)
		return err
	})
	if err != nil {
		return got, err
	}
	defer server.kill()
	if err := server.waitListening(ctx, in.servers[:1]); err != nil {
		return got, err
	}
	argv := []string{"iperf3", "-c", host, "-p", port, "-u", "-l", strconv.Itoa(udpIperfBytes), "-b", strconv.Itoa(udpIperfMbit) + "M",
		"-t", strconv.Itoa(seconds), "-w", "4M", "-J", "--connect-timeout", "3000"}
	if r.reverse {
		argv = append(argv, "-R")
	}
	var out string
	err = onCore(e.places().load, func() (err error) {
		out, err = runTool(ctx, time.Duration(seconds+10)*time.Second, argv...)
		return err
	})
	if err != nil {
		if msg := iperf3Error(out); msg != "" {
			err = fmt.Errorf("iperf3: %s", msg)
		}
		return got, err
	}
	return parseIperf3UDP(out)
}

// iperf3UDP is what an iperf3 -u run moved; jitter is in microseconds.
type iperf3UDP struct{ sent, came, seconds, jitter float64 }

// parseIperf3UDP takes the receiver's figures.
func parseIperf3UDP(out string) (iperf3UDP, error) {
	var r struct {
		Error string `json:"error"`
		End   struct {
			Sum struct {
				Seconds float64 `json:"seconds"`
				Jitter  float64 `json:"jitter_ms"`
				Lost    float64 `json:"lost_packets"`
				Packets float64 `json:"packets"`
			} `json:"sum"`
		} `json:"end"`
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		return iperf3UDP{}, fmt.Errorf("parse iperf3: %w", err)
	}
	if r.Error != "" {
		return iperf3UDP{}, fmt.Errorf("iperf3: %s", r.Error)
	}
	s := r.End.Sum
	if s.Seconds <= 0 || s.Packets <= 0 || s.Lost >= s.Packets {
		return iperf3UDP{}, errors.New("parse iperf3: the receiver counted nothing")
	}
	return iperf3UDP{sent: s.Packets, came: s.Packets - s.Lost, seconds: s.Seconds, jitter: s.Jitter * 1000}, nil
}

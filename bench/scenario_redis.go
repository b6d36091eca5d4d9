package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

var (
	redisOne     = redisScenario(redisRun{pipeline: 1, rate: 40_000})
	redisSixteen = redisScenario(redisRun{pipeline: 16, rate: 300_000})
)

const redisClients = 50

func redisScenario(run redisRun) scenario {
	return scenario{
		name:  fmt.Sprintf("redis-%d", run.pipeline),
		title: fmt.Sprintf("Redis, %d GET(s) at a time on a connection", run.pipeline),
		setup: fmt.Sprintf("redis-benchmark -t get -P %d, %d connections, 1 thread, values of 3 bytes, %d requests for each second of a run; redis-server that saves nothing; warm-up of the requests of a second as SETs; nothing pinned", run.pipeline, redisClients, run.rate),
		metrics: append([]metric{
			{Name: "rate", Unit: "requests/s"},
			{Name: "p50", Unit: "us", Lower: true},
			{Name: "p99", Unit: "us", Lower: true},
		}, costMetrics("us/request")...),
		addresses: 1,
		quick:     run.pipeline == 1,
		traced:    run.pipeline == 1,
		backend:   startRedis,
		warm: func(ctx context.Context, e *env, in *instance) error {
			_, err := run.load(ctx, in, "set", run.rate)
			return err
		},
		run: func(ctx context.Context, e *env, in *instance, _ int) (sample, error) {
			requests := run.rate * e.seconds
			if e.traced {
				requests /= 10
			}
			return measured(ctx, in, time.Microsecond, func() (float64, map[string]float64, error) {
				got, err := run.load(ctx, in, "get", requests)
				return float64(requests), map[string]float64{"rate": got.rate, "p50": got.p50, "p99": got.p99}, err
			})
		},
	}
}

// redisRun is one redis-benchmark run through an instance. It takes a number of
// requests and no time: about what a direct connection does in it.
type redisRun struct{ pipeline, rate int }

func (r redisRun) load(ctx context.Context, in *instance, test string, requests int) (redisResult, error) {
	host, port, err := net.SplitHostPort(in.target(0))
	if err != nil {
		return redisResult{}, err
	}
	out, err := runTool(ctx, 60*time.Second, "redis-benchmark", "-h", host, "-p", port, "-c", strconv.Itoa(redisClients),
		"-P", strconv.Itoa(r.pipeline), "-t", test, "-n", strconv.Itoa(requests), "--csv")
	if err != nil {
		return redisResult{}, err
	}
	return parseRedis(out)
}

// redisResult is what redis-benchmark told of its test; latencies are in
// microseconds.
type redisResult struct{ rate, p50, p99 float64 }

// parseRedis reads redis-benchmark --csv of one test: names and values.
func parseRedis(out string) (redisResult, error) {
	// What cannot be asked of the server, as CONFIG, is a line before them.
	_, table, ok := strings.Cut(out, "\"test\"")
	rows, err := csv.NewReader(strings.NewReader("\"test\"" + table)).ReadAll()
	if !ok || err != nil || len(rows) != 2 {
		return redisResult{}, fmt.Errorf("parse redis-benchmark: no table of one test in %q", out)
	}
	values := make(map[string]float64)
	for i, name := range rows[0][1:] {
		if values[name], err = strconv.ParseFloat(rows[1][i+1], 64); err != nil {
			return redisResult{}, fmt.Errorf("parse redis-benchmark: %w", err)
		}
	}
	r := redisResult{rate: values["rps"], p50: 1000 * values["p50_latency_ms"], p99: 1000 * values["p99_latency_ms"]}
	if r.rate == 0 || r.p50 == 0 || r.p99 == 0 {
		return r, fmt.Errorf("parse redis-benchmark: no result in %q", out)
	}
	return r, nil
}

func startRedis(ctx context.Context, e *env, addrs []string) (stop func(), err error) {
	var hosts []string
	port := ""
	for _, addr := range addrs {
		host, p, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		hosts, port = append(hosts, host), p
	}
	argv := append([]string{"redis-server", "--port", port, "--save", "", "--appendonly", "no", "--protected-mode", "no", "--dir", e.dir, "--bind"}, hosts...)
	server, err := e.startProcess("redis", argv...)
	if err != nil {
		return nil, err
	}
	if err := server.waitListening(ctx, addrs); err != nil {
		server.stop()
		return nil, err
	}
	return server.stop, nil
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// startHTTP serves answers with bodies of 128 bytes at /128 and of 16 KiB at
// /16384 from an nginx with one worker. Their headers are about 160 bytes. The
// big one leaves by one system call, with its header: by sendfile it took five.
func startHTTP(ctx context.Context, e *env, addrs []string) (stop func(), err error) {
	if err := os.WriteFile(e.path(strconv.Itoa(wrkLarge)), bytes.Repeat([]byte("x"), wrkLarge), 0o644); err != nil {
		return nil, err
	}
	var b strings.Builder
	writeNginxMain(&b, e, "http", 1, "", "")
	b.WriteString("http {\n  access_log off;\n  keepalive_requests 1000000000;\n  keepalive_timeout 10m;\n  server {\n")
	for _, a := range addrs {
		fmt.Fprintf(&b, "    listen %s backlog=4096;\n", a)
	}
	fmt.Fprintf(&b, "    location = /%d {\n      return 200 %s;\n    }\n", wrkSmall, strings.Repeat("x", wrkSmall))
	fmt.Fprintf(&b, "    root %s;\n    open_file_cache max=10 inactive=1h;\n    open_file_cache_valid 1h;\n    output_buffers 2 64k;\n  }\n}\n", e.dir)
	argv, err := nginxCommand(e, "http", b.String())
	if err != nil {
		return nil, err
	}
	p, err := e.startProcess("http", argv...)
	if err != nil {
		return nil, err
	}
	if err := p.waitListening(ctx, addrs); err != nil {
		p.stop()
		return nil, err
	}
	return p.stop, nil
}

// The bodies of the answers, in bytes.
const (
	wrkSmall = 128
	wrkLarge = 16 << 10
)

// wrkRun is one wrk run through an instance.
type wrkRun struct {
	connections int
	body        int
	header      string // extra request header, empty for none
}

func wrkMetrics(rate, cost string) []metric {
	return append([]metric{
		{Name: "rate", Unit: rate},
		{Name: "p50", Unit: "us", Lower: true},
		{Name: "p99", Unit: "us", Lower: true},
		{Name: "p999", Unit: "us", Lower: true},
	}, costMetrics(cost)...)
}

func (r wrkRun) warm(ctx context.Context, e *env, in *instance) error {
	_, err := r.load(ctx, e, in, e.rounds, 1)
	return err
}

func (r wrkRun) measure(ctx context.Context, e *env, in *instance, round int) (sample, error) {
	var got wrkResult
	s, err := measured(ctx, in, time.Microsecond, func() (float64, map[string]float64, error) {
		var err error
		got, err = r.load(ctx, e, in, round, e.seconds)
		return got.requests, map[string]float64{"rate": got.rate, "p50": got.p50, "p99": got.p99, "p999": got.p999}, err
	})
	s.Flaw = got.errors
	return s, err
}

// wrkScript has wrk tell a quantile that --latency leaves out. A script without
// a function for requests costs nothing during the run.
const wrkScript = "done = function(summary, latency)\n  io.write(string.format(\"p999 %d\\n\", latency:percentile(99.9)))\nend\n"

func (r wrkRun) load(ctx context.Context, e *env, in *instance, round, seconds int) (wrkResult, error) {
	script := e.path("wrk.lua")
	if err := os.WriteFile(script, []byte(wrkScript), 0o644); err != nil {
		return wrkResult{}, err
	}
	argv := []string{"wrk", "-t", "1", "-c", strconv.Itoa(r.connections), "-d", strconv.Itoa(seconds) + "s",
		"--timeout", "5s", "--latency", "-s", script}
	if r.header != "" {
		argv = append(argv, "-H", r.header)
	}
	out, err := runTool(ctx, time.Duration(seconds+10)*time.Second, append(argv, fmt.Sprintf("http://%s/%d", in.target(round), r.body))...)
	if err != nil {
		return wrkResult{}, err
	}
	return parseWrk(out)
}

// wrkResult is what wrk --latency printed; latencies are in microseconds.
type wrkResult struct {
	requests, rate, p50, p99, p999 float64
	errors                         string // empty when there were none
}

var (
	wrkRequests = regexp.MustCompile(`(?m)^\s*(\d+) requests in `)
	wrkRate     = regexp.MustCompile(`(?m)^Requests/sec:\s+([\d.]+)`)
	wrkQuantile = regexp.MustCompile(`(?m)^\s+(50|99)%\s+([\d.]+)(us|ms|s|m)\s*$`)
	wrkSlowest  = regexp.MustCompile(`(?m)^p999 (\d+)`)
	wrkErrors   = regexp.MustCompile(`(?m)^\s*(Socket errors: .*|Non-2xx or 3xx responses: .*)$`)
)

func parseWrk(out string) (wrkResult, error) {
	var r wrkResult
	m := wrkRequests.FindStringSubmatch(out)
	rate := wrkRate.FindStringSubmatch(out)
	quantiles := wrkQuantile.FindAllStringSubmatch(out, -1)
	slowest := wrkSlowest.FindStringSubmatch(out)
	if m == nil || rate == nil || len(quantiles) != 2 || slowest == nil {
		return r, fmt.Errorf("parse wrk: unexpected output, ending in %q", lastLine(out))
	}
	r.requests, _ = strconv.ParseFloat(m[1], 64)
	r.rate, _ = strconv.ParseFloat(rate[1], 64)
	r.p999, _ = strconv.ParseFloat(slowest[1], 64)
	for _, q := range quantiles {
		v, err := strconv.ParseFloat(q[2], 64)
		if err != nil {
			return r, fmt.Errorf("parse wrk: %w", err)
		}
		v *= map[string]float64{"us": 1, "ms": 1e3, "s": 1e6, "m": 60e6}[q[3]]
		if q[1] == "50" {
			r.p50 = v
		} else {
			r.p99 = v
		}
	}
	var errs []string
	for _, e := range wrkErrors.FindAllStringSubmatch(out, -1) {
		errs = append(errs, strings.TrimSpace(e[1]))
	}
	r.errors = strings.Join(errs, "; ")
	if r.requests == 0 {
		return r, errors.New("wrk: no request was answered; " + r.errors)
	}
	return r, nil
}

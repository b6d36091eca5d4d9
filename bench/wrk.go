package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// wrkConnections is how many wrk keeps open, over one thread.
const wrkConnections = 64

// startHTTP serves a small answer from an nginx with one worker. The answer is
// 2 bytes of body in about 160 bytes, so the cost is in the messages.
func startHTTP(ctx context.Context, e *env, addrs []string) (stop func(), err error) {
	var b strings.Builder
	writeNginxMain(&b, e, "http", 1, "", "")
	b.WriteString("http {\n  access_log off;\n  keepalive_requests 1000000000;\n  keepalive_timeout 10m;\n  server {\n")
	for _, a := range addrs {
		fmt.Fprintf(&b, "    listen %s backlog=4096;\n", a)
	}
	b.WriteString("    return 200 ok;\n  }\n}\n")
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

// wrkRun is one wrk run through an instance.
type wrkRun struct {
	header string // extra request header, empty for none
}

func (r wrkRun) warm(ctx context.Context, e *env, in *instance) error {
	_, err := r.load(ctx, in, e.rounds, 1)
	return err
}

func (r wrkRun) measure(ctx context.Context, e *env, in *instance, round int) (sample, error) {
	var got wrkResult
	cpu, err := cpuPer(in, time.Microsecond, func() (float64, error) {
		var err error
		got, err = r.load(ctx, in, round, e.seconds)
		return got.requests, err
	})
	if err != nil {
		return sample{}, err
	}
	return sample{
		Values: map[string]float64{"rate": got.rate, "p50": got.p50, "p99": got.p99, "cpu": cpu},
		Flaw:   got.errors,
	}, nil
}

func (r wrkRun) load(ctx context.Context, in *instance, round, seconds int) (wrkResult, error) {
	argv := []string{"wrk", "-t", "1", "-c", strconv.Itoa(wrkConnections), "-d", strconv.Itoa(seconds) + "s",
		"--timeout", "5s", "--latency"}
	if r.header != "" {
		argv = append(argv, "-H", r.header)
	}
	out, err := runTool(ctx, time.Duration(seconds+10)*time.Second, append(argv, "http://"+in.target(round)+"/")...)
	if err != nil {
		return wrkResult{}, err
	}
	return parseWrk(out)
}

// wrkResult is what wrk --latency printed; latencies are in microseconds.
type wrkResult struct {
	requests, rate, p50, p99 float64
	errors                   string // empty when there were none
}

var (
	wrkRequests = regexp.MustCompile(`(?m)^\s*(\d+) requests in `)
	wrkRate     = regexp.MustCompile(`(?m)^Requests/sec:\s+([\d.]+)`)
	wrkQuantile = regexp.MustCompile(`(?m)^\s+(50|99)%\s+([\d.]+)(us|ms|s|m)\s*$`)
	wrkErrors   = regexp.MustCompile(`(?m)^\s*(Socket errors: .*|Non-2xx or 3xx responses: .*)$`)
)

func parseWrk(out string) (wrkResult, error) {
	var r wrkResult
	m := wrkRequests.FindStringSubmatch(out)
	rate := wrkRate.FindStringSubmatch(out)
	quantiles := wrkQuantile.FindAllStringSubmatch(out, -1)
	if m == nil || rate == nil || len(quantiles) != 2 {
		return r, fmt.Errorf("parse wrk: unexpected output, ending in %q", lastLine(out))
	}
	r.requests, _ = strconv.ParseFloat(m[1], 64)
	r.rate, _ = strconv.ParseFloat(rate[1], 64)
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

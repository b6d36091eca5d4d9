package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"time"
)

var bulkMetrics = append([]metric{{Name: "throughput", Unit: "Gbit/s"}}, costMetrics("ms/Gbit")...)

// warmMiB is one warm-up transfer over all streams: enough for buffers, pipes
// and windows to reach their sizes.
const warmMiB = 256

// iperfRun is one iperf transfer through an instance.
type iperfRun struct {
	program string // iperf3 or iperf
	streams int
	reverse bool
}

func (r iperfRun) warm(ctx context.Context, e *env, in *instance) error {
	size := warmMiB
	if r.program == "iperf" {
		size /= r.streams // its -n counts each stream, that of iperf3 all
	}
	_, err := r.transfer(ctx, e, in, 0, "-n", strconv.Itoa(size)+"M")
	return err
}

func (r iperfRun) measure(ctx context.Context, e *env, in *instance, round int) (sample, error) {
	return measured(ctx, in, time.Millisecond, func() (float64, map[string]float64, error) {
		got, err := r.transfer(ctx, e, in, round, "-t", strconv.Itoa(e.seconds))
		return got.bits / 1e9, map[string]float64{"throughput": got.bits / got.seconds / 1e9}, err
	})
}

func (r iperfRun) transfer(ctx context.Context, e *env, in *instance, round int, amount ...string) (transfer, error) {
	server, err := r.startServer(ctx, e, in.servers[0])
	if err != nil {
		return transfer{}, err
	}
	defer server.kill()
	argv, err := r.client(in.target(round), amount...)
	if err != nil {
		return transfer{}, err
	}
	out, err := runTool(ctx, time.Duration(e.seconds+10)*time.Second, argv...)
	if err != nil {
		if msg := iperf3Error(out); msg != "" {
			err = fmt.Errorf("%s: %s", r.program, msg)
		}
		return transfer{}, err
	}
	return r.parse(out)
}

// startServer starts a server for one run, so that a run that went wrong leaves
// no busy server to the next. The caller kills it.
func (r iperfRun) startServer(ctx context.Context, e *env, addr string) (*process, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	argv := []string{r.program, "-s", "-B", host, "-p", port}
	if r.program == "iperf3" {
		argv = append(argv, "-1")
	}
	server, err := e.startProcess(r.program+"-server", argv...)
	if err != nil {
		return nil, err
	}
	if err := server.waitListening(ctx, []string{addr}); err != nil {
		server.kill()
		return nil, err
	}
	return server, nil
}

// client is the command of a client.
func (r iperfRun) client(target string, amount ...string) ([]string, error) {
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}
	argv := []string{r.program, "-c", host, "-p", port, "-P", strconv.Itoa(r.streams)}
	if r.reverse {
		argv = append(argv, "-R")
	}
	if r.program == "iperf3" {
		argv = append(argv, "-J", "--connect-timeout", "3000")
	} else {
		argv = append(argv, "-f", "b") // not -y C: it rounds the times and has no sum
	}
	return append(argv, amount...), nil
}

func (r iperfRun) parse(out string) (transfer, error) {
	if r.program == "iperf3" {
		return parseIperf3(out)
	}
	return parseIperf2(out)
}

// transfer is what a run moved.
type transfer struct {
	bits    float64
	seconds float64
}

type iperf3Report struct {
	Error string `json:"error"`
	End   struct {
		Received struct {
			Seconds float64 `json:"seconds"`
			Bytes   float64 `json:"bytes"`
		} `json:"sum_received"`
	} `json:"end"`
}

// parseIperf3 takes the receiver's count: the sender's includes what was still
// in socket buffers at the end.
func parseIperf3(out string) (transfer, error) {
	var r iperf3Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		return transfer{}, fmt.Errorf("parse iperf3: %w", err)
	}
	if r.Error != "" {
		return transfer{}, fmt.Errorf("iperf3: %s", r.Error)
	}
	if r.End.Received.Seconds <= 0 || r.End.Received.Bytes <= 0 {
		return transfer{}, errors.New("parse iperf3: the receiver counted nothing")
	}
	return transfer{bits: r.End.Received.Bytes * 8, seconds: r.End.Received.Seconds}, nil
}

// iperf3Error is the reason iperf3 -J gives when it ends with an error.
func iperf3Error(out string) string {
	var r iperf3Report
	if json.Unmarshal([]byte(out), &r) != nil {
		return ""
	}
	return r.Error
}

var iperf2Line = regexp.MustCompile(`(?m)^\[\s*(SUM|\*?\d+)\]\s+[\d.]+-\s*([\d.]+) sec\s+(\d+) Bytes`)

// parseIperf2 reads iperf -f b: one line per stream, its number behind a star
// when it was reversed, and, with several, a sum.
// The sum's own interval ends with the first stream, so the longest counts.
func parseIperf2(out string) (transfer, error) {
	var streams, sum, seconds float64
	for _, m := range iperf2Line.FindAllStringSubmatch(out, -1) {
		end, err1 := strconv.ParseFloat(m[2], 64)
		bytes, err2 := strconv.ParseFloat(m[3], 64)
		if err := errors.Join(err1, err2); err != nil {
			return transfer{}, fmt.Errorf("parse iperf: %w", err)
		}
		seconds = max(seconds, end)
		if m[1] == "SUM" {
			sum += bytes
		} else {
			streams += bytes
		}
	}
	if seconds <= 0 || streams <= 0 {
		return transfer{}, fmt.Errorf("parse iperf: no result in %q", lastLine(out))
	}
	if sum > 0 && sum != streams {
		return transfer{}, fmt.Errorf("parse iperf: the streams moved %.0f bytes, their sum says %.0f", streams, sum)
	}
	return transfer{bits: streams * 8, seconds: seconds}, nil
}

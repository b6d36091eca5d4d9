package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func mustRead(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestParseIperf3(t *testing.T) {
	got, err := parseIperf3(mustRead(t, "iperf3.json"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (transfer{bits: 1875378176 * 8, seconds: 1.008009}); got != want {
		t.Errorf("got %+v, want the receiver's count %+v", got, want)
	}
}

func TestParseIperf3Errors(t *testing.T) {
	refused := mustRead(t, "iperf3-refused.json")
	for name, text := range map[string]string{"refused": refused, "empty": "", "nothing moved": "{}"} {
		if got, err := parseIperf3(text); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
	if got, want := iperf3Error(refused), "unable to connect to server: Connection refused"; got != want {
		t.Errorf("iperf3Error = %q, want %q", got, want)
	}
}

func TestParseIperf2(t *testing.T) {
	text := mustRead(t, "iperf2.txt")
	got, err := parseIperf2(text)
	if err != nil {
		t.Fatal(err)
	}
	if want := (transfer{bits: 2102395060 * 8, seconds: 1.0108}); got != want {
		t.Errorf("three streams: got %+v, want %+v", got, want)
	}

	single := "[  1] 0.0000-0.0654 sec  67108864 Bytes  8209286400 bits/sec\n"
	got, err = parseIperf2(single)
	if want := (transfer{bits: 67108864 * 8, seconds: 0.0654}); err != nil || got != want {
		t.Errorf("one stream: got %+v, %v, want %+v", got, err, want)
	}

	got, err = parseIperf2(mustRead(t, "iperf2-reverse.txt"))
	if want := (transfer{bits: 1718353920 * 8, seconds: 1.0181}); err != nil || got != want {
		t.Errorf("three streams, reversed: got %+v, %v, want %+v", got, err, want)
	}

	missing := strings.Replace(text, "[  3] 0.0000", "[  3] x", 1)
	if got, err := parseIperf2(missing); err == nil {
		t.Errorf("sum without one of its streams: got %+v, want an error", got)
	}
	if got, err := parseIperf2("connect failed: Connection refused\n"); err == nil {
		t.Errorf("refused: got %+v, want an error", got)
	}
}

func TestParseWrk(t *testing.T) {
	tests := []struct {
		file string
		want wrkResult
	}{
		{"wrk.txt", wrkResult{requests: 128401, rate: 42771.88, p50: 1250, p99: 16400, p999: 21307,
			errors: "Socket errors: connect 2, read 7, write 0, timeout 1"}},
		{"wrk-503.txt", wrkResult{requests: 38858, rate: 35327.99, p50: 80, p99: 12570, p999: 17120,
			errors: "Non-2xx or 3xx responses: 38858"}},
	}
	for _, tt := range tests {
		got, err := parseWrk(mustRead(t, tt.file))
		if err != nil {
			t.Errorf("%s: %v", tt.file, err)
			continue
		}
		if got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.file, got, tt.want)
		}
	}
}

func TestParseWrkErrors(t *testing.T) {
	text := mustRead(t, "wrk.txt")
	none := strings.Replace(text, "128401 requests", "0 requests", 1)
	for name, text := range map[string]string{
		"no output":   "unable to connect to 127.0.0.1:1 Connection refused\n",
		"no request":  none,
		"no latency":  strings.Replace(text, "99%", "98%", 1),
		"no slowest":  strings.Replace(text, "p999", "p998", 1),
		"cut in half": text[:len(text)/2],
	} {
		if got, err := parseWrk(text); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
}

func TestParsePgbench(t *testing.T) {
	text := mustRead(t, "pgbench.txt")
	got, err := parsePgbench(text)
	if want := (pgbenchResult{transactions: 19567, rate: 20398.121459, mean: 784}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	failed := strings.Replace(text, "failed transactions: 0", "failed transactions: 7", 1)
	if got, err := parsePgbench(failed); err != nil || got.failed != 7 {
		t.Errorf("with failures: got %+v, %v, want 7 of them", got, err)
	}
	for name, text := range map[string]string{"refused": "pgbench: error: connection failed\n", "no rate": strings.Replace(text, "tps", "x", 1)} {
		if got, err := parsePgbench(text); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
}

func TestParseRedis(t *testing.T) {
	text := mustRead(t, "redis.txt")
	got, err := parseRedis(text)
	if want := (redisResult{rate: 26525.20, p50: 591, p99: 10591}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	head, _, _ := strings.Cut(text, "\n")
	for name, text := range map[string]string{
		"refused":   "Could not connect to Redis at 127.0.0.1:1: Connection refused\n",
		"no values": head + "\n",
		"two tests": text + text[len(head)+1:],
		"no rate":   strings.Replace(text, "rps", "x", 1),
		"no number": strings.Replace(text, "26525.20", "many", 1),
	} {
		if got, err := parseRedis(text); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
}

func TestParseStrace(t *testing.T) {
	got, err := parseStrace(mustRead(t, "strace.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"mmap": 30, "openat": 34, "total": 145} {
		if got[name] != want {
			t.Errorf("%s: got %v calls, want %v", name, got[name], want)
		}
	}
	for name, text := range map[string]string{"nothing was called": "", "another column": " 1.00 0.1 5 x read\n"} {
		if got, err := parseStrace(text); err == nil {
			t.Errorf("%s: got %v, want an error", name, got)
		}
	}
}

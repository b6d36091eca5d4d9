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
		{"wrk.txt", wrkResult{requests: 128401, rate: 42771.88, p50: 1250, p99: 16400,
			errors: "Socket errors: connect 2, read 7, write 0, timeout 1"}},
		{"wrk-503.txt", wrkResult{requests: 38858, rate: 35327.99, p50: 80, p99: 12570,
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
		"cut in half": text[:len(text)/2],
	} {
		if got, err := parseWrk(text); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
}

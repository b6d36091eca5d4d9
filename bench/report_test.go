package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// madeUp is a report of figures that nobody measured, with all that one can
// hold.
func madeUp() *report {
	run := func(rate, cpu float64) sample {
		return sample{Values: map[string]float64{"throughput": rate, "cpu": cpu}}
	}
	metrics := []metric{{Name: "throughput", Unit: "Gbit/s"}, {Name: "cpu", Unit: "ms/Gbit", Lower: true, ProxyOnly: true}}
	bulk := &result{Name: "bulk-1", Title: "one stream", Setup: "made up", Metrics: metrics, Contestants: []*series{
		{Name: direct, Samples: []sample{run(40, 0), run(42, 0)}},
		{Name: "nginx", Samples: []sample{run(19, 40), run(21, 42)}, Syscalls: map[string]float64{"readv": 8, "total": 8}},
		{Name: "nginx-2", Samples: []sample{run(17, 50), run(18, 52)}},
		{Name: "haproxy", Samples: []sample{run(10, 90), run(12, 100)}},
		{Name: "haproxy-splice", Samples: []sample{run(22, 20), run(24, 24)}},
		{Name: weir, Samples: []sample{run(29, 10), run(31, 11)}, Syscalls: map[string]float64{"splice": 4, "total": 4}, Runtime: &goRuntime{Work: 60}},
	}}
	held := func(name string, kb float64) *series {
		return &series{Name: name, Samples: []sample{{Values: map[string]float64{"used": kb}}}}
	}
	memory := &result{Name: "idle", Title: "memory", Setup: "made up",
		Metrics:     []metric{{Name: "used", Unit: "KB/session", Lower: true, ProxyOnly: true}},
		Contestants: []*series{held("nginx", 9), held("haproxy", 4), held(weir, 0.5)}}
	for _, r := range []*result{bulk, memory} { // as many as it takes to tell anything apart
		for _, s := range r.Contestants {
			s.Samples = slices.Repeat(s.Samples, 4/len(s.Samples))
		}
		r.Rounds = 4
	}
	return &report{
		Format: reportFormat, Rounds: 4, Seconds: 3, Patience: "0s", Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Took: "1m0s", Commit: "0123456789ab",
		Machine:  machine{CPU: "an abacus", Cores: 2, Memory: "1 GiB", Kernel: "6.0", Load: "0.10", Vulnerabilities: "0 known, 0 mitigated, 0 open"},
		Versions: map[string]string{weir: "weir 1", "nginx": "nginx 2"}, Tuning: map[string]string{"nginx": "worker_processes 1"},
		Scenarios: []*result{bulk, memory},
	}
}

func TestReportGolden(t *testing.T) {
	var b bytes.Buffer
	printReport(&b, madeUp(), "made-up")
	golden := filepath.Join("testdata", "report.md")
	if *update {
		if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(mustRead(t, "report.md"), b.String()); diff != "" {
		t.Errorf("-want +got (go test ./bench -update rewrites it):\n%s", diff)
	}
}

func TestSaveAndLoad(t *testing.T) {
	base := filepath.Join(t.TempDir(), "r")
	want := madeUp()
	if err := want.save(base); err != nil {
		t.Fatal(err)
	}
	got, err := loadReport(base + ".json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, file := range []string{base + ".md", base + ".svg", base + "-direct.svg"} {
		if info, err := os.Stat(file); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
}

func TestParseReportErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "not a bench report in JSON",
		"# weir against nginx":            "not a bench report in JSON",
		"[1]":                             "not a bench report in JSON",
		"{}":                              "no format number",
		`{"format":0}`:                    "format 0, and this bench reads 1",
		`{"format":99,"rounds":"five"}`:   "format 99, and this bench reads 1",
		`{"format":1,"rounds":"five"}`:    "cannot unmarshal",
		`{"format":1,"scenarios":[null]}`: "scenario 1 has no metrics",
		`{"format":1,"scenarios":[{"name":"x"}]}`:                                               "scenario 1 has no metrics",
		`{"format":1,"scenarios":[{"name":"x","metrics":[{"name":"v"}],"contestants":[null]}]}`: "scenario x has an empty contestant",
	} {
		if _, err := parseReport([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	if _, err := loadReport(filepath.Join("testdata", "wrk.txt")); err == nil || !strings.Contains(err.Error(), "wrk.txt") {
		t.Errorf("got %v, want the file's name in it", err)
	}
}

package main

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 100}, 3.5},
	} {
		if got := median(tt.values); got != tt.want {
			t.Errorf("median(%v) = %v, want %v", tt.values, got, tt.want)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing = %v, want NaN", got)
	}
	values := []float64{2, 1}
	median(values)
	if values[0] != 2 {
		t.Error("median reordered its argument")
	}
}

func TestRatio(t *testing.T) {
	if got := ratio(3, 2); got != 1.5 {
		t.Errorf("ratio(3, 2) = %v", got)
	}
	if got := ratio(3, 0); !math.IsNaN(got) {
		t.Errorf("ratio(3, 0) = %v, want NaN", got)
	}
	if got := formatRatio(ratio(1, math.NaN())); got != "-" {
		t.Errorf("ratio to nothing prints %q, want -", got)
	}
}

// runs makes a series whose samples hold the values of metric "v".
func runs(name string, values ...float64) *series {
	s := &series{Name: name}
	for i, v := range values {
		s.Samples = append(s.Samples, sample{Round: i + 1, Values: map[string]float64{"v": v}})
	}
	return s
}

var rateOnly = []metric{{Name: "v", Unit: "x"}}

func TestBestRival(t *testing.T) {
	r := &result{Metrics: rateOnly, Contestants: []*series{runs(direct, 1, 99), runs("nginx", 10, 12), runs("haproxy", 4, 30, 8), runs(weir, 1)}}
	if got := r.bestRival(r.Metrics[0]).median; got != 11 {
		t.Errorf("higher is better: got %v, want nginx's 11", got)
	}
	r.Metrics = []metric{{Name: "v", Lower: true}}
	if got := r.bestRival(r.Metrics[0]).median; got != 8 {
		t.Errorf("lower is better: got %v, want haproxy's 8", got)
	}
	alone := &result{Metrics: rateOnly, Contestants: []*series{runs(direct, 1), runs(weir, 1)}}
	if got := alone.bestRival(alone.Metrics[0]); got.ok() {
		t.Errorf("no rivals: got %v, want none", got)
	}
}

// One setting is faster and another cheaper: the product is the faster one, in
// all its figures.
func TestChosenSetting(t *testing.T) {
	rate, cpu := metric{Name: "rate"}, metric{Name: "cpu", Lower: true, ProxyOnly: true}
	run := func(name string, rate, cpu float64) *series {
		return &series{Name: name, Samples: []sample{{Values: map[string]float64{"rate": rate, "cpu": cpu}}}}
	}
	failed := &series{Name: "haproxy-splice-2", Samples: []sample{{Failed: "no answer"}}}
	r := &result{Metrics: []metric{rate, cpu}, Contestants: []*series{
		run(direct, 100, 0), run("nginx", 10, 3), run("nginx-2", 12, 5), failed, run("haproxy", 7, 8), run("haproxy-splice", 8, 9), run(weir, 15, 4), run("weir-2", 14, 1),
	}}
	for product, want := range map[string]string{direct: direct, "nginx": "nginx-2", "haproxy": "haproxy-splice", weir: weir} {
		if got := r.chosen(product).Name; got != want {
			t.Errorf("%s: got %s, want %s", product, got, want)
		}
	}
	if got := r.bestRival(cpu).median; got != 5 {
		t.Errorf("CPU of the better rival: got %v, want the 5 of nginx-2, not the 3 of nginx", got)
	}
	if got := r.figure(weir, cpu).median; got != 4 {
		t.Errorf("CPU of weir: got %v, want 4", got)
	}
	if got := r.figure(direct, cpu); got.ok() {
		t.Errorf("direct has no proxy, yet its CPU is %v", got)
	}
	if got := r.chosen("envoy"); got != nil {
		t.Errorf("one that did not take part: got %+v", got)
	}
}

func TestProductAndSetting(t *testing.T) {
	for name, want := range map[string][2]string{
		"nginx": {"nginx", ""}, "nginx-2": {"nginx", "2"}, "haproxy-splice-2": {"haproxy", "splice-2"},
	} {
		if got := [2]string{productOf(name), settingOf(name)}; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestSpreadSkipsFailedRuns(t *testing.T) {
	s := runs(weir, 1, 3)
	s.Samples = append(s.Samples, sample{Round: 3, Failed: "no answer"})
	if got := s.spread("v"); got.median != 2 || got.min != 1 || got.max != 3 {
		t.Errorf("got %v, want 2 (1..3)", got)
	}
	if !s.flawed() {
		t.Error("a series with a failed run is not flawed")
	}
	rep := report{Scenarios: []*result{{Contestants: []*series{s}}}}
	if got := rep.failedRuns(); got != 1 {
		t.Errorf("failedRuns = %d, want 1", got)
	}
}

func TestSummaryMarksWhatIsNotToldApart(t *testing.T) {
	summary := func(own *series) string {
		var b strings.Builder
		printSummary(&b, &report{Scenarios: []*result{{
			Name: "s", Metrics: rateOnly,
			Contestants: []*series{runs(direct, 40), runs("nginx", 1), runs("nginx-2", 10, 11, 12, 13, 14), runs("haproxy", 9), own},
		}}})
		return b.String()
	}
	if got := summary(runs(weir, 11.5, 12.5, 16, 18, 20)); !strings.Contains(squeeze(got), "| s | v x | 40.0 | 12.0 [2] | 9.00 | 16.0 | 0.40 | 1.33 ~ |") {
		t.Errorf("what is not told apart is not marked:\n%s", got)
	}
	if got := summary(runs(weir, 13.5, 15, 18, 19, 20)); !strings.Contains(squeeze(got), "| 18.0 | 0.45 | 1.50 |") {
		t.Errorf("told apart, though the ranges overlap:\n%s", got)
	}
}

func TestPrintScenario(t *testing.T) {
	ms := []metric{{Name: "v", Unit: "x"}, {Name: "c", Unit: "y", Lower: true, ProxyOnly: true}}
	bad := runs("haproxy", 5)
	bad.Samples[0].Flaw = "Socket errors: read 3"
	var b strings.Builder
	printScenario(&b, &result{Name: "s", Title: "title", Setup: "sizes", Rounds: 1, Metrics: ms,
		Contestants: []*series{runs(direct, 10), bad}})
	for _, want := range []string{
		"| direct  | 10.0 (10.0..10.0)  | -   | 1.00       | 2.00     | -        |",
		"| haproxy | 5.00 (5.00..5.00) ! | -   | 0.50       | 1.00     | -        |",
		"- ! haproxy, round 1: Socket errors: read 3",
	} {
		if !strings.Contains(squeeze(b.String()), squeeze(want)) {
			t.Errorf("no line %q in\n%s", want, b.String())
		}
	}
}

// Another weir is compared with weir figure by figure, and is nobody's rival.
func TestBefore(t *testing.T) {
	ms := []metric{{Name: "v", Unit: "x"}, {Name: "c", Unit: "y", Lower: true, ProxyOnly: true}}
	r := &result{Name: "s", Metrics: ms, Contestants: []*series{
		runs(direct, 50, 50, 50, 50), runs("nginx", 9, 9, 9, 9), runs(weir, 12, 12, 12, 12), runs(weir+twoWorkers, 30, 30, 30, 30), runs(before, 10, 10, 10, 10),
	}}
	var b strings.Builder
	printScenario(&b, r)
	if want := "weir with one worker x before (`~`: not told apart): v 1.20."; !strings.Contains(b.String(), want) {
		t.Errorf("no line %q in\n%s", want, b.String())
	}
	if got := r.bestRival(ms[0]).median; got != 9 {
		t.Errorf("best rival: got %v, want nginx's 9", got)
	}
	o, err := parseOptions([]string{"-proxies", "weir", "-before", "build/weir"})
	if err != nil || !slices.Equal(o.proxies, []string{weir, before}) {
		t.Errorf("got %v, %v", o.proxies, err)
	}
	if _, err := parseOptions([]string{"-proxies", before}); err == nil {
		t.Error("before without a program: want an error")
	}
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

func TestParseOptions(t *testing.T) {
	o, err := parseOptions([]string{"-quick", "-proxies", "nginx, weir", "-only", "idle-64k,short"})
	if err != nil {
		t.Fatal(err)
	}
	if o.rounds != 2 || o.seconds != 1 || len(o.proxies) != 2 || o.proxies[1] != weir || len(o.only) != 2 {
		t.Errorf("got %+v", o)
	}
	o, err = parseOptions([]string{"-only", "short, udp"})
	if err != nil {
		t.Fatal(err)
	}
	if len(o.only) != 9 || o.only[0] != "short" || o.only[1] != udpEchoOne.name {
		t.Errorf("short and all of UDP: got %v", o.only)
	}
	o, err = parseOptions([]string{"-quick"})
	if err != nil {
		t.Fatal(err)
	}
	if o.syscalls || slices.Contains(o.proxies, weir+twoWorkers) || !slices.Contains(o.proxies, haproxySplice) ||
		slices.Contains(o.only, "idle-64k") || !slices.Contains(o.only, "short") {
		t.Errorf("quick: got %+v", o)
	}
	for _, args := range [][]string{{"-only", "bulk-9"}, {"-proxies", "envoy"}, {"-rounds", "-1"}, {"x"}} {
		if _, err := parseOptions(args); err == nil {
			t.Errorf("parseOptions(%q): want an error", args)
		}
	}
}

func TestSlowest(t *testing.T) {
	for _, tt := range []struct {
		name           string
		lower          bool
		nginx, haproxy []float64
		weir           []float64
		last, apart    bool
	}{
		{"last by far", false, []float64{9, 9, 9, 9}, []float64{8, 8, 8, 8}, []float64{7, 7, 7, 7}, true, true},
		{"last by its median", false, []float64{9, 9, 9, 9}, []float64{6, 8, 8, 9}, []float64{5, 7, 7, 9}, true, false},
		{"in the middle", false, []float64{9, 9, 9, 9}, []float64{6, 6, 6, 6}, []float64{7, 7, 7, 7}, false, false},
		{"less is better", true, []float64{9, 9, 9, 9}, []float64{8, 8, 8, 8}, []float64{10, 10, 10, 10}, true, true},
		{"one rival", false, []float64{9, 9, 9, 9}, nil, []float64{7, 7, 7, 7}, true, true},
		{"no rival", false, nil, nil, []float64{7, 7, 7, 7}, false, false},
		{"no figure", false, []float64{9, 9, 9, 9}, nil, nil, false, false},
	} {
		r := &result{Name: tt.name, Metrics: []metric{{Name: "v", Lower: tt.lower}},
			Contestants: []*series{runs("nginx", tt.nginx...), runs("haproxy", tt.haproxy...), runs(weir, tt.weir...)}}
		if last, apart := r.slowest(); last != tt.last || apart != tt.apart {
			t.Errorf("%s: last %v, told apart %v", tt.name, last, apart)
		}
	}
	got := (&report{Scenarios: []*result{
		{Name: "a", Metrics: rateOnly, Contestants: []*series{runs("nginx", 9, 9, 9, 9), runs(weir, 7, 7, 7, 7)}},
		{Name: "b", Metrics: rateOnly, Contestants: []*series{runs("nginx", 8), runs(weir, 7)}},
		{Name: "c", Metrics: rateOnly, Contestants: []*series{runs("nginx", 8), runs(weir, 9)}},
	}}).describeSlowest()
	if want := "First figures in which weir is the last of all, told apart from the next: a; by its median only: b."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlb/weir/bench/overload"
)

// madeUpOverload is a report of runs that went as they should.
func madeUpOverload() *overloadReport {
	r := &overloadReport{Format: overloadFormat, Processes: 2, Best: 1000, TargetMs: 200, Limit: overloadLimit(2), Runs: []*overloadRun{
		{Name: "x 1", Clients: 120, Seconds: 20, Rate: 990, P95: 174, High: 175, Low: 176},
		{Name: "x 3", Clients: 360, Seconds: 20, Rate: 995, P95: 522, High: 523, Low: 524},
		{Name: "x 3 limited", Clients: 360, Limited: true, Seconds: 20, Rate: 992, P95: 195, High: 198, Low: 600, HighRate: 250},
	}}
	for i, run := range r.Runs {
		for s := range 20 {
			for tenth := range 10 {
				p := overload.Point{Seconds: float64(s) + float64(tenth+1)/10, P95: run.P95, High: run.High, Low: run.Low, UnderWay: run.Clients}
				if i == 2 {
					p.Limits, p.InFlight, p.Waiting = []int{70, 68}, 137, 223
				}
				run.Series = append(run.Series, p)
			}
		}
	}
	return r
}

func TestOverloadChecks(t *testing.T) {
	for name, test := range map[string]struct {
		spoil  func(r *overloadReport)
		missed int // index of the only one; -1 = none
	}{
		"all well":               {func(*overloadReport) {}, -1},
		"latency does not grow":  {func(r *overloadReport) { r.Runs[1].P95 = 300 }, 0},
		"the limit is too high":  {func(r *overloadReport) { r.Runs[2].P95 = 221 }, 1},
		"the limit is too low":   {func(r *overloadReport) { r.Runs[2].P95 = 179 }, 1},
		"the server idles":       {func(r *overloadReport) { r.Runs[2].Rate = 880 }, 2},
		"the important wait":     {func(r *overloadReport) { r.Runs[2].High = 200 }, 3},
		"nobody important comes": {func(r *overloadReport) { r.Runs[2].HighRate = 0 }, 3},
		"all wait alike":         {func(r *overloadReport) { r.Runs[2].Low = 198 }, 4},
		"who waits is refused":   {func(r *overloadReport) { r.Runs[2].Low, r.Runs[2].Refused = 198, 5 }, -1},
	} {
		t.Run(name, func(t *testing.T) {
			r := madeUpOverload()
			test.spoil(r)
			for i, c := range r.checks() {
				if c.reached == (i == test.missed) {
					t.Errorf("%s: want %s, found %s, reached %v", c.what, c.want, c.found, c.reached)
				}
			}
		})
	}
}

func TestOverloadSum(t *testing.T) {
	began := time.Now()
	seen := overload.Seen{Began: began}
	for i := range 1000 { // one every 10 ms, for 10 s; slow in the first half
		took := 100 * time.Millisecond
		if i < 500 {
			took = time.Second
		}
		turn := overload.Turn{Answered: began.Add(time.Duration(i) * 10 * time.Millisecond), Took: took}
		seen.Server = append(seen.Server, turn)
		if i%10 == 0 {
			seen.High = append(seen.High, turn)
		} else {
			seen.Low = append(seen.Low, turn)
		}
	}
	var r overloadRun
	r.sum(seen, began.Add(10*time.Second))
	if r.Seconds != 10 || r.Settled != 5 || r.P50 != 100 || r.P95 != 100 || r.High != 100 || r.Low != 100 || r.Rate != 100 || r.HighRate != 10 || r.LowRate != 90 {
		t.Errorf("got %+v", r)
	}
}

func TestShare(t *testing.T) {
	for _, n := range []int{0, 1, 12, 13, 324} {
		sum, most, least := 0, 0, n
		for i := range 3 {
			one := share(n, 3, i)
			sum, most, least = sum+one, max(most, one), min(least, one)
		}
		if sum != n || most-least > 1 {
			t.Errorf("%d among 3: %d in all, from %d to %d", n, sum, least, most)
		}
	}
}

func TestOverloadReport(t *testing.T) {
	base := filepath.Join(t.TempDir(), "o")
	r := madeUpOverload()
	if err := r.save(base); err != nil {
		t.Fatal(err)
	}
	var saved overloadReport
	b, err := os.ReadFile(base + ".json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &saved); err != nil || len(saved.Runs) != 3 || len(saved.Runs[2].Series) != 200 || saved.Runs[2].Series[0].Limit() != 138 {
		t.Errorf("saved %+v, %v", saved, err)
	}
	if _, err := parseReport(b); err == nil {
		t.Error("it is taken for a comparison's report")
	}
	md, err := os.ReadFile(base + ".md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"](o.svg)", "2 processes that share", "| x 3 limited | 360 ", "| 138 = 70 + 68 | 137 ", `target     = "200ms"`} {
		if !strings.Contains(string(md), want) {
			t.Errorf("no %q in\n%s", want, md)
		}
	}
	if n := strings.Count(string(md), "| 138 = 70 + 68 |"); n != 20 {
		t.Errorf("%d lines of the limited run, want one for each second", n)
	}
}

func TestPlotOverload(t *testing.T) {
	svg := mustPlot(t, madeUpOverload().plot)
	for _, want := range []string{">x 3 limited<", ">waiting in weir<", ">limit<", ">target<", ">clients of high priority<", "stroke-dasharray"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %q in the plot", want)
		}
	}
	r := madeUpOverload()
	r.Runs = r.Runs[:2]
	if svg := mustPlot(t, r.plot); strings.Contains(svg, ">limit<") {
		t.Error("runs without a limit have a line for it")
	}
	r.Runs = nil
	if err := r.plot(new(bytes.Buffer)); err != nil {
		t.Errorf("nothing: %v", err)
	}
}

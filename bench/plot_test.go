package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

func mustPlot(t *testing.T, draw func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := draw(&b); err != nil {
		t.Fatal(err)
	}
	dec := xml.NewDecoder(bytes.NewReader(b.Bytes()))
	for {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			return b.String()
		} else if err != nil {
			t.Fatalf("not XML: %v", err)
		}
	}
}

// marks counts dots and rings of a colour, those in the legend too.
func marks(svg, color string) (filled, rings int) {
	for path := range strings.SplitSeq(svg, "<path") {
		_, style, _ := strings.Cut(path, "style=")
		switch {
		case !strings.Contains(path, "A3,3"): // an arc of the dots' radius
		case strings.Contains(style, "fill:"+color):
			filled++
		case strings.Contains(style, "stroke:"+color):
			rings++
		}
	}
	return filled, rings
}

func TestPlotRivals(t *testing.T) {
	r := madeUp()
	svg := mustPlot(t, r.plotRivals)
	for _, want := range []string{">bulk-1<", ">idle<", "font-family:Liberation Sans,Arial"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %q in the plot", want)
		}
	}
	if filled, rings := marks(svg, "#0072B2"); filled != 3 || rings != 0 {
		t.Errorf("first figures of two scenarios and the legend: got %d dots and %d rings", filled, rings)
	}
	if filled, rings := marks(svg, "#D55E00"); filled != 2 || rings != 0 {
		t.Errorf("CPU of one scenario and the legend: got %d dots and %d rings", filled, rings)
	}
	r.Scenarios[0].Contestants[5].Samples[0].Values["throughput"] = 20
	if filled, rings := marks(mustPlot(t, r.plotRivals), "#0072B2"); filled != 2 || rings != 1 {
		t.Errorf("one that is not told apart: got %d dots and %d rings", filled, rings)
	}
	if mustPlot(t, madeUp().plotRivals) != svg {
		t.Error("the same report gives another plot")
	}
}

func TestPlotDirect(t *testing.T) {
	svg := mustPlot(t, madeUp().plotDirect)
	if !strings.Contains(svg, ">bulk-1<") || strings.Contains(svg, ">idle<") {
		t.Error("want the scenario with a direct connection, and only that")
	}
}

func TestPlotFarAway(t *testing.T) {
	r := &report{Scenarios: []*result{{Name: "s", Metrics: rateOnly, Contestants: []*series{runs("nginx", 1), runs(weir, 19)}}}}
	if svg := mustPlot(t, r.plotRivals); !strings.Contains(svg, ">19<") || !strings.Contains(svg, ">4<") || strings.Contains(svg, ">8<") {
		t.Error("want an axis up to 4 and a mark with its number")
	}
}

func TestPlotNothing(t *testing.T) {
	mustPlot(t, new(report).plotRivals)
	mustPlot(t, new(report).plotDirect)
}

func TestVersusRival(t *testing.T) {
	rate := &result{Metrics: []metric{{Name: "v"}}, Contestants: []*series{runs("nginx", 10, 10, 10, 10), runs(weir, 20, 20, 20, 20)}}
	if times, apart := rate.versusRival(rate.Metrics[0]); times != 2 || !apart {
		t.Errorf("twice the rate: got %v, %v", times, apart)
	}
	cpu := &result{Metrics: []metric{{Name: "v", Lower: true}}, Contestants: []*series{runs("nginx", 10), runs(weir, 5, 20)}}
	if times, apart := cpu.versusRival(cpu.Metrics[0]); times != 0.8 || apart {
		t.Errorf("a quarter more CPU, perhaps: got %v, %v", times, apart)
	}
	if times, _ := cpu.versusRival(cpu.metric("none")); !math.IsNaN(times) {
		t.Errorf("no such metric: got %v", times)
	}
}

func TestTimesTicks(t *testing.T) {
	var labels []string
	for _, tick := range timesTicks([]dots{{times: []float64{math.NaN(), 0.3, 1.1}}}) {
		labels = append(labels, tick.Label)
	}
	if got, want := strings.Join(labels, " "), "0.25 0.375 0.5 0.75 1 1.5 2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

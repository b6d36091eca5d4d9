package adaptive

import (
	"math"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestAIMD(t *testing.T) {
	a := aimd{target: 200 * ms, backoff: 0.9}
	for _, tt := range []struct {
		limit    float64
		quantile time.Duration
		peak     int
		want     float64
	}{
		{100, 201 * ms, 100, 90},
		{15, 201 * ms, 15, 13}, // the floor of 13.5
		{5, 201 * ms, 5, 4},
		{2, 201 * ms, 2, 1}, // at least one less
		{100, 200 * ms, 100, 100}, // near
		{100, 187 * ms, 100, 100},
		{100, 185 * ms, 100, 101},
		{100, 10 * ms, 50, 101},
		{100, 10 * ms, 49, 100}, // not used
		{1, 10 * ms, 0, 2},
		{100, 201 * ms, 0, 90}, // slow, used or not
	} {
		if got := a.decide(tt.limit, measured{quantile: tt.quantile, peak: tt.peak}); got != tt.want {
			t.Errorf("limit %v, %v, %d in flight: %v, want %v", tt.limit, tt.quantile, tt.peak, got, tt.want)
		}
	}
}

func same(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestGradientStep(t *testing.T) {
	for _, tt := range []struct {
		mean time.Duration
		peak int
		want float64
	}{
		{100 * ms, 100, 100.8}, // 4 more, a fifth of it at once
		{149 * ms, 100, 100.8}, // within the tolerance
		{200 * ms, 100, 95.8},  // 100 * 0.75 + 4
		{9000 * ms, 100, 90.8}, // an outlier counts as half at most
		{100 * ms, 49, 100},    // not used
		{9000 * ms, 49, 100},
	} {
		g := gradient{long: float64(100 * ms), windows: gradientWarmUp, fits: 100}
		got := g.decide(100, measured{mean: tt.mean, peak: tt.peak})
		if tt.peak >= 100 && !same(got, tt.want) || tt.peak < 100 && got != tt.want {
			t.Errorf("mean %v, %d in flight: %v, want %v", tt.mean, tt.peak, got, tt.want)
		}
	}
}

func TestGradientLearns(t *testing.T) {
	var g gradient
	for i := range gradientWarmUp {
		g.learn(float64(i+1), 10, true)
	}
	if !same(g.long, 5.5) {
		t.Errorf("after the first windows the mean is %v, want the plain one", g.long)
	}
	for _, tt := range []struct {
		name         string
		short, limit float64
		usedUp       bool
		want         float64
	}{
		{"faster", 90, 100, true, 100 - 10*2.0/601},
		{"slower, with room below the limit", 130, 100, false, 100 + 30*2.0/601},
		{"slower, at the limit", 130, 100, true, 100},
		{"slower, though the limit was halved", 130, 49, true, 103},
		{"much faster", 40, 100, true, (100 - 60*2.0/601) * 0.9},
	} {
		g := gradient{long: 100, windows: gradientWarmUp, fits: 100}
		if g.learn(tt.short, tt.limit, tt.usedUp); !same(g.long, tt.want) {
			t.Errorf("%s: the mean is %v, want %v", tt.name, g.long, tt.want)
		}
	}
}

func TestVegasStep(t *testing.T) {
	for _, tt := range []struct {
		limit float64
		mean  time.Duration
		peak  int
		want  float64
	}{
		{50, 100 * ms, 50, 56}, // nothing queues: + beta
		{50, 102 * ms, 50, 56}, // 1 queues
		{50, 104 * ms, 50, 51}, // 2
		{50, 108 * ms, 50, 50}, // 4, between alpha and beta
		{50, 113 * ms, 50, 50}, // 6, not above beta
		{50, 120 * ms, 50, 49}, // 9
		{50, 120 * ms, 24, 50}, // not used
		{200, 100 * ms, 200, 212},
		{200, 102 * ms, 200, 202},
		{200, 120 * ms, 200, 198},
		{5, 100 * ms, 5, 11},  // no logarithm below 1
		{50, 90 * ms, 50, 50}, // a new fastest one: nothing to compare with
	} {
		v := vegas{unloaded: 100 * ms, due: 1}
		if got := v.decide(tt.limit, measured{mean: tt.mean, peak: tt.peak}); got != tt.want {
			t.Errorf("limit %v, mean %v, %d in flight: %v, want %v", tt.limit, tt.mean, tt.peak, got, tt.want)
		}
		if v.unloaded != min(100*ms, tt.mean) {
			t.Errorf("mean %v: without load it takes %v", tt.mean, v.unloaded)
		}
	}
}

// Each probe halves the limit for a window and brings it back.
func TestVegasProbes(t *testing.T) {
	lots := 0
	v := vegas{lot: func() float64 { lots++; return 0 }, unloaded: 50 * ms}
	const limit = 12
	loaded := measured{mean: 100 * ms, peak: 2} // not used: the limit stays
	const every = vegasProbe * limit / 2
	for round := range 2 {
		for i := range every - 1 {
			if got := v.decide(limit, loaded); got != limit {
				t.Fatalf("round %d, window %d: the limit is %v", round, i, got)
			}
		}
		if got := v.decide(limit, loaded); got != limit/2 {
			t.Fatalf("round %d: the probe begins with a limit of %v", round, got)
		}
		if got := v.decide(limit/2, measured{mean: 80 * ms, peak: 2}); got != limit || v.unloaded != 80*ms {
			t.Fatalf("round %d: after the probe the limit is %v, the latency without load %v", round, got, v.unloaded)
		}
	}
	if lots != 2 {
		t.Errorf("%d lots were drawn for 2 probes", lots)
	}
}

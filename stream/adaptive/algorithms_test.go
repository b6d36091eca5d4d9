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
		{2, 201 * ms, 2, 1},       // at least one less
		{100, 200 * ms, 100, 99},  // close
		{100, 193 * ms, 100, 100}, // near
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
		v := vegas{mean: float64(tt.mean), unloaded: float64(100 * ms), due: 1}
		if got := v.decide(tt.limit, measured{mean: tt.mean, peak: tt.peak}); got != tt.want {
			t.Errorf("limit %v, mean %v, %d in flight: %v, want %v", tt.limit, tt.mean, tt.peak, got, tt.want)
		}
		if v.unloaded != float64(min(100*ms, tt.mean)) {
			t.Errorf("mean %v: without load it takes %v", tt.mean, time.Duration(v.unloaded))
		}
	}
}

// A window that is fast by chance counts a fifth.
func TestVegasSmoothes(t *testing.T) {
	var v vegas
	v.due = 1
	for range 10 {
		v.decide(20, measured{mean: 100 * ms, peak: 20})
	}
	v.decide(20, measured{mean: 50 * ms, peak: 20})
	if got := time.Duration(v.unloaded); got != 90*ms {
		t.Errorf("after one window of 50 ms among those of 100 it takes %v without load", got)
	}
}

// A probe halves the limit, passes over as many samples as the limit was, counts as
// many, and brings the limit back.
func TestVegasProbes(t *testing.T) {
	for _, tt := range []struct {
		name                  string
		limit                 float64
		settle, count         int // windows of 100 samples
		known, loaded, probed time.Duration
		want                  time.Duration // latency without load
	}{
		{"alone at the server", 12, 1, 1, 100 * ms, 150 * ms, 90 * ms, 90 * ms},
		{"not alone", 12, 1, 1, 100 * ms, 150 * ms, 140 * ms, 100 * ms},
		{"the server has become slower", 12, 1, 1, 100 * ms, 150 * ms, 149 * ms, 149 * ms},
		{"much in flight", 400, 4, 4, 100 * ms, 150 * ms, 90 * ms, 90 * ms},
	} {
		v := vegas{lot: func() float64 { return 0 }, mean: float64(tt.loaded), unloaded: float64(tt.known)}
		window := measured{n: 100, mean: tt.loaded, peak: 2} // not used: the limit stays
		for range 2 {
			for i := range int(vegasProbe*tt.limit/2) - 1 {
				if got := v.decide(tt.limit, window); got != tt.limit {
					t.Fatalf("%s: in window %d the limit is %v", tt.name, i, got)
				}
			}
			half := tt.limit / 2
			if got := v.decide(tt.limit, window); got != half {
				t.Fatalf("%s: the probe begins with a limit of %v", tt.name, got)
			}
			for i := range tt.settle {
				if got := v.decide(half, window); got != half {
					t.Fatalf("%s: in window %d of the probe the limit is %v", tt.name, i, got)
				}
			}
			window.mean = tt.probed
			for i := range tt.count {
				want := half
				if i == tt.count-1 {
					want = tt.limit
				}
				if got := v.decide(half, window); got != want {
					t.Fatalf("%s: in window %d of those that count the limit is %v, want %v", tt.name, i, got, want)
				}
			}
			window.mean = tt.loaded
			if !same(v.unloaded/float64(tt.want), 1) {
				t.Errorf("%s: without load it takes %v, want %v", tt.name, time.Duration(v.unloaded), tt.want)
			}
		}
	}
}

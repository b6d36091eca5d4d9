package main

import (
	"math"
	"slices"
	"strings"

	"golang.org/x/perf/benchmath"
)

// result is one scenario's outcome.
type result struct {
	Name        string    `json:"name"`
	Title       string    `json:"title"`
	Setup       string    `json:"setup"`
	Rounds      int       `json:"rounds"`
	Metrics     []metric  `json:"metrics"`
	Contestants []*series `json:"contestants"`
}

// series is one contestant's runs of a scenario.
type series struct {
	Name    string             `json:"name"`
	Median  map[string]float64 `json:"median,omitempty"`
	Samples []sample           `json:"samples"`
	// Syscalls counts system calls for each unit of the scenario's work, by
	// name; nil if nobody looked.
	Syscalls map[string]float64 `json:"syscalls,omitempty"`
	// Runtime is what weir's Go runtime did in all measured runs; nil for the
	// others.
	Runtime *goRuntime `json:"runtime,omitempty"`
}

// goRuntime is what a Go process did over a time.
type goRuntime struct {
	GCCycles float64 `json:"gc_cycles"`
	Objects  float64 `json:"allocated_objects"`
	Bytes    float64 `json:"allocated_bytes"`
	Work     float64 `json:"work"` // units of the scenario's work in that time
}

// spread is a metric over the rounds. Without a value every number is NaN.
type spread struct {
	median, min, max float64
	values           []float64 // in no order
}

var noSpread = spread{math.NaN(), math.NaN(), math.NaN(), nil}

func (s spread) ok() bool { return !math.IsNaN(s.median) }

// apart tells whether the runs tell the two apart: by the Mann-Whitney U test (two
// sides, 5 %), which asks nothing of how the figures scatter. It never does with
// fewer than four runs each, and unlike ranges it gains by more runs.
func (s spread) apart(o spread) bool {
	if !s.ok() || !o.ok() {
		return false
	}
	t := &benchmath.DefaultThresholds
	c := benchmath.AssumeNothing.Compare(benchmath.NewSample(slices.Clone(s.values), t), benchmath.NewSample(slices.Clone(o.values), t))
	return c.P < c.Alpha
}

func (s *series) spread(name string) spread {
	var values []float64
	for _, sm := range s.Samples {
		if v, ok := sm.Values[name]; ok {
			values = append(values, v)
		}
	}
	return spreadOf(values)
}

// setMedians fills Median for the saved report, which cannot hold NaN.
func (s *series) setMedians(ms []metric) {
	s.Median = make(map[string]float64)
	for _, m := range ms {
		if sp := s.spread(m.Name); sp.ok() && !(m.ProxyOnly && s.Name == direct) {
			s.Median[m.Name] = sp.median
		}
	}
}

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return noSpread
	}
	return spread{median: median(values), min: slices.Min(values), max: slices.Max(values), values: values}
}

// median is the middle value, or the mean of the two in the middle; NaN of
// nothing.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	v := slices.Sorted(slices.Values(values))
	mid := len(v) / 2
	if len(v)%2 == 1 {
		return v[mid]
	}
	return (v[mid-1] + v[mid]) / 2
}

// ratio is figure over base, NaN when there is none.
func ratio(figure, base float64) float64 {
	if base == 0 {
		return math.NaN()
	}
	return figure / base
}

func (r *result) series(name string) *series {
	for _, s := range r.Contestants {
		if s.Name == name {
			return s
		}
	}
	return nil
}

func (r *result) spread(name string, m metric) spread {
	s := r.series(name)
	if s == nil || (m.ProxyOnly && name == direct) {
		return noSpread
	}
	return s.spread(m.Name)
}

// products are what the summary compares, a column each.
var products = []string{direct, "nginx", "haproxy", weir}

// rivalProducts are those that weir is measured against.
var rivalProducts = []string{"nginx", "haproxy"}

// productOf is the part of a contestant's name before its setting.
func productOf(contestant string) string {
	name, _, _ := strings.Cut(contestant, "-")
	return name
}

// settingOf is the rest of the name: a variant, a number of workers or both;
// "" is one worker and nothing special.
func settingOf(contestant string) string {
	_, setting, _ := strings.Cut(contestant, "-")
	return setting
}

// chosen is the setting of a product that is best in the scenario's first
// figure, nil when none has it. All the product's figures are taken from it:
// the rate of one setting and the CPU of another are nobody's to have.
func (r *result) chosen(product string) *series {
	var best *series
	first := r.Metrics[0]
	for _, s := range r.Contestants {
		if productOf(s.Name) != product || !r.spread(s.Name, first).ok() {
			continue
		}
		if best == nil || first.better(r.spread(s.Name, first).median, r.spread(best.Name, first).median) {
			best = s
		}
	}
	return best
}

// figure is a product's in its chosen setting.
func (r *result) figure(product string, m metric) spread {
	s := r.chosen(product)
	if s == nil {
		return noSpread
	}
	return r.spread(s.Name, m)
}

// bestRival is the better of nginx and HAProxy in a metric, by median, each in
// its chosen setting.
func (r *result) bestRival(m metric) spread {
	best := noSpread
	for _, name := range rivalProducts {
		if s := r.figure(name, m); s.ok() && (!best.ok() || m.better(s.median, best.median)) {
			best = s
		}
	}
	return best
}

// slowest tells whether weir is the last of the products in the scenario's first
// figure, each in its chosen setting, and whether the runs tell it apart from
// the next.
func (r *result) slowest() (last, apart bool) {
	m := r.Metrics[0]
	own := r.figure(weir, m)
	if !own.ok() {
		return false, false
	}
	next := noSpread
	for _, name := range rivalProducts {
		s := r.figure(name, m)
		if s.ok() && !m.better(s.median, own.median) {
			return false, false
		}
		if s.ok() && (!next.ok() || m.better(next.median, s.median)) {
			next = s
		}
	}
	return next.ok(), own.apart(next)
}

func (m metric) better(a, b float64) bool {
	if m.Lower {
		return a < b
	}
	return a > b
}

func (s *series) flawed() bool {
	return slices.ContainsFunc(s.Samples, func(sm sample) bool { return sm.Flaw != "" || sm.Failed != "" })
}

package main

import (
	"math"
	"slices"
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

// spread is a metric over the rounds. Without a value every field is NaN.
type spread struct{ median, min, max float64 }

var noSpread = spread{math.NaN(), math.NaN(), math.NaN()}

func (s spread) ok() bool { return !math.IsNaN(s.median) }

// overlaps tells that the two ranges share a value, so that the runs do not
// tell the two apart.
func (s spread) overlaps(o spread) bool { return s.min <= o.max && o.min <= s.max }

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
	return spread{median: median(values), min: slices.Min(values), max: slices.Max(values)}
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

// bestRival is the better of nginx and HAProxy in a metric, by median.
func (r *result) bestRival(m metric) spread {
	best := noSpread
	for _, name := range rivals {
		s := r.spread(name, m)
		switch {
		case !s.ok():
		case !best.ok(), m.Lower && s.median < best.median, !m.Lower && s.median > best.median:
			best = s
		}
	}
	return best
}

func (s *series) flawed() bool {
	return slices.ContainsFunc(s.Samples, func(sm sample) bool { return sm.Flaw != "" || sm.Failed != "" })
}

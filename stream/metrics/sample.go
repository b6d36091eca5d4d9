package metrics

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/weirlb/weir/stream/stats"
)

// labels are a sample's labels in the order of their names. Many samples may
// share them: nobody changes them.
type labels []*dto.LabelPair

// with gives a family's labels values. prometheus.NewConstMetric makes them anew
// for each sample; with a thousand peers that was two thirds of all allocations and
// half of the time.
func (f *family) with(values ...string) labels {
	if len(values) != len(f.labels) {
		panic("metrics: " + f.name + " has labels " + strings.Join(f.labels, ", "))
	}
	out := make(labels, len(values))
	for i := range values {
		out[i] = &dto.LabelPair{Name: &f.labels[i], Value: &values[i]}
	}
	slices.SortFunc(out, func(a, b *dto.LabelPair) int { return strings.Compare(*a.Name, *b.Name) })
	return out
}

// sample is one value of a scrape.
type sample struct {
	family *family
	labels labels
	value  float64
}

// Desc implements prometheus.Metric.
func (s *sample) Desc() *prometheus.Desc { return s.family.desc }

// Write implements prometheus.Metric.
func (s *sample) Write(to *dto.Metric) error {
	to.Label = s.labels
	if s.family.kind == counter {
		to.Counter = &dto.Counter{Value: &s.value}
	} else {
		to.Gauge = &dto.Gauge{Value: &s.value}
	}
	return nil
}

// sink takes the samples of one scrape.
type sink struct{ out chan<- prometheus.Metric }

func (s sink) put(f *family, v float64, values ...string) { s.share(f, v, f.with(values...)) }

// share is put with labels that other samples have too.
func (s sink) share(f *family, v float64, l labels) { s.out <- &sample{f, l, v} }

func (s sink) durations(f *family, d *stats.Durations, values ...string) {
	below := uint64(0)
	buckets := make(map[float64]uint64, len(stats.Bounds))
	for i, bound := range stats.Bounds {
		below += d.Counts[i]
		buckets[bound.Seconds()] = below
	}
	count := below + d.Counts[len(stats.Bounds)]
	s.out <- prometheus.MustNewConstHistogram(f.desc, count, d.Sum.Seconds(), buckets, values...)
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

package adaptive

import "math"

const (
	// vegasProbe times the limit is after how many windows, at most, the latency
	// without load is measured anew, as in VegasLimit.
	vegasProbe = 30
	// vegasSmoothing is the part of a new window in the average.
	vegasSmoothing = 0.2
	// vegasFlat is the part of the latency that is left when the limit is halved, if
	// the latency does not come from the load.
	vegasFlat = 0.97
)

// vegas estimates how many of those in flight stand in a queue of the server, and
// keeps their number between two bounds: TCP Vegas (Brakmo and Peterson, 1995) for
// requests, with the bounds of VegasLimit of Netflix's concurrency-limits: alpha is
// 3, beta 6 times the decimal logarithm of the limit.
//
// Two things differ from VegasLimit. That takes the least mean of any window as the
// latency without load. Where work scatters, this is chance, and half of the server
// is left idle; here it is the least of a moving average. And VegasLimit takes the
// latency of some window for that without load from time to time. Under lasting
// overload each such time adds to the limit. Here the limit is halved for that, as
// BBR shrinks its own to find the round-trip time of an empty path (Cardwell et al.,
// "BBR: Congestion-Based Congestion Control", ACM Queue, 2016, ProbeRTT). If the
// latency comes down with it, but not to what was known, others load the server
// too, and what was known stays.
type vegas struct {
	lot func() float64 // 0..1

	mean     float64 // moving average, in nanoseconds; 0 = none yet
	unloaded float64 // the least of it since the last probe
	windows  int     // since the last probe
	due      float64 // part of vegasProbe after which the next one comes; 0 = draw it

	// While there is a probe.
	resume  float64 // the limit before it; 0 = there is none
	samples int     // so far
	counted int     // those in probed
	probed  float64 // their mean
}

func (v *vegas) decide(limit float64, m measured) float64 {
	if v.resume > 0 {
		return v.probe(limit, m)
	}
	if v.due == 0 {
		v.due = 0.5 + v.lot()/2 // so that limiters of one server do not probe together
	}
	v.windows++
	if float64(v.windows) >= v.due*vegasProbe*limit {
		v.resume = limit
		return limit / 2
	}
	if v.mean == 0 {
		v.mean, v.unloaded = float64(m.mean), float64(m.mean)
	}
	v.mean += (float64(m.mean) - v.mean) * vegasSmoothing
	if v.mean < v.unloaded {
		v.unloaded = v.mean
		return limit
	}
	if float64(m.peak*2) < limit {
		return limit // it is not the limit that bounds the load
	}
	step := math.Max(1, math.Floor(math.Log10(limit)))
	alpha, beta := 3*step, 6*step
	queued := math.Ceil(limit * (1 - v.unloaded/v.mean))
	switch {
	case queued <= step: // nothing queues
		return limit + beta
	case queued < alpha:
		return limit + step
	case queued > beta:
		return limit - step
	}
	return limit
}

// probe takes in a window of a probe. As many samples as the limit was are passed
// over: when the limit is halved, all that enter next do so together, and the first
// of them to be answered are those with the least work. As many are counted then.
func (v *vegas) probe(limit float64, m measured) float64 {
	v.samples += m.n
	if v.samples-m.n < int(v.resume) {
		return limit
	}
	v.counted += m.n
	v.probed += (float64(m.mean) - v.probed) * float64(m.n) / float64(v.counted)
	if v.counted < int(v.resume) {
		return limit
	}
	limit = v.resume
	unloaded := v.probed
	if v.probed < v.mean*vegasFlat {
		unloaded = min(unloaded, v.unloaded)
	}
	*v = vegas{lot: v.lot, mean: v.mean, unloaded: unloaded}
	return limit
}

package adaptive

import (
	"math"
	"time"
)

// vegasProbe times the limit is after how many windows, at most, the latency
// without load is measured anew, as in VegasLimit.
const vegasProbe = 30

// vegas estimates how many of those in flight stand in a queue of the server, and
// keeps their number between two bounds: TCP Vegas (Brakmo and Peterson, 1995) for
// requests, with the bounds of VegasLimit of Netflix's concurrency-limits: alpha is
// 3, beta 6 times the decimal logarithm of the limit.
//
// VegasLimit takes the latency of any window as that without load, from time to
// time. Under lasting overload each such time adds to the limit. Here the limit is
// halved for that window, as BBR shrinks its own to find the round-trip time of an
// empty path (Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue,
// 2016, ProbeRTT).
type vegas struct {
	lot func() float64 // 0..1

	unloaded time.Duration // mean of the fastest window since the last probe; 0 = not known
	windows  int           // since the last probe
	due      float64       // part of vegasProbe after which the next one comes; 0 = draw it
	resume   float64       // the limit before the probe; 0 = there is none
}

func (v *vegas) decide(limit float64, m measured) float64 {
	if v.resume > 0 {
		limit = v.resume
		*v = vegas{lot: v.lot, unloaded: m.mean}
		return limit
	}
	if v.due == 0 {
		v.due = 0.5 + v.lot()/2 // so that limiters of one server do not probe together
	}
	v.windows++
	if float64(v.windows) >= v.due*vegasProbe*limit {
		v.resume = limit
		return limit / 2
	}
	if v.unloaded == 0 || m.mean < v.unloaded {
		v.unloaded = m.mean
		return limit
	}
	if float64(m.peak*2) < limit {
		return limit // it is not the limit that bounds the load
	}
	step := math.Max(1, math.Floor(math.Log10(limit)))
	alpha, beta := 3*step, 6*step
	queued := math.Ceil(limit * (1 - float64(v.unloaded)/float64(m.mean)))
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

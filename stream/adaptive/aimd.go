package adaptive

import (
	"math"
	"time"
)

// aimd adds one to the limit while a percentile of the latency is well below the
// target, and multiplies it by backoff when it is above: additive increase and
// multiplicative decrease, after which several who share a server without knowing
// of each other have equal parts (Chiu and Jain, 1989). The step and the condition
// of use are those of AIMDLimit of Netflix's concurrency-limits, which looks at
// single answers; here a percentile of a window decides, so that a few slow answers
// are one decision at most.
type aimd struct {
	target  time.Duration
	backoff float64
}

func (a aimd) decide(limit float64, m measured) float64 {
	switch {
	case m.quantile > a.target:
		return min(math.Floor(limit*a.backoff), limit-1)
	case float64(m.quantile) > aimdClose*float64(a.target):
		return limit - 1
	}
	// The half and one: a limit of 1 grows while nothing is in flight but the one
	// who has just had its answer.
	if float64(m.peak*2+1) >= limit && float64(m.quantile) < aimdNear*float64(a.target) {
		return limit + 1
	}
	return limit
}

// aimdNear is the share of the target from which on the limit stays where it is. A
// limit that went on growing would overshoot again and again, and so half of the
// time all turns, the important ones too, would take longer than they should.
// aimdClose is the share from which on it shrinks by one: the wait for a slot comes
// on top of what the server takes, and shall be within the target too.
const (
	aimdNear  = 0.93
	aimdClose = 0.97
)

package adaptive

// The constants of Gradient2Limit of Netflix's concurrency-limits.
const (
	gradientTolerance = 1.5 // latency over the long-term mean at which the limit begins to shrink
	gradientSteepest  = 0.5 // what one window may claim, so that an outlier does no more than that
	gradientQueue     = 4   // what the limit grows by, before smoothing
	gradientSmoothing = 0.2 // part of the new value
	gradientWarmUp    = 10  // windows whose plain mean is the long-term mean
	gradientLong      = 600 // windows in the exponential average after that
)

// gradientRelearn is the weight of a window in the long-term mean once it is clear
// that the server, and not the limit, is slow; see learn.
const gradientRelearn = 0.1

// gradient compares the mean of a window with the long-term mean, and shrinks the
// limit in proportion when the window is slower by more than the tolerance:
// Gradient2Limit of Netflix's concurrency-limits, but for learn.
type gradient struct {
	long    float64 // long-term mean, in nanoseconds
	windows int     // in it, up to gradientWarmUp
	fits    float64 // the limit when the latency was within the tolerance last
}

func (g *gradient) decide(limit float64, m measured) float64 {
	short := float64(m.mean)
	g.learn(short, limit, m.peak >= int(limit))
	if float64(m.peak) < limit/2 {
		return limit // it is not the limit that bounds the load
	}
	slope := min(1, max(gradientSteepest, gradientTolerance*g.long/short))
	if slope == 1 {
		g.fits = limit
	}
	return limit*(1-gradientSmoothing) + (limit*slope+gradientQueue)*gradientSmoothing
}

// learn takes a window into the long-term mean. The original takes in all of them,
// and lasting overload makes that a circle: the limit lets latency rise up to the
// tolerance, the mean follows it, and allows a higher limit. So, when the limit is
// used up, slower windows teach nothing, unless the limit has been halved and the
// latency did not come down with it: then it is not the load, the server has become
// slower.
func (g *gradient) learn(short, limit float64, usedUp bool) {
	switch {
	case g.windows < gradientWarmUp:
		g.windows++
		g.long += (short - g.long) / float64(g.windows)
	case short <= g.long || !usedUp:
		g.long += (short - g.long) * 2 / (gradientLong + 1)
	case limit < g.fits/2:
		g.long += (short - g.long) * gradientRelearn
	}
	if g.long > 2*short { // after a long time of slowness: forget it faster
		g.long *= 0.9
	}
}

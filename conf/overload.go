package conf

import "time"

// This file is the model of what bounds the load: on an upstream, so that a slow
// server is not killed by those who wait for it, and on a listener.

// Queue is the `queue` block of an upstream: where sessions wait for a server.
type Queue struct {
	Max     int           // sessions that may wait at once, at least 1
	Timeout time.Duration // of one session's wait, and of a client's bytes under an adaptive limit of turns; never Off
}

// DefaultQueue returns the values of an empty block.
func DefaultQueue() Queue { return Queue{Max: 100, Timeout: 2 * time.Second} }

// CircuitBreaker is the `circuit_breaker` block of an upstream.
type CircuitBreaker struct {
	MaxSessions int           // that hold a server, over all workers; 0 = no limit
	MaxPending  int           // of these, those not connected yet; 0 = no limit
	MaxRetries  int           // of these, those at a later attempt than their first; 0 = no limit
	Failures    int           // within Window that open it; 0 = it never opens
	Window      time.Duration // never Off
	OpenFor     time.Duration // the first time; grows with each that follows; never Off
	Probes      int           // sessions that try, half open, and must all go well
}

// DefaultCircuitBreaker returns the values of an empty block, which limits
// nothing.
func DefaultCircuitBreaker() CircuitBreaker {
	return CircuitBreaker{Window: 10 * time.Second, OpenFor: 5 * time.Second, Probes: 3}
}

// LimitAlgorithm is the label of an `adaptive_limit` block.
type LimitAlgorithm string

// The algorithms.
const (
	AIMD     LimitAlgorithm = "aimd"
	Gradient LimitAlgorithm = "gradient"
	Vegas    LimitAlgorithm = "vegas"
)

// Measure is which latency an adaptive limit follows.
type Measure uint8

// The values of `adaptive_limit { measure }`.
const (
	MeasureConnect   Measure = iota // from the pick of a server to the connection
	MeasureFirstByte                // from the pick of a server to its first byte
	MeasureTurn                     // from a client's first bytes after an answer to the server's first byte after them
)

// Unit is what an adaptive limit counts.
type Unit uint8

// The values of `adaptive_limit { apply_to }`.
const (
	LimitSessions Unit = iota // sessions that hold a server
	LimitTurns                // turns under way
)

// String returns the configuration's word.
func (u Unit) String() string { return [...]string{"session", "turn"}[u] }

// AdaptiveLimit is the `adaptive_limit` block of an upstream.
type AdaptiveLimit struct {
	Algorithm LimitAlgorithm
	Min, Max  int // 1 <= Min <= Initial <= Max
	Initial   int
	Window    int // samples that a decision is made from
	Measure   Measure
	ApplyTo   Unit

	// AIMD only
	Target     time.Duration // latency bound; never Off
	Percentile float64       // of the window's samples, which is compared with it, 0..1
	Backoff    float64       // what the limit is multiplied with above it, 0..1
}

// DefaultAdaptiveLimit returns the values of an empty block. Target has none.
func DefaultAdaptiveLimit(a LimitAlgorithm) AdaptiveLimit {
	l := AdaptiveLimit{Algorithm: a, Min: 1, Max: 1000, Initial: 20, Window: 100, Measure: MeasureTurn, ApplyTo: LimitTurns}
	if a == AIMD {
		l.Percentile, l.Backoff = 0.95, 0.9
	}
	return l
}

// Priorities is how many priorities there are: 0, the most important, to
// Priorities-1.
const Priorities = 16

// DefaultPriority is a listener's unless it is set.
const DefaultPriority = 1

// Hedge is the `hedge` block of a listener: a second attempt to connect, to
// another server, while the first has not succeeded.
type Hedge struct {
	After      time.Duration // the first one's begin; Off = Percentile counts
	Percentile float64       // of the upstream's recent connect times, 0..1; 0 = After counts
	Max        float64       // share of the sessions that may have one, 0..1
}

// DefaultHedge returns the values of an empty block.
func DefaultHedge() Hedge { return Hedge{Percentile: 0.95, Max: 0.1} }

// ByteRate is bytes in a second; 0 = no limit.
type ByteRate int64

// Limits is the `limits` block of a listener, over all workers.
type Limits struct {
	Sessions          int // at once; 0 = no limit
	SessionsPerClient int // at once, of one client; 0 = no limit
	// A client is an address, or a network of such a prefix length.
	IPv4Prefix, IPv6Prefix int
	AcceptRate             Rate     // new sessions; 0 = no limit
	UploadRate             ByteRate // from the client, of each session
	DownloadRate           ByteRate // to the client, of each session
}

// DefaultLimits returns the values of an empty block, which limits nothing.
func DefaultLimits() Limits { return Limits{IPv4Prefix: 32, IPv6Prefix: 128} }

package upstream

import (
	"time"

	"github.com/weirlb/weir/conf"
)

// Load is how much a group has to do, and what bounds it.
type Load struct {
	Sessions int // that hold a peer, over all workers
	Pending  int // of these, those not connected yet
	Retries  int // of these, those at a later attempt than their first

	Queue   *conf.Queue // nil = there is none
	Waiting int         // sessions in it

	Circuit      *conf.CircuitBreaker // nil = there is none
	CircuitState CircuitState
	CircuitFor   time.Duration // how long an open one stays so
	Opened       uint64        // how often it has

	Limit *Limit // nil = there is none
}

// CircuitState is what a circuit breaker does with new sessions.
type CircuitState uint8

// The states.
const (
	CircuitClosed   CircuitState = iota // they pass
	CircuitOpen                         // they are refused
	CircuitHalfOpen                     // a few pass, to find out
)

// String returns the state as the API and metrics write it.
func (s CircuitState) String() string { return [...]string{"closed", "open", "half_open"}[s] }

// Limit is an adaptive limit at one moment.
type Limit struct {
	conf.AdaptiveLimit
	Limit    int           // now
	InFlight int           // sessions or turns that count against it
	Waiting  int           // turns that wait; sessions wait in the queue
	Latency  time.Duration // of the last window: the percentile of aimd, the mean of the others; 0 = no window yet
	Windows  uint64        // since it came
	Enforced bool          // false = it has turned itself off: turns are not seen
}

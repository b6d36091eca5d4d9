package conf

import "time"

// The balancing methods.
const (
	RoundRobin         = "round_robin"
	WeightedRoundRobin = "weighted_round_robin"
	LeastConn          = "least_conn"
	LeastTime          = "least_time"
	Hash               = "hash"
	IPHash             = "ip_hash"
	Maglev             = "maglev"
	Random             = "random"
	EpsilonGreedy      = "epsilon_greedy"
	First              = "first"
	Single             = "single"
)

// Time is what least_time measures.
type Time uint8

// The times, each from the pick of the peer on.
const (
	TimeConnect   Time = iota // until the connection stands
	TimeFirstByte             // until the peer's first byte, or its end of input
	TimeLastByte              // until the session's end
)

// Balance is the `balance` block: the method and its options. Options of other
// methods are at their defaults.
type Balance struct {
	Method     string
	Key        Template      // hash, maglev: never empty there
	Consistent bool          // hash
	TableSize  int           // maglev: a prime; 0 = fitted to the number of peers
	Time       Time          // least_time, and random by least_time
	Inflight   bool          // least_time, and random by least_time
	Choices    int           // random: 1 or 2
	By         string        // random with 2 choices: LeastConn or LeastTime
	Epsilon    float64       // epsilon_greedy: 0..1
	HalfLife   time.Duration // epsilon_greedy
	Failback   bool          // single
}

// MaxTableSize is the largest table of maglev.
const MaxTableSize = 5_000_011

// DefaultBalance returns the method's options at their defaults.
func DefaultBalance(method string) Balance {
	return Balance{Method: method, Time: TimeFirstByte, Choices: 1, By: LeastConn, Epsilon: 0.1, HalfLife: 10 * time.Second}
}

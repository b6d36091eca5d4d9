package overload

import (
	"math"
	"slices"
	"sort"
	"time"
)

// Turn is a question and its answer.
type Turn struct {
	Answered time.Time
	Took     time.Duration
}

// Turns are in the order of their answers.
type Turns []Turn

// answered adds one that was asked then and is answered now. Preconditions: no
// other goroutine adds meanwhile.
func (t Turns) answered(asked time.Time) Turns {
	now := time.Now()
	return append(t, Turn{now, now.Sub(asked)})
}

// Between returns those that were answered from an instant on and before another.
func (t Turns) Between(from, to time.Time) Turns {
	at := func(limit time.Time) int {
		return sort.Search(len(t), func(i int) bool { return !t[i].Answered.Before(limit) })
	}
	first := at(from)
	return t[first:max(first, at(to))]
}

// Percentile is the smallest latency that so large a share of the turns does not
// exceed; 0 of none.
func (t Turns) Percentile(share float64) time.Duration {
	if len(t) == 0 {
		return 0
	}
	took := make([]time.Duration, len(t))
	for i := range t {
		took[i] = t[i].Took
	}
	slices.Sort(took)
	return took[max(0, int(math.Ceil(share*float64(len(took))))-1)]
}

// TurnsOf are the turns of several crowds.
func TurnsOf(crowds ...*Crowd) Turns {
	var all Turns
	for _, c := range crowds {
		all = append(all, c.Turns()...)
	}
	slices.SortFunc(all, func(a, b Turn) int { return a.Answered.Compare(b.Answered) })
	return all
}

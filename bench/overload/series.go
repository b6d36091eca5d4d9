package overload

import "time"

// Point is one moment of a run, with the latencies of the second before it. Its
// times are for files: seconds since the run began, and latencies in
// milliseconds, 0 without an answer.
type Point struct {
	Seconds  float64 `json:"seconds"`
	Limits   []int   `json:"limits,omitempty"` // of each weir that has one
	InFlight int     `json:"in_flight"`        // by the count of all weirs
	Waiting  int     `json:"waiting"`          // turns, in all weirs
	UnderWay int     `json:"under_way"`        // at the server
	P95      float64 `json:"server_p95_ms"`
	High     float64 `json:"high_p95_ms"` // of clients of high priority, waits included
	Low      float64 `json:"low_p95_ms"`  // of clients of low priority
	Rate     float64 `json:"answers_per_second"`
}

// Limit is the sum of the limits, 0 if there is none.
func (p Point) Limit() int {
	sum := 0
	for _, l := range p.Limits {
		sum += l
	}
	return sum
}

// Seen is all that was seen of one run.
type Seen struct {
	Began             time.Time
	Moments           []Moment
	Server, High, Low Turns
}

// Series puts all into one line of time.
func (s Seen) Series() []Point {
	var all []Point
	for _, m := range s.Moments {
		p := Point{Seconds: m.At.Sub(s.Began).Seconds(), UnderWay: m.UnderWay}
		for _, l := range m.Limits {
			if l.Limit > 0 {
				p.Limits = append(p.Limits, l.Limit)
			}
			p.InFlight += l.InFlight
			p.Waiting += l.Waiting
		}
		last := func(t Turns) Turns { return t.Between(m.At.Add(-time.Second), m.At) }
		served := last(s.Server)
		p.Rate = float64(len(served)) / min(1, max(p.Seconds, WatchEvery.Seconds()))
		p.P95, p.High, p.Low = Milliseconds(served.Percentile(0.95)), Milliseconds(last(s.High).Percentile(0.95)), Milliseconds(last(s.Low).Percentile(0.95))
		all = append(all, p)
	}
	return all
}

// Milliseconds is a latency for a file, to 10 microseconds.
func Milliseconds(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}

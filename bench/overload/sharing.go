package overload

import (
	"container/heap"
	"time"
)

// sharing is a processor that its jobs share evenly. Up to capacity of them are
// served at full speed; more make each of them slower, and the whole no faster
// (processor sharing: L. Kleinrock, Queueing Systems, volume 2, section 4.4). It
// reads no clock.
type sharing struct {
	capacity int
	at       time.Time     // of the last change
	given    time.Duration // what a job would have been given that was always there
	jobs     jobs
}

// job is done when given has reached until.
type job struct {
	until time.Duration
	done  chan<- struct{} // has room for it
}

// stretch is how long a unit of work takes.
func (s *sharing) stretch() float64 {
	return max(1, float64(len(s.jobs))/float64(s.capacity))
}

// add is for a job of so much work. Preconditions: time has advanced to now.
func (s *sharing) add(work time.Duration, done chan<- struct{}) {
	heap.Push(&s.jobs, job{s.given + work, done})
}

// next is when the first job will be done unless another comes. Preconditions:
// there is a job.
func (s *sharing) next() time.Time {
	return s.at.Add(time.Duration(float64(s.jobs[0].until-s.given) * s.stretch()))
}

// advance lets time pass, and tells the jobs that are done by then. Every one of
// them makes the others faster.
func (s *sharing) advance(now time.Time) {
	for len(s.jobs) > 0 {
		at := s.next()
		if at.After(now) {
			s.given += time.Duration(float64(now.Sub(s.at)) / s.stretch())
			break
		}
		j := heap.Pop(&s.jobs).(job)
		s.at, s.given = at, j.until
		j.done <- struct{}{}
	}
	s.at = now
}

// jobs is a heap; the first is done first.
type jobs []job

func (j jobs) Len() int           { return len(j) }
func (j jobs) Less(a, b int) bool { return j[a].until < j[b].until }
func (j jobs) Swap(a, b int)      { j[a], j[b] = j[b], j[a] }
func (j *jobs) Push(one any)      { *j = append(*j, one.(job)) }

func (j *jobs) Pop() any {
	last := (*j)[len(*j)-1]
	*j = (*j)[:len(*j)-1]
	return last
}

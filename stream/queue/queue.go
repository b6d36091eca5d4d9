package queue

import (
	"math/bits"

	"github.com/weirlb/weir/conf"
)

// Queue is the line. Its zero value is empty and ready for use.
type Queue struct {
	lists [conf.Priorities]list
	busy  uint32 // bit p is set if the list of priority p has somebody
	n     int
	last  uint64 // number of who came last
}

// list is the line of one priority.
type list struct{ first, last *Place }

// Place is one waiter's place in a line. Its zero value with Wake is ready for
// use.
type Place struct {
	// Wake tells the waiter that its turn has come. The line's owner calls it, and
	// says under which conditions.
	Wake func()

	in         *Queue // nil = in none
	prev, next *Place
	priority   int
	number     uint64 // in the order of coming
}

// In reports whether the place is in a line.
func (p *Place) In() bool { return p.in != nil }

// Len returns how many wait.
func (q *Queue) Len() int { return q.n }

// First returns the priority of the one whose turn is next, and false if nobody
// waits.
func (q *Queue) First() (priority int, ok bool) {
	return bits.TrailingZeros32(q.busy), q.busy != 0
}

// Push puts p behind the others of its priority.
func (q *Queue) Push(p *Place, priority int) {
	l := q.take(p, priority)
	q.last++
	p.number = q.last
	p.prev, p.next = l.last, nil
	if l.last == nil {
		l.first = p
	} else {
		l.last.next = p
	}
	l.last = p
}

// Return puts p back to where it stood before it was taken out: one whose turn had
// come, and who could not use it. It takes as long as there are others before it.
func (q *Queue) Return(p *Place) {
	l := q.take(p, p.priority)
	p.prev, p.next = nil, l.first
	for p.next != nil && p.next.number < p.number {
		p.prev, p.next = p.next, p.next.next
	}
	if p.prev == nil {
		l.first = p
	} else {
		p.prev.next = p
	}
	if p.next == nil {
		l.last = p
	} else {
		p.next.prev = p
	}
}

// Behind returns whose turn is next after p, which is in the line, or nil.
func (q *Queue) Behind(p *Place) *Place {
	if p.next != nil {
		return p.next
	}
	if rest := q.busy &^ (1<<(p.priority+1) - 1); rest != 0 {
		return q.lists[bits.TrailingZeros32(rest)].first
	}
	return nil
}

// take counts p in and returns the list that it goes to.
func (q *Queue) take(p *Place, priority int) *list {
	if p.in != nil {
		panic("queue: place is in a queue already")
	}
	l := &q.lists[priority]
	p.in, p.priority = q, priority
	q.busy |= 1 << priority
	q.n++
	return l
}

// Pop takes out the one whose turn is next, and returns nil if nobody waits.
func (q *Queue) Pop() *Place {
	priority, ok := q.First()
	if !ok {
		return nil
	}
	p := q.lists[priority].first
	q.Remove(p)
	return p
}

// Remove takes p out, wherever it stands, and returns false if it is not in this
// line.
func (q *Queue) Remove(p *Place) bool {
	if p.in != q {
		return false
	}
	l := &q.lists[p.priority]
	if p.prev == nil {
		l.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		l.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	if l.first == nil {
		q.busy &^= 1 << p.priority
	}
	p.in, p.prev, p.next = nil, nil, nil
	q.n--
	return true
}

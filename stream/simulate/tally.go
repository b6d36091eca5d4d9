package simulate

import (
	"slices"
	"time"
)

// tally counts sessions.
type tally struct {
	connects int
	nobody   int       // sessions that got no peer in the end
	sessions []int     // by peer: sessions that it took
	failed   []int     // by peer: attempts that it did not take
	ideal    []float64 // by peer: sessions that it ought to have taken
}

func newTally(peers int) tally {
	return tally{sessions: make([]int, peers), failed: make([]int, peers), ideal: make([]float64, peers)}
}

func (t *tally) clone() tally {
	c := *t
	c.sessions, c.failed, c.ideal = slices.Clone(t.sessions), slices.Clone(t.failed), slices.Clone(t.ideal)
	return c
}

// since returns what was counted after an earlier state of the same tally.
func (t *tally) since(earlier *tally) *tally {
	c := t.clone()
	c.connects -= earlier.connects
	c.nobody -= earlier.nobody
	for i := range c.sessions {
		c.sessions[i] -= earlier.sessions[i]
		c.failed[i] -= earlier.failed[i]
		c.ideal[i] -= earlier.ideal[i]
	}
	return &c
}

// share is a part of all connects.
func (t *tally) share(part float64) float64 { return part / float64(max(t.connects, 1)) }

// table follows a tally from a table event on.
type table struct {
	from    time.Duration
	start   tally
	every   int
	at      []int    // those not reached yet
	rows    []*tally // since start
	reached int      // connects, since start
}

func newTable(e *event, from time.Duration, all *tally) *table {
	return &table{from: from, start: all.clone(), every: e.every, at: e.at}
}

// step takes in that there were so many connects in all, and reports whether a
// row is due. A nil table has none.
func (t *table) step(connects int) bool {
	if t == nil {
		return false
	}
	t.reached = connects - t.start.connects
	if t.every > 0 {
		return t.reached%t.every == 0
	}
	if len(t.at) == 0 || t.at[0] != t.reached {
		return false
	}
	t.at = t.at[1:]
	return true
}

// add adds a row.
func (t *table) add(all *tally) { t.rows = append(t.rows, all.since(&t.start)) }

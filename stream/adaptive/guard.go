package adaptive

import "sync/atomic"

const (
	guardOne    = 1 << 32          // the share of a server that has answered every turn
	guardWeight = 20               // a turn counts a twentieth
	guardOff    = guardOne / 2     // below it there are no turns to go by
	guardOn     = guardOne / 5 * 4 // above it there are again
)

// guard follows the share of turns that had an answer. Where it is low, the
// protocol does not take turns, or the server does not answer any: a limit of turns
// would hold back bytes for nothing then, and is not enforced.
type guard struct {
	// word is twice the share, plus 1 while the limit is not enforced: both change
	// in one step, so that each change of the second has exactly one author.
	word atomic.Uint64
}

func (g *guard) trust() { g.word.Store(guardOne << 1) }

// off reports whether the limit is not enforced.
func (g *guard) off() bool { return g.word.Load()&1 != 0 }

// turn takes in how a turn ended, and reports whether off has changed.
func (g *guard) turn(answered bool) bool {
	for {
		old := g.word.Load()
		share, off := old>>1, old&1
		if answered {
			share += (guardOne - share) / guardWeight
		} else {
			share -= share / guardWeight
		}
		now := off
		switch {
		case share < guardOff:
			now = 1
		case share > guardOn:
			now = 0
		}
		word := share<<1 | now
		if word == old || g.word.CompareAndSwap(old, word) {
			return now != off
		}
	}
}

package loop

import "math/bits"

const (
	wheelLevels   = 6
	wheelSlotBits = 6
	wheelSlots    = 1 << wheelSlotBits

	notArmed = -1
	firing   = wheelLevels * wheelSlots // the list of what is due now

	// wheelSpan is how far ahead a deadline may lie, about two years. One slot
	// of the highest level is left unused: a deadline there would share the
	// slot of the present.
	wheelSpan = int64(wheelSlots-1) << ((wheelLevels - 1) * wheelSlotBits)
)

// Wheel keeps at most one deadline for each of a set of numbers, in six
// levels of 64 lists with one bit for each list that holds something: the
// hashed hierarchical wheel of Varghese and Lauck ("Hashed and Hierarchical
// Timing Wheels", SOSP 1987), the lists threaded through one array by index.
// Arming, re-arming and cancelling cost a few stores each and allocate
// nothing, unless a number is larger than any before.
type Wheel struct {
	now   int64 // milliseconds; every armed deadline is later
	bits  [wheelLevels]uint64
	heads [wheelLevels*wheelSlots + 1]int32 // node index + 1; 0 = empty list
	nodes []wheelNode
	armed int
}

type wheelNode struct {
	deadline   int64
	next, prev int32 // node index + 1; prev 0 = first of its list
	list       int16 // notArmed, or which of heads
}

// NewWheel returns a wheel that stands at that millisecond.
func NewWheel(now int64) *Wheel { return &Wheel{now: now} }

// Len returns how many deadlines are armed.
func (w *Wheel) Len() int { return w.armed }

// Armed returns the deadline of id in milliseconds, and false if it has none.
func (w *Wheel) Armed(id int32) (int64, bool) {
	if int(id) >= len(w.nodes) || w.nodes[id].list == notArmed {
		return 0, false
	}
	return w.nodes[id].deadline, true
}

// Set arms id for that millisecond, in place of any deadline it had. A
// deadline that is not in the future fires at the next Advance.
func (w *Wheel) Set(id int32, deadline int64) {
	for int(id) >= len(w.nodes) {
		w.nodes = append(w.nodes, wheelNode{list: notArmed})
	}
	if w.nodes[id].list != notArmed {
		w.unlink(id)
	} else {
		w.armed++
	}
	w.nodes[id].deadline = min(max(deadline, w.now+1), w.now+wheelSpan)
	w.place(id)
}

// Cancel takes away id's deadline, if it has one.
func (w *Wheel) Cancel(id int32) {
	if int(id) < len(w.nodes) && w.nodes[id].list != notArmed {
		w.unlink(id)
		w.nodes[id].list = notArmed
		w.armed--
	}
}

// Next returns a millisecond at which Advance should be called next: no later
// than the earliest deadline, and perhaps earlier when that one is far away.
// It returns false if nothing is armed.
func (w *Wheel) Next() (int64, bool) {
	_, at, ok := w.nextList()
	return at, ok
}

// Advance moves the wheel to that millisecond and calls fire once for each id
// whose deadline has come, in no promised order within one millisecond. fire
// may set and cancel any deadline.
func (w *Wheel) Advance(now int64, fire func(id int32)) {
	for {
		list, at, ok := w.nextList()
		if !ok || at > now {
			w.now = max(w.now, now)
			return
		}
		w.now = at
		// The list becomes the firing list, so that fire can cancel what has
		// not fired yet; what belongs to a lower level goes there instead.
		head := w.heads[list]
		w.heads[list] = 0
		w.bits[list/wheelSlots] &^= 1 << (list % wheelSlots)
		w.heads[firing] = head
		for n := head; n != 0; n = w.nodes[n-1].next {
			w.nodes[n-1].list = firing
		}
		for w.heads[firing] != 0 {
			id := w.heads[firing] - 1
			w.unlink(id)
			if w.nodes[id].deadline > at {
				w.place(id)
				continue
			}
			w.nodes[id].list = notArmed
			w.armed--
			fire(id)
		}
	}
}

// nextList finds the list that comes up first and the millisecond at which it
// does. Lists of a lower level always come before those of a higher one.
func (w *Wheel) nextList() (list int, at int64, ok bool) {
	for level := range wheelLevels {
		if w.bits[level] == 0 {
			continue
		}
		shift := level * wheelSlotBits
		here := int(w.now>>shift) & (wheelSlots - 1)
		ahead := bits.TrailingZeros64(bits.RotateLeft64(w.bits[level], -here))
		slot := (here + ahead) & (wheelSlots - 1)
		at = (w.now>>shift + int64(ahead)) << shift
		return level*wheelSlots + slot, at, true
	}
	return 0, 0, false
}

// place links id into the list for its deadline: the level is that of the
// highest bit in which deadline and now differ.
func (w *Wheel) place(id int32) {
	node := &w.nodes[id]
	differ := uint64(node.deadline^w.now) | (wheelSlots - 1)
	level := min((63-bits.LeadingZeros64(differ))/wheelSlotBits, wheelLevels-1)
	slot := int(node.deadline>>(level*wheelSlotBits)) & (wheelSlots - 1)
	list := level*wheelSlots + slot
	node.list = int16(list)
	node.prev = 0
	node.next = w.heads[list]
	if node.next != 0 {
		w.nodes[node.next-1].prev = id + 1
	}
	w.heads[list] = id + 1
	w.bits[level] |= 1 << slot
}

// unlink takes id out of its list and leaves its list field as it was.
func (w *Wheel) unlink(id int32) {
	node := &w.nodes[id]
	if node.next != 0 {
		w.nodes[node.next-1].prev = node.prev
	}
	if node.prev != 0 {
		w.nodes[node.prev-1].next = node.next
		return
	}
	w.heads[node.list] = node.next
	if node.next == 0 && node.list != firing {
		w.bits[node.list/wheelSlots] &^= 1 << (int(node.list) % wheelSlots)
	}
}

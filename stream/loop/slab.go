package loop

// chunkSlots is how many things a slab allocates at once: few enough that an
// idle worker stays small, enough that growing is rare.
const chunkSlots = 256

// Slab keeps things of one kind in numbered slots. A thing never moves, so
// pointers to it stay good until it is freed; freeing takes effect at the end
// of the turn ([Slab.Recycle]), so that no event of the current batch can meet
// the slot's next owner. Slots freed last are used first, which keeps the
// memory in use small and hot.
type Slab[T any] struct {
	chunks  [][]slabSlot[T]
	free    []int32 // ready for use
	retired []int32 // freed in this turn
	used    int
}

type slabSlot[T any] struct {
	generation uint32 // odd while in use
	item       T
}

// Len returns how many slots are in use, without those freed in this turn.
func (s *Slab[T]) Len() int { return s.used }

// Alloc returns a slot's number, generation and zeroed item.
func (s *Slab[T]) Alloc() (slot int32, generation uint32, item *T) {
	if len(s.free) == 0 {
		s.grow()
	}
	slot = s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	cell := s.cell(slot)
	cell.generation++
	var zero T
	cell.item = zero
	s.used++
	return slot, cell.generation, &cell.item
}

// Get returns the item of a slot if generation is the current one, else nil.
func (s *Slab[T]) Get(slot int32, generation uint32) *T {
	if int(slot) >= len(s.chunks)*chunkSlots {
		return nil
	}
	cell := s.cell(slot)
	if cell.generation != generation {
		return nil
	}
	return &cell.item
}

// At returns the item of a slot that is in use, else nil.
func (s *Slab[T]) At(slot int32) *T {
	if cell := s.cell(slot); cell.generation&1 == 1 {
		return &cell.item
	}
	return nil
}

// Free ends the use of a slot: its tokens are stale from now on, and the slot
// may be handed out again after the next Recycle. Until then the item stays as
// it is, for callers that still hold it.
func (s *Slab[T]) Free(slot int32) {
	cell := s.cell(slot)
	if cell.generation&1 == 0 {
		panic("loop: slot freed twice")
	}
	cell.generation++
	s.used--
	s.retired = append(s.retired, slot)
}

// Recycle makes the slots freed in this turn available again.
func (s *Slab[T]) Recycle() {
	s.free = append(s.free, s.retired...)
	s.retired = s.retired[:0]
}

// All calls f for every item in use; f may free the item it is given.
func (s *Slab[T]) All(f func(slot int32, item *T)) {
	for c := range s.chunks {
		for i := range s.chunks[c] {
			if cell := &s.chunks[c][i]; cell.generation&1 == 1 {
				f(int32(c*chunkSlots+i), &cell.item)
			}
		}
	}
}

// Scan calls f for the items in use among n slots from one on, and returns the
// slot to go on from, or -1 if there are no more. f may free the item.
func (s *Slab[T]) Scan(from int32, n int, f func(slot int32, item *T)) (next int32) {
	end := min(int(from)+n, len(s.chunks)*chunkSlots)
	for slot := from; int(slot) < end; slot++ {
		if cell := s.cell(slot); cell.generation&1 == 1 {
			f(slot, &cell.item)
		}
	}
	if end == len(s.chunks)*chunkSlots {
		return -1
	}
	return int32(end)
}

func (s *Slab[T]) cell(slot int32) *slabSlot[T] {
	return &s.chunks[slot/chunkSlots][slot%chunkSlots]
}

func (s *Slab[T]) grow() {
	first := int32(len(s.chunks) * chunkSlots)
	s.chunks = append(s.chunks, make([]slabSlot[T], chunkSlots))
	for i := int32(chunkSlots) - 1; i >= 0; i-- {
		s.free = append(s.free, first+i)
	}
}

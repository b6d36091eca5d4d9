package loop

import "testing"

func TestTokenParts(t *testing.T) {
	tok := MakeToken(KindSession, 0xfedcba98, MaxSlots-1, 1)
	if tok.Kind() != KindSession || tok.Generation() != 0xfedcba98 || tok.Slot() != MaxSlots-1 || tok.Side() != 1 {
		t.Fatalf("%#x: kind %d generation %#x slot %d side %d", uint64(tok), tok.Kind(), tok.Generation(), tok.Slot(), tok.Side())
	}
}

func TestSlabRefusesStaleGenerations(t *testing.T) {
	var s Slab[int]
	slot, gen, item := s.Alloc()
	*item = 7
	if got := s.Get(slot, gen); got == nil || *got != 7 {
		t.Fatal("a live item is not found")
	}
	s.Free(slot)
	if s.Get(slot, gen) != nil || s.At(slot) != nil {
		t.Fatal("a freed item is found")
	}
	if next, _, _ := s.Alloc(); next == slot {
		t.Fatal("a slot was handed out again in the turn it was freed in")
	}
	s.Recycle()
	next, gen2, item := s.Alloc()
	if next != slot {
		t.Fatalf("slot %d after recycling, want the hottest, %d", next, slot)
	}
	if *item != 0 {
		t.Fatal("an item is not zeroed")
	}
	if s.Get(slot, gen) != nil || s.Get(slot, gen2) == nil {
		t.Fatal("generations are mixed up")
	}
	if s.Get(1<<20, 1) != nil {
		t.Fatal("a slot that never was is found")
	}
}

func TestSlabAllMayFree(t *testing.T) {
	var s Slab[int]
	for range 3 * chunkSlots / 2 {
		s.Alloc()
	}
	n := 0
	s.All(func(slot int32, _ *int) {
		s.Free(slot)
		n++
	})
	if n != 3*chunkSlots/2 || s.Len() != 0 {
		t.Fatalf("saw %d, %d left", n, s.Len())
	}
}

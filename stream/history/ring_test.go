package history

import (
	"testing"

	"github.com/weirlb/weir/stream/accesslog"
	"github.com/weirlb/weir/stream/decisions"
	"github.com/weirlb/weir/stream/upstream"
)

func picked(candidates int) decisions.Record {
	return decisions.Record{Decision: &upstream.Decision{Candidates: make([]upstream.Candidate, candidates)}}
}

func (r *Ring) end(id uint64, t *Trail) { r.Put(&accesslog.Record{Connection: id}, t) }

func TestRemembersTheLast(t *testing.T) {
	r := New()
	if _, found := r.Find(0); found {
		t.Error("an empty ring knows a session")
	}
	for id := uint64(1); id <= Sessions+10; id++ {
		r.end(id, nil)
	}
	for id, want := range map[uint64]bool{10: false, 11: true, Sessions + 10: true, Sessions + 11: false} {
		if s, found := r.Find(id); found != want || found && s.Connection != id {
			t.Errorf("session %d: found %v as %d, want %v", id, found, s.Connection, want)
		}
	}
}

func TestLatest(t *testing.T) {
	r := New()
	out := make([]Session, 3)
	if n := r.Latest(0, out); n != 0 {
		t.Errorf("an empty ring has %d sessions", n)
	}
	for id := uint64(1); id <= Sessions+5; id++ {
		r.end(id, nil)
	}
	if n := r.Latest(2, out); n != 3 || out[0].Connection != Sessions+3 || out[2].Connection != Sessions+1 {
		t.Errorf("got %d, from %d to %d", n, out[0].Connection, out[2].Connection)
	}
	if n := r.Latest(Sessions-1, out); n != 1 || out[0].Connection != 6 {
		t.Errorf("got %d at the end, %d", n, out[0].Connection)
	}
	if n := r.Latest(Sessions, out); n != 0 {
		t.Errorf("got %d behind the end", n)
	}
}

// However much is recorded, the trails hold no more than Places; the oldest
// finished sessions lose theirs first, and those that run keep theirs.
func TestTrailsAreBounded(t *testing.T) {
	r := New()
	var running *Trail
	for range 10 {
		running = r.Note(running, picked(9))
	}
	const each = 1000
	for id := uint64(1); id <= 2*Places/each; id++ {
		r.end(id, r.Note(nil, picked(each-1)))
		if r.places > Places {
			t.Fatalf("%d places are taken after session %d, want at most %d", r.places, id, Places)
		}
	}
	if s, _ := r.Find(1); !s.Forgotten || len(s.Trail.Records) != 0 {
		t.Errorf("the oldest session still has its trail: %+v", s.Trail)
	}
	if s, _ := r.Find(2 * Places / each); s.Forgotten || len(s.Trail.Records) != 1 {
		t.Errorf("the last session has lost its trail: %+v", s.Trail)
	}
	if len(running.Records) != 10 {
		t.Errorf("the session that runs has %d records, want 10", len(running.Records))
	}
	for range 100 {
		running = r.Note(running, picked(each))
	}
	if running.Lost == 0 || r.places > Places {
		t.Errorf("nothing was lost, and %d places are taken", r.places)
	}
	r.end(1<<40, running)
	for id := range uint64(Sessions) {
		r.end(1<<41+id, nil)
	}
	if r.places != 0 {
		t.Errorf("%d places are taken and nobody has a trail", r.places)
	}
}

func TestPutAllocatesNothing(t *testing.T) {
	r, facts := New(), &accesslog.Record{Connection: 7}
	if n := testing.AllocsPerRun(100, func() { r.Put(facts, nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestNilRemembersNothing(t *testing.T) {
	var r *Ring
	r.end(1, r.Note(nil, picked(1)))
}

func BenchmarkPut(b *testing.B) {
	r, facts := New(), &accesslog.Record{Connection: 7}
	b.ReportAllocs()
	for b.Loop() {
		r.Put(facts, nil)
	}
}

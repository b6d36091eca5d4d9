package tcp

import "sync/atomic"

// Room is the number of sessions that all workers together may have. Its
// methods may be called by any goroutine.
type Room struct {
	max  atomic.Int64
	used atomic.Int64
}

// NewRoom returns room for that many sessions.
func NewRoom(max int) *Room {
	r := new(Room)
	r.SetMax(max)
	return r
}

// SetMax changes how many sessions there is room for. Those that are too many
// stay.
func (r *Room) SetMax(max int) { r.max.Store(int64(max)) }

// Max returns how many sessions there is room for.
func (r *Room) Max() int { return int(r.max.Load()) }

// Used returns how many sessions there are.
func (r *Room) Used() int { return int(r.used.Load()) }

// Enter takes a place, if there is one.
func (r *Room) Enter() bool {
	if r.used.Add(1) > r.max.Load() {
		r.used.Add(-1)
		return false
	}
	return true
}

// Force takes a place even if there is none: for a session that is there.
func (r *Room) Force() { r.used.Add(1) }

// Leave gives a place back.
func (r *Room) Leave() { r.used.Add(-1) }

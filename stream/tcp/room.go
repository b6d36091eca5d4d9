package tcp

import "sync/atomic"

// Room is the number of sessions that all workers together may have. Its
// methods may be called by any goroutine.
type Room struct {
	max  int64
	used atomic.Int64
}

// NewRoom returns room for that many sessions.
func NewRoom(max int) *Room { return &Room{max: int64(max)} }

// Max returns how many sessions there is room for.
func (r *Room) Max() int { return int(r.max) }

// Used returns how many sessions there are.
func (r *Room) Used() int { return int(r.used.Load()) }

// Enter takes a place, if there is one.
func (r *Room) Enter() bool {
	if r.used.Add(1) > r.max {
		r.used.Add(-1)
		return false
	}
	return true
}

// Leave gives a place back.
func (r *Room) Leave() { r.used.Add(-1) }

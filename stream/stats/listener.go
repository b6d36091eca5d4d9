package stats

import "sync/atomic"

// Listener is what one worker counts of the sessions of one listener.
type Listener struct {
	Sessions atomic.Uint64             // begun
	Active   atomic.Int64              // gauge: sessions
	Delayed  atomic.Uint64             // times that limits.accept_rate made connections wait in the accept queue
	Slowed   [Directions]atomic.Uint64 // times that upload_rate (ToPeer) or download_rate made a session wait
	Closed   [Reasons]atomic.Uint64
	Bytes    [Paths][Directions]atomic.Uint64 // relayed; payload only

	_ [64]byte // workers' counters share no cache line
}

// Path is how bytes moved.
type Path uint8

// The paths.
const (
	Copied    Path = iota // through a buffer
	Spliced               // through a pipe
	Datagrams             // UDP
	Paths     = int(iota)
)

// String returns the path as metrics write it.
func (p Path) String() string {
	return [...]string{Copied: "copy", Spliced: "splice", Datagrams: "datagram"}[p]
}

// Direction is where bytes went.
type Direction uint8

// The directions.
const (
	ToPeer Direction = iota
	ToClient
	Directions = int(iota)
)

// String returns the direction as metrics write it.
func (d Direction) String() string {
	return [...]string{ToPeer: "to_peer", ToClient: "to_client"}[d]
}

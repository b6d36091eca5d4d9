package stats

import "sync/atomic"

// Worker is what one worker counts.
type Worker struct {
	DownstreamConnections atomic.Uint64 // accepted
	DownstreamActive      atomic.Int64  // gauge: sessions
	UpstreamConnections   atomic.Uint64 // attempts to connect
	UpstreamFailures      atomic.Uint64 // attempts that failed
	CopiedBytes           atomic.Uint64 // relayed through a buffer
	SplicedBytes          atomic.Uint64 // relayed through a pipe
	AcceptPauses          atomic.Uint64 // times that accepting paused for want of room
	Pipes                 atomic.Int64  // gauge: pipes open, lent or pooled
	SpliceFallbacks       atomic.Uint64 // times that a full-size pipe could not be had
	Closed                [Reasons]atomic.Uint64

	_ [64]byte // workers' counters share no cache line
}

// Peer is what one worker counts of one peer.
type Peer struct {
	Sessions atomic.Uint64 // picked for
	Sent     atomic.Uint64 // bytes to the peer
	Received atomic.Uint64 // bytes from the peer

	_ [64]byte
}

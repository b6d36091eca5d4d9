package stats

import "sync/atomic"

// Worker is what one worker counts.
type Worker struct {
	DownstreamConnections atomic.Uint64 // accepted
	DownstreamActive      atomic.Int64  // gauge: sessions
	UpstreamConnections   atomic.Uint64 // attempts to connect
	UpstreamFailures      atomic.Uint64 // attempts that failed
	AcceptPauses          atomic.Uint64 // times that accepting paused for want of room
	Pipes                 atomic.Int64  // gauge: pipes open, lent or pooled
	Buffers               atomic.Int64  // gauge: buffers for what slow readers leave and what clients say before the connect, lent or pooled
	SpliceFallbacks       atomic.Uint64 // times that a full-size pipe could not be had

	// UDP; datagrams, whatever they were moved as
	DatagramsIn           atomic.Uint64 // received, from clients and peers
	DatagramsOut          atomic.Uint64 // sent, to clients and peers
	LostDatagrams         atomic.Uint64 // not sent: a socket had no room, or the kernel refused
	RefusedDatagrams      atomic.Uint64 // from clients for whom there was no room or no peer
	TruncatedDatagrams    atomic.Uint64 // larger than a datagram can be, not forwarded
	LateDatagrams         atomic.Uint64 // came to a socket that no session had, and were dropped
	CoalescedDatagrams    atomic.Uint64 // received in one piece with others (UDP_GRO)
	SegmentedDatagrams    atomic.Uint64 // sent in one piece with others (UDP_SEGMENT)
	OffloadFallbacks      atomic.Uint64 // pieces that had to be cut by weir itself
	UpstreamSocketsReused atomic.Uint64 // sessions that needed no new socket

	_ [64]byte // workers' counters share no cache line
}

// Peer is what one worker counts of one peer.
type Peer struct {
	Sessions atomic.Uint64 // picked for
	Sent     atomic.Uint64 // bytes to the peer
	Received atomic.Uint64 // bytes from the peer

	_ [64]byte
}

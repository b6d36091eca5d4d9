package accesslog

import (
	"sync/atomic"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/internal/sys"
	"github.com/weirlb/weir/stream/stats"
)

// RingRecords is how many finished sessions of one worker can wait for the
// writer.
const RingRecords = 4096

// Record is what is known of a session at its end.
type Record struct {
	Protocol     conf.Protocol
	Listener     string
	Upstream     string
	UpstreamAddr string // every attempted peer, ", " between them; "" = none
	Connection   uint64
	Client       sys.Endpoint
	Server       sys.Endpoint // filled in if the log wants it
	Start, End   clock.Time
	Reason       stats.CloseReason
	Tries        int
	Connected    bool // a peer was connected

	// from the pick of the last peer on; -1 = it did not come to that
	ConnectTime, FirstByteTime, UpstreamTime time.Duration

	Received, Sent                 uint64 // from and to the client
	UpstreamSent, UpstreamReceived uint64
}

// Ring carries records from one worker to the writer.
type Ring struct {
	// immutable
	writer  *Writer
	records []Record

	_    [64]byte
	head atomic.Uint64 // next to write; stored by the worker
	lost atomic.Uint64 // stored by the worker
	_    [64]byte
	tail atomic.Uint64 // next to read; stored by the writer
	_    [64]byte
}

// Put adds a record, or counts it as lost if the writer is too far behind. It
// runs on the ring's worker.
func (r *Ring) Put(rec *Record) {
	head := r.head.Load()
	if head-r.tail.Load() == uint64(len(r.records)) {
		r.lost.Add(1)
		return
	}
	r.records[head%uint64(len(r.records))] = *rec
	r.head.Store(head + 1)
	r.writer.wake()
}

// take calls f for every record that waits.
func (r *Ring) take(f func(*Record)) {
	tail, head := r.tail.Load(), r.head.Load()
	for ; tail != head; tail++ {
		f(&r.records[tail%uint64(len(r.records))])
		r.tail.Store(tail + 1)
	}
}

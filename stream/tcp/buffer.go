package tcp

import (
	"github.com/weirlb/weir/stream/handover"
	"github.com/weirlb/weir/stream/stats"
)

const (
	// bufferBytes is the size of the worker's one read buffer, and so the most
	// that a flow can have read and not sent while it copies. Answers of 16 KiB
	// and their headers cost a quarter less CPU than with 16 KiB, where each
	// filled the buffer and sent its rest through a pipe; 32 KiB was as good for
	// these, and less so for longer ones. It all must go into a message of the
	// handover.
	bufferBytes = handover.MaxPending
	// smallBytes is enough for most clients' first bytes and for what is left of
	// a short message.
	smallBytes = 4 << 10
)

// bufferPool keeps a worker's unused buffers of one size. A buffer holds what a
// slow reader left of one read, or what a client said before its peer was
// connected.
type bufferPool struct {
	demand
	size  int // bytes
	free  [][]byte
	stats *stats.Worker
}

func (bp *bufferPool) get() []byte {
	bp.lend()
	if n := len(bp.free); n > 0 {
		b := bp.free[n-1]
		bp.free = bp.free[:n-1]
		return b
	}
	bp.stats.Buffers.Add(1)
	return make([]byte, bp.size)
}

func (bp *bufferPool) put(b []byte) {
	bp.back()
	bp.free = append(bp.free, b)
}

// trim lets go of free buffers beyond that many.
func (bp *bufferPool) trim(keep int) {
	for len(bp.free) > keep {
		bp.free[len(bp.free)-1] = nil
		bp.free = bp.free[:len(bp.free)-1]
		bp.stats.Buffers.Add(-1)
	}
}

// buffersFor returns the pool whose buffers hold so many bytes.
func (w *Worker) buffersFor(n int) *bufferPool {
	if n <= smallBytes {
		return &w.small
	}
	return &w.large
}

// keep has flow f hold bytes that it could not send.
func (w *Worker) keep(f *flow, rest []byte) {
	f.buf = w.buffersFor(len(rest)).get()
	f.off, f.pending = 0, int32(copy(f.buf, rest))
}

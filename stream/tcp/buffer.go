package tcp

import "github.com/weirlb/weir/stream/stats"

// bufferBytes is the size of the worker's one read buffer, and so the most
// that a flow can have read and not sent while it copies. Answers of 16 KiB and
// their headers cost a quarter less CPU than with 16 KiB, where each filled the
// buffer and sent its rest through a pipe; 32 KiB was as good for these, and
// less so for longer ones.
const bufferBytes = 64 << 10

// buffer holds what a slow reader left of one read.
type buffer [bufferBytes]byte

// bufferPool keeps a worker's unused buffers.
type bufferPool struct {
	demand
	free  []*buffer
	stats *stats.Worker
}

func (bp *bufferPool) get() *buffer {
	bp.lend()
	if n := len(bp.free); n > 0 {
		b := bp.free[n-1]
		bp.free = bp.free[:n-1]
		return b
	}
	bp.stats.Buffers.Add(1)
	return new(buffer)
}

func (bp *bufferPool) put(b *buffer) {
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

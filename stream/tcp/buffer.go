package tcp

import "github.com/weirlb/weir/stream/stats"

// bufferBytes is the size of the worker's one read buffer, and so the most
// that a flow can have read and not sent while it copies.
const bufferBytes = 16 << 10

// buffer holds what a slow reader left of one read.
type buffer [bufferBytes]byte

// bufferPool keeps a worker's unused buffers.
type bufferPool struct {
	free  []*buffer
	stats *stats.Worker
}

func (bp *bufferPool) get() *buffer {
	if n := len(bp.free); n > 0 {
		b := bp.free[n-1]
		bp.free = bp.free[:n-1]
		return b
	}
	bp.stats.Buffers.Add(1)
	return new(buffer)
}

func (bp *bufferPool) put(b *buffer) { bp.free = append(bp.free, b) }

// trim lets go of free buffers beyond that many.
func (bp *bufferPool) trim(keep int) {
	for len(bp.free) > keep {
		bp.free[len(bp.free)-1] = nil
		bp.free = bp.free[:len(bp.free)-1]
		bp.stats.Buffers.Add(-1)
	}
}

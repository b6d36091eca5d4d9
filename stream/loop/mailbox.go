package loop

import (
	"sync"

	"github.com/weirlb/weir/stream/internal/sys"
)

// Mailbox brings functions from other goroutines to the loop's thread.
type Mailbox struct {
	// immutable
	fd int32 // eventfd

	mu     sync.Mutex
	queue  []func() // guarded by mu
	spare  []func() // owned by the loop's thread: empty, for the next queue
	closed bool     // guarded by mu
}

// Post has f run on the loop's thread, after what was posted before it. It
// returns false if the loop has ended and f will never run. Any goroutine may
// call it.
func (m *Mailbox) Post(f func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.queue = append(m.queue, f)
	if len(m.queue) == 1 {
		sys.EventSignal(m.fd)
	}
	return true
}

// run calls everything posted so far.
func (m *Mailbox) run() {
	sys.EventClear(m.fd)
	m.mu.Lock()
	queue := m.queue
	m.queue = m.spare
	m.mu.Unlock()
	for i, f := range queue {
		queue[i] = nil
		f()
	}
	m.spare = queue[:0]
}

// finish takes nothing more, and calls what was posted until now: whoever waits
// for it would wait for ever.
func (m *Mailbox) finish() {
	m.mu.Lock()
	m.closed = true
	queue := m.queue
	m.queue = nil
	m.mu.Unlock()
	for _, f := range queue {
		f()
	}
}

func (m *Mailbox) close() {
	m.finish()
	sys.Close(m.fd)
}

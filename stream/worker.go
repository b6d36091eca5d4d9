package stream

import (
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/loop"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/tcp"
	"github.com/weirlb/weir/stream/udp"
)

// worker is one event loop with its TCP and UDP sessions. All but its start
// and end happens on the loop's thread.
type worker struct {
	loop    *loop.Loop
	tcp     *tcp.Worker
	udp     *udp.Worker
	id      int
	workers int
	serial  uint64 // sessions so far
}

func newWorker(id, workers int) (*worker, error) {
	w := &worker{id: id, workers: workers}
	var err error
	w.loop, err = loop.New(w, clock.Now)
	return w, err
}

// nextSerial numbers a session: unique in the process, without a counter that
// workers share.
func (w *worker) nextSerial() uint64 {
	w.serial++
	return (w.serial-1)*uint64(w.workers) + uint64(w.id) + 1
}

// OnEvent implements loop.Handler.
func (w *worker) OnEvent(t loop.Token, events uint32) {
	switch t.Kind() {
	case loop.KindDatagrams, loop.KindFlow:
		w.udp.OnEvent(t, events)
	default:
		w.tcp.OnEvent(t, events)
	}
}

// OnTimer implements loop.Handler.
func (w *worker) OnTimer(id int32) {
	if id == tcp.ForeignTimer {
		w.udp.OnTimer()
		return
	}
	w.tcp.OnTimer(id)
}

// EndTurn implements loop.Handler.
func (w *worker) EndTurn() {
	w.tcp.EndTurn()
	w.udp.EndTurn()
}

// drain takes no new sessions from now on.
func (w *worker) drain() {
	w.tcp.Drain()
	w.udp.Drain()
}

// closeAll ends every session for that reason and returns how many there were.
func (w *worker) closeAll(reason stats.CloseReason) int {
	return w.tcp.CloseAll(reason) + w.udp.CloseAll(reason)
}

// close closes what is still open. Preconditions: the loop has stopped and no
// session is left.
func (w *worker) close() {
	if w.tcp != nil {
		w.tcp.Close()
		w.udp.Close()
	}
	w.loop.Close()
}

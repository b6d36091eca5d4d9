package stream

import (
	"sync/atomic"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/accesslog"
	"github.com/weirlb/weir/stream/decisions"
	"github.com/weirlb/weir/stream/history"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/internal/sys"
	"github.com/weirlb/weir/stream/loop"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/tcp"
	"github.com/weirlb/weir/stream/udp"
)

// worker is one event loop with its TCP and UDP sessions. All but its start
// and end happens on the loop's thread.
type worker struct {
	// immutable
	id   int
	loop *loop.Loop
	tcp  *tcp.Worker
	udp  *udp.Worker

	recording *atomic.Bool // the server's: all decisions are remembered

	// owned by the loop's thread
	serials *serials
	history *history.Ring
	serial  uint64 // the next session's number, if it is not at a block's end
	leaving bool   // stop when no session is left

	ended   atomic.Bool  // the loop has
	thread  atomic.Int32 // its thread's id; 0 = it does not run yet
	counted atomic.Int64 // TCP sessions, when last asked
}

// hasEnded reports whether a worker that was retired is gone.
func (w *worker) hasEnded() bool { return w.ended.Load() }

// ran returns how long the worker's thread has run, and how long it was ready to
// and had no CPU; -1 = unknown.
func (w *worker) ran() (cpu, waited time.Duration) {
	cpu, waited = -1, -1
	t := w.thread.Load()
	if t == 0 {
		return cpu, waited
	}
	if d, err := sys.ThreadCPU(t); err == nil {
		cpu = d
	}
	if d, err := sys.ThreadWaited(t); err == nil {
		waited = d
	}
	return cpu, waited
}

// serials hands out the numbers of sessions in blocks, so that workers do not
// share a counter for each.
type serials struct{ next atomic.Uint64 }

const serialBlock = 1 << 10

func newWorker(id int, from *serials) (*worker, error) {
	w := &worker{id: id, serials: from, history: history.New()}
	var err error
	w.loop, err = loop.New(w, clock.Now)
	return w, err
}

// build makes the worker's halves.
func (w *worker) build(s *Server, lim limits) {
	w.tcp = tcp.NewWorker(w.loop, tcp.Options{
		ID:     w.id,
		Room:   s.room,
		Pipes:  lim.pipes,
		Relay:  s.relay,
		Stats:  s.counters[w.id],
		Serial: w.nextSerial,
		Notify: s.notify,

		History: w.history,
	})
	w.udp = udp.NewWorker(w.loop, udp.Options{
		ID:     w.id,
		Room:   s.room,
		Pooled: lim.pooled,
		Stats:  s.counters[w.id],
		Serial: w.nextSerial,
		Timer:  tcp.ForeignTimer,

		History: w.history,
	})
	w.recording = &s.recording.on
}

// setLogs has the worker log to other writers. The ring is its alone.
func (w *worker) setLogs(log *accesslog.Writer, d *decisions.Writer, ring int) {
	server := log.Wants(conf.VarServerAddr, conf.VarServerPort)
	w.tcp.SetLogs(log.Ring(ring), server, d)
	w.udp.SetLogs(log.Ring(ring), server, d)
	w.setRecording()
}

// setRecording has the worker remember decisions if that is asked for now.
func (w *worker) setRecording() {
	on := w.recording.Load()
	w.tcp.SetRecording(on)
	w.udp.SetRecording(on)
}

// setSteerer has the worker count its sessions for another steerer; nil is none.
func (w *worker) setSteerer(st Steerer) {
	if st == nil {
		w.tcp.SetCounting(nil, nil)
		return
	}
	w.tcp.SetCounting(func() { st.Began(w.id) }, func() { st.Ended(w.id) })
}

// nextSerial numbers a session: from 1 on, unique in the process.
func (w *worker) nextSerial() uint64 {
	if w.serial%serialBlock == 0 {
		w.serial = w.serials.next.Add(serialBlock) - serialBlock
	}
	w.serial++
	return w.serial
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
	if w.leaving && w.tcp.Sessions()+w.udp.Sessions() == 0 {
		w.loop.Stop()
	}
}

// drain takes no new sessions from now on.
func (w *worker) drain() {
	w.tcp.Drain()
	w.udp.Drain(false)
}

// retire takes no new sessions either, as others listen where it did, and ends
// the loop with the last session.
func (w *worker) retire() {
	w.tcp.Drain()
	w.udp.Drain(true)
	w.leaving = true
}

// closeAll ends every session for that reason and returns how many there were.
func (w *worker) closeAll(reason stats.CloseReason) int {
	return w.tcp.CloseAll(reason) + w.udp.CloseAll(reason)
}

// close closes what is still open. Preconditions: the loop has stopped and no
// session is left.
func (w *worker) close() {
	w.tcp.Close()
	w.udp.Close()
	w.loop.Close()
}

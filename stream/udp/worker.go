package udp

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/stream/accesslog"
	"github.com/weirlb/weir/stream/decisions"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/internal/sys"
	"github.com/weirlb/weir/stream/loop"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/upstream"
)

const (
	batchMessages  = 64 // received by one call from a listening socket
	roundsPerTurn  = 8  // such calls for one socket
	answersPerCall = 8  // received by one call from a peer
	callsPerTurn   = 16 // such calls for one socket
	trimEvery      = 10 * time.Second
)

// Room bounds the sessions of all workers.
type Room interface {
	Enter() bool
	Leave()
}

// Options are what a Worker is made of.
type Options struct {
	ID            int // 0..workers-1; names its counters in upstream.Peer.Stats
	Workers       int
	Room          Room
	Pooled        int // idle sockets to peers that it may keep
	Stats         *stats.Worker
	Log           *accesslog.Ring   // nil = no access log
	LogServerAddr bool              // the log wants the address that clients sent to
	Serial        func() uint64     // numbers of sessions, unique in the process
	Decisions     *decisions.Writer // nil = nobody asks why peers are picked
	// Timer is the id in the loop's wheel that is this worker's.
	Timer int32
	// NoOffload has datagrams moved one by one, for tests.
	NoOffload bool
}

// Worker carries the UDP sessions of one event loop.
type Worker struct {
	// immutable
	loop  *loop.Loop
	opt   Options
	stats *stats.Worker

	// owned by the loop's thread
	coalesce bool // the kernel has UDP_GRO
	segment  bool // it takes UDP_SEGMENT, and no device has refused it yet
	sockets  []socket
	books    []*book
	sessions loop.Slab[session]
	table    map[key]*session
	conns    loop.Slab[conn]
	pools    map[poolKey]*peerPool
	pooled   int
	attempts upstream.Attempts
	draining bool
	trimAt   clock.Time
	armed    clock.Time // what the timer is set to; 0 = it is not

	in       *sys.ReceiveBatch    // from clients
	next     [batchMessages]int16 // of the same session; -1 = none
	segments [batchMessages]int32 // size of the datagrams that a message is made of; 0 = it is one
	touched  []*session
	out      *sys.SendBatch // to a peer

	answers  *sys.ReceiveBatch // from peers, up to taken
	taken    int
	replies  *sys.SendBatch // to clients, from socket replyTo
	replyTo  int32          // fd
	answered *session       // whom the last of replies is for

	late   *sys.ReceiveBatch // scratch for what nobody waits for
	addr   sys.Sockaddr      // scratch
	record accesslog.Record  // scratch
}

// socket is a listening socket of this worker.
type socket struct {
	book *book
	fd   int32 // -1 = closed
}

// NewWorker returns the UDP half of the worker of a loop.
func NewWorker(l *loop.Loop, opt Options) *Worker {
	w := &Worker{
		loop:    l,
		opt:     opt,
		stats:   opt.Stats,
		table:   map[key]*session{},
		pools:   map[poolKey]*peerPool{},
		replyTo: -1,
	}
	return w
}

// prepare gets the memory that only a worker with UDP listeners needs, and
// finds out what the kernel can do.
func (w *Worker) prepare() {
	if w.in != nil {
		return
	}
	w.in = sys.NewReceiveBatch(batchMessages)
	w.out = sys.NewSendBatch(batchMessages, batchMessages)
	w.answers = sys.NewReceiveBatch(batchMessages)
	w.replies = sys.NewSendBatch(batchMessages, batchMessages)
	w.late = sys.NewReceiveBatch(answersPerCall)
	w.coalesce, w.segment = offloads(w.opt.NoOffload)
}

// offloads asks the kernel for UDP_GRO and UDP_SEGMENT.
func offloads(no bool) (coalesce, segment bool) {
	fd, errno := sys.DatagramSocket(unix.AF_INET)
	if errno != 0 || no {
		if errno == 0 {
			sys.Close(fd)
		}
		return false, false
	}
	defer sys.Close(fd)
	_, errno = sys.GetOption(fd, unix.SOL_UDP, unix.UDP_SEGMENT)
	return sys.WantCoalesced(fd) == 0, errno == 0
}

// Serve receives from a listening socket, which is the worker's from now on,
// even if this fails. It runs on the loop's thread, or before the loop does.
func (w *Worker) Serve(l *Listener, fd int32) unix.Errno {
	w.prepare()
	if w.coalesce && !l.counts() {
		sys.WantCoalesced(fd)
	}
	w.sockets = append(w.sockets, socket{w.bookOf(l), fd})
	return w.loop.Add(fd, unix.EPOLLIN, loop.MakeToken(loop.KindDatagrams, 0, int32(len(w.sockets)-1), 0))
}

func (w *Worker) bookOf(l *Listener) *book {
	for _, b := range w.books {
		if b.listener == l {
			return b
		}
	}
	b := &book{listener: l}
	w.books = append(w.books, b)
	return b
}

// Sessions returns how many sessions there are.
func (w *Worker) Sessions() int { return w.sessions.Len() }

// Drain stops taking in datagrams of new clients. Sessions go on.
//
// The sockets stay open: sessions need them to answer.
func (w *Worker) Drain() { w.draining = true }

// CloseAll ends every session for that reason and returns how many there were.
// It runs on the loop's thread.
func (w *Worker) CloseAll(reason stats.CloseReason) int {
	n := w.sessions.Len()
	w.sessions.All(func(_ int32, s *session) { w.finish(s, reason, decisions.NoFailure) })
	return n
}

// Close closes what the worker still has open. Preconditions: the loop has
// stopped and no session is left.
func (w *Worker) Close() {
	for i := range w.sockets {
		sys.Close(w.sockets[i].fd)
		w.sockets[i].fd = -1
	}
	for _, p := range w.pools {
		for p.n > 0 {
			w.closeConn(p.pop())
		}
	}
}

// OnEvent is told of readiness of a listening socket (loop.KindDatagrams) or
// of one to a peer (loop.KindFlow).
func (w *Worker) OnEvent(t loop.Token, events uint32) {
	if t.Kind() == loop.KindDatagrams {
		w.onDatagrams(int(t.Slot()))
		return
	}
	c := w.conns.Get(t.Slot(), t.Generation())
	if c == nil {
		w.loop.Stats.Stale.Add(1)
		return
	}
	if events == 0 {
		c.putOff = false
	}
	w.onAnswers(c)
}

// OnTimer is told that a session may have to end.
func (w *Worker) OnTimer() {
	w.armed = 0
	w.expire()
	if now := w.loop.Now(); now >= w.trimAt {
		w.trimAt = now.Add(trimEvery)
		w.trimPools()
	}
}

// EndTurn ends a turn of the loop: what was gathered goes out, and the timer is
// set.
func (w *Worker) EndTurn() {
	if w.in == nil {
		return
	}
	w.flush()
	w.sessions.Recycle()
	w.conns.Recycle()
	w.setTimer()
}

// setTimer arms the timer for the first session that may have to end, or for
// the idle sockets. Sessions in which something moves end later than that: the
// timer then finds nothing to do, and is set anew.
func (w *Worker) setTimer() {
	at := w.nextExpiry()
	if w.pooled > 0 && (at == 0 || w.trimAt < at) {
		at = max(w.trimAt, w.loop.Now().Add(time.Millisecond))
	}
	if at != 0 && (w.armed == 0 || at < w.armed) {
		w.armed = at
		w.loop.Timers.Set(w.opt.Timer, at.Millis()+1)
	}
}

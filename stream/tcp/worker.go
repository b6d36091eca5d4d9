package tcp

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/accesslog"
	"github.com/weirlb/weir/stream/decisions"
	"github.com/weirlb/weir/stream/history"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/internal/sys"
	"github.com/weirlb/weir/stream/loop"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/upstream"
)

// Relay says how bytes move.
type Relay uint8

// The ways to relay. Auto is what a user gets; the others are for tests.
const (
	Auto   Relay = iota // copy small messages, splice big ones
	Copy                // always through a buffer
	Splice              // always through a pipe, if the kernel can
)

const (
	acceptsPerTurn = 64                     // of one listening socket, at most
	quietAccepts   = 16                     // that nobody's first bytes are looked for, after a client that had none
	aheadBuffers   = 256                    // lent ones beyond which no first bytes are looked for
	roundsPerTurn  = 64                     // reads of one flow
	bytesPerFlow   = 1 << 20                // in one turn: see hadItsPart
	bulkPerTurn    = 8 << 20                // of all flows with bulk together
	messagesAbout  = 100 * time.Millisecond // for so long after a message more may come
	spliceBelow    = 2 << 10                // a spliced read under this many bytes turns the flow back to copying
	resumeAfter    = 100 * time.Millisecond // how soon a paused worker looks for room
	poolKeep       = 16                     // free pipes and buffers that an idle worker keeps
	poolTrimEvery  = 10 * time.Second

	// ids in the wheel: these, then the sessions' slots from timerSession on
	timerHousekeeping = ForeignTimer + 1
	timerResume       = ForeignTimer + 2
	timerAccept       = ForeignTimer + 3
	timerSession      = ForeignTimer + 4
)

// ForeignTimer is the id in the loop's wheel that the Worker leaves to others.
const ForeignTimer = 0

// Options are what a Worker is made of.
type Options struct {
	ID     int // 0..workers-1; names its counters in upstream.Peer.Stats
	Room   *Room
	Pipes  int // how many pipes it may have open
	Relay  Relay
	Stats  *stats.Worker
	Serial func() uint64 // numbers of sessions, unique in the process
	// History remembers the sessions; nil = nobody does.
	History *history.Ring
	// Notify reports a rare event to the operator. It is called on the worker
	// and must not block.
	Notify func(msg string, args ...any)
}

// Worker carries the TCP sessions of one event loop.
type Worker struct {
	// immutable
	Loop           *loop.Loop
	opt            Options
	stats          *stats.Worker
	ephemeralFirst uint16 // net.ipv4.ip_local_port_range
	ephemeralLast  uint16

	// owned by the loop's thread
	sessions  loop.Slab[session]
	sockets   []socket
	pipes     pipePool
	small     bufferPool
	large     bufferPool
	walks     []*walk                  // unused ones
	extras    *extras                  // unused ones, a list
	bulk      int                      // bytes that spliced flows may still move in this turn
	served    []loop.Token             // sessions that have moved some of them, and have more
	messageAt clock.Time               // when less than a buffer of bytes was last passed on
	first     map[*upstream.Peer]int32 // slot of a session of the peer, from which links lead to the others; -1 = none
	buf       []byte                   // every read goes here first
	addr      sys.Sockaddr             // scratch
	record    accesslog.Record         // scratch
	logs      logs
	began     func() // nil = nobody counts
	ended     func()
	paused    bool       // accepting waits for room
	handing   bool       // or for another process to take over
	noRTOMax  bool       // the kernel has no TCP_RTO_MAX_MS
	told      clock.Time // when the operator was last told of a pause

	roused roused // sessions that others want to go on
}

// logs are where sessions are written down.
type logs struct {
	access    *accesslog.Ring   // nil = no access log
	server    bool              // it wants the address that clients connected to
	decisions *decisions.Writer // nil = they hold no decisions
	recorded  bool              // decisions are kept for whoever asks later
	explain   conf.Decisions    // what of them somebody wants to know
}

// SetLogs has sessions written down elsewhere from now on. nil stands for
// nowhere. It runs on the loop's thread, or before the loop does.
func (w *Worker) SetLogs(access *accesslog.Ring, wantsServer bool, d *decisions.Writer) {
	w.logs = logs{access, wantsServer, d, w.logs.recorded, d.Wanted(w.logs.recorded)}
}

// SetRecording has all decisions remembered with their sessions from now on, or
// only those that are logged. It runs on the loop's thread, or before the loop
// does.
func (w *Worker) SetRecording(on bool) {
	w.logs.recorded, w.logs.explain = on, w.logs.decisions.Wanted(on)
}

// SetCounting has the worker tell of each session that ended, and of each that
// began without having been counted before, on a shared socket. It runs on the
// loop's thread, or before the loop does.
func (w *Worker) SetCounting(began, ended func()) { w.began, w.ended = began, ended }

// socket is a listening socket of this worker.
type socket struct {
	listener *Listener
	fd       int32 // -1 = closed
	shared   bool  // other workers accept from the same descriptor and its owner closes it
	idle     bool  // taken out of the epoll set by a pause
	quiet    int   // how many accepts are still taken to be of clients that wait for the peer

	later  clock.Time // accept_rate has it rest until then; 0 = it does not
	batch  int        // how many accepts the next turn tries
	filled uint64     // the last turn in which they were not too many
}

// NewWorker returns the TCP half of the worker of a loop. It accepts nothing
// before Serve.
func NewWorker(l *loop.Loop, opt Options) *Worker {
	w := &Worker{
		Loop:    l,
		opt:     opt,
		stats:   opt.Stats,
		buf:     make([]byte, bufferBytes),
		pipes:   pipePool{max: opt.Pipes, want: pipeBytes, stats: opt.Stats},
		small:   bufferPool{size: smallBytes, stats: opt.Stats},
		large:   bufferPool{size: bufferBytes, stats: opt.Stats},
		sockets: []socket{},
		bulk:    bulkPerTurn,
		first:   map[*upstream.Peer]int32{},
	}
	w.roused.post = w.goOn
	w.ephemeralFirst, w.ephemeralLast = ephemeralPorts()
	w.Loop.Timers.Set(timerHousekeeping, w.Loop.Now().Add(poolTrimEvery).Millis())
	return w
}

// Serve accepts from a listening socket. If shared, other workers accept from
// it too and the caller closes it after Drain; else it is the worker's from now
// on, even if this fails. It runs on the loop's thread, or before Run.
func (w *Worker) Serve(l *Listener, fd int32, shared bool) unix.Errno {
	i := slices.IndexFunc(w.sockets, func(s socket) bool { return s.fd < 0 })
	if i < 0 {
		i = len(w.sockets)
		w.sockets = append(w.sockets, socket{})
	}
	w.sockets[i] = socket{listener: l, fd: fd, shared: shared, batch: 1}
	return w.register(i)
}

// Unserve accepts no more from a listening socket. What waits in its accept
// queue is taken first, as far as there is room; then it is closed, unless it is
// shared. It runs on the loop's thread.
func (w *Worker) Unserve(fd int32) {
	if i := w.socketOf(fd); i >= 0 {
		w.drainSocket(&w.sockets[i])
	}
}

// Swap has new sessions of a listening socket be another listener's. It runs on
// the loop's thread.
func (w *Worker) Swap(fd int32, l *Listener) {
	if i := w.socketOf(fd); i >= 0 {
		w.sockets[i].listener = l
	}
}

func (w *Worker) socketOf(fd int32) int {
	return slices.IndexFunc(w.sockets, func(s socket) bool { return s.fd == fd && fd >= 0 })
}

// Pause ceases to accept: connections wait in the accept queues, for Resume or
// for another process that has the sockets too. They run on the loop's thread.
func (w *Worker) Pause() {
	w.handing = true
	for i := range w.sockets {
		w.rest(&w.sockets[i])
	}
}

// Resume is the end of Pause.
func (w *Worker) Resume() {
	w.handing, w.paused = false, true
	w.sessions.All(func(_ int32, s *session) { s.refused = false })
	w.resume()
}

// Release closes the listening sockets and leaves what waits in their queues to
// the other process. Preconditions: Pause. It runs on the loop's thread.
func (w *Worker) Release() {
	for i := range w.sockets {
		w.closeSocket(&w.sockets[i])
	}
}

// Sessions returns how many sessions there are.
func (w *Worker) Sessions() int { return w.sessions.Len() }

// register adds a listening socket to the epoll set, level-triggered so that a
// bounded round of accepts loses nothing; of the workers that share a socket
// one is woken.
func (w *Worker) register(i int) unix.Errno {
	events := uint32(unix.EPOLLIN)
	if w.sockets[i].shared {
		events |= unix.EPOLLEXCLUSIVE
	}
	return w.Loop.Add(w.sockets[i].fd, events, loop.MakeToken(loop.KindListener, 0, int32(i), 0))
}

// Drain stops accepting from every listening socket, as Unserve does from one.
// It runs on the loop's thread.
func (w *Worker) Drain() {
	for i := range w.sockets {
		w.drainSocket(&w.sockets[i])
	}
}

func (w *Worker) drainSocket(s *socket) {
	if s.fd < 0 {
		return
	}
	for w.acceptOne(s, false) {
	}
	w.closeSocket(s)
}

func (w *Worker) closeSocket(s *socket) {
	if s.fd < 0 {
		return
	}
	if s.shared {
		w.rest(s)
	} else {
		sys.Close(s.fd)
	}
	s.fd = -1
}

// CloseAll ends every session for that reason and returns how many there
// were. It runs on the loop's thread.
func (w *Worker) CloseAll(reason stats.CloseReason) int {
	n := w.sessions.Len()
	w.sessions.All(func(_ int32, s *session) { w.close(s, reason) })
	return n
}

// Close closes what the worker still has open. Preconditions: the loop has
// stopped and no session is left.
func (w *Worker) Close() {
	for i := range w.sockets {
		w.closeSocket(&w.sockets[i])
	}
	w.pipes.trim(0)
}

// OnEvent implements loop.Handler.
func (w *Worker) OnEvent(t loop.Token, events uint32) {
	if t.Kind() == loop.KindListener {
		w.onAccept(int(t.Slot()))
		return
	}
	s := w.sessions.Get(t.Slot(), t.Generation())
	if s == nil {
		w.Loop.Stats.Stale.Add(1)
		return
	}
	d := side(t.Side())
	switch {
	case t.Kind() == loop.KindHedge:
		w.onHedge(s, events)
	case w.ofFormer(s, d):
		w.Loop.Stats.Stale.Add(1)
	default:
		w.onReady(s, d, events)
	}
}

// OnTimer implements loop.Handler.
func (w *Worker) OnTimer(id int32) {
	switch id {
	case timerHousekeeping:
		w.pipes.trim(w.pipes.spare(poolKeep))
		w.small.trim(w.small.spare(poolKeep))
		w.large.trim(w.large.spare(poolKeep))
		maps.DeleteFunc(w.first, func(p *upstream.Peer, slot int32) bool { return slot < 0 && p.IsRemoved() })
		w.Loop.Timers.Set(timerHousekeeping, w.Loop.Now().Add(poolTrimEvery).Millis())
	case timerResume:
		w.resume()
	case timerAccept:
		w.acceptAgain()
	default:
		w.onDeadline(w.sessions.At(id - timerSession))
	}
}

// EndTurn implements loop.Handler.
func (w *Worker) EndTurn() {
	w.sessions.Recycle()
	w.bulk = bulkPerTurn
	for _, t := range w.served {
		w.Loop.Later(t)
	}
	w.served = w.served[:0]
}

// onAccept takes connections from a listening socket, so many in one turn. To
// ask for one that is not there costs nearly as much as to take one; so it asks
// for more only if the last turn left some.
func (w *Worker) onAccept(i int) {
	s := &w.sockets[i]
	if s.fd < 0 || s.idle {
		return
	}
	if w.paused {
		w.rest(s)
		return
	}
	turn := w.Loop.Stats.Turns.Load()
	if turn == s.filled+1 {
		s.batch = min(2*s.batch, acceptsPerTurn)
	}
	for n := range s.batch {
		if !w.acceptOne(s, true) {
			s.batch = max(n, 1)
			return
		}
	}
	s.filled = turn
}

// acceptOne takes one connection, at accept_rate if it is limited, and reports
// whether there may be more.
func (w *Worker) acceptOne(s *socket, limited bool) bool {
	rate := s.listener.ClientLimits.AcceptRate
	limited = limited && rate > 0
	if !w.opt.Room.Enter() {
		w.pause(s, "max_sessions reached", "max_sessions", w.opt.Room.Max())
		return false
	}
	if limited && !w.mayAccept(s, rate) {
		w.opt.Room.Leave()
		return false
	}
	fd, errno := sys.Accept(s.fd, &w.addr)
	if errno != 0 && limited {
		s.listener.Clients.notAccepted(rate)
	}
	if errno == 0 {
		if w.began != nil && s.shared {
			w.began()
		}
		w.open(s, fd)
		return true
	}
	w.opt.Room.Leave()
	switch errno {
	case unix.EAGAIN:
		return false
	case unix.ECONNABORTED, unix.EPROTO, unix.EPERM, unix.ENETDOWN, unix.ENETUNREACH, unix.EHOSTDOWN, unix.EHOSTUNREACH, unix.ENOPROTOOPT, unix.EOPNOTSUPP:
		// The connection was gone before we took it; accept(2) says to go on.
		return true
	}
	w.pause(s, "accept: "+errno.Error()) // EMFILE, ENFILE, ENOBUFS, ENOMEM
	return false
}

// mayAccept reports whether a listener's accept_rate allows one more connection.
// If not, the socket rests until it does: connections wait in the accept queue,
// where they cost nothing and their clients do not come back at once, as they would
// if they were refused.
func (w *Worker) mayAccept(s *socket, rate conf.Rate) bool {
	at, ok := s.listener.Clients.mayAccept(rate, w.Loop.Now())
	if ok {
		return true
	}
	s.listener.Stats[w.opt.ID].Delayed.Add(1)
	s.later = at
	w.rest(s)
	if armed, ok := w.Loop.Timers.Armed(timerAccept); !ok || armed > at.Millis()+1 {
		w.Loop.Timers.Set(timerAccept, at.Millis()+1)
	}
	return false
}

// acceptAgain accepts from the sockets whose time has come.
func (w *Worker) acceptAgain() {
	var next clock.Time
	for i := range w.sockets {
		switch s := &w.sockets[i]; {
		case s.fd < 0 || s.later == 0:
		case s.later <= w.Loop.Now():
			s.later = 0
			if !w.paused && !w.handing {
				w.wakeSocket(i)
			}
		case next == 0 || s.later < next:
			next = s.later
		}
	}
	if next != 0 {
		w.Loop.Timers.Set(timerAccept, next.Millis()+1)
	}
}

// wakeSocket puts a socket that rests into the epoll set again.
func (w *Worker) wakeSocket(i int) {
	s := &w.sockets[i]
	if s.fd < 0 || !s.idle || s.later != 0 {
		return
	}
	if errno := w.register(i); errno != 0 {
		w.pause(s, "watch listening socket: "+errno.Error()) // and try again
		return
	}
	s.idle = false
}

// pause stops accepting until there is room: connections wait in the accept
// queues, which cost nothing, and the loop is not woken for them.
func (w *Worker) pause(s *socket, why string, args ...any) {
	w.rest(s)
	if w.paused {
		return
	}
	w.paused = true
	w.stats.AcceptPauses.Add(1)
	w.Loop.Timers.Set(timerResume, w.Loop.Now().Add(resumeAfter).Millis())
	if w.told == 0 || w.Loop.Now().Sub(w.told) > time.Minute {
		w.told = w.Loop.Now()
		w.opt.Notify("not accepting until there is room: "+why, append(args, "worker", w.opt.ID, "sessions", w.opt.Room.Used())...)
	}
}

// rest takes a socket out of the epoll set until resume.
func (w *Worker) rest(s *socket) {
	if s.fd >= 0 && !s.idle {
		s.idle = true
		w.Loop.Remove(s.fd)
	}
}

// resume accepts again. If there is still no room, the next attempt pauses.
func (w *Worker) resume() {
	if !w.paused || w.handing {
		return
	}
	w.paused = false
	w.Loop.Timers.Cancel(timerResume)
	for i := range w.sockets {
		w.wakeSocket(i)
	}
}

// ephemeralPorts reads the range that the kernel takes local ports from, or
// returns all ports if it can't be read.
func ephemeralPorts() (first, last uint16) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if f := strings.Fields(string(text)); err == nil && len(f) == 2 {
		a, errA := strconv.ParseUint(f[0], 10, 16)
		b, errB := strconv.ParseUint(f[1], 10, 16)
		if errA == nil && errB == nil {
			return uint16(a), uint16(b)
		}
	}
	return 1, 65535
}

package udp

import (
	"net/netip"
	"slices"
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
	Force() // a place for a session that is there
	Leave()
}

// Options are what a Worker is made of.
type Options struct {
	ID     int // 0..workers-1; names its counters in upstream.Peer.Stats
	Room   Room
	Pooled int // idle sockets to peers that it may keep
	Stats  *stats.Worker
	Serial func() uint64 // numbers of sessions, unique in the process
	// History remembers the sessions; nil = nobody does.
	History *history.Ring
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
	owed     peerPool // idle sockets that may still get answers; of all peers
	pooled   int      // sockets in pools and owed
	attempts upstream.Attempts
	leaving  bool // a socket is
	paused   bool // nothing is read from clients
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

	addr   sys.Sockaddr     // scratch
	record accesslog.Record // scratch
	logs   logs
}

// logs are where sessions are written down.
type logs struct {
	access    *accesslog.Ring   // nil = no access log
	server    bool              // it wants the address that clients sent to
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

// socket is a listening socket of this worker.
type socket struct {
	book    *book
	bound   conf.Address
	fd      int32 // -1 = closed
	n       int   // sessions
	leaving bool  // takes no new ones, and is closed with the last
	apart   bool  // UDP_GRO goes off when the socket is empty
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
func (w *Worker) Serve(l *Listener, bound conf.Address, fd int32) unix.Errno {
	w.prepare()
	i := slices.IndexFunc(w.sockets, func(s socket) bool { return s.fd < 0 })
	if i < 0 {
		i = len(w.sockets)
		w.sockets = append(w.sockets, socket{})
	}
	w.sockets[i] = socket{book: w.bookOf(l), bound: bound, fd: fd}
	return w.watch(i)
}

// Unserve begins no more sessions from a listening socket, and closes it with
// its last session, which need it to answer. If others listen on its address,
// elsewhere says, the clients go there with their next datagram: the socket is
// connected to nobody's address, so that the kernel gives it no more of theirs.
// It runs on the loop's thread.
func (w *Worker) Unserve(fd int32, elsewhere bool) {
	i := w.socketOf(fd)
	if i < 0 {
		return
	}
	if elsewhere {
		w.leaveAddress(fd)
	}
	w.sockets[i].leaving = true
	w.leaving = true
}

// Recall has the sockets that are leaving get no more datagrams, if others are to
// listen on all of their address again. It runs on the loop's thread.
func (w *Worker) Recall(bound conf.Address) {
	for i := range w.sockets {
		if s := &w.sockets[i]; s.leaving && s.fd >= 0 && bound.Covers(s.bound) {
			w.leaveAddress(s.fd)
		}
	}
}

// Leaving reports whether a socket on the address, or a part of it, is leaving. It
// runs on the loop's thread.
func (w *Worker) Leaving(bound conf.Address) bool {
	return slices.ContainsFunc(w.sockets, func(s socket) bool { return s.leaving && s.fd >= 0 && s.bound.Overlaps(bound) })
}

// leaveAddress connects a listening socket to an address that no client has:
// answers still leave from it, and the kernel gives it nothing any more. Failing,
// it goes on as if nobody listened elsewhere.
func (w *Worker) leaveAddress(fd int32) {
	w.addr.SetInet(nobody(w.serverAddr(fd)))
	sys.Connect(fd, &w.addr)
	// Since Linux 6.13 that takes the socket out of its group. A new worker's
	// socket must join the others', and not begin a group with this one, which
	// would get all datagrams.
	sys.SetOption(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	sys.SetOption(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 0)
}

// nobody returns an address of the same family that no client has.
func nobody(local netip.AddrPort) netip.AddrPort {
	if local.Addr().Is4() {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 1)
	}
	return netip.AddrPortFrom(netip.IPv6Loopback(), 1)
}

// closeLeaving closes the sockets that have no session left.
func (w *Worker) closeLeaving() {
	w.leaving = false
	for i := range w.sockets {
		switch s := &w.sockets[i]; {
		case !s.leaving || s.fd < 0:
		case s.n > 0:
			w.leaving = true
		default:
			sys.Close(s.fd)
			s.fd = -1
		}
	}
}

// Swap has new sessions of a listening socket be another listener's. It runs on
// the loop's thread.
func (w *Worker) Swap(fd int32, l *Listener) {
	if i := w.socketOf(fd); i >= 0 {
		was, is := w.sockets[i].book, w.bookOf(l)
		if was != is {
			for _, b := range slices.Concat(was.former, []*book{was}) {
				if !slices.Contains(is.former, b) {
					is.former = append(is.former, b)
				}
			}
		}
		w.sockets[i].book = is
		if was.listener.counts() != l.counts() && !w.paused {
			w.offload(i)
			w.onDatagrams(i) // if there are none, the next ones come apart
		}
	}
	for _, b := range w.books {
		b.stale = !slices.ContainsFunc(w.sockets, func(s socket) bool { return s.fd >= 0 && s.book == b })
	}
	w.trimBooks()
}

// offload has datagrams come put together, unless they are counted. It is for when the
// worker begins to receive: until then the socket may be another process's.
func (w *Worker) offload(i int) {
	s := &w.sockets[i]
	s.apart = w.coalesce && s.book.listener.counts()
	if w.coalesce && !s.apart {
		sys.WantCoalesced(s.fd)
	}
}

func (w *Worker) socketOf(fd int32) int {
	return slices.IndexFunc(w.sockets, func(s socket) bool { return s.fd == fd && fd >= 0 })
}

func (w *Worker) bookOf(l *Listener) *book {
	for _, b := range w.books {
		if b.listener == l {
			return b
		}
	}
	b := &book{listener: l, stats: l.Stats[w.opt.ID]}
	w.books = append(w.books, b)
	return b
}

// Sessions returns how many sessions there are.
func (w *Worker) Sessions() int { return w.sessions.Len() }

// Drain begins no more sessions from any listening socket. elsewhere is as for
// Unserve. It runs on the loop's thread.
func (w *Worker) Drain(elsewhere bool) {
	for i := range w.sockets {
		w.Unserve(w.sockets[i].fd, elsewhere)
	}
}

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
		if fd := w.sockets[i].fd; fd >= 0 {
			sys.Close(fd)
			w.sockets[i].fd = -1
		}
	}
	for w.owed.n > 0 {
		w.closeConn(w.owed.pop())
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
	w.releaseOwed()
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
	if w.leaving {
		w.closeLeaving()
	}
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
	if c := w.owed.oldest(); c != nil {
		if rested := c.since.Add(c.pool.listener.Quarantine); at == 0 || rested < at {
			at = rested
		}
	}
	if at != 0 && (w.armed == 0 || at < w.armed) {
		w.armed = at
		w.loop.Timers.Set(w.opt.Timer, at.Millis()+1)
	}
}

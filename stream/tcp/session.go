package tcp

import (
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/stream/accesslog"
	"github.com/weirlb/weir/stream/decisions"
	"github.com/weirlb/weir/stream/history"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/internal/sys"
	"github.com/weirlb/weir/stream/loop"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/upstream"
)

// session is one client's connection together with its peer side. This file
// tells its life in the order in which things happen.
type session struct {
	half     [2]half // by side
	flow     [2]flow // by the side they read from
	listener *Listener
	peer     *upstream.Peer  // held until settled; nil = none
	stats    *stats.Peer     // the peer's, of this worker
	counted  *stats.Listener // the listener's, of this worker
	walk     *walk           // until it is connected, or sure not to begin anew
	extras   *extras         // nil = it needs none
	tried    string          // every attempted peer if there was more than one
	trail    *history.Trail  // nil = nobody has asked for decisions

	start     clock.Time // accepted
	picked    clock.Time // the last peer was picked
	connected clock.Time // 0 = never
	firstByte clock.Time // from the peer, or its end of input; 0 = never
	active    clock.Time // bytes last moved; in phase flushing: when that began

	serial     uint64
	client     sys.Endpoint
	slot       int32
	links      // among the sessions of its peer
	generation uint32
	tries      uint16
	phase      phase
	reason     stats.CloseReason // once blamed
	dismissed  stats.CloseReason // while packed, why it ends if it stays; not Ordered = it goes on
	blamed     bool
	guarded    bool // dead-peer options are set
	watched    bool // the timer will have the session looked at
	halfClosed bool // one side has ended its input and the other was told
	putOff     bool // the loop will call again in the next turn
	anew       bool // it begins anew in the next turn: see startOver
	packed     bool // on its way to another process: it stands still
	refused    bool // by that: it ends here
	entered    bool // it has a place among the listener's clients
}

const (
	// sessionEvents is what both halves are registered for, once.
	sessionEvents = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLPRI | unix.EPOLLET

	// flushPatience bounds the wait for the last acknowledgement before a
	// reset if half_close_timeout is off.
	flushPatience = time.Minute
)

func (s *session) token(d side) loop.Token {
	return loop.MakeToken(loop.KindSession, s.generation, s.slot, uint8(d))
}

func (w *Worker) setTimer(s *session, at clock.Time) {
	w.Loop.Timers.Set(s.slot+timerSession, at.Millis()+1)
}

// blame notes why the session will end, if nothing was noted before.
func (s *session) blame(r stats.CloseReason) {
	if !s.blamed {
		s.blamed, s.reason = true, r
	}
}

// open begins a session for an accepted connection. The place in the room was
// taken by the caller; close gives it back.
func (w *Worker) open(from *socket, fd int32) {
	l := from.listener
	slot, generation, s := w.sessions.Alloc()
	s.slot, s.generation = slot, generation
	s.listener, s.counted = l, l.Stats[w.opt.ID]
	s.start = w.Loop.Now()
	s.client = w.addr.Endpoint()
	s.half[down] = half{fd: fd, unix: s.client.IsUnix(), writable: true}
	s.half[up].fd = -1
	s.serial = w.opt.Serial()
	w.stats.DownstreamConnections.Add(1)
	w.stats.DownstreamActive.Add(1)
	s.counted.Sessions.Add(1)
	s.counted.Active.Add(1)

	if errno := w.Loop.Add(fd, sessionEvents, s.token(down)); errno != 0 {
		w.close(s, stats.LocalError)
		return
	}
	why, ok := l.Clients.enter(&l.ClientLimits, s.client)
	if !ok {
		w.refuse(s, why)
		return
	}
	s.entered = true
	w.extrasFor(s)
	if !w.readAhead(from, s) {
		return
	}
	s.walk = w.borrowWalk(s)
	l.Group.Begin(&s.walk.Attempts, l.Limits, s.start)
	s.walk.Priority = l.Priority
	if l.Group.Keyed() {
		w.makeKey(s)
	}
	w.connect(s)
}

// readAhead takes what the client has said already. Its first bytes then go to
// the peer in the packet that completes the connect. Where clients wait for the
// peer to speak first, it looks only now and then. If there is more, an event
// will tell. It returns false if the client is gone and the session with it.
func (w *Worker) readAhead(from *socket, s *session) bool {
	if s.extras != nil && s.extras.turn.limiter != nil {
		return true // they begin a turn, which may have to wait
	}
	if from.quiet > 0 || w.small.lent >= aheadBuffers || w.opt.Relay == Splice {
		from.quiet = max(from.quiet-1, 0)
		return true
	}
	f := &s.flow[down]
	f.buf = w.small.get()
	n, errno := sys.Recv(s.half[down].fd, f.buf)
	if errno == 0 && n > 0 {
		f.pending = int32(n)
		w.count(s, down, stats.Copied, n)
		return true
	}
	w.returnEmpty(f)
	switch errno {
	case 0: // an event will tell of the end
	case unix.EAGAIN:
		from.quiet = quietAccepts
	default:
		s.breakHalf(down, errno)
		w.close(s, s.reason)
		return false
	}
	return true
}

// makeKey has the upstream make what its method hashes.
func (w *Worker) makeKey(s *session) {
	f := upstream.Facts{Client: s.client.AddrPort(), Listener: s.listener.Name, Connection: s.serial}
	if sys.LocalAddr(s.half[down].fd, &w.addr) == 0 {
		server := w.addr.Endpoint()
		f.Server = server.AddrPort()
	}
	s.walk.Key = s.listener.Group.AppendKey(s.walk.Key, &f)
}

// connect picks peers until one connects at once or keeps us waiting.
func (w *Worker) connect(s *session) {
	s.anew = false
	for {
		p := w.pick(s)
		if p == nil {
			w.onNoPeer(s)
			return
		}
		w.endWait(s)
		s.peer, s.stats = p, p.Stats(w.opt.ID)
		s.picked = w.Loop.Now()
		w.link(s)
		s.tries++
		s.stats.Sessions.Add(1)
		w.stats.UpstreamConnections.Add(1)
		s.setPhase(connecting)

		errno, local := w.dial(s)
		switch {
		case errno == 0:
			if w.onConnected(s) {
				return
			}
		case errno == unix.EINPROGRESS:
			at, ok := w.expectHedge(s)
			if !ok {
				at = s.picked.Add(s.listener.ConnectTimeout)
			}
			w.setTimer(s, at)
			return
		case local:
			w.release(s, upstream.Succeeded, decisions.Cause(errno))
			w.close(s, stats.LocalError)
			return
		default:
			o := upstream.Failed
			if errno == unix.EADDRNOTAVAIL {
				o = upstream.Succeeded // we have run out of ports; the peer is not to blame
			}
			if !w.nextUpstream(s, o, stats.ConnectFailed, decisions.Cause(errno)) {
				return
			}
		}
	}
}

// dial opens the upstream half, starts its connect and registers it. local says
// that an error is no fault of the peer.
func (w *Worker) dial(s *session) (errno unix.Errno, local bool) {
	s.half[up], errno, local = w.dialTo(s, s.peer)
	if errno != 0 && errno != unix.EINPROGRESS {
		return errno, local
	}
	if err := w.Loop.Add(s.half[up].fd, sessionEvents, s.token(up)); err != 0 {
		return err, true
	}
	return errno, false
}

// dialTo opens a half to a peer and starts its connect. local says that an error
// came before connect(2).
func (w *Worker) dialTo(s *session, p *upstream.Peer) (h half, errno unix.Errno, local bool) {
	if p.IsUnix() {
		w.addr.SetUnix(p.Path)
	} else {
		w.addr.SetInet(p.Addr)
	}
	h.fd, errno = sys.StreamSocket(w.addr.Family())
	if errno != 0 {
		return half{fd: -1}, errno, true
	}
	h.unix, h.writable = p.IsUnix(), true
	if !h.unix {
		h.nagle = true
		if s.flow[down].pending > 0 {
			// The ACK that completes the connect waits for these bytes.
			sys.DelayAck(h.fd)
		}
		if c := s.listener.Group.Congestion(); c != "" {
			sys.SetCongestion(h.fd, c) // checked at start
		}
	}
	return h, sys.Connect(h.fd, &w.addr), false
}

// onReady is told of readiness, or (events 0) that put-off work may go on.
func (w *Worker) onReady(s *session, d side, events uint32) {
	h := &s.half[d]
	if events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		h.readable = true
	}
	if events&(unix.EPOLLOUT|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		h.writable = true
	}
	if events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		h.hungUp = true
	}
	if events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR|unix.EPOLLPRI) == unix.EPOLLRDHUP {
		h.finished = !h.unix
	}
	if events&unix.EPOLLPRI != 0 {
		h.urgent = true
	}
	if events == 0 {
		s.putOff = false
	}
	if s.packed {
		return // an event of this batch, or put-off work
	}
	switch s.phase {
	case queued:
		if d == down && events&unix.EPOLLERR != 0 {
			if errno := sys.SocketError(h.fd); errno != 0 {
				s.breakHalf(d, errno)
			}
		}
		if h.hungUp {
			w.leaveEarly(s)
		}
	case pausing:
		if s.anew && events == 0 {
			w.connect(s)
		}
	case refusing:
		if !s.putOff {
			w.speak(s)
		}
	case connecting:
		// The client's events wait: a client that leaves now does not cancel
		// the attempt, as in nginx.
		if d == up && events&(unix.EPOLLOUT|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
			w.onConnect(s, events&(unix.EPOLLHUP|unix.EPOLLERR) != 0)
		}
	case relaying:
		if events&unix.EPOLLERR != 0 && !h.broken() {
			// The reset of a half that we neither read nor write must be seen
			// too: its other half may be stalled.
			if errno := sys.SocketError(h.fd); errno != 0 {
				s.breakHalf(d, errno)
			}
		}
		if !s.putOff { // else its turn comes, once
			w.advance(s)
		}
	case flushing:
		w.flush(s)
	}
}

// onConnect finds out how a connect that was in progress ended. Without an
// EPOLLERR or EPOLLHUP it went well.
func (w *Worker) onConnect(s *session, doubtful bool) {
	var errno unix.Errno
	if doubtful {
		errno = sys.SocketError(s.half[up].fd)
	}
	if errno != 0 && !stood(errno) {
		if w.nextUpstream(s, upstream.Failed, stats.ConnectFailed, decisions.Cause(errno)) {
			w.connect(s)
		}
		return
	}
	if !w.onConnected(s) {
		w.connect(s)
		return
	}
	if s.phase != relaying {
		return
	}
	if errno != 0 {
		s.breakHalf(up, errno)
	}
	w.advance(s)
}

// stood reports whether an error is of a connection that had come about. A reset of
// one that had not is ECONNREFUSED (the kernel's tcp_reset). It is no failure of the
// peer, which may have said something before.
func stood(errno unix.Errno) bool { return errno == unix.ECONNRESET || errno == unix.EPIPE }

// onConnected begins to relay. It returns false if the connection turned out
// to be one of the socket to itself and another peer shall be tried, and true
// if the session is on its way or closed.
func (w *Worker) onConnected(s *session) bool {
	if w.connectedToItself(s) {
		return !w.nextUpstream(s, upstream.Failed, stats.ConnectFailed, decisions.ToItself)
	}
	if s.hasHedge() {
		s.walk.Spare(s.extras.hedge.peer)
		w.endHedge(s, upstream.Abandoned, decisions.NoFailure)
	}
	now := w.Loop.Now()
	s.listener.Group.Connected(s.peer, now.Sub(s.picked), now)
	s.listener.Group.Stats(w.opt.ID).Connect.Observe(now.Sub(s.picked))
	if s.extras != nil && s.extras.held.wanted {
		w.hold(s)
	} else {
		w.endWalk(s)
	}
	s.connected, s.active, s.watched = now, now, true
	s.blamed = false // of failed attempts before this one
	if s.half[down].ended {
		s.blame(stats.ClientClosed) // before it began anew
	}
	s.setPhase(relaying)
	w.setTimer(s, now.Add(w.firstLook(s)))
	return true
}

// firstLook returns how soon a session that begins to relay is looked at.
func (w *Worker) firstLook(s *session) time.Duration {
	first := guardAfter + time.Duration(s.serial%guardSpread)*time.Millisecond
	if t := s.listener.IdleTimeout; t > 0 && t < first {
		first = t
	}
	if t := s.listener.DeadPeerTimeout; t > 0 && t/2 < first {
		first = t / 2
	}
	return first
}

// connectedToItself detects TCP's simultaneous open of one socket with itself:
// a connect to a local port of the ephemeral range on which nobody listens can
// be given that very port as its source.
func (w *Worker) connectedToItself(s *session) bool {
	port := s.peer.Addr.Port()
	if s.half[up].unix || port < w.ephemeralFirst || port > w.ephemeralLast {
		return false
	}
	if sys.LocalAddr(s.half[up].fd, &w.addr) != 0 {
		return false
	}
	local := w.addr.Endpoint()
	return local.Port == port && local.Addr() == s.peer.Addr.Addr().Unmap()
}

// nextUpstream settles a failed attempt (ngx_stream_proxy_next_upstream) and
// reports whether another peer shall be tried now. If not, another attempt is under
// way already or comes after a wait, or the session is closed.
func (w *Worker) nextUpstream(s *session, o upstream.Outcome, why stats.CloseReason, cause decisions.Cause) bool {
	w.stats.UpstreamFailures.Add(1)
	w.release(s, o, cause)
	s.blamed, s.reason = true, why // the last attempt's failure is the session's
	s.connected = 0
	if w.hedgeStands(s) {
		s.walk.Again(w.Loop.Now())
		w.promote(s)
		return false
	}
	counters, wait := s.listener.Group.Stats(w.opt.ID), s.backoff()
	again, denied := s.listener.Group.Again(&s.walk.Attempts, wait, w.Loop.Now())
	switch {
	case denied:
		counters.RetriesDenied.Add(1)
		w.close(s, why)
	case !again:
		w.close(s, why)
	case wait < time.Millisecond:
		counters.Retries.Add(1)
		return true
	default:
		counters.Retries.Add(1)
		s.setPhase(pausing)
		w.setTimer(s, w.Loop.Now().Add(wait))
	}
	return false
}

// release closes the upstream half and gives its peer back, after a failed
// attempt if there is a cause.
func (w *Worker) release(s *session, o upstream.Outcome, cause decisions.Cause) {
	if fd := s.half[up].fd; fd >= 0 {
		sys.Close(fd)
		s.half[up].fd = -1
	}
	w.unlink(s)
	w.giveBack(s, s.peer, s.took(w.Loop.Now()), o, cause)
	s.peer = nil
}

// took returns what the session has measured of its use of its peer.
func (s *session) took(now clock.Time) upstream.Took {
	t := upstream.Took{Connect: -1, FirstByte: -1, Whole: now.Sub(s.picked), Pending: s.connected == 0}
	if s.connected != 0 {
		t.Connect = s.connected.Sub(s.picked)
	}
	if s.firstByte != 0 {
		t.FirstByte = s.firstByte.Sub(s.picked)
	}
	if s.connected != 0 && s.flow[up].read == 0 {
		switch s.reason {
		case stats.ClientClosed, stats.ClientReset, stats.IdleTimeout, stats.HalfCloseTimeout:
			t.Word = upstream.NoNeed
			if s.flow[down].sent > 0 {
				t.Word = upstream.Silence
			}
		case stats.PeerClosed, stats.PeerReset:
			t.Word = upstream.Broke
		}
		if s.cancels() {
			t.Word = upstream.NoNeed
		}
	}
	return t
}

// cancelBytes is the length of PostgreSQL's CancelRequest, after which the server
// closes without a word.
const cancelBytes = 16

// cancels reports whether the client has sent that and nothing else.
func (s *session) cancels() bool {
	return s.listener.cancels && s.flow[down].read == cancelBytes
}

// endWalk keeps the list of attempted peers and returns the rest to the worker.
func (w *Worker) endWalk(s *session) {
	if s.walk == nil {
		return
	}
	s.listener.Group.Settle(&s.walk.Attempts)
	if tried := s.walk.Tried(); len(tried) > 0 {
		s.tried = tried[0].String()
		if len(tried) > 1 {
			names := make([]string, len(tried))
			for i, p := range tried {
				names[i] = p.String()
			}
			s.tried = strings.Join(names, ", ")
		}
	}
	w.walks = append(w.walks, s.walk)
	s.walk = nil
}

// advance moves what can be moved in both directions and then looks at where
// the session stands.
func (w *Worker) advance(s *session) {
	bulk := w.bulk
	more := w.relay(s, down)
	if w.relay(s, up) {
		more = true
	}
	if s.unheardOf() {
		w.startOver(s)
		return
	}
	for _, d := range [...]side{down, up} {
		if s.half[d].broken() {
			w.onBroken(s, d)
			return
		}
	}
	switch fd, fu := s.flow[down].done, s.flow[up].done; {
	case fd && fu:
		w.close(s, s.reason)
		return
	case fd:
		w.passEnd(s, down)
	case fu:
		w.passEnd(s, up)
	}
	switch {
	case !more:
	case w.bulk < bulk && !s.putOff:
		s.putOff = true
		w.served = append(w.served, s.token(down))
	default:
		w.putOff(s)
	}
}

// putOff has the session go on in the next turn, before those that have moved bulk in
// this one.
func (w *Worker) putOff(s *session) {
	if !s.putOff {
		s.putOff = true
		w.Loop.Later(s.token(down))
	}
}

// relay moves bytes of the flow that reads from half d until one side makes us
// wait. It returns true if it stopped only because others shall have a turn.
func (w *Worker) relay(s *session, d side) (more bool) {
	f, src, dst := &s.flow[d], &s.half[d], &s.half[d.other()]
	for rounds, moved := 0, 0; !f.done; rounds++ {
		if dst.broken() {
			w.discard(f)
			f.done = true
			return false
		}
		if f.pending > 0 {
			if !dst.writable {
				return false
			}
			w.deliver(s, d)
			continue
		}
		if src.ended {
			f.done = true
			return false
		}
		// Nothing is read that could not be passed on: a slow reader stops
		// its writer.
		if !src.readable || !dst.writable {
			return false
		}
		if rounds >= roundsPerTurn || w.hadItsPart(f, moved) {
			return true
		}
		if s.extras == nil {
			moved += w.take(s, d, maxTake)
			continue
		}
		most := w.mayTake(s, d)
		switch {
		case most == 0 && src.ended:
			continue
		case most == 0:
			return false // until time or a turn's end allows it
		}
		moved += w.take(s, d, most)
		w.readNothing(s)
	}
	return false
}

// hadItsPart reports whether a flow that has moved so many bytes in this turn leaves
// the rest of it to others. It is asked before each read.
//
// Bulk has a part in common, so that no turn takes long however many flows there are:
// messages beside 64 streams had a p99 of 2.4 ms where it was 5.2. Where messages
// come and go a flow moves less than that. Where there are none it runs on, as long
// runs cost less: with bulk of 8 and 64 threads (iperf 2) weir's CPU was 0.89 and
// 0.85 of what it is at 1 MiB for each flow, at 1.0 and 1.04 of the rate. The whole
// machine's was 0.99 and 0.98: most of it is work that receivers do then, being awake.
func (w *Worker) hadItsPart(f *flow, moved int) bool {
	if f.splice && w.bulk <= 0 {
		return true
	}
	alone := f.splice && w.Loop.Now().Sub(w.messageAt) > messagesAbout
	return moved >= bytesPerFlow && !alone
}

// maxTake is more than what one read takes.
const maxTake = 1 << 30

// take reads once, at most so many bytes, and sends on what it got. Preconditions:
// nothing is pending.
func (w *Worker) take(s *session, d side, most int) int {
	f, src := &s.flow[d], &s.half[d]
	if (f.splice || w.opt.Relay == Splice && !f.noSplice) && (d == up || !s.holds()) {
		if p := w.pipes.get(); p != nil {
			return w.takeSpliced(s, d, p, most)
		}
	}
	buf := w.buf[:min(len(w.buf), most)]
	n, errno := sys.Recv(src.fd, buf)
	switch {
	case errno == unix.EAGAIN:
		s.drained(d)
		return 0
	case errno != 0:
		s.breakHalf(d, errno)
		src.ended = true
		return 0
	case n == 0:
		w.endInput(s, d)
		return 0
	}
	// A short read has emptied the socket, and new bytes will make a new
	// event; only if the end was announced there is something left to read.
	// After a FIN that is nothing but the end itself, and these bytes wait for
	// passEnd to send them with a FIN in one packet.
	last := false
	if n < len(buf) {
		w.messageAt = w.Loop.Now()
		last = src.finished && !src.broken()
		src.readable = src.hungUp || src.urgent
	} else if n == len(w.buf) {
		f.splice = w.opt.Relay == Auto && !f.noSplice
		w.bulk -= n
	}
	w.count(s, d, stats.Copied, n)
	if d == down && s.holds() {
		w.holdMore(s, buf[:n])
	}

	s.hurry(d)
	sent, errno := sys.Send(s.half[d.other()].fd, w.buf[:n], last)
	w.sent(s, d, sent, errno)
	if last {
		w.endInput(s, d)
	}
	if errno != 0 {
		sent = 0
	}
	if rest := w.buf[sent:n]; len(rest) > 0 && !s.half[d.other()].broken() {
		w.keep(f, rest)
	}
	return n
}

// takeSpliced reads once into an empty pipe and sends on from there. The pipe
// stays with the flow only if bytes stay in it.
func (w *Worker) takeSpliced(s *session, d side, p *pipe, most int) int {
	f, src := &s.flow[d], &s.half[d]
	n, errno := sys.Splice(src.fd, p.w, min(int(p.size), spliceBytes, most))
	if errno != 0 || n == 0 {
		w.pipes.put(p)
		switch {
		case errno == unix.EAGAIN && src.urgent:
			f.splice, f.noSplice = false, true // only a read gets past it
		case errno == unix.EAGAIN:
			// The pipe is empty, so it was the socket that had nothing.
			s.drained(d)
		case errno == unix.EINVAL:
			f.splice, f.noSplice = false, true
		case errno != 0:
			s.breakHalf(d, errno)
			src.ended = true
		default:
			w.endInput(s, d)
		}
		return 0
	}
	if n < spliceBelow {
		f.splice = false
	}
	w.bulk -= n
	w.count(s, d, stats.Spliced, n)
	f.pipe, f.pending = p, int32(n)
	w.deliver(s, d)
	return n
}

// deliver sends on what is pending.
func (w *Worker) deliver(s *session, d side) {
	f, dst := &s.flow[d], &s.half[d.other()]
	s.hurry(d)
	var n int
	var errno unix.Errno
	if f.pipe != nil {
		n, errno = sys.Splice(f.pipe.r, dst.fd, int(f.pending))
	} else {
		n, errno = sys.Send(dst.fd, f.rest(), false)
	}
	w.sent(s, d, n, errno)
	if errno != 0 {
		return
	}
	f.pending -= int32(n)
	f.off += int32(n)
	if f.pending == 0 {
		w.returnEmpty(f)
	}
}

// hurry has every write of flow d but the first go out at once. The first does
// so by itself, having no earlier small packet to wait for (Nagle's rule as in
// the kernel's tcp_minshall_check), and many sessions have no other.
func (s *session) hurry(d side) {
	if dst := &s.half[d.other()]; dst.nagle && s.flow[d].sent > 0 {
		dst.nagle = false
		sys.SetNoDelay(dst.fd)
	}
}

// sent notes the result of a write of flow d.
func (w *Worker) sent(s *session, d side, n int, errno unix.Errno) {
	dst := &s.half[d.other()]
	switch errno {
	case 0:
		if n == 0 {
			dst.writable = false // never seen; an event will say when to go on
		}
		s.flow[d].sent += uint64(n)
		s.active = w.Loop.Now()
		if !s.watched {
			w.watch(s)
		}
		if d == down {
			s.stats.Sent.Add(uint64(n))
		}
	case unix.EAGAIN:
		dst.writable = false
	default:
		s.breakHalf(d.other(), errno)
	}
}

// count notes bytes read by flow d.
func (w *Worker) count(s *session, d side, p stats.Path, n int) {
	s.flow[d].read += uint64(n)
	s.counted.Bytes[p][d.to()].Add(uint64(n))
	s.active = w.Loop.Now()
	if d == up {
		s.stats.Received.Add(uint64(n))
		w.onFirstByte(s)
	}
	if s.extras != nil {
		w.onMoved(s, d, n)
	}
}

// onFirstByte notes when the peer first said something, or that it never will:
// an end of input counts too, as in nginx.
func (w *Worker) onFirstByte(s *session) {
	if s.firstByte != 0 {
		return
	}
	s.firstByte = w.Loop.Now()
	if s.holds() {
		w.bind(s)
	}
	if g := s.listener.Group; g.WantsFirstByte() {
		g.FirstByte(s.peer, s.flow[up].read > 0, s.firstByte.Sub(s.picked), s.firstByte)
	}
}

// returnEmpty gives back the pipe or buffer of a flow with nothing pending.
func (w *Worker) returnEmpty(f *flow) {
	if f.pipe != nil {
		w.pipes.put(f.pipe)
		f.pipe = nil
	}
	if f.buf != nil {
		w.buffersFor(len(f.buf)).put(f.buf)
		f.buf = nil
	}
}

// discard drops what is pending.
func (w *Worker) discard(f *flow) {
	if f.pipe != nil {
		w.pipes.discard(f.pipe)
		f.pipe = nil
	}
	f.pending = 0
	w.returnEmpty(f)
}

// drained notes that half d has nothing to read. A broken half never will.
func (s *session) drained(d side) {
	h := &s.half[d]
	h.readable, h.urgent = false, false
	h.ended = h.ended || h.broken()
}

// endInput notes that half d has ended its input.
func (w *Worker) endInput(s *session, d side) {
	s.half[d].ended = true
	if d == down {
		s.blame(stats.ClientClosed)
		return
	}
	s.blame(stats.PeerClosed)
	if !s.unheardOf() { // else it begins anew
		w.onFirstByte(s)
	}
}

// breakHalf notes that the connection of half d is broken. What it sent before
// can still be read.
func (s *session) breakHalf(d side, errno unix.Errno) {
	if s.half[d].broken() {
		return
	}
	s.half[d].err = uint8(errno)
	s.half[d].readable = true // to find what it sent before, and the end
	s.half[d].hungUp = true
	if !s.half[d.other()].broken() {
		s.blamed, s.reason = true, reasonFor(d, uint8(errno))
	}
}

// passEnd tells the half that flow d writes to that no more will come, once.
func (w *Worker) passEnd(s *session, d side) {
	dst := &s.half[d.other()]
	if dst.shut {
		return
	}
	dst.shut = true
	sys.ShutdownWrite(dst.fd)
	s.halfClosed = true
	s.active = w.Loop.Now()
	w.endsBy(s)
}

// endsBy has the timer of a session that was half-closed fire no later than its
// deadline: a look, a rate or a turn may be due before.
func (w *Worker) endsBy(s *session) {
	if at, ok := s.deadline(); ok {
		w.wakeBy(s, at)
	}
}

// onBroken ends a session whose half d is broken, as soon as the other half
// was sent all that came from d before.
func (w *Worker) onBroken(s *session, d side) {
	if !s.flow[d].done {
		// The other half is slow. It has half_close_timeout to go on.
		if !s.halfClosed {
			s.halfClosed = true
			w.endsBy(s)
		}
		if s.half[d].readable && s.half[d.other()].writable && !s.slowed(d) {
			w.putOff(s)
		}
		return
	}
	s.active = w.Loop.Now()
	s.setPhase(flushing)
	w.flush(s)
}

// flush resets the half that still stands once it has acknowledged everything:
// a reset drops what is still queued. The kernel tells nobody when a send queue
// has emptied, so it is looked at again and again, ever less often.
func (w *Worker) flush(s *session) {
	d := down
	if s.half[down].broken() {
		d = up
	}
	h := &s.half[d]
	waited := w.Loop.Now().Sub(s.active)
	patience := s.listener.HalfCloseTimeout
	if patience == 0 {
		patience = flushPatience
	}
	if h.broken() || h.unix || waited >= patience || sys.SocketError(h.fd) != 0 {
		w.close(s, s.reason)
		return
	}
	if queued, errno := sys.SendQueue(h.fd); queued == 0 || errno != 0 {
		w.close(s, s.reason)
		return
	}
	w.setTimer(s, w.Loop.Now().Add(min(max(waited/4, time.Millisecond), 100*time.Millisecond)))
}

// deadline returns when a relaying session ends if no byte moves, and false
// for never.
func (s *session) deadline() (clock.Time, bool) {
	t := s.listener.IdleTimeout
	if s.halfCloseTimed() {
		t = s.listener.HalfCloseTimeout
	}
	return s.active.Add(t), t > 0
}

// halfCloseTimed reports whether half_close_timeout holds, and not idle_timeout.
func (s *session) halfCloseTimed() bool {
	return s.halfClosed && s.listener.HalfCloseTimeout > 0
}

// onDeadline is called when a session's timer has run out. While bytes move
// nobody touches the timer; it is set anew when it finds that they did.
func (w *Worker) onDeadline(s *session) {
	now := w.Loop.Now()
	switch s.phase {
	case queued:
		w.refuse(s, stats.QueueTimeout)
	case pausing:
		w.connect(s)
	case refusing:
		w.close(s, s.reason)
	case connecting:
		if w.hedgeDue(s) {
			w.startHedge(s)
			w.setTimer(s, s.picked.Add(s.listener.ConnectTimeout))
			return
		}
		if w.nextUpstream(s, upstream.Failed, stats.ConnectTimeout, decisions.TimedOut) {
			w.connect(s)
		}
	case relaying:
		if s.extras != nil && !w.onTurnDue(s) {
			return
		}
		at, ok := s.deadline()
		if ok && now >= at {
			w.onSilence(s)
			return
		}
		if look, more := w.look(s); more && (!ok || look < at) {
			at, ok = look, true
		}
		if ok {
			w.setTimer(s, at)
		}
		if s.half[down].broken() || s.half[up].broken() || s.extras != nil {
			w.advance(s)
		}
		if s.extras != nil && s.phase == relaying {
			if at, ok := s.extras.due(s, now); ok {
				w.wakeBy(s, at)
			}
		}
	case flushing:
		w.flush(s)
	}
}

// onSilence ends a session in which no byte has moved for too long.
func (w *Worker) onSilence(s *session) {
	switch {
	case s.half[down].broken() || s.half[up].broken():
		w.close(s, s.reason) // the other half did not take the last bytes
	case s.halfCloseTimed():
		w.close(s, stats.HalfCloseTimeout)
	default:
		w.close(s, stats.IdleTimeout)
	}
}

// close ends the session: the one way out. It settles the peer, the timer, the
// pipes and buffers, the counters, the log line and the descriptors. Calling it
// again does nothing.
func (w *Worker) close(s *session, reason stats.CloseReason) {
	if s.phase == closed {
		return
	}
	w.leaveQueue(s)
	s.setPhase(closed)
	s.reason = reason
	w.Loop.Timers.Cancel(s.slot + timerSession)
	w.endWalk(s)

	for _, d := range [...]side{down, up} {
		h, in := &s.half[d], &s.flow[d.other()]
		if h.fd < 0 {
			continue
		}
		// What ends for a reset, or for an order, is reset, and so is a client that
		// was refused and not told. So is a half that was still owed bytes: a FIN
		// would pass a cut stream off as a whole one.
		if reason.Ordered() || reason.Refused() && !h.shut || s.half[d.other()].broken() || in.pending > 0 || s.cutShort(d) || s.unheard(d) {
			sys.SetReset(h.fd)
		}
	}
	w.logEnd(s)
	for i := range s.flow {
		w.discard(&s.flow[i])
	}
	if fd := s.half[down].fd; fd >= 0 {
		sys.Close(fd)
	}
	if s.peer != nil {
		o := upstream.Succeeded
		if s.connected == 0 {
			o = upstream.Abandoned
		}
		w.release(s, o, decisions.NoFailure)
	}
	w.depart(s)
	s.counted.Closed[reason].Add(1)
	s.counted.Active.Add(-1)
	w.stats.DownstreamActive.Add(-1)
	w.opt.Room.Leave()
	if w.ended != nil {
		w.ended()
	}
	w.sessions.Free(s.slot)
	if w.paused {
		w.resume()
	}
}

// depart gives back what the session has of its listener and its worker.
func (w *Worker) depart(s *session) {
	w.returnExtras(s)
	if s.entered {
		s.listener.Clients.leave(&s.listener.ClientLimits, s.client)
	}
}

// cutShort reports whether half d was still due bytes that its other half
// holds unread in its socket.
func (s *session) cutShort(d side) bool {
	src := &s.half[d.other()]
	return s.connected != 0 && src.fd >= 0 && src.readable && !src.ended && !s.half[d].shut
}

// unheard reports whether what half d sent was read and never passed on, as
// no peer was found. The kernel resets a connection whose bytes nobody read.
func (s *session) unheard(d side) bool { return s.connected == 0 && s.flow[d].pending > 0 }

// logEnd hands what is known of the session to the access log and to the
// worker's memory.
func (w *Worker) logEnd(s *session) {
	now := w.Loop.Now()
	r := &w.record
	*r = accesslog.Record{
		Listener:         s.listener.Name,
		Upstream:         s.listener.Group.Name,
		UpstreamAddr:     s.tried,
		Connection:       s.serial,
		Client:           s.client,
		Start:            s.start,
		End:              now,
		Reason:           s.reason,
		Tries:            int(s.tries),
		ConnectTime:      -1,
		FirstByteTime:    -1,
		UpstreamTime:     -1,
		Received:         s.flow[down].read,
		Sent:             s.flow[up].sent,
		UpstreamSent:     s.flow[down].sent,
		UpstreamReceived: s.flow[up].read,
	}
	if s.tries > 0 {
		r.UpstreamTime = now.Sub(s.picked)
	}
	if s.connected != 0 {
		r.ConnectTime = s.connected.Sub(s.picked)
	}
	if s.firstByte != 0 {
		r.FirstByteTime = s.firstByte.Sub(s.picked)
	}
	if w.logs.server && sys.LocalAddr(s.half[down].fd, &w.addr) == 0 {
		r.Server = w.addr.Endpoint()
	}
	w.opt.History.Put(r, s.trail)
	if w.logs.access != nil {
		w.logs.access.Put(r)
	}
}

package udp

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/accesslog"
	"github.com/weirlb/weir/stream/decisions"
	"github.com/weirlb/weir/stream/history"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/internal/sys"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/upstream"
)

// session is what one client address sends to one local address, with its peer
// side. This file tells its life in the order in which things happen.
type session struct {
	book  *book
	key   key
	conn  *conn          // nil until a peer is picked
	peer  *upstream.Peer // held until finish; nil = none
	stats *stats.Peer    // the peer's, of this worker
	trail *history.Trail // nil = nobody has asked for decisions
	slot  int32
	tries uint16

	first, last int16 // its messages in the batch at hand; -1 = none
	bound       bool  // datagrams of the client find it
	refused     bool  // the peer has no such port
	unsent      bool  // what is at hand was not sent because of that
	moved       bool  // and came from another session for that reason
	packed      bool  // on its way to another process: it stands still

	order        *order
	older, newer *session

	start     clock.Time
	active    clock.Time // something last moved
	firstByte clock.Time // from the peer; 0 = never

	serial              uint64
	requests, responses uint64 // datagrams
	received, sent      uint64 // bytes from and to the client
	peerSent            uint64 // bytes to the peer
	peerReceived        uint64 // and from it
}

// session returns the session that a datagram belongs to, a new one if need
// be, or nil if there can be none.
func (w *Worker) session(k key) *session {
	s := w.table[k]
	if s == nil {
		return w.open(k)
	}
	// What it has in the batch at hand goes to one peer.
	forsaken := s.peer.IsForsaken() && !w.sockets[k.socket].leaving // else there is nowhere to go
	if s.first < 0 && (s.refused || forsaken) {
		w.end(s)
		return w.open(k)
	}
	return s
}

// open begins a session.
func (w *Worker) open(k key) *session {
	b := w.sockets[k.socket].book
	if w.sockets[k.socket].leaving || !w.admit(b) {
		return nil
	}
	slot, _, s := w.sessions.Alloc()
	*s = session{book: b, key: k, slot: slot, first: -1, last: -1, bound: true, start: w.loop.Now(), active: w.loop.Now()}
	s.serial = w.opt.Serial()
	w.stats.DownstreamConnections.Add(1)
	b.stats.Sessions.Add(1)
	w.enter(s)
	if !w.connect(s) {
		return nil
	}
	return s
}

// enter takes a session into the books.
func (w *Worker) enter(s *session) {
	s.book.n++
	w.sockets[s.key.socket].n++
	o := &s.book.fresh
	if s.proven() {
		o = &s.book.proven
	}
	o.add(s)
	if s.bound {
		w.table[s.key] = s
	}
	s.book.stats.Active.Add(1)
	w.stats.DownstreamActive.Add(1)
}

// admit takes a place for a session of the listener.
func (w *Worker) admit(b *book) bool {
	if most := b.listener.MaxSessions; most > 0 && b.sessions() >= most && !w.makeRoom(b) {
		return false
	}
	return w.opt.Room.Enter() || w.makeRoom(b) && w.opt.Room.Enter()
}

// connect picks the session's peer. Another one is tried only if this machine
// can't send to the first.
func (w *Worker) connect(s *session) bool {
	l := s.book.listener
	l.Group.Begin(&w.attempts, l.Limits, s.start)
	if l.Group.Keyed() {
		w.makeKey(s)
	}
	for {
		p := w.pick(s)
		if p == nil {
			l.Group.Stats(w.opt.ID).NoPeer.Add(1)
			w.finish(s, stats.NoPeer, decisions.NoFailure)
			return false
		}
		s.peer, s.stats = p, p.Stats(w.opt.ID)
		s.tries++
		s.stats.Sessions.Add(1)
		w.stats.UpstreamConnections.Add(1)
		c, errno, local := w.connTo(l, p)
		switch {
		case errno == 0:
			s.conn, c.session = c, s
			return true
		case local:
			w.finish(s, stats.LocalError, decisions.NoFailure)
			return false
		}
		w.release(s, decisions.Cause(errno))
		if !w.attempts.Again(s.start) {
			w.finish(s, stats.ConnectFailed, decisions.NoFailure)
			return false
		}
	}
}

// makeKey has the upstream make what its method hashes.
func (w *Worker) makeKey(s *session) {
	l := s.book.listener
	server := w.serverOf(s)
	f := upstream.Facts{Client: s.key.client.AddrPort(), Server: server.AddrPort(), Listener: l.Name, Connection: s.serial, Protocol: conf.UDP}
	w.attempts.Key = l.Group.AppendKey(w.attempts.Key, &f)
}

// onRequests counts datagrams of the client. A session that has had its number
// takes no more; it only waits for their answers.
func (w *Worker) onRequests(s *session, datagrams, bytes int) {
	s.requests += uint64(datagrams)
	s.received += uint64(bytes)
	w.touch(s)
	if most := s.book.listener.Requests; most > 0 && s.requests >= uint64(most) {
		w.unbind(s)
	}
}

func (w *Worker) unbind(s *session) {
	if s.bound {
		s.bound = false
		delete(w.table, s.key)
	}
}

// onSent counts datagrams that went to the peer.
func (w *Worker) onSent(s *session, datagrams, bytes int) {
	w.stats.DatagramsOut.Add(uint64(datagrams))
	s.peerSent += uint64(bytes)
	s.stats.Sent.Add(uint64(bytes))
	s.book.stats.Bytes[stats.Datagrams][stats.ToPeer].Add(uint64(bytes))
}

// moveOn gives the datagrams that a peer's refusal has kept from being sent to
// a session with another peer, once.
func (w *Worker) moveOn(s *session, first int) {
	n, bytes := 0, 0
	for k := first; k >= 0; k = int(w.next[k]) {
		size := len(w.in.Payload(k))
		bytes += size
		n += datagrams(size, int(w.segments[k]))
	}
	k, again := s.key, s.bound && !s.moved
	w.end(s)
	if !again {
		w.stats.LostDatagrams.Add(uint64(n))
		return
	}
	moved := w.open(k)
	if moved == nil {
		w.stats.RefusedDatagrams.Add(uint64(n))
		return
	}
	moved.moved = true
	moved.first = int16(first)
	w.onRequests(moved, n, bytes)
	w.forward(moved)
}

// datagrams returns how many of them a message is.
func datagrams(bytes, segment int) int {
	if segment == 0 {
		return 1
	}
	return (bytes + segment - 1) / segment
}

// onAnswer passes message k of the answers on.
func (w *Worker) onAnswer(c *conn, k int) {
	payload := w.answers.Payload(k)
	_, segment := w.answers.Control(k)
	n := datagrams(len(payload), segment)
	s := c.session
	if s == nil {
		w.stats.LateDatagrams.Add(uint64(n))
		return
	}
	if segment > 0 {
		w.stats.CoalescedDatagrams.Add(uint64(n))
	}
	w.stats.DatagramsIn.Add(uint64(n))
	s.responses += uint64(n)
	s.peerReceived += uint64(len(payload))
	s.stats.Received.Add(uint64(len(payload)))
	s.book.stats.Bytes[stats.Datagrams][stats.ToClient].Add(uint64(len(payload)))
	w.touch(s)
	w.onFirstByte(s)
	if w.answers.Truncated(k) {
		w.stats.TruncatedDatagrams.Add(1)
	} else {
		w.reply(s, payload, segment)
		s.sent += uint64(len(payload))
	}
	if s.answeredEnough() {
		w.end(s)
	}
}

func (w *Worker) onFirstByte(s *session) {
	if s.firstByte != 0 {
		return
	}
	s.firstByte = w.loop.Now()
	if g := s.book.listener.Group; g.WantsFirstByte() {
		g.Answered(s.peer, s.firstByte.Sub(s.start), s.firstByte)
	}
}

// onPeerError is told of an error on a socket to a peer, and reports whether
// there may be more to read. An ICMP message that nobody is there stands for one
// answer; any other, that a datagram was too large for the path say, is not the
// peer's fault.
func (w *Worker) onPeerError(c *conn, errno unix.Errno) bool {
	s := c.session
	switch {
	case s == nil:
		w.stats.LateDatagrams.Add(1)
		return true
	case !refusal(errno):
		w.stats.LostDatagrams.Add(1)
		return true
	}
	s.refused = true
	s.responses++
	if s.answeredEnough() {
		w.end(s)
		return false
	}
	return true
}

// refusal reports whether an error of a connected socket says that the peer is
// not there (icmp(7)).
func refusal(errno unix.Errno) bool {
	switch errno {
	case unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EHOSTDOWN, unix.ENOPROTOOPT, unix.EACCES:
		return true
	}
	return false
}

// answeredEnough reports whether nothing more is to come
// (ngx_stream_proxy_test_finalize).
func (s *session) answeredEnough() bool {
	l := s.book.listener
	if l.Requests > 0 && s.requests < uint64(l.Requests) {
		return false
	}
	switch l.Responses {
	case 0:
		return false
	case conf.NoResponses:
		return true
	}
	return s.responses >= uint64(l.Responses)*s.requests
}

// end ends a session before its time is over.
func (w *Worker) end(s *session) {
	switch {
	case s.refused:
		w.finish(s, stats.PeerRefused, decisions.Refused)
	case !s.answeredEnough() && s.peer.IsForsaken():
		w.finish(s, stats.PeerDown, decisions.NoFailure)
	default:
		w.finish(s, stats.Answered, decisions.NoFailure)
	}
}

// onIdle ends a session in which nothing has moved for idle_timeout.
func (w *Worker) onIdle(s *session) {
	l := s.book.listener
	switch {
	case s.refused:
		w.finish(s, stats.PeerRefused, decisions.Refused)
	case l.Responses > 0 && s.responses < uint64(l.Responses)*s.requests:
		w.finish(s, stats.NoAnswer, decisions.NoAnswer)
	default:
		w.finish(s, stats.IdleTimeout, decisions.NoFailure)
	}
}

// evict ends a session to make room for another one.
func (w *Worker) evict(s *session) {
	cause := decisions.NoFailure
	if s.refused {
		cause = decisions.Refused
	}
	w.finish(s, stats.Evicted, cause)
}

// finish ends the session: the one way out. It settles the peer, the socket,
// the table, the counters and the log line.
func (w *Worker) finish(s *session, reason stats.CloseReason, cause decisions.Cause) {
	w.unbind(s)
	s.order.remove(s)
	s.book.n--
	w.sockets[s.key.socket].n--
	r := w.logEnd(s, reason)
	switch c := s.conn; {
	case c == nil:
	case s.packed:
		w.closeConn(c) // the loop does not have it, and another process may
	default:
		w.giveBack(c, s.owed())
	}
	s.conn, s.packed = nil, false
	if s.peer != nil {
		w.release(s, cause)
	}
	w.opt.History.Put(r, s.trail) // with what the release has told
	s.book.stats.Closed[reason].Add(1)
	s.book.stats.Active.Add(-1)
	w.stats.DownstreamActive.Add(-1)
	w.opt.Room.Leave()
	w.sessions.Free(s.slot)
}

// owed reports whether something may still come to the session's socket.
func (s *session) owed() bool {
	l := s.book.listener
	if l.Responses == conf.NoResponses {
		return false
	}
	return s.refused || l.Responses == 0 || s.responses != uint64(l.Responses)*s.requests
}

// serverOf returns the address that the client sent to.
func (w *Worker) serverOf(s *session) sys.Endpoint {
	if sys.LocalAddr(w.sockets[s.key.socket].fd, &w.addr) != 0 {
		return sys.Endpoint{}
	}
	return s.key.local.Endpoint(w.addr.Endpoint())
}

// serverAddr returns the address that a listening socket is bound to.
func (w *Worker) serverAddr(fd int32) netip.AddrPort {
	if sys.LocalAddr(fd, &w.addr) != 0 {
		return netip.AddrPort{}
	}
	e := w.addr.Endpoint()
	return e.AddrPort()
}

// logEnd hands what is known of the session to the access log, and returns it.
func (w *Worker) logEnd(s *session, reason stats.CloseReason) *accesslog.Record {
	now := w.loop.Now()
	r := &w.record
	*r = accesslog.Record{
		Protocol:         conf.UDP,
		Listener:         s.book.listener.Name,
		Upstream:         s.book.listener.Group.Name,
		Connection:       s.serial,
		Client:           s.key.client,
		Start:            s.start,
		End:              now,
		Reason:           reason,
		Tries:            int(s.tries),
		ConnectTime:      -1,
		FirstByteTime:    -1,
		UpstreamTime:     -1,
		Received:         s.received,
		Sent:             s.sent,
		UpstreamSent:     s.peerSent,
		UpstreamReceived: s.peerReceived,
	}
	if s.peer != nil {
		r.UpstreamAddr = s.peer.String()
		r.UpstreamTime = now.Sub(s.start)
	}
	if s.conn != nil {
		r.ConnectTime = 0
	}
	if s.firstByte != 0 {
		r.FirstByteTime = s.firstByte.Sub(s.start)
	}
	if w.logs.server {
		r.Server = w.serverOf(s)
	}
	if w.logs.access != nil && reason != stats.HandedOver {
		w.logs.access.Put(r)
	}
	return r
}

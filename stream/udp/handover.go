package udp

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/stream/decisions"
	"github.com/weirlb/weir/stream/handover"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/internal/sys"
	"github.com/weirlb/weir/stream/loop"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/upstream"
)

// This file moves sessions between processes. The listening sockets are shared
// by both: one must have ceased to read before the other begins, and what comes
// in between waits in the sockets.

// Parcel is a session on its way to another process. Until it is settled with
// Sent or Keep, the session stands still.
type Parcel struct {
	State handover.UDPState
	FDs   []int // the socket to the peer; the session's own

	session *session
	serial  uint64
}

// Pause ceases to read from clients, and Resume begins again. They run on the
// loop's thread, or before the loop does.
func (w *Worker) Pause() {
	w.paused = true
	for i := range w.sockets {
		if s := &w.sockets[i]; s.fd >= 0 {
			w.loop.Remove(s.fd)
		}
	}
}

// Resume is the end of Pause, if there was one.
func (w *Worker) Resume() {
	if !w.paused {
		return
	}
	w.paused = false
	for i := range w.sockets {
		if s := &w.sockets[i]; s.fd >= 0 {
			w.watch(i)
		}
	}
}

// Release closes the listening sockets, which are the other process's now. What
// peers still answer to sessions that are left is lost. Preconditions: Pause. It
// runs on the loop's thread.
func (w *Worker) Release() {
	for i := range w.sockets {
		if s := &w.sockets[i]; s.fd >= 0 {
			s.leaving, w.leaving = true, true
		}
	}
}

// watch has the loop tell of a socket's datagrams, unless they wait.
func (w *Worker) watch(i int) unix.Errno {
	if w.paused {
		return 0
	}
	w.offload(i)
	return w.loop.Add(w.sockets[i].fd, unix.EPOLLIN, loop.MakeToken(loop.KindDatagrams, 0, int32(i), 0))
}

// Pack takes up to so many sessions out of the loop for another process.
// Preconditions: Pause. It runs on the loop's thread.
func (w *Worker) Pack(most int) []*Parcel {
	var out []*Parcel
	w.sessions.All(func(_ int32, s *session) {
		if len(out) < most && !s.packed {
			out = append(out, w.pack(s))
		}
	})
	return out
}

func (w *Worker) pack(s *session) *Parcel {
	s.packed = true
	w.loop.Remove(s.conn.fd)
	now := w.loop.Now()
	p := &Parcel{session: s, serial: s.serial, FDs: []int{int(s.conn.fd)}}
	b := &w.sockets[s.key.socket]
	p.State = handover.UDPState{
		Session: handover.Session{
			Serial:    s.serial,
			Listener:  s.book.listener.Name,
			Peer:      s.book.listener.Group.Ref(s.peer),
			Client:    s.key.client.AddrPort(),
			Worker:    w.opt.ID,
			Tries:     int(s.tries),
			Start:     now.Sub(s.start),
			Active:    now.Sub(s.active),
			FirstByte: -1,
		},
		Place:      handover.SocketState{Bound: b.bound},
		Local:      s.key.local.Addr(),
		LocalIndex: s.key.local.Index(),
		Requests:   s.requests, Responses: s.responses,
		Received: s.received, Sent: s.sent, PeerSent: s.peerSent, PeerRead: s.peerReceived,
		Bound: s.bound, Refused: s.refused,
	}
	if s.firstByte != 0 {
		p.State.FirstByte = now.Sub(s.firstByte)
	}
	return p
}

// Sent ends the session here: it is another process's now. It runs on the loop's
// thread.
func (w *Worker) Sent(p *Parcel) {
	s := p.session
	if s.serial != p.serial || !s.packed {
		return // cut meanwhile
	}
	w.finish(s, stats.HandedOver, decisions.NoFailure)
}

// Keep has the session go on here. It runs on the loop's thread.
func (w *Worker) Keep(p *Parcel) {
	s := p.session
	if s.serial != p.serial || !s.packed {
		return
	}
	if errno := w.loop.Add(s.conn.fd, unix.EPOLLIN|unix.EPOLLET, s.conn.token()); errno != 0 {
		w.finish(s, stats.LocalError, decisions.NoFailure)
		return
	}
	s.packed = false
}

// Adopt goes on with a session of another process, of the listening socket that
// is bound to the address it names. It is l's session, whoever's the socket is now: l
// has the upstream that the peer is counted in. The descriptor is the worker's from
// now on, even if it returns false because it can't. It runs on the loop's thread.
func (w *Worker) Adopt(l *Listener, p *upstream.Peer, st *handover.UDPState, fds []int) bool {
	i := w.boundTo(st)
	if len(fds) != 1 || i < 0 || !st.Client.IsValid() {
		handover.CloseAll(fds)
		return false
	}
	k := key{sys.EndpointOf(st.Client), sys.PacketInfoOf(st.Local, st.LocalIndex), int32(i)}
	if st.Bound && w.table[k] != nil {
		handover.CloseAll(fds) // the client has a newer one
		return false
	}
	w.opt.Room.Force()
	now := w.loop.Now()
	slot, _, s := w.sessions.Alloc()
	*s = session{
		book: w.bookOf(l), key: k, slot: slot, first: -1, last: -1, bound: st.Bound, refused: st.Refused,
		start: now.Add(-st.Start), active: now.Add(-st.Active), firstByte: then(now, st.FirstByte),
		serial: st.Serial, tries: uint16(st.Tries), requests: st.Requests, responses: st.Responses,
		received: st.Received, sent: st.Sent, peerSent: st.PeerSent, peerReceived: st.PeerRead,
		peer: p, stats: p.Stats(w.opt.ID),
	}
	l.Group.Hold(p, s.took(now), now)
	w.enter(s)
	cslot, generation, c := w.conns.Alloc()
	*c = conn{fd: int32(fds[0]), slot: cslot, generation: generation, pool: w.poolOf(l, p), session: s}
	s.conn = c
	if errno := w.loop.Add(c.fd, unix.EPOLLIN|unix.EPOLLET, c.token()); errno != 0 {
		w.finish(s, stats.LocalError, decisions.NoFailure)
		return false
	}
	return true
}

func then(now clock.Time, ago time.Duration) clock.Time {
	if ago < 0 {
		return 0
	}
	return now.Add(-ago)
}

// boundTo returns the worker's listening socket that a session belongs to.
func (w *Worker) boundTo(st *handover.UDPState) int {
	for i := range w.sockets {
		if s := &w.sockets[i]; s.fd >= 0 && s.bound == st.Place.Bound {
			return i
		}
	}
	return -1
}

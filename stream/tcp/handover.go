package tcp

import (
	"net/netip"
	"time"

	"github.com/weirlb/weir/stream/decisions"
	"github.com/weirlb/weir/stream/handover"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/internal/sys"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/upstream"
)

// This file moves sessions between processes. A session can be moved while it
// relays: everything that it is made of is then two sockets, the bytes between
// them, and some numbers.

// Parcel is a session on its way to another process. Until it is settled with
// Sent or Keep, the session stands still.
type Parcel struct {
	State handover.TCPState
	FDs   []int // the sockets, and pipes; the session's own

	session    *session
	generation uint32
}

// Pack takes up to so many sessions out of the loop for another process. It runs
// on the loop's thread.
func (w *Worker) Pack(most int) []*Parcel {
	var out []*Parcel
	w.sessions.All(func(_ int32, s *session) {
		if len(out) < most && s.movable() {
			out = append(out, w.pack(s))
		}
	})
	return out
}

// movable reports whether the session relays and nothing is wrong with it: one
// that is about to end does so here.
func (s *session) movable() bool {
	return s.phase == relaying && !s.packed && !s.refused && !s.half[down].broken() && !s.half[up].broken() &&
		!(s.flow[down].done && s.flow[up].done)
}

func (w *Worker) pack(s *session) *Parcel {
	s.packed = true
	if s.extras != nil {
		w.abandonTurn(s)
		w.bind(s)
	}
	w.Loop.Timers.Cancel(s.slot + timerSession)
	for i := range s.half {
		w.Loop.Remove(s.half[i].fd)
	}
	now := w.Loop.Now()
	p := &Parcel{session: s, generation: s.generation, FDs: []int{int(s.half[down].fd), int(s.half[up].fd)}}
	st := &p.State
	st.Session = handover.Session{
		Serial:    s.serial,
		Listener:  s.listener.Name,
		Peer:      s.listener.Group.Ref(s.peer),
		Client:    s.client.AddrPort(),
		Unix:      s.half[down].unix,
		Worker:    w.opt.ID,
		Tries:     int(s.tries),
		Tried:     s.tried,
		Start:     ago(now, s.start),
		Active:    ago(now, s.active),
		FirstByte: ago(now, s.firstByte),
	}
	st.PeerUnix = s.half[up].unix
	st.Picked, st.Connected = ago(now, s.picked), ago(now, s.connected)
	st.Reason, st.Blamed, st.HalfClosed = uint8(s.reason), s.blamed, s.halfClosed
	for i := range s.half {
		h, f := &s.half[i], &s.flow[i]
		st.Halves[i] = handover.HalfState{Ended: h.ended, Shut: h.shut}
		st.Flows[i] = handover.FlowState{Read: f.read, Sent: f.sent}
		switch {
		case f.pending == 0:
		case f.pipe != nil:
			st.Flows[i].InPipe, st.Flows[i].PipeSize = int(f.pending), int(f.pipe.size)
			p.FDs = append(p.FDs, int(f.pipe.r), int(f.pipe.w))
		default:
			st.Flows[i].Pending = append([]byte(nil), f.buf[f.off:f.off+f.pending]...)
		}
	}
	return p
}

func ago(now, at clock.Time) time.Duration {
	if at == 0 {
		return -1
	}
	return now.Sub(at)
}

func then(now clock.Time, d time.Duration) clock.Time {
	if d < 0 {
		return 0
	}
	return now.Add(-d)
}

// Sent ends the session here, without a word to either side: it is another
// process's now. It runs on the loop's thread.
func (w *Worker) Sent(p *Parcel) {
	s := p.session
	if s.generation != p.generation || s.phase == closed {
		return // cut meanwhile
	}
	w.forget(s)
}

// Keep has the session go on here, or end if it was dismissed meanwhile. It runs on
// the loop's thread.
func (w *Worker) Keep(p *Parcel) {
	s := p.session
	if s.generation != p.generation || s.phase == closed {
		return
	}
	s.packed = false
	if s.dismissed.Ordered() {
		w.close(s, s.dismissed)
		return
	}
	w.resumeRelay(s)
}

// Refused is Keep for a session that the other process can't go on with. Pack
// leaves it out until Resume. It runs on the loop's thread.
func (w *Worker) Refused(p *Parcel) {
	w.Keep(p)
	if s := p.session; s.generation == p.generation {
		s.refused = true
	}
}

// Expected returns how many sessions can still be packed, now or when they are
// connected. It runs on the loop's thread.
func (w *Worker) Expected() (n int) {
	w.sessions.All(func(_ int32, s *session) {
		if s.phase < relaying || s.movable() {
			n++
		}
	})
	return n
}

// forget gives up a session that goes on elsewhere.
func (w *Worker) forget(s *session) {
	s.setPhase(closed)
	for i := range s.flow {
		w.discard(&s.flow[i]) // our ends of pipes; the bytes are the other process's
	}
	sys.Close(s.half[down].fd)
	w.unlink(s)
	w.giveBack(s, s.peer, s.took(w.Loop.Now()), upstream.Succeeded, decisions.NoFailure)
	sys.Close(s.half[up].fd)
	s.half[up].fd, s.peer = -1, nil
	w.depart(s)
	s.counted.Closed[stats.HandedOver].Add(1)
	s.counted.Active.Add(-1)
	w.stats.DownstreamActive.Add(-1)
	w.opt.Room.Leave()
	if w.ended != nil {
		w.ended()
	}
	w.sessions.Free(s.slot)
}

// resumeRelay puts a session's sockets into the epoll set, which tells of what
// they are ready for, and watches its time.
func (w *Worker) resumeRelay(s *session) {
	for _, d := range [...]side{down, up} {
		h := &s.half[d]
		h.readable, h.writable = false, false
		if errno := w.Loop.Add(h.fd, sessionEvents, s.token(d)); errno != 0 {
			w.close(s, stats.LocalError)
			return
		}
	}
	s.watched = true
	w.setTimer(s, w.Loop.Now().Add(w.firstLook(s)))
}

// Adopt goes on with a session of another process. The descriptors are the
// worker's from now on, even if it returns false because it can't. It runs on
// the loop's thread.
func (w *Worker) Adopt(l *Listener, p *upstream.Peer, st *handover.TCPState, fds []int) bool {
	if !complete(st, fds) {
		handover.CloseAll(fds)
		return false
	}
	w.opt.Room.Force()
	if w.began != nil {
		w.began()
	}
	slot, generation, s := w.sessions.Alloc()
	now := w.Loop.Now()
	s.slot, s.generation, s.serial = slot, generation, st.Serial
	s.listener, s.counted, s.peer, s.stats = l, l.Stats[w.opt.ID], p, p.Stats(w.opt.ID)
	s.client = sys.EndpointOf(st.Client)
	s.tries, s.tried = uint16(st.Tries), st.Tried
	s.start, s.picked, s.connected = then(now, st.Start), then(now, st.Picked), then(now, st.Connected)
	s.firstByte, s.active = then(now, st.FirstByte), then(now, st.Active)
	s.reason, s.blamed, s.halfClosed = stats.CloseReason(st.Reason), st.Blamed, st.HalfClosed
	s.half[down].unix, s.half[up].unix = st.Unix, st.PeerUnix
	s.half[up].nagle = !st.PeerUnix
	pipes := fds[2:]
	for i := range s.half {
		s.half[i].fd, s.half[i].ended, s.half[i].shut = int32(fds[i]), st.Halves[i].Ended, st.Halves[i].Shut
		f, from := &s.flow[i], &st.Flows[i]
		f.read, f.sent = from.Read, from.Sent
		switch {
		case from.InPipe > 0:
			f.pipe, f.pending = w.pipes.adopt(int32(pipes[0]), int32(pipes[1]), int32(from.PipeSize)), int32(from.InPipe)
			pipes = pipes[2:]
		case len(from.Pending) > 0:
			w.keep(f, from.Pending)
		}
	}
	s.counted.Active.Add(1)
	w.stats.DownstreamActive.Add(1)
	l.Clients.force(&l.ClientLimits, s.client)
	s.entered = true
	w.extrasFor(s)
	if s.extras != nil {
		s.extras.held.wanted = false
	}
	l.Group.Hold(p, s.took(now), now)
	w.link(s)
	s.setPhase(relaying)
	w.resumeRelay(s)
	return true
}

// complete reports whether all is there that the state speaks of.
func complete(st *handover.TCPState, fds []int) bool {
	want := 2
	for i := range st.Flows {
		f := &st.Flows[i]
		if f.InPipe > 0 {
			want += 2
		}
		if len(f.Pending) > bufferBytes || f.InPipe < 0 || f.InPipe > 0 && f.PipeSize < f.InPipe {
			return false
		}
	}
	return len(fds) == want && int(st.Reason) < stats.Reasons && (st.Unix || st.Client != netip.AddrPort{})
}

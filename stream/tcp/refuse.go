package tcp

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/sys"
	"github.com/weirlb/weir/stream/refusal"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/upstream"
)

// This file ends sessions that get no server because there is too much to do. The
// client is told so in its own protocol, where the listener's profile knows the
// words; otherwise it is reset. Both take a round trip at most.

// refusalPatience bounds how long a client may take to hear that it is refused:
// to say what the words must follow, and to close its side after them. If it were
// closed with bytes of the client unread, the kernel would reset it, and the words
// could be lost.
const refusalPatience = time.Second

// denials are the close reasons of those.
var denials = [...]stats.CloseReason{
	upstream.QueueIsFull:    stats.QueueFull,
	upstream.CircuitIsOpen:  stats.CircuitOpen,
	upstream.TooMany:        stats.Overloaded,
	upstream.TooManyPending: stats.Overloaded,
	upstream.OverLimit:      stats.Overloaded,
}

// makeWords makes what a listener's clients are told, by close reason.
func makeWords(c *conf.Listener) (words [stats.Reasons]*refusal.Words) {
	for r, why := range map[stats.CloseReason]string{
		stats.QueueFull:    "no server has room, and the queue for one is full",
		stats.QueueTimeout: "no server had room in time",
		stats.CircuitOpen:  "the servers do not answer, and are left alone for a while",
		stats.Overloaded:   "the servers have as many sessions as they may have",
		stats.Limit:        "too many sessions",
		stats.ClientLimit:  "too many sessions of this client",
	} {
		words[r] = refusal.New(c.Profile, "weir: "+why+" ("+r.String()+")")
	}
	return words
}

// onNoPeer goes on with a session for which nobody was picked.
func (w *Worker) onNoPeer(s *session) {
	switch d := s.walk.Denial; d {
	case upstream.Waits:
		w.await(s)
	case upstream.NotEligible, upstream.NoQueue:
		s.listener.Group.Stats(w.opt.ID).NoPeer.Add(1)
		s.blame(stats.NoPeer)
		w.close(s, s.reason)
	default:
		w.refuse(s, denials[d])
	}
}

// refuse ends a session that has no peer.
func (w *Worker) refuse(s *session, r stats.CloseReason) {
	s.blamed, s.reason = true, r
	if s.listener.words[r] == nil || s.half[down].broken() {
		w.close(s, r)
		return
	}
	w.leaveQueue(s)
	s.setPhase(refusing)
	w.setTimer(s, w.Loop.Now().Add(refusalPatience))
	w.speak(s)
}

// speak has a refused client hear it, and then waits for its end of input.
func (w *Worker) speak(s *session) {
	h, f, words := &s.half[down], &s.flow[down], s.listener.words[s.reason]
	for rounds := 0; !h.shut; rounds++ {
		if rounds == roundsPerTurn { // of those who only ever ask for encryption
			w.putOff(s)
			return
		}
		used, reply, done := words.Next(f.rest())
		if len(reply) > 0 {
			if n, errno := sys.Send(h.fd, reply, false); errno != 0 || n < len(reply) {
				w.close(s, s.reason)
				return
			}
			s.flow[up].sent += uint64(len(reply))
		}
		f.off, f.pending = f.off+int32(used), f.pending-int32(used)
		switch {
		case done:
			h.shut = true
			sys.ShutdownWrite(h.fd)
		case used > 0 || len(reply) > 0:
		case !w.hearMore(s):
			return
		}
	}
	w.discard(f)
	for range roundsPerTurn {
		n, errno := sys.Recv(h.fd, w.buf)
		switch {
		case errno == unix.EAGAIN:
			return
		case errno != 0 || n == 0:
			w.close(s, s.reason)
			return
		}
		s.flow[down].read += uint64(n)
	}
	w.putOff(s)
}

// hearMore reads more of what a refused client says. It returns false if there is
// nothing yet, or if the session was closed.
func (w *Worker) hearMore(s *session) bool {
	f := &s.flow[down]
	if f.buf == nil {
		f.buf, f.off = w.small.get(), 0
	}
	copy(f.buf, f.rest())
	f.off = 0
	if int(f.pending) == len(f.buf) {
		w.close(s, s.reason)
		return false
	}
	n, errno := sys.Recv(s.half[down].fd, f.buf[f.pending:])
	switch {
	case errno == unix.EAGAIN:
		return false
	case errno != 0 || n == 0:
		w.close(s, s.reason)
		return false
	}
	f.pending += int32(n)
	s.flow[down].read += uint64(n)
	return true
}

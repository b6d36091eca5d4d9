package udp

import (
	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/stream/internal/sys"
)

// onDatagrams takes what clients sent to a listening socket, so many in one
// turn. The socket is level-triggered: what is left makes a new event.
func (w *Worker) onDatagrams(i int) {
	for range roundsPerTurn {
		n, errno := w.in.Receive(w.sockets[i].fd, 0, batchMessages)
		if errno != 0 {
			// EAGAIN, or an ICMP error that was queued for the socket and is
			// about an answer: taking it is all there is to do.
			if errno == unix.EAGAIN {
				if s := &w.sockets[i]; s.apart {
					s.apart = false
					sys.WantApart(s.fd)
				}
				return
			}
			continue
		}
		for k := range n {
			w.sort(i, k)
		}
		for _, s := range w.touched {
			w.forward(s)
		}
		w.touched = w.touched[:0]
		if n < batchMessages && !w.sockets[i].apart {
			return
		}
	}
}

// sort gives message k of the batch to its session.
func (w *Worker) sort(i, k int) {
	local, segment := w.in.Control(k)
	w.segments[k] = int32(segment)
	n := datagrams(len(w.in.Payload(k)), segment)
	if segment > 0 {
		w.stats.CoalescedDatagrams.Add(uint64(n))
	}
	w.stats.DatagramsIn.Add(uint64(n))
	if w.in.Truncated(k) {
		w.stats.TruncatedDatagrams.Add(1)
		return
	}
	s := w.session(key{w.in.From(k).Endpoint(), local, int32(i)})
	if s == nil {
		w.stats.RefusedDatagrams.Add(uint64(n))
		return
	}
	w.next[k] = -1
	if s.first < 0 {
		s.first = int16(k)
		w.touched = append(w.touched, s)
	} else {
		w.next[s.last] = int16(k)
	}
	s.last = int16(k)
	w.onRequests(s, n, len(w.in.Payload(k)))
}

// forward sends a session's datagrams of this batch to its peer.
func (w *Worker) forward(s *session) {
	first := int(s.first)
	s.first, s.last = -1, -1
	if w.next[first] < 0 && w.segments[first] == 0 {
		w.sendOne(s, w.in.Payload(first))
	} else {
		w.out.Reset()
		for k := first; k >= 0; k = int(w.next[k]) {
			segment := int(w.segments[k])
			if segment == 0 && w.segment && w.out.Append(w.in.Payload(k)) {
				continue
			}
			w.out.Add(w.in.Payload(k), segment, nil, nil)
		}
		w.sendAll(w.out, s.conn.fd, s)
	}
	if s.unsent {
		w.moveOn(s, first)
		return
	}
	if s.answeredEnough() {
		w.end(s)
	}
}

func (w *Worker) sendOne(s *session, payload []byte) {
	n, errno := sys.Send(s.conn.fd, payload, false)
	if errno == unix.EMSGSIZE {
		// Perhaps of an earlier one: the path has become narrower, and this one
		// will be cut to fit it.
		n, errno = sys.Send(s.conn.fd, payload, false)
	}
	switch {
	case errno == 0:
		w.onSent(s, 1, n)
	case refusal(errno):
		// Of an earlier datagram; this one has not been sent.
		s.refused, s.unsent = true, true
	default:
		w.stats.LostDatagrams.Add(1)
	}
}

// sendAll sends a gathered batch. s is the session it belongs to, or nil if it
// is for clients.
func (w *Worker) sendAll(b *sys.SendBatch, fd int32, s *session) {
	again := -1 // the message that is tried once more
	for i := 0; i < b.Len(); {
		n, errno := b.Send(fd, i)
		for range n {
			w.onBatchSent(b, i, s)
			i++
		}
		if errno == 0 {
			continue
		}
		switch {
		case errno == unix.EAGAIN || errno == unix.ENOBUFS:
			for ; i < b.Len(); i++ {
				w.stats.LostDatagrams.Add(uint64(b.Datagrams(i)))
			}
		case s != nil && refusal(errno):
			s.refused = true // by an earlier one; the rest goes its way
			if i == 0 {
				s.unsent = true
				return
			}
		case b.Segmented(i):
			// A device or path that can't cut, or not to this size.
			if errno == unix.EIO || errno == unix.EOPNOTSUPP {
				w.segment = false
			}
			w.stats.OffloadFallbacks.Add(1)
			sent, _ := b.Split(fd, i)
			w.stats.LostDatagrams.Add(uint64(b.Datagrams(i) - sent))
			if s != nil {
				w.onSent(s, sent, b.Bytes(i))
			} else {
				w.stats.DatagramsOut.Add(uint64(sent))
			}
			i++
		case errno == unix.EMSGSIZE && again != i:
			again = i // perhaps of an earlier one, as in sendOne
		default:
			w.stats.LostDatagrams.Add(1)
			i++
		}
	}
}

func (w *Worker) onBatchSent(b *sys.SendBatch, i int, s *session) {
	datagrams := b.Datagrams(i)
	if datagrams > 1 {
		w.stats.SegmentedDatagrams.Add(uint64(datagrams))
	}
	if s != nil {
		w.onSent(s, datagrams, b.Bytes(i))
		return
	}
	w.stats.DatagramsOut.Add(uint64(datagrams))
}

// onAnswers takes what a peer sent. Preconditions: the socket is ready, or was
// when it was put off.
func (w *Worker) onAnswers(c *conn) {
	if c.session != nil && c.session.packed {
		return // what has come waits in the socket
	}
	for calls := 0; ; calls++ {
		if calls == callsPerTurn {
			if !c.putOff {
				c.putOff = true
				w.loop.Later(c.token())
			}
			return
		}
		if w.taken+answersPerCall > batchMessages {
			w.flush() // the batch is full of answers that have not left yet
		}
		n, errno := w.answers.Receive(c.fd, w.taken, w.taken+answersPerCall)
		switch errno {
		case 0:
		case unix.EAGAIN:
			return
		default:
			if !w.onPeerError(c, errno) {
				return
			}
			continue
		}
		from := w.taken
		w.taken += n
		for k := from; k < from+n; k++ {
			w.onAnswer(c, k)
		}
		if n < answersPerCall || c.fd < 0 {
			return
		}
	}
}

// reply gathers an answer for a session's client.
func (w *Worker) reply(s *session, payload []byte, segment int) {
	fd := w.sockets[s.key.socket].fd
	if fd != w.replyTo {
		w.flushReplies()
		w.replyTo = fd
	}
	if w.answered == s && segment == 0 && w.segment && w.replies.Append(payload) {
		return
	}
	if !w.replies.Add(payload, segment, &s.key.client, &s.key.local) {
		w.flushReplies()
		w.replies.Add(payload, segment, &s.key.client, &s.key.local)
	}
	w.answered = s
}

func (w *Worker) flushReplies() {
	if w.replies.Len() > 0 {
		w.sendAll(w.replies, w.replyTo, nil)
		w.replies.Reset()
	}
	w.answered = nil
}

// flush sends all gathered answers, after which their memory is free.
func (w *Worker) flush() {
	w.flushReplies()
	w.taken = 0
}

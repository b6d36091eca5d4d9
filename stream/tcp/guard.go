package tcp

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/internal/sys"
)

// This file notices that the machine at the other end of a half is gone
// without a word, within dead_peer_timeout:
//
//   - while nothing is on its way, keepalive probes it (tcp(7));
//   - while bytes are, TCP_USER_TIMEOUT (RFC 5482) bounds the wait for their
//     acknowledgement.
//
// TCP_USER_TIMEOUT alone would also end a half whose reader is alive and only
// slow: the kernel counts the time that a window stays shut, though every
// probe of it is answered (tcp_probe_timer). A batch job that pauses for longer
// than dead_peer_timeout, with the rest of a result in its socket, is no dead
// peer. So a session with bytes under way is looked at every half
// dead_peer_timeout, and a half that answers probes of its shut window is
// waited for, until it no longer answers.

const (
	// guardAfter is how long a session runs before the options are set: twelve
	// system calls that a short session is spared. They act on bytes that were
	// sent before them too.
	guardAfter = time.Second
	// guardSpread is the milliseconds over which the options of sessions that came
	// at the same time are spread: messages of others would wait for all of them.
	// Keepalive begins with them, so a silent death is noticed later by as much.
	guardSpread = 1024

	// Probes of a shut window come ever less often, up to every two minutes,
	// unless the kernel knows TCP_RTO_MAX_MS (6.15). Without it a half that
	// stalled first and died then is noticed after this long.
	patienceWithoutRTOMax = 4 * time.Minute
)

// guard sets the options on both halves.
func (w *Worker) guard(s *session) {
	t := s.listener.DeadPeerTimeout
	seconds := int(t / time.Second)
	idle := max(seconds/3, 1)
	interval := max(seconds/6, 1)
	for i := range s.half {
		h := &s.half[i]
		if h.unix || h.broken() {
			continue
		}
		sys.SetOption(h.fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, idle)
		sys.SetOption(h.fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, interval)
		sys.SetOption(h.fd, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, max((seconds-idle)/interval, 1))
		sys.SetOption(h.fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(t/time.Millisecond))
		sys.SetOption(h.fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
		w.noRTOMax = sys.SetOption(h.fd, unix.IPPROTO_TCP, sys.TCPRTOMaxMillis, int(probeInterval(t)/time.Millisecond)) != 0
	}
}

// watch has a session be looked at that was quiet and sends again.
func (w *Worker) watch(s *session) {
	s.watched = true
	at := w.Loop.Now().Add(s.listener.DeadPeerTimeout / 2)
	if armed, ok := w.Loop.Timers.Armed(s.slot + timerSession); !ok || armed > at.Millis() {
		w.setTimer(s, at)
	}
}

// look guards a session that is not yet, judges the halves with bytes under
// way, and returns when to look again, or false if the session is quiet.
func (w *Worker) look(s *session) (again clock.Time, ok bool) {
	t := s.listener.DeadPeerTimeout
	if t == 0 {
		return 0, false // watched for ever, so that nobody asks again
	}
	if !s.guarded {
		s.guarded = true
		w.guard(s)
	}
	now := w.Loop.Now()
	s.watched = s.active.Add(t/2) > now // bytes moved since the last look
	for _, d := range [...]side{down, up} {
		h := &s.half[d]
		if h.unix || h.broken() {
			continue
		}
		if n, errno := sys.SendQueue(h.fd); errno != 0 || n == 0 && !h.stalled {
			continue
		}
		s.watched = true
		w.judge(s, d)
	}
	return now.Add(t / 2), s.watched
}

// judge tells a half that is slow from one that is dead. A window is shut if
// bytes wait and none is on its way; the kernel's own count of probes says
// nothing, since every answer sets it back to 0.
func (w *Worker) judge(s *session, d side) {
	h, t := &s.half[d], s.listener.DeadPeerTimeout
	var info unix.TCPInfo
	if sys.TCPInfo(h.fd, &info) != 0 {
		return
	}
	silent := time.Duration(info.Last_ack_recv) * time.Millisecond
	switch shut := info.Unacked == 0 && info.Notsent_bytes > 0; {
	case shut && !h.stalled && silent < t:
		h.stalled = true
		sys.SetOption(h.fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 0)
	case shut && h.stalled && silent > w.patience(t):
		s.breakHalf(d, unix.ETIMEDOUT)
	case !shut && h.stalled:
		h.stalled = false
		sys.SetOption(h.fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(t/time.Millisecond))
	}
}

// probeInterval is how often a shut window is probed at least, if the kernel
// lets us say so.
func probeInterval(t time.Duration) time.Duration {
	return min(max(t/3, time.Second), 2*time.Minute)
}

// patience is how long a half with a shut window may be silent.
func (w *Worker) patience(t time.Duration) time.Duration {
	if w.noRTOMax {
		return max(t, patienceWithoutRTOMax)
	}
	return max(t, 3*probeInterval(t))
}

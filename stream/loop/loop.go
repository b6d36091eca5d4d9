package loop

import (
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/internal/sys"
)

// Handler is the worker that a loop calls. All its methods run on the loop's
// thread.
type Handler interface {
	// OnEvent is told that a registered descriptor is ready (EPOLLIN and so
	// on), or, with events 0, that work put off by Later may go on.
	OnEvent(t Token, events uint32)
	// OnTimer is told that the deadline of a number in Loop.Timers has come.
	OnTimer(id int32)
	// EndTurn ends a turn: nothing of it will be delivered any more.
	EndTurn()
}

// eventsPerTurn bounds one turn, so that timers and the mailbox get their time.
const eventsPerTurn = 256

// idleAfter is how long a loop has to be without an event before it waits in the
// way that costs less meanwhile and more to wake up from, see sys.EpollWait.
const idleAfter = 50 * time.Millisecond

// Stats counts what a loop did. Its fields may be read by any goroutine.
type Stats struct {
	Turns atomic.Uint64 // returns of epoll_wait
	Stale atomic.Uint64 // events for an earlier generation, dropped
}

// Loop is one worker's event loop.
type Loop struct {
	// immutable
	epfd    int32
	timerFD int32
	clock   clock.Source
	handler Handler

	Mailbox Mailbox
	Stats   Stats

	// owned by the loop's thread
	Timers  *Wheel
	alarmAt int64 // millisecond that the timer descriptor is set to; 0 = none
	now     clock.Time
	busyAt  clock.Time // last turn that had something to do, timers aside
	events  []sys.Event
	later   []Token // to be called again in the next turn
	spare   []Token
	stopped bool
}

// New returns a loop that calls h. The caller runs it with Run, or turn by
// turn with Turn, and ends with Close.
func New(h Handler, source clock.Source) (*Loop, error) {
	epfd, errno := sys.EpollCreate()
	if errno != 0 {
		return nil, fmt.Errorf("create epoll set: %w", errno)
	}
	wake, errno := sys.EventFD()
	if errno != 0 {
		sys.Close(epfd)
		return nil, fmt.Errorf("create eventfd: %w", errno)
	}
	timer, errno := sys.TimerFD()
	if errno != 0 {
		sys.Close(epfd)
		sys.Close(wake)
		return nil, fmt.Errorf("create timerfd: %w", errno)
	}
	l := &Loop{
		epfd:    epfd,
		timerFD: timer,
		clock:   source,
		handler: h,
		Mailbox: Mailbox{fd: wake},
		Timers:  NewWheel(source().Millis()),
		now:     source(),
		events:  make([]sys.Event, eventsPerTurn),
	}
	errno = sys.EpollAdd(epfd, wake, unix.EPOLLIN, uint64(MakeToken(kindMailbox, 0, 0, 0)))
	if errno == 0 {
		// Edge-triggered, so that nobody has to read it.
		errno = sys.EpollAdd(epfd, timer, unix.EPOLLIN|unix.EPOLLET, uint64(MakeToken(kindTimer, 0, 0, 0)))
	}
	if errno != 0 {
		l.Close()
		return nil, fmt.Errorf("fill epoll set: %w", errno)
	}
	return l, nil
}

// Close closes the loop's own descriptors. Preconditions: Run has returned.
func (l *Loop) Close() {
	l.Mailbox.close()
	sys.Close(l.timerFD)
	sys.Close(l.epfd)
}

// Now returns the instant of this turn.
func (l *Loop) Now() clock.Time { return l.now }

// Add registers fd under t for those events.
func (l *Loop) Add(fd int32, events uint32, t Token) unix.Errno {
	return sys.EpollAdd(l.epfd, fd, events, uint64(t))
}

// Rename has fd, which is registered, be known as t from now on. What it is ready
// for is told again.
func (l *Loop) Rename(fd int32, events uint32, t Token) unix.Errno {
	return sys.EpollModify(l.epfd, fd, events, uint64(t))
}

// Remove takes fd out of the epoll set.
func (l *Loop) Remove(fd int32) { sys.EpollDelete(l.epfd, fd) }

// Later has the handler called for t again in the next turn, with events 0:
// for work that was cut short so that others get their share.
func (l *Loop) Later(t Token) { l.later = append(l.later, t) }

// Stop ends Run after the current turn.
func (l *Loop) Stop() { l.stopped = true }

// Run turns the loop until Stop is called. Preconditions: the calling
// goroutine is locked to its thread.
func (l *Loop) Run() {
	for !l.stopped {
		l.Turn(-1)
	}
	l.Mailbox.finish()
}

// Turn waits for at most that long (negative: until something is due) and
// then handles one batch of events, what Later put off, and what is due.
func (l *Loop) Turn(wait time.Duration) {
	n, errno := sys.EpollWait(l.epfd, l.events, l.timeout(wait), l.now.Sub(l.busyAt) > idleAfter)
	if errno != 0 && errno != unix.EINTR {
		panic("loop: epoll_wait: " + errno.Error())
	}
	l.now = l.clock()
	l.Stats.Turns.Add(1)
	if errno != 0 {
		n = 0
	}

	put := l.later
	l.later = l.spare[:0]
	for _, t := range put {
		l.handler.OnEvent(t, 0)
	}
	l.spare = put

	mail, busy := false, len(put) > 0
	for i := range l.events[:n] {
		ev := &l.events[i]
		t := Token(ev.Data())
		switch t.Kind() {
		case kindMailbox:
			mail = true
			continue
		case kindTimer:
			l.alarmAt = 0
			continue
		}
		busy = true
		l.handler.OnEvent(t, ev.Events)
	}
	if busy {
		l.busyAt = l.now
	}
	if mail {
		l.Mailbox.run()
	}
	l.Timers.Advance(l.now.Millis(), l.handler.OnTimer)
	l.handler.EndTurn()
}

// timeout returns the milliseconds to give to epoll_wait. A wait without a
// bound gets none and is ended by a timer descriptor instead: deadlines seldom
// become earlier, so that one is set now and then, whereas a timeout would have
// the kernel set up and take down a timer in every single wait.
func (l *Loop) timeout(wait time.Duration) int {
	if len(l.later) > 0 {
		return 0
	}
	at, ok := l.Timers.Next()
	due := max(at-l.now.Millis(), 0)
	switch {
	case ok && due == 0:
		return 0
	case wait >= 0 && ok:
		return int(min(wait.Milliseconds(), due+1)) // both ends were cut to whole milliseconds
	case wait >= 0:
		return int(wait.Milliseconds())
	case ok && (l.alarmAt == 0 || at < l.alarmAt):
		l.alarmAt = at
		sys.SetTimer(l.timerFD, time.Duration(due+1)*time.Millisecond)
	}
	return -1
}

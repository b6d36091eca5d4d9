package decisions

import (
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/internal/sys"
	"github.com/weirlb/weir/stream/upstream"
)

// Record is one thing to tell of a session: a pick or a failed attempt.
type Record struct {
	At       clock.Time
	Listener string
	Upstream string
	Session  uint64 // serial number
	Client   sys.Endpoint
	Attempt  int // of the session, from 1

	Decision *upstream.Decision // a pick, or
	Failure  *upstream.Failure  // a failed attempt

	Cause   Cause // of the failure
	Timeout time.Duration
}

// Cause is why an attempt failed: an errno, or one of the causes below.
type Cause uint32

// The causes that are no errno.
const (
	NoFailure Cause = 0
	TimedOut  Cause = 1 << 16 // connect_timeout
	ToItself  Cause = 2 << 16 // the socket was connected to itself
	NoAnswer  Cause = 3 << 16 // UDP: udp.idle_timeout
	Refused   Cause = 4 << 16 // UDP: ICMP port unreachable

	EndedUnheard Cause = 5 << 16 // it ended the session before its first byte
)

// isRoutine reports whether it is a pick that nothing bad came before.
func (r *Record) isRoutine() bool {
	return r.Failure == nil && r.Decision.Peer != nil && r.Attempt <= 1
}

// Sentence tells the record to a person.
func (r *Record) Sentence() string {
	_, said := r.sentence()
	return said
}

// Figures returns what is behind the sentence, as a JSON line of the log has it.
func (r *Record) Figures() map[string]any {
	figures := map[string]any{}
	for _, a := range r.fields() {
		figures[a.Key] = a.Value.Any()
	}
	return figures
}

// sentence tells the record to a person, and says how loud.
func (r *Record) sentence() (slog.Level, string) {
	at := hour(r.At)
	switch {
	case r.Failure != nil:
		what := "connecting to"
		if r.Cause == NoAnswer || r.Cause == Refused {
			what = "asking"
		}
		return slog.LevelWarn, r.Failure.Sentence(what, r.cause(), at)
	case r.Decision.Peer == nil:
		return slog.LevelWarn, r.Decision.Sentence(at)
	}
	return slog.LevelInfo, r.Decision.Sentence(at)
}

// cause tells the cause to a person.
func (r *Record) cause() string {
	switch r.Cause {
	case TimedOut:
		return fmt.Sprintf("no answer within %s (connect_timeout)", conf.FormatDuration(r.Timeout))
	case NoAnswer:
		return fmt.Sprintf("fewer answers than expected within %s (udp.idle_timeout)", conf.FormatDuration(r.Timeout))
	case Refused:
		return "nobody listens there (ICMP port unreachable)"
	case EndedUnheard:
		return "it ended the session before its first byte (before_first_byte)"
	case ToItself:
		return "the socket was connected to itself, as nobody listens there"
	case Cause(syscall.EADDRNOTAVAIL):
		return "this machine has no address or port left to connect from"
	}
	return syscall.Errno(r.Cause).Error()
}

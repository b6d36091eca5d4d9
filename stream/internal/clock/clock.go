// Package clock gives weir its one notion of time: monotonic instants that
// never go back, and a fake for tests and simulations.
//
// A [Time] counts nanoseconds since an arbitrary point [Base] long before the
// process started. Time 0 therefore means "never": it lies further in the past
// than any duration that a configuration may hold (conf.MaxDuration), which is
// what nginx's failure arithmetic expects of its own zero.
//
// A [Source] is read once per turn of a worker's loop and the value passed
// down, so that everything in one turn happens at one instant and no event
// costs a clock reading. [Now] may be called by any goroutine; a [Fake] is
// safe for use by several goroutines too.
package clock

import (
	"sync/atomic"
	"time"
)

// Base is the Time at which the process started: 2^31 seconds, about 68 years.
const Base = Time(1<<31) * Time(time.Second)

// Time is an instant in nanoseconds on the process's monotonic clock.
type Time int64

// Source returns the current instant.
type Source func() Time

var start = time.Now()

// Now returns the current instant (CLOCK_MONOTONIC through the vDSO).
func Now() Time { return Base + Time(time.Since(start)) }

// Seconds returns the whole seconds of t, which is what nginx's failure
// windows compare.
func (t Time) Seconds() int64 { return int64(t) / int64(time.Second) }

// Millis returns the whole milliseconds of t.
func (t Time) Millis() int64 { return int64(t) / int64(time.Millisecond) }

// AtMillis returns the instant of which Millis is ms.
func AtMillis(ms int64) Time { return Time(ms) * Time(time.Millisecond) }

// Add returns t moved by d.
func (t Time) Add(d time.Duration) Time { return t + Time(d) }

// Sub returns the duration from u to t.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Wall returns the wall-clock time of t, for people to read. It follows steps
// of the wall clock that happened since the process started only if Go's own
// monotonic reading does not, which is never: it is exact as of process start.
func (t Time) Wall() time.Time { return start.Add(time.Duration(t - Base)) }

// Fake is a clock that moves only when told to. Its zero value stands at Base.
type Fake struct {
	offset atomic.Int64 // nanoseconds since Base
}

// Now returns the fake's instant.
func (f *Fake) Now() Time { return Base + Time(f.offset.Load()) }

// Advance moves the fake forward by d.
func (f *Fake) Advance(d time.Duration) { f.offset.Add(int64(d)) }

// Set moves the fake to t.
func (f *Fake) Set(t Time) { f.offset.Store(int64(t - Base)) }

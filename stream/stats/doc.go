// Package stats holds the counters of the data path and the names of the ways
// a session can end.
//
// A [Worker] has what one worker counts; a [Listener], an [Upstream] and a
// [Peer] what one worker counts of one of these. [CloseReason] is the enum that
// is logged and counted. Counters are written by one worker each and summed by
// whoever reads them, so that workers share no cache line.
//
// Units: bytes and events since the process started; all counters only grow,
// except the gauges, which say so.
//
// Ownership: all fields are atomic and may be read by any goroutine; only the
// owning worker writes. It knows nothing of who reads them.
package stats

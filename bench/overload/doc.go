// Package overload models a server that more clients make slower, and loads it:
// for the bench and for the tests of what weir does against overload.
//
// A [Server] answers lines as its [Model] says, by processor sharing. A [Crowd]
// is clients that each keep a connection and ask the next question when they
// have their answer, so that three times the clients are three times the load.
// A [Watch] asks weir's control API and the server how it goes; [Series] joins
// what all of them saw.
//
// Units and ranges: durations are [time.Duration], but milliseconds in a [Point],
// which is meant for files; rates are per second; percentiles and spreads 0..1.
// A latency is the server's from a whole line read to its answer written, and a
// client's from a line written to its answer read, waits in weir included.
//
// Errors: [Listen] and [Watch.For] return what the network says. A session that
// ends under a client is counted, and so is one that cannot be had; a wrong
// answer is kept for [Crowd.Wrong].
//
// Ownership: Server and Crowd start goroutines and may be used by any; Close and
// Leave end them and wait. A Watch is its caller's alone.
//
// Left to others: how weir is started, and what the figures should be.
package overload

// Package simulate runs upstreams without a network: the live code of
// stream/upstream and stream/balance with a clock that moves when it is told
// to, and servers that do as they are told.
//
// A [Simulation] is one upstream, with the clients and servers of a [Script]:
// [Simulation.ParseScript] reads it and tells every [Mistake], and
// [Simulation.Run] carries it out and tells each pick with its reason, to
// people (text.go) or programs (json.go). Explaining a pick does not change it.
// A [Trace] is a recording in the format of testdata/nginx-1.31.3/README.md;
// [Trace.Replay] tells what weir picks in its place. It is the way to hold
// weir against recordings of other balancers.
//
// Both send their sessions through sim.go, which does what stream/tcp does
// between accept and relaying: pick, connect, charge a failure, pick again.
// Connects come one after another: what one takes passes before the next one,
// and a session that is not held ends as soon as its connection stands. Host
// names are not resolved; each counts as one peer. Health checks are not made: all
// peers are healthy, and with exactly_one the first that is up has the role.
//
// Units: instants are times since the start of the script, or milliseconds on
// the trace's clock; whole seconds of both are those of the failure windows.
// Times of attempts are milliseconds.
//
// Errors: a script with mistakes is not run at all; the bounds at the head of
// script.go are mistakes too. A script that moves the clock by more than ten
// years ends there with an error. A trace that can't be read or replayed is an
// error that names the step.
//
// Ownership: nothing here may be used by two goroutines at once, and nothing
// opens a socket or reads a clock.
package simulate

// Package adaptive bounds how many sessions or turns a server has in hand, by a
// limit that follows its measured latency, as the congestion window of TCP follows
// that of a path.
//
// A [Limiter] belongs to one upstream. It is given latencies by [Limiter.Observe]
// or [Limiter.Answered], and after each window of samples one of three algorithms
// decides on the limit: aimd.go holds a percentile at a target, gradient.go compares
// with the long-term mean, vegas.go estimates the server's queue. All three let the
// limit grow only while it is really used, by the most that any sample of the window
// has seen in flight.
//
// Where the limit counts sessions, the upstream reads [Limiter.Limit] and does the
// rest. Where it counts turns, they take slots ([Limiter.Enter], [Limiter.Leave]) or
// wait in line by priority ([Limiter.Wait], [Limiter.Cancel]).
//
// # Turns
//
// A turn begins with a client's first bytes after an answer and ends with the
// server's first byte after them. Nothing of the protocol needs to be known for
// that, and therein lie its limits:
//
//   - Pipelining: requests that a client sends before the answer to an earlier one
//     are in the same turn. The latency is that of the first, the server has more in
//     hand than the limit says, and delays hit all of them together. Clients that
//     always have several requests under way (Kafka, Redis pipelines, HTTP/2) make
//     turns of unknown size: the limit still follows the latency, but counts
//     busy connections and not requests.
//   - Server push: bytes that the server sends by itself (notifications, MQTT and
//     AMQP deliveries, PING of NATS) end a turn as an answer does, too early. Latencies
//     look shorter than they are and the limit is too high.
//   - One-way protocols: what is never answered (syslog, QoS 0 of MQTT, bulk upload)
//     makes turns without end. The guard sees to it that nothing is held back for
//     these.
//   - Long polling: an answer that is late on purpose is a slow one here.
//     Do not limit such turns.
//   - An answer's first byte is not its last. A server that streams results is in
//     hand for longer than the turn.
//
// The guard follows the share of turns that are answered, of which each counts a
// twentieth, and which begins at 1. Below 0.5 the limit is not enforced, above 0.8
// it is again. Meanwhile the limit stays as it was, all turns enter, and are counted.
//
// # Choosing
//
//   - After a step down, as many samples are passed over as were in flight: they
//     tell of the load before it. The window counts from there.
//   - A percentile of few samples scatters, and the limit comes to rest below the
//     target by about as much: for exponentially distributed work and 100
//     samples the 95th percentile has a standard error of 15 %. Longer windows
//     are closer, and slower.
//   - The target bounds the server's latency. Who has waited for a slot has that on
//     top, if only some milliseconds at the highest priority.
//   - gradient and vegas need no target, but must have seen the server without
//     overload: what they meet first they take for normal. With several limiters at
//     one server, who comes later takes the others' load for normal.
//   - gradient lets the latency rise to a little more than one and a half times the
//     long-term mean. What it has learnt from a slow server it forgets in windows
//     that are faster, and these come when the overload ends.
//   - vegas keeps closest to the latency without load, and needs latencies that are
//     even: with exponentially distributed work it was seen to use 60 % of a server.
//
// Units: latencies are durations; see stream/latency for their range. Limits
// and counts are plain numbers, up to 2^31.
//
// Errors: there are none. An unknown algorithm, and a turn that leaves without having
// entered, panic.
//
// Ownership: a Limiter may be used by any goroutine. Observe, Answered, Unanswered,
// Enter and Leave take no lock and do not allocate, unless somebody waits for a slot
// and may get one. Wake and notify are called with the limiter's mutex held.
//
// Time is measured, bytes are held back and sessions are queued by others.
package adaptive

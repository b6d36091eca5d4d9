// Package decisions writes the lines of `log { decisions }`: why a peer was
// picked or left out, and what a failed attempt has cost its peer.
//
// A worker puts a [Record], which points to an upstream.Decision or an
// upstream.Failure, into the queue of the [Writer]; the writer's goroutine
// makes the line of it. A worker neither formats nor waits: a full queue loses
// the record and counts it, and the writer reports the loss as a line of its
// own. The package stands beside accesslog, as its lines are also sessions',
// but they go to the process's log, among the other news of the night. Their
// number `session` is what the access log calls `connection`.
//
// The message is a sentence. In JSON the line also holds the figures behind it
// (fields.go); in text they would only say the sentence again.
//
// Picks are of level info, failed attempts and picks that found nobody of level
// warn. Whoever asks for decisions gets them: they are written whatever
// `log { level }` is, since a level of "warn" that silently left half of them
// out would be a trap.
//
// Units: the queue holds [Waiting] records. Instants in a sentence are local
// time, rounded up to the second in which a peer is tried again, those in
// fields RFC 3339 with milliseconds.
//
// Errors: none are returned; a line that the log does not take counts as lost.
//
// Ownership: any goroutine may call Put. A record, its decision and its failure
// are not changed from then on: others may read them too. [Writer.Close] comes after the last Put. A nil
// Writer is a log that is off.
package decisions

// Package history keeps what a worker knows of its sessions: of those that run,
// for whoever asks, and of the last ones that have ended.
//
// A [Ring] belongs to one worker. At a session's end it takes the facts, which
// the access log gets too, and the session's [Trail]: why its peers were picked,
// and what its failed attempts have cost. A trail exists only if decisions are
// logged (`log { decisions }`), or if somebody has asked for recording. [Live] is
// the view of a session that runs.
//
// Units and bounds: a ring holds [Sessions] finished sessions, about 1 MiB once
// it is full. All trails of a worker together, those of running sessions
// included, hold at most [Places] candidates and steps, about 8 MiB; the oldest
// finished sessions lose theirs first.
//
// Errors: there are none. What is not known any more is not found.
//
// Ownership: a Ring and the trails that are being written are owned by the
// loop's thread. What its methods return may be read by anybody: records are
// never changed, only more come behind them. A nil Ring remembers nothing.
package history

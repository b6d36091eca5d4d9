// Package upstream keeps the run-time state of upstreams: groups of peers,
// their connections and failures, and the walk from peer to peer of a session
// whose attempts fail.
//
// A [Group] is one upstream with its primary and backup [Peer]s. A session asks
// [Group.Pick] for a peer, reports with [Group.Connected] that the connection
// stands, and gives the peer back with exactly one [Group.Release]. Between
// its attempts it keeps an [Attempts] value, which it may drop once connected.
// The rules are nginx's stream module's, whose functions are named at each.
//
// [Group.Explain], [Group.Inspect] and [Group.ExplainFailure] tell what Pick and
// Release do: a [Decision] holds every peer with its figures and the reason why
// it was picked or left out, a [Failure] what an attempt cost its peer. Both put
// themselves into a sentence for people (sentence.go).
//
// # Axes
//
// What nginx does not have stands around the pick: a peer has a place on each
// [Axis], with since when and why, and each axis has one writer.
//
//	axis       values                                        writer
//	admin      up drain down                                 SetAdmin, the configuration
//	discovery  present                                       Update: one that is removed is not in its group
//	passive    available unavailable ejected                 live traffic: failure.go, outlier.go
//	active     none unknown healthy unhealthy                Judge, for stream/health
//	role       any unknown primary replica standby           Judge; conflict: electLocked
//	           lagging conflict
//	capacity   free full                                     connections
//
// A peer is eligible if all of them allow it. judgeLocked works that out after
// each change into balance.Peer.Withheld, so that a pick looks at one field. Two
// rules look at the group as a whole: exactly_one gives the role to one of those
// that claim it and leaves it there (electLocked), and in a panic, with too few
// healthy peers, checks and ejections do not count; roles and the operator's word
// always do. unknown is no sickness: a group that nobody has checked yet is in no
// panic.
//
// The last 64 transitions of each peer are kept ([Group.History]), and whoever
// [Group.Watch]es is told of each, so as to end sessions as on_state says.
//
// max_fails is nginx's, to the bit, and has its own way back; an attempt that is
// given up, which nginx does not know, leaves it as it was. Outlier detection
// stands beside it. A peer that comes back on any of the axes begins its slow
// start (stream/balance).
//
// # Admission
//
// Before the pick stands what bounds the load (admission.go, circuit.go). A TCP
// session, which can be made to wait ([Attempts.OnTurn]), is asked in this order:
// is the circuit breaker open, are there max_sessions or max_pending, does the
// adaptive limit (stream/adaptive) allow one more, do others wait already. Then it
// picks; if all that it lacks is room at a peer (max_conns), or the limit is
// reached, it gets into the queue. Attempts.Denial tells what it came to. What a
// session leaves behind goes to the first in the queue and to nobody else: newcomers
// wait while anybody does, or has been called and not picked yet. max_conns is
// strict: connections are counted at the pick, under the mutex, over all workers.
//
// The queue is first come, first served within a priority (stream/queue). It moves
// on when a session ends, when a peer comes back or gets more room, and, since
// limits grow and fail_timeout passes without any event, ten times a second. Whoever
// is called begins its search anew, at the primaries; what it has tried stays tried.
// Where a reload takes the queue away, those in it wait until their time is over, and
// newcomers pick beside them.
//
// From a group that is no longer in the configuration ([Group.Disband]) nobody is
// picked, whoever asks: neither for those that wait, which are called to hear it, nor
// for the next attempt of a session.
//
// Retries are bounded by circuit_breaker.max_retries ([Group.Again]), second
// attempts beside a slow one ([Group.Beside]) by the caller.
//
// Units: instants are clock.Time; failure windows compare whole seconds of it.
// Byte and session counters only grow.
//
// Errors: [Resolve] and [NewGroup] return errors that name the server. Picking
// fails by returning nil: no peer is eligible.
//
// Ownership: one mutex for each group guards the mutable fields of its peers,
// their axes and their balance.Peer; it is taken to pick and to settle, and with
// outlier detection at a session's first byte, never while bytes move. Watch's
// function is called with it held. Everything else in a Group and a Peer is immutable, except the
// counters in stats.Peer and stats.Upstream, of which each worker writes its own.
// Attempts belong to one session.
//
// It knows no descriptors, sessions or probes: verdicts come in words. Names are resolved only by
// Resolve, at start, off the workers.
package upstream

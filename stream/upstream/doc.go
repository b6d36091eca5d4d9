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
// Units: instants are clock.Time; failure windows compare whole seconds of it.
// Byte and session counters only grow.
//
// Errors: [Resolve] and [NewGroup] return errors that name the server. Picking
// fails by returning nil: no peer is eligible.
//
// Ownership: one mutex for each group guards the mutable fields of its peers
// and their balance.Peer; it is taken to pick and to settle, never while bytes
// move. Everything else in a Group and a Peer is immutable, except the
// counters in stats.Peer and stats.Upstream, of which each worker writes its own.
// Attempts belong to one session.
//
// It knows no descriptors, sessions or probes. Names are resolved only by
// Resolve, at start, off the workers.
package upstream

// Package balance picks one peer out of a slice: the balancing methods, as
// pure functions over [Peer] values, equal to nginx's stream module.
//
// A [Method] is asked by Pick for one peer that is [Peer.Eligible] and not yet
// tried in this session. What one session remembers between its attempts is a
// [Selection]. The caller (stream/upstream) owns everything around the pick:
// the backup tier, the single-peer path, retries, connection counts and what a
// failure costs.
//
// Round robin is nginx's smooth weighted round robin
// (ngx_stream_upstream_get_peer). Every pick walks the eligible peers, adds
// each one's effective weight to its current weight, takes the greatest, and
// subtracts the sum of the effective weights from the winner. Weights 5, 1, 1:
//
//	pick   current after adding   winner   current after
//	1      5  1  1                a        -2  1  1
//	2      3  2  2                a        -4  2  2
//	3      1  3  3                b         1 -4  3
//	4      6 -3  4                a        -1 -3  4
//	5      4 -2  5                c         4 -2 -2
//	6      9 -1 -1                a         2 -1 -1
//	7      7  0  0                a         0  0  0
//
// A failure lowers the effective weight; every walk in which the peer is
// eligible raises it by one again, after it was added.
//
// Units: weights and counts are plain numbers, times are whole seconds on the
// caller's monotonic clock ([Seconds]); [Never] lies before every window.
//
// Errors: [New] returns an error for a method that does not exist. Nothing
// else fails; no eligible peer is the index -1.
//
// Ownership: the mutable fields of a Peer are guarded by whatever lock the
// caller takes around Pick (in weir: the mutex of the upstream group). A
// Selection belongs to one session. Nothing is allocated by a pick.
//
// It knows no sockets, no locks, no configuration and reads no clock.
package balance

// Package discovery follows the servers of upstreams that change while the
// process runs: the addresses of a name (`resolve`), the targets of a service
// (`service`), and the entries of a file (`server_file`).
//
// A [Directory] holds one source for each thing that is asked for. Upstreams,
// and configurations one after another, share it: a reload that keeps a name
// keeps what is known of it, and when it is asked for next. [Directory.Expand]
// puts what is known into the servers of an upstream, [Directory.Follow] says
// which configuration is in force, and [Directory.Sources] tells operators how
// each source does.
//
// What an answer means. A server that says it knows replaces the last set: new
// records, but also NXDOMAIN, and NOERROR without a record. Both say that there
// is none, and an upstream that went on with addresses which their owner has
// taken away would send clients to a stranger. A server that does not know says
// nothing about the set: SERVFAIL, REFUSED, silence, an answer that can't be
// read, or one of a server that neither has the zone nor asks others. The last
// set stays then, for as long as it takes, and the source counts as stale: a
// broken resolver must not take down what works. The two families of a name are
// asked for at once and judged apart. A family that is empty is empty, the set
// is the union, and a family that fails keeps its last addresses. Only the step
// to an empty set needs both: while one family fails, nobody knows that there
// is none.
//
// Names are looked up as the C library does it by default: first in /etc/hosts,
// then by DNS with the search list of resolv.conf(5). Both files are read again
// when they change. Only two tiers of servers exist: of a service's targets those
// with the lowest priority number are primary, all others are backups (RFC 2782
// knows any number of levels).
//
// Units and ranges: a source is asked again after the smallest TTL of its
// answer, at least 1 s and at most 5 min, or after the resolver's `valid`; an
// empty answer without a `valid` holds 30 s at most. After a failure that is 1 s,
// doubling up to 30 s, but never longer than after an answer. Up to 10 % is added
// to spread the questions. At most 1,000 addresses of a name or service are
// taken; a file may have 4 MiB and 10,000 servers. A question takes the
// resolver's timeout for each server that is silent, and SRV names take two.
//
// Errors: there are none to handle. A source that fails is logged when it
// becomes stale and when it is fresh again, and [Source] holds its last error.
//
// Ownership: all methods of a Directory may be called by any goroutine, Expand
// also from within Options.Changed. Slices that are handed out belong to the
// caller. Each source that is followed has a goroutine, which [Directory.Stop]
// ends; it waits for a call of Changed that is under way.
//
// It knows no groups, peers or sessions: what becomes of a server that came or
// went is its user's business. Names that are not followed are left to
// stream/upstream, which resolves them once.
package discovery

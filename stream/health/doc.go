// Package health checks whether servers answer, and what they say about
// themselves, for those who pick among them.
//
// A [Checker] runs all health checks of one peer and reports its [Verdict]:
// [Health], whether it has the role that is wanted ([RoleState]), and the
// evidence. Each check is a probe of its kind (probe.go has the table, and each
// kind a file) and a judge (verdict.go), which turns results into states. All
// checks must agree: one that fails makes the peer unhealthy, and one that
// stands out leaves it unknown.
//
// Probes are polite, so that no server logs or counts them as faults. Those of
// a database or broker finish its handshake; postgres, mysql, redis, amqp and
// nats keep one connection and ask on it each time (keep.go), the others, and
// nats where it wants a login and the check has none, connect anew and take their
// leave in order (visit.go). A kept connection shows that the server works, and
// not that it still accepts others: that is what connect failures of live
// sessions show. Settings that a server gives only to new sessions, such as ALTER
// ROLE SET, are not seen on it either.
//
// How often a state changes is bounded, whatever the server does. Of n results
// of one check there are at most 2 + 2n/(rise+fall) changes of health, the first
// verdict included, because fall failures in a row must come before each
// "unhealthy" and rise successes before each "healthy". A server that fails
// every second check causes one change after the first verdict at most, and none
// if the state that it is in takes two results to leave; only with rise = 1 and
// fall = 1 does it cause one with each result. A replica that is over max_lag
// every second time lags from the first one on and stays so if rise is more than
// 1; of n readings at most 2 + 2n/(rise+1) change that. Being primary or replica
// changes as soon as the server says so, at most once with each result, since a
// client on the wrong one is worse than a change too many. n is the time divided
// by the interval.
//
// Units: an interval counts from start to start, and up to a tenth of it is
// added by chance. A Checker's first checks start within 50 ms. The timeout
// bounds all of one check, connecting included; its goodbye may take 100 ms
// more. A check never overlaps itself: the next one is late instead. No more
// than 64 KiB of what a server sends are kept, 128 KiB of HTTP and 256 KiB of
// MySQL; one that sends more than that to a check of postgres or mysql fails it.
//
// Errors: [Start] returns mistakes of the configuration. A failed check is no
// error: its cause is one short line without passwords, in [Verdict] and
// [CheckState]. A panic while a check reads what a server sends is a failed one.
//
// Ownership: each check has a goroutine, which owns its probe and all of its
// connections. [Checker.Stop] ends them, in whatever they wait. A Checker's
// methods may be called by any goroutine. Nothing here runs on a worker.
//
// Who may be picked, what happens to the sessions of a peer after a verdict, and
// which of two primaries is right are the business of others.
package health

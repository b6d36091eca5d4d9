// Package metrics tells Prometheus, and whoever probes weir, how it is doing.
//
// A [Collector] reads a stream.Server when it is scraped; an [Endpoint] serves
// it, with the Go runtime's and the process's own metrics, at `admin { metrics }`:
//
//	/metrics   what README.md lists
//	/healthz   200 for as long as the process answers
//	/readyz    200 while new clients are welcome; 503 with the reason before and after
//
// An endpoint is opened before the server is started, so that an address that
// is taken stops the start, and closed after the server has stopped, or when another
// process has taken over, whose endpoint has the port by then. On a reload
// [Endpoint.Prepare] opens the new address and [Move.Finish] leaves the old one.
//
// # What it costs
//
// Nothing on the data path locks or allocates for a scrape: workers add to
// counters of their own, whether anybody reads them or not: five additions for a
// TCP session and three for one of UDP that would not be there without metrics,
// and one for each answer and each batch of requests of UDP. No difference could
// be measured.
//
// A scrape takes the mutex of each upstream group for some microseconds at a time,
// while the figures of 32 peers are copied, and asks the kernel once for each
// listening socket. The busy share of a worker is its thread's CPU clock, read at
// the scrape: the loop reads no clock for it. The rest of a scrape's work is done
// by the processor that GOMAXPROCS leaves beside the workers: 2 ms and 0.4 MB with
// 10 peers, 45 ms and 12 MB with 1,000. Where there are many peers and few CPUs,
// scrape every 15 or 30 seconds, not every second.
//
// # What is not counted
//
// How often a peer was left out of a pick, and why. A pick looks at every peer,
// or with some methods at few, and counting each look would cost more than
// the look. `weir_upstream_no_peer_total` counts the picks that all were left out
// of; `log { decisions }` and `weir explain` name the reasons.
//
// How long UDP peers take to answer: a UDP session has no connect, and the time
// of its first answer is in the access log.
//
// Peers and listeners that a reload has removed vanish, the latter with their
// last session. What the numbers of workers tell (label worker) is of present
// workers; one that is started under the number of a former one goes on with its
// counters, but for the loop's and the thread's, which begin anew.
//
// Units: seconds, bytes of payload, and plain counts. Labels are bounded by the
// configuration: listener, upstream, peer, address, worker, and fixed words.
//
// Errors: [Open] and [Endpoint.Prepare] return one if the address can't be
// listened on. A sample that can't be read (a kernel without it) is left out.
//
// Ownership: any goroutine may use a Collector and an Endpoint. The endpoint
// closes its sockets and at most twelve connections, which it takes from the
// descriptors that are not for sessions.
//
// Kernel: accept queues are read by TCP_INFO, receive queues by SO_MEMINFO
// (4.12), waiting for a CPU from /proc/self/task/TID/schedstat, overflows from
// /proc/self/net/netstat.
//
// It changes nothing and asks for no password: admin.metrics belongs on loopback
// or on a network of one's own.
package metrics

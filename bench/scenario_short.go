package main

// shortAddresses spreads a contestant's connections: 4 addresses hold 4 times
// 28,232 of the kernel's default outgoing ports, and TIME_WAIT takes each away
// for a while.
const shortAddresses = 4

var shortRun = wrkRun{connections: 64, body: wrkSmall, header: "Connection: close"}

var shortConnections = scenario{
	name:      "short",
	title:     "a new connection for every request",
	setup:     "wrk, 1 thread, 64 connections at a time, Connection: close, answer of 128 B and a header of about 160; backend nginx http, 1 worker, 4 addresses; a listening address per round in turn; warm-up of 1 s; nothing pinned",
	metrics:   wrkMetrics("connections/s", "us/connection"),
	addresses: shortAddresses,
	quick:     true,
	traced:    true,
	backend:   startHTTP,
	warm:      shortRun.warm,
	run:       shortRun.measure,
}

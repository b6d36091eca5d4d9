package main

// shortAddresses spreads a contestant's connections: 4 addresses hold 4 times
// 28,232 of the kernel's default outgoing ports, and TIME_WAIT takes each away
// for a while.
const shortAddresses = 4

var shortRun = wrkRun{header: "Connection: close"}

var shortConnections = scenario{
	name:  "short",
	title: "a new connection for every request",
	setup: "wrk, 1 thread, 64 connections at a time, Connection: close, answer of about 160 bytes; backend nginx http, 1 worker, 4 addresses; a listening address per round in turn; warm-up of 1 s; nothing pinned",
	metrics: []metric{
		{Name: "rate", Unit: "connections/s"},
		{Name: "p50", Unit: "us", Lower: true},
		{Name: "p99", Unit: "us", Lower: true},
		{Name: "cpu", Unit: "us/connection", Lower: true, ProxyOnly: true},
	},
	addresses: shortAddresses,
	backend:   startHTTP,
	warm:      shortRun.warm,
	run:       shortRun.measure,
}

package main

var bulkThreadsRun = iperfRun{program: "iperf", streams: 8}

var bulkThreads = scenario{
	name:      "bulk-8-threads",
	title:     "eight bulk streams, a thread each",
	setup:     "iperf 2 (a thread per stream on both sides), 8 TCP streams, writes of 128 KiB, client to server, counted by the sender; warm-up of 256 MiB; nothing pinned",
	metrics:   bulkMetrics,
	traffic:   bulk,
	addresses: 1,
	warm:      bulkThreadsRun.warm,
	run:       bulkThreadsRun.measure,
}

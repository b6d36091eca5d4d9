package main

var bulkEightRun = iperfRun{program: "iperf3", streams: 8}

var bulkEight = scenario{
	name:      "bulk-8",
	title:     "eight bulk streams, client to server",
	setup:     "iperf3 (one thread a side), 8 TCP streams, writes of 128 KiB, client to server; warm-up of 256 MiB; nothing pinned",
	metrics:   bulkMetrics,
	traffic:   bulk,
	addresses: 1,
	warm:      bulkEightRun.warm,
	run:       bulkEightRun.measure,
}

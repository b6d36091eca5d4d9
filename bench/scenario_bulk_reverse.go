package main

var bulkReverseRun = iperfRun{program: "iperf3", streams: 1, reverse: true}

var bulkReverse = scenario{
	name:      "bulk-1-reverse",
	title:     "one bulk stream, server to client",
	setup:     "iperf3 -R, 1 TCP stream, writes of 128 KiB, server to client; warm-up of 256 MiB; nothing pinned",
	metrics:   bulkMetrics,
	traffic:   bulk,
	addresses: 1,
	warm:      bulkReverseRun.warm,
	run:       bulkReverseRun.measure,
}

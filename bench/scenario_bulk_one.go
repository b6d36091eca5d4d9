package main

var bulkOneRun = iperfRun{program: "iperf3", streams: 1}

var bulkOne = scenario{
	name:      "bulk-1",
	title:     "one bulk stream, client to server",
	setup:     "iperf3, 1 TCP stream, writes of 128 KiB, client to server; warm-up of 256 MiB; nothing pinned",
	metrics:   bulkMetrics,
	traffic:   bulk,
	addresses: 1,
	warm:      bulkOneRun.warm,
	run:       bulkOneRun.measure,
}

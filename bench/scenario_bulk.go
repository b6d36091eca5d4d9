package main

import "fmt"

// bulkScenarios are iperf3's, whose client and server have a thread each.
var bulkScenarios = []scenario{bulkScenario(1, false), bulkScenario(8, false), bulkScenario(1, true), bulkScenario(8, true)}

func bulkScenario(streams int, reverse bool) scenario {
	sc := transferScenario("bulk", iperfRun{program: "iperf3", streams: streams, reverse: reverse})
	sc.setup = fmt.Sprintf("iperf3 (one thread a side), %s", sc.setup)
	sc.quick = !reverse
	sc.traced = streams == 1 && !reverse
	return sc
}

// transferScenario has what iperf3's and iperf's scenarios share.
func transferScenario(kind string, run iperfRun) scenario {
	name, direction := fmt.Sprintf("%s-%d", kind, run.streams), "client to server"
	if run.reverse {
		name, direction = name+"-reverse", "server to client"
	}
	return scenario{
		name:      name,
		title:     fmt.Sprintf("%d bulk stream(s), %s", run.streams, direction),
		setup:     fmt.Sprintf("%d TCP stream(s), writes of 128 KiB, %s; warm-up of %d MiB; nothing pinned", run.streams, direction, warmMiB),
		metrics:   bulkMetrics,
		traffic:   bulk,
		addresses: 1,
		warm:      run.warm,
		run:       run.measure,
	}
}

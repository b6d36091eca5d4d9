package main

import "fmt"

// threadsScenarios are iperf 2's, whose client and server have a thread for
// each stream.
var threadsScenarios = []scenario{threadsScenario(1, false), threadsScenario(8, false), threadsScenario(1, true), threadsScenario(8, true)}

func threadsScenario(streams int, reverse bool) scenario {
	sc := transferScenario("threads", iperfRun{program: "iperf", streams: streams, reverse: reverse})
	sc.setup = fmt.Sprintf("iperf 2 (a thread per stream on both sides), counted by the client, %s", sc.setup)
	return sc
}

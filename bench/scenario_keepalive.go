package main

import "fmt"

var keepaliveScenarios = []scenario{
	keepalive(16, wrkSmall), keepalive(64, wrkSmall), keepalive(256, wrkSmall),
	keepalive(16, wrkLarge), keepalive(64, wrkLarge), keepalive(256, wrkLarge),
}

func keepalive(connections, body int) scenario {
	run := wrkRun{connections: connections, body: body}
	name, size := fmt.Sprintf("keepalive-%d", connections), fmt.Sprintf("%d B", body)
	if body == wrkLarge {
		name, size = name+"-16k", "16 KiB"
	}
	return scenario{
		name:      name,
		title:     fmt.Sprintf("requests over %d connections kept open, bodies of %s", connections, size),
		setup:     fmt.Sprintf("wrk, 1 thread, %d connections kept alive, GET of about 45 bytes, answer of %s and a header of about 160 bytes; backend nginx http, 1 worker; warm-up of 1 s; nothing pinned", connections, size),
		metrics:   wrkMetrics("requests/s", "us/request"),
		addresses: 1,
		quick:     connections == 64,
		traced:    connections == 64 && body == wrkSmall,
		backend:   startHTTP,
		warm:      run.warm,
		run:       run.measure,
	}
}

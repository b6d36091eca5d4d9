package main

import "fmt"

// udpQueries is how many queries are in flight at a time.
const udpQueries = 64

var udpSessionRun = loopRun{flows: udpQueries, window: 1, sessions: true}

var udpSession = scenario{
	name:  "udp-session",
	title: "a new client for every query",
	setup: fmt.Sprintf("every datagram of %d bytes comes from a client address that was not seen before and has one answer (nginx proxy_responses 1, weir responses = 1), %d in flight, checked as in udp-echo; warm-up of %s; %s",
		udpEchoBytes, udpQueries, warmUDP, udpPlacing),
	metrics:   udpLoopMetrics("sessions/s", "us/session"),
	traffic:   queries,
	addresses: 1,
	warm:      udpSessionRun.warm,
	run:       udpSessionRun.measure,
}

package main

import "fmt"

// sessionsScenarios are ping-pong-16 with more and more other sessions open.
var sessionsScenarios = []scenario{sessions(10), sessions(1000), sessions(9000)}

func sessions(n int) scenario {
	idle := min(n, heldSessions())
	run := tripsRun{connections: 16, idle: idle}
	return scenario{
		name:      fmt.Sprintf("sessions-%d", n),
		title:     fmt.Sprintf("one message at a time on 16 connections, %d other sessions open", n),
		setup:     fmt.Sprintf("as ping-pong-16, while %d sessions (fewer than said where open files do not allow it) have passed %d bytes both ways and stay open; opened anew for every run; warm-up of %s without them; nothing pinned", idle, pingBytes, warmPing),
		metrics:   tripsMetrics,
		addresses: 1,
		warm:      run.warm,
		run:       run.measure,
	}
}

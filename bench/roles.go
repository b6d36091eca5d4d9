package main

import (
	"context"
	"os"
	"time"
)

// Roles are parts of a scenario that run as a process of their own, started by
// the first argument. They are bounded by their parent's death signal.
const (
	roleTCP        = "role-tcp"
	roleHoldClient = "role-hold-client"
	roleUDPLoop    = "role-udp-loop"
	roleUDPFlood   = "role-udp-flood"
)

var roles = map[string]func(args []string) error{
	roleTCP:        tcpRole,
	roleHoldClient: holdClient,
	roleUDPLoop:    udpLoop,
	roleUDPFlood:   udpFlood,
}

func runSelf(ctx context.Context, limit time.Duration, args ...string) (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	return runCommand(ctx, limit, roleEnv(), append([]string{exe}, args...))
}

// roleEnv keeps preemption signals away from the roles' blocking reads: they
// would come a hundred times a second, enough to show in a p99.
func roleEnv() []string { return append(os.Environ(), "GODEBUG=asyncpreemptoff=1") }

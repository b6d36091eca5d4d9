package main

import (
	"context"
	"fmt"
	"net"
)

// peersScenarios are short with more and more servers: what picking one costs.
// Their backend has one socket for all of them, because a thousand would be what
// is measured; without a namespace others can reach it.
var peersScenarios = []scenario{peers(1), peers(10), peers(100), peers(1000)}

func peers(n int) scenario {
	return scenario{
		name:      fmt.Sprintf("peers-%d", n),
		title:     fmt.Sprintf("a new connection for every request, %d server(s) in the upstream", n),
		setup:     fmt.Sprintf("as short, through 4 listening addresses in turn to %d server(s), loopback addresses of one nginx http with 1 worker whose socket is bound to the wildcard address; direct has the same servers in turn by rounds; warm-up of 1 s; nothing pinned", n),
		metrics:   wrkMetrics("connections/s", "us/connection"),
		addresses: shortAddresses,
		peers:     n,
		backend: func(ctx context.Context, e *env, addrs []string) (func(), error) {
			_, port, err := net.SplitHostPort(addrs[0])
			if err != nil {
				return nil, err
			}
			return startHTTP(ctx, e, []string{net.JoinHostPort("0.0.0.0", port)})
		},
		warm: shortRun.warm,
		run:  shortRun.measure,
	}
}

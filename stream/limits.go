package stream

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	// reservedFDs are for everything that is not a session: standard streams,
	// logs, epoll sets, and what the Go runtime and libraries open.
	reservedFDs = 32
	// maxPipesPerWorker bounds the memory of pipes: 1 MiB each at worst.
	maxPipesPerWorker = 1024
	minPipesPerWorker = 4
	// maxPooledPerWorker bounds the idle UDP sockets to peers.
	maxPooledPerWorker = 12288
)

// limits are what the process may use, derived from RLIMIT_NOFILE.
type limits struct {
	sessions int // over all workers
	pipes    int // for each worker
	pooled   int // idle UDP sockets, for each worker
}

// fdLimit returns RLIMIT_NOFILE, which the Go runtime has raised to the hard
// limit at start.
func fdLimit() (uint64, error) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 0, fmt.Errorf("read RLIMIT_NOFILE: %w", err)
	}
	return r.Cur, nil
}

// planLimits shares out descriptors: a session takes two, a pipe takes two, a
// fortieth is for pipes. A UDP session takes one; the other one it counts for
// is for an idle socket. wanted sessions of 0 means as many as there is room
// for; more than that is an error, not a silent cap.
func planLimits(nofile uint64, workers, listening, wanted int) (limits, error) {
	fixed := reservedFDs + 3*workers + listening
	free := int(min(nofile, 1<<30)) - fixed
	pipes := min(max(free/40/workers, minPipesPerWorker), maxPipesPerWorker)
	room := (free - 2*pipes*workers) / 2
	if room < 1 {
		return limits{}, fmt.Errorf("share out descriptors: RLIMIT_NOFILE is %d, and %d workers with %d listening sockets need %d before the first session; raise it (ulimit -n, LimitNOFILE=)",
			nofile, workers, listening, fixed+2*pipes*workers+2)
	}
	if wanted > room {
		return limits{}, fmt.Errorf("share out descriptors: max_sessions = %d needs RLIMIT_NOFILE %d, it is %d; raise it (ulimit -n, LimitNOFILE=) or set max_sessions to at most %d",
			wanted, fixed+2*pipes*workers+2*wanted, nofile, room)
	}
	if wanted > 0 {
		room = wanted
	}
	return limits{sessions: room, pipes: pipes, pooled: min(room/workers, maxPooledPerWorker)}, nil
}

package stream

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
)

// maxPooledPerWorker bounds the idle UDP sockets to peers.
const maxPooledPerWorker = 12288

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

// plan shares out descriptors for a configuration.
func plan(cfg *conf.Config, workers int) (limits, error) {
	nofile, err := fdLimit()
	if err != nil {
		return limits{}, err
	}
	d, err := conf.ShareDescriptors(nofile, workers, cfg.ListeningSockets(workers))
	if err != nil {
		return limits{}, err
	}
	sessions, err := d.For(cfg.Worker.MaxSessions)
	return limits{sessions: sessions, pipes: d.Pipes, pooled: min(sessions/workers, maxPooledPerWorker)}, err
}

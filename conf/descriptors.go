package conf

import "fmt"

const (
	// reservedDescriptors are for everything that is not a session: standard
	// streams, logs, and what the Go runtime and libraries open.
	reservedDescriptors = 32
	// descriptorsPerWorker are its epoll set, eventfd and timerfd.
	descriptorsPerWorker = 3
	// maxPipesPerWorker bounds the memory of pipes: 1 MiB each at worst.
	maxPipesPerWorker = 1024
	minPipesPerWorker = 4

	descriptorsPerSession = 2
)

// Descriptors is how a process shares out RLIMIT_NOFILE.
type Descriptors struct {
	Sessions int // of all workers, as many as there is room for
	Pipes    int // for each worker
	limit    uint64
	fixed    int // taken before the first session
}

// ShareDescriptors shares out the descriptors of a process with so many workers
// and listening sockets: a session takes two, a pipe takes two, a fortieth is for
// pipes. A UDP session takes one; the other one it counts for is for an idle
// socket. It is an error if there is no room for a session.
func ShareDescriptors(limit uint64, workers, listening int) (Descriptors, error) {
	d := Descriptors{limit: limit, fixed: reservedDescriptors + descriptorsPerWorker*workers + listening}
	free := int(min(limit, 1<<30)) - d.fixed
	d.Pipes = min(max(free/40/workers, minPipesPerWorker), maxPipesPerWorker)
	d.fixed += 2 * d.Pipes * workers
	d.Sessions = (free - 2*d.Pipes*workers) / descriptorsPerSession
	if d.Sessions < 1 {
		return d, fmt.Errorf("share out descriptors: RLIMIT_NOFILE is %d, and %d workers with %d listening sockets need %d before the first session; raise it (ulimit -n, LimitNOFILE=)",
			limit, workers, listening, d.Need(1))
	}
	return d, nil
}

// Need returns how many descriptors so many sessions take, with all else.
func (d Descriptors) Need(sessions int) int { return d.fixed + descriptorsPerSession*sessions }

// For returns how many sessions there may be if somebody wants so many; 0 means
// as many as there is room for. More than that is an error, not a silent cap.
func (d Descriptors) For(wanted int) (int, error) {
	if wanted > d.Sessions {
		return 0, fmt.Errorf("share out descriptors: max_sessions = %d needs RLIMIT_NOFILE %d, it is %d; raise it (ulimit -n, LimitNOFILE=) or set max_sessions to at most %d",
			wanted, d.Need(wanted), d.limit, d.Sessions)
	}
	if wanted == 0 {
		return d.Sessions, nil
	}
	return wanted, nil
}

// ListeningSockets returns how many sockets so many workers listen on. A unix
// socket is one for all.
func (c *Config) ListeningSockets(workers int) int {
	n := 0
	for i := range c.Listeners {
		for _, a := range c.Listeners[i].Listen {
			if a.IsUnix() {
				n++
			} else {
				n += workers
			}
		}
	}
	return n
}

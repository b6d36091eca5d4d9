package main

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// places says which core each part of a UDP scenario has to itself. Threads
// that are never idle would otherwise be moved around by the scheduler, and the
// figures with them.
type places struct {
	load, proxy  int
	server       int // iperf's, behind a proxy
	directServer int // and without one
}

// noCore leaves the choice to the scheduler.
const noCore = -1

// udpPlaces gives the load the first core and the proxy the last. With one
// core, nothing is pinned.
func udpPlaces(cores int) places {
	if cores < 2 {
		return places{noCore, noCore, noCore, noCore}
	}
	p := places{load: 0, server: 0, proxy: cores - 1, directServer: 1}
	if cores > 2 {
		p.server = 1
	}
	return p
}

func (e *env) places() places { return udpPlaces(runtime.NumCPU()) }

// onCore runs start, which starts processes that stay on that core.
// Preconditions: the caller is the main goroutine, whose thread they inherit
// their affinity from.
func onCore(core int, start func() error) error {
	if core == noCore {
		return start()
	}
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("read cpu affinity: %w", err)
	}
	one.Set(core)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("pin to core %d: %w", core, err)
	}
	err := start()
	if restore := unix.SchedSetaffinity(0, &before); restore != nil && err == nil {
		err = fmt.Errorf("restore cpu affinity: %w", restore)
	}
	return err
}

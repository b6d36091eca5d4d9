package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	systemd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// This file tells systemd how the process is (sd_notify(3)), if it is a service
// of type notify. Elsewhere nobody listens, and nothing happens.

// activated returns the sockets that systemd opened for this process
// (sd_listen_fds(3)).
func activated() []int32 {
	var fds []int32
	for _, f := range activation.Files(true) {
		// The file must not close its descriptor when it is collected.
		if fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0); err == nil {
			fds = append(fds, int32(fd))
		}
		_ = f.Close()
	}
	return fds
}

// notify sends a state.
func (d *daemon) notify(state ...string) {
	if _, err := systemd.SdNotify(false, strings.Join(state, "\n")); err != nil {
		d.logger.Warn("tell systemd", "state", state[0], "error", err)
	}
}

// notifyReloading must be followed by a READY=1.
func (d *daemon) notifyReloading() {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // can't fail
	d.notify(systemd.SdNotifyReloading, fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000))
}

// watchdog tells systemd at once, and then as often as it asks for, that every
// worker answers. It never ends.
func (d *daemon) watchdog() {
	interval, err := systemd.SdWatchdogEnabled(false)
	if err != nil {
		d.logger.Warn("systemd's watchdog", "error", err)
	}
	if interval <= 0 {
		return
	}
	for tick := time.Tick(interval / 2); ; <-tick {
		if d.server.Responsive(interval / 4) {
			d.notify(systemd.SdNotifyWatchdog)
		}
	}
}

// withoutWatchdogPid returns the environment for a successor, whose process id
// is not known yet: without one the watchdog is for whoever reads it.
func withoutWatchdogPid() []string {
	var out []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "WATCHDOG_PID=") {
			out = append(out, v)
		}
	}
	return out
}

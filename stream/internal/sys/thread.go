package sys

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ThreadCPU returns how long a thread of this process has run, from its CPU
// clock (pthread_getcpuclockid(3)).
func ThreadCPU(thread int32) (time.Duration, error) {
	const perThread, sched = 4, 2 // CPUCLOCK_PERTHREAD_MASK, CPUCLOCK_SCHED
	var ts unix.Timespec
	err := unix.ClockGettime(^thread<<3|perThread|sched, &ts)
	return time.Duration(ts.Nano()), err
}

// ThreadWaited returns how long a thread of this process was ready to run and
// had no CPU. Kernels without CONFIG_SCHED_INFO do not know.
func ThreadWaited(thread int32) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/schedstat", thread))
	if err != nil {
		return 0, err
	}
	var ran, waited, slices int64
	if _, err := fmt.Sscan(string(text), &ran, &waited, &slices); err != nil {
		return 0, fmt.Errorf("parse schedstat: %w", err)
	}
	if ran == 0 {
		return 0, unix.ENOTSUP // all zero: it is switched off
	}
	return time.Duration(waited), nil
}

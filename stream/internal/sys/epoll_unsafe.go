package sys

import (
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Event is one result of EpollWait: the events and the 64 bits that the
// descriptor was registered with.
type Event unix.EpollEvent

// Data returns the 64 bits given to EpollAdd.
func (e *Event) Data() uint64 { return uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32 }

// EpollCreate is epoll_create1(2), close-on-exec.
func EpollCreate() (int32, unix.Errno) {
	fd, _, errno := unix.RawSyscall(unix.SYS_EPOLL_CREATE1, unix.EPOLL_CLOEXEC, 0, 0)
	return int32(fd), errno
}

// EpollAdd registers fd for events with 64 bits of data.
func EpollAdd(epfd, fd int32, events uint32, data uint64) unix.Errno {
	return epollCtl(epfd, unix.EPOLL_CTL_ADD, fd, events, data)
}

// EpollModify changes the events and the data of a registered fd. What it is ready
// for is then reported again, also edge-triggered.
func EpollModify(epfd, fd int32, events uint32, data uint64) unix.Errno {
	return epollCtl(epfd, unix.EPOLL_CTL_MOD, fd, events, data)
}

// EpollDelete takes fd out of the set. Closing the last copy of a descriptor
// does the same.
func EpollDelete(epfd, fd int32) unix.Errno {
	return epollCtl(epfd, unix.EPOLL_CTL_DEL, fd, 0, 0)
}

func epollCtl(epfd int32, op int, fd int32, events uint32, data uint64) unix.Errno {
	ev := unix.EpollEvent{Events: events, Fd: int32(data), Pad: int32(data >> 32)}
	_, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(epfd), uintptr(op), uintptr(fd), uintptr(unsafe.Pointer(&ev)), 0, 0)
	return errno
}

// preemptible is false when the Go runtime was told not to send its preemption
// signal; then no wait may hide from the scheduler, since nothing would end it.
var preemptible = !strings.Contains(os.Getenv("GODEBUG"), "asyncpreemptoff=1")

// EpollWait is epoll_wait(2): it fills events and returns how many there are,
// 0 after timeout milliseconds; -1 waits for ever. EINTR is returned.
//
// It waits without telling the Go scheduler, because giving up the P around
// every short wait and fighting to get it back costs two workers a third of
// their throughput. The runtime asks for the P (to stop the world, or because
// 10 ms have passed) by a signal that ends the wait with EINTR; the caller's
// next function call then gives way. A signal that arrives just before the wait
// begins is not lost for long: a runtime that waits for a P repeats it every
// 100 us (stopTheWorldWithSema, forEachP), and sysmon repeats its own every 10 ms.
//
// With idle it waits the scheduler's way, so that the runtime can sleep too: a worker
// that has nothing to do would be signalled a hundred times a second. It is not
// for the short waits of one that has: after taking the P of a thread in a system
// call, sysmon looks every 20 us for a while, a tenth of the CPU of a process that
// serves a few thousand requests a second.
func EpollWait(epfd int32, events []Event, timeout int, idle bool) (int, unix.Errno) {
	size := uintptr(len(events))
	if timeout != 0 && (idle || !preemptible) {
		n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(epfd), uintptr(unsafe.Pointer(unsafe.SliceData(events))), size, uintptr(timeout), 0, 0)
		return int(n), errno
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epfd), uintptr(unsafe.Pointer(unsafe.SliceData(events))), size, uintptr(timeout), 0, 0)
	return int(n), errno
}

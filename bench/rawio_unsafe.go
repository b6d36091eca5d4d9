package main

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These are blocking system calls that Go's scheduler does not see. Through
// syscall.Read the ping-pong's own figures were a quarter longer: the
// scheduler's monitor wakes up to take the processor of a thread that blocks,
// ten thousand times a second. They begin again when a signal interrupts them.

func rawRead(fd int, b []byte) (int, error) {
	return rawIO(syscall.SYS_READ, fd, b)
}

func rawWrite(fd int, b []byte) (int, error) {
	return rawIO(syscall.SYS_WRITE, fd, b)
}

func rawIO(call uintptr, fd int, b []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
			continue
		}
		return -1, errno
	}
}

// rawEpollWait takes milliseconds, -1 for no limit.
func rawEpollWait(epfd int, events []unix.EpollEvent, timeout int) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(epfd), uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), uintptr(timeout), 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
			continue
		}
		return -1, errno
	}
}

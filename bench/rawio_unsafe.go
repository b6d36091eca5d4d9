package main

import (
	"syscall"
	"unsafe"
)

// rawRead and rawWrite are blocking system calls that Go's scheduler does not
// see. Through syscall.Read the ping-pong's own figures were a quarter longer:
// the scheduler's monitor wakes up to take the processor of a thread that
// blocks, ten thousand times a second.

func rawRead(fd int, b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

func rawWrite(fd int, b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

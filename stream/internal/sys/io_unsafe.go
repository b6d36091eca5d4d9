package sys

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Recv is recv(2) on a non-blocking socket. 0 bytes are the end of input. It
// costs a few percent less than read(2), which looks at the socket as a file
// first.
func Recv(fd int32, p []byte) (int, unix.Errno) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), 0, 0, 0)
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

// Send is send(2) with MSG_NOSIGNAL on a non-blocking socket: a broken
// connection is EPIPE and no signal. more (MSG_MORE) says that something
// follows at once, a FIN for one, which can go in the same packet.
func Send(fd int32, p []byte, more bool) (int, unix.Errno) {
	flags := uintptr(unix.MSG_NOSIGNAL)
	if more {
		flags |= unix.MSG_MORE
	}
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), flags, 0, 0)
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

// Splice is splice(2) between a socket and a pipe, moving up to n bytes, with
// SPLICE_F_MOVE and SPLICE_F_NONBLOCK. SPLICE_F_MORE is never used: it corks
// the socket, and the last bytes of a burst would wait 200 ms for company.
func Splice(from, to int32, n int) (int, unix.Errno) {
	for {
		m, _, errno := unix.RawSyscall6(unix.SYS_SPLICE, uintptr(from), 0, uintptr(to), 0, uintptr(n), unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		if errno != unix.EINTR {
			return int(m), errno
		}
	}
}

// Close is close(2). It is never retried: on Linux the descriptor is gone
// whatever the result.
func Close(fd int32) {
	_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0)
}

// ShutdownWrite is shutdown(2) with SHUT_WR: it sends a FIN after the bytes
// already queued.
func ShutdownWrite(fd int32) unix.Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_SHUTDOWN, uintptr(fd), unix.SHUT_WR, 0)
	return errno
}

// Pipe is pipe2(2), non-blocking and close-on-exec.
func Pipe() (r, w int32, errno unix.Errno) {
	var p [2]int32
	_, _, errno = unix.RawSyscall(unix.SYS_PIPE2, uintptr(unsafe.Pointer(&p)), unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	return p[0], p[1], errno
}

// SetPipeSize is fcntl(2) F_SETPIPE_SZ and returns the size in bytes that the
// kernel gave. EPERM means that the size is over fs.pipe-max-size or the
// user's fs.pipe-user-pages-soft.
func SetPipeSize(fd int32, size int) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_FCNTL, uintptr(fd), unix.F_SETPIPE_SZ, uintptr(size))
	return int(n), errno
}

// EventFD is eventfd(2), non-blocking and close-on-exec.
func EventFD() (int32, unix.Errno) {
	fd, _, errno := unix.RawSyscall(unix.SYS_EVENTFD2, 0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC, 0)
	return int32(fd), errno
}

// EventSignal adds 1 to an eventfd.
func EventSignal(fd int32) {
	one := uint64(1)
	_, _, _ = unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&one)), 8)
}

// EventClear sets an eventfd back to 0.
func EventClear(fd int32) {
	var n uint64
	_, _, _ = unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&n)), 8)
}

// TimerFD is timerfd_create(2) on the monotonic clock, non-blocking and
// close-on-exec.
func TimerFD() (int32, unix.Errno) {
	fd, _, errno := unix.RawSyscall(unix.SYS_TIMERFD_CREATE, unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC, 0)
	return int32(fd), errno
}

// SetTimer is timerfd_settime(2): it makes a timer descriptor readable once,
// after d, which must be positive.
func SetTimer(fd int32, d time.Duration) unix.Errno {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	_, _, errno := unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, uintptr(fd), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	return errno
}

// SendQueue is ioctl(2) SIOCOUTQ: the bytes written to a TCP socket that its
// other end has not yet acknowledged.
func SendQueue(fd int32) (int, unix.Errno) {
	var n int32
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCOUTQ, uintptr(unsafe.Pointer(&n)))
	return int(n), errno
}

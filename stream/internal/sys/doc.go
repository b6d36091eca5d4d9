// Package sys is the one wall between weir and the kernel: thin calls, each
// named for its system call, errno-exact, without policy.
//
// Calls that cannot block use RawSyscall and never tell the Go scheduler: the
// descriptors are non-blocking, and telling the scheduler costs two workers a
// quarter of their throughput. Only [EpollWait] can block; see there. Nothing
// in this package retries on EAGAIN, logs, or closes a descriptor it did not
// open; EINTR is retried where the call may be restarted, but not by EpollWait.
//
// [Sockaddr] is an address in the kernel's form, [Endpoint] a compact copy of
// an internet address without pointers, for sessions to keep. Ports are in
// host byte order everywhere but inside a Sockaddr.
//
// Errors are plain unix.Errno values, 0 for success, so that the data path
// compares numbers and allocates nothing. The few calls made only at start
// return error.
//
// Ownership: the package keeps no state. A descriptor belongs to whoever
// received it. Buffers are borrowed for the duration of the call.
//
// Kernel: Linux 5.6 or newer is assumed (accept4, epoll, splice, SO_REUSEPORT).
package sys

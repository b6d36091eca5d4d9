package sys

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Accept is accept4(2), non-blocking and close-on-exec. The client's address
// is left in from.
func Accept(fd int32, from *Sockaddr) (int32, unix.Errno) {
	from.len = unix.SizeofSockaddrAny
	from.raw.Addr.Family = unix.AF_UNIX // an unnamed unix client fills in 2 bytes or none
	n, _, errno := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), uintptr(unsafe.Pointer(&from.raw)), uintptr(unsafe.Pointer(&from.len)), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	return int32(n), errno
}

// StreamSocket is socket(2) for a byte stream of that address family,
// non-blocking and close-on-exec.
func StreamSocket(family int) (int32, unix.Errno) {
	fd, _, errno := unix.RawSyscall(unix.SYS_SOCKET, uintptr(family), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	return int32(fd), errno
}

// Connect is connect(2) on a non-blocking socket. EINPROGRESS means that the
// outcome will be in SO_ERROR once the socket is writable.
func Connect(fd int32, to *Sockaddr) unix.Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&to.raw)), uintptr(to.len))
	return errno
}

// Bind is bind(2).
func Bind(fd int32, to *Sockaddr) unix.Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&to.raw)), uintptr(to.len))
	return errno
}

// Listen is listen(2); the kernel lowers backlog to net.core.somaxconn.
func Listen(fd int32, backlog int) unix.Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_LISTEN, uintptr(fd), uintptr(backlog), 0)
	return errno
}

// LocalAddr is getsockname(2).
func LocalAddr(fd int32, addr *Sockaddr) unix.Errno {
	addr.len = unix.SizeofSockaddrAny
	addr.raw.Addr.Family = unix.AF_UNIX
	_, _, errno := unix.RawSyscall(unix.SYS_GETSOCKNAME, uintptr(fd), uintptr(unsafe.Pointer(&addr.raw)), uintptr(unsafe.Pointer(&addr.len)))
	return errno
}

// SocketError is getsockopt(2) SO_ERROR: it returns and clears the pending
// error of a socket.
func SocketError(fd int32) unix.Errno {
	v, errno := GetOption(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if errno != 0 {
		return errno
	}
	return unix.Errno(v)
}

// GetOption is getsockopt(2) of an int.
func GetOption(fd int32, level, option int) (int, unix.Errno) {
	var v int32
	size := uint32(4)
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option), uintptr(unsafe.Pointer(&v)), uintptr(unsafe.Pointer(&size)), 0)
	return int(v), errno
}

// SetOption is setsockopt(2) of an int.
func SetOption(fd int32, level, option, value int) unix.Errno {
	v := int32(value)
	_, _, errno := unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option), uintptr(unsafe.Pointer(&v)), 4, 0)
	return errno
}

// TCPRTOMaxMillis is the option TCP_RTO_MAX_MS (Linux 6.15): the longest time
// between retransmissions, and between probes of a shut window.
const TCPRTOMaxMillis = 44

// TCPInfo is getsockopt(2) TCP_INFO.
func TCPInfo(fd int32, info *unix.TCPInfo) unix.Errno {
	size := uint32(unix.SizeofTCPInfo)
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.IPPROTO_TCP, unix.TCP_INFO, uintptr(unsafe.Pointer(info)), uintptr(unsafe.Pointer(&size)), 0)
	return errno
}

// SetNoDelay is TCP_NODELAY.
func SetNoDelay(fd int32) unix.Errno {
	return SetOption(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
}

// DelayAck turns TCP_QUICKACK off. Before a connect, it has the ACK that ends
// the handshake wait for the first bytes (tcp_rcv_synsent_state_process), for
// up to 200 ms; it is no lasting setting.
func DelayAck(fd int32) unix.Errno {
	return SetOption(fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 0)
}

// SetCongestion is TCP_CONGESTION. ENOENT means that the kernel has no such
// algorithm, EPERM that only root may use it (tcp_allowed_congestion_control).
func SetCongestion(fd int32, name string) unix.Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, uintptr(unsafe.Pointer(unsafe.StringData(name))), uintptr(len(name)), 0)
	return errno
}

// SetReset makes the next close of a TCP socket send a RST instead of a FIN
// and drop what is still queued (SO_LINGER with a time of 0).
func SetReset(fd int32) unix.Errno {
	l := unix.Linger{Onoff: 1}
	_, _, errno := unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_LINGER, uintptr(unsafe.Pointer(&l)), unsafe.Sizeof(l), 0)
	return errno
}

// AcceptQueue returns how many connections wait in a listening socket's queue,
// and how many can.
func AcceptQueue(fd int32) (waiting, limit int, errno unix.Errno) {
	var info unix.TCPInfo
	if errno = TCPInfo(fd, &info); errno != 0 {
		return 0, 0, errno
	}
	// Of a listening socket: sk_ack_backlog and sk_max_ack_backlog (tcp_get_info).
	return int(info.Unacked), int(info.Sacked), 0
}

// DatagramQueue is what a socket has received and nobody has read.
type DatagramQueue struct {
	Bytes   int    // with what the kernel needs to keep them
	Limit   int    // of Bytes (SO_RCVBUF)
	Dropped uint32 // datagrams, since the socket was opened; wraps
}

// ReceiveQueue is getsockopt(2) SO_MEMINFO.
func ReceiveQueue(fd int32) (q DatagramQueue, errno unix.Errno) {
	var info [9]uint32 // SK_MEMINFO_VARS
	size := uint32(unsafe.Sizeof(info))
	_, _, errno = unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO, uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	return DatagramQueue{int(info[unix.SK_MEMINFO_RMEM_ALLOC]), int(info[unix.SK_MEMINFO_RCVBUF]), info[unix.SK_MEMINFO_DROPS]}, errno
}

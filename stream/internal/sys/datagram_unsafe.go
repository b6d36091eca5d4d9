package sys

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// MaxDatagram is the room for one received message: more than the largest
	// payload of a datagram, and the most that UDP_GRO puts together.
	MaxDatagram = 1 << 16

	// maxSegments and maxSegmented bound one message that the kernel cuts into
	// datagrams: older kernels take 64 segments, and headers must fit in too.
	maxSegments  = 60
	maxSegmented = 65000

	// controlBytes holds a packet info of either family and a segment size.
	controlBytes = 64
)

// mmsghdr is the element of recvmmsg(2) and sendmmsg(2).
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
	_   [4]byte
}

// PacketInfo is the local address that a datagram came to, or shall leave
// from. The zero value says nothing.
type PacketInfo struct {
	ip     [16]byte
	index  uint32 // interface, of an address that means something on its link only
	family uint16
}

// IsZero reports whether the address is unknown.
func (p *PacketInfo) IsZero() bool { return p.family == 0 }

// Addr returns the address; an IPv4 address mapped into IPv6 comes out as
// IPv4.
func (p *PacketInfo) Addr() netip.Addr {
	switch p.family {
	case unix.AF_INET:
		return netip.AddrFrom4([4]byte(p.ip[:4]))
	case unix.AF_INET6:
		return netip.AddrFrom16(p.ip).Unmap()
	}
	return netip.Addr{}
}

// Index returns the interface of an address that means something on its link
// only, else 0.
func (p *PacketInfo) Index() uint32 { return p.index }

// PacketInfoOf returns the packet info of an address; the zero value if it is
// not valid.
func PacketInfoOf(ip netip.Addr, index uint32) PacketInfo {
	switch {
	case ip.Is4():
		p := PacketInfo{family: unix.AF_INET}
		four := ip.As4()
		copy(p.ip[:], four[:])
		return p
	case ip.Is6():
		return PacketInfo{family: unix.AF_INET6, ip: ip.As16(), index: index}
	}
	return PacketInfo{}
}

// Endpoint returns e with this address in place of its own, if it is known.
func (p *PacketInfo) Endpoint(e Endpoint) Endpoint {
	if p.family != 0 {
		e.ip, e.family, e.zone = p.ip, p.family, 0
	}
	return e
}

// ReceiveBatch is memory for datagrams that one call receives. It belongs to
// one thread.
type ReceiveBatch struct {
	msgs    []mmsghdr
	iovs    []unix.Iovec
	froms   []Sockaddr
	control [][controlBytes]byte
	buf     []byte
}

// NewReceiveBatch returns room for n messages of MaxDatagram bytes. Pages that
// no datagram was put into take no memory.
func NewReceiveBatch(n int) *ReceiveBatch {
	b := &ReceiveBatch{
		msgs:    make([]mmsghdr, n),
		iovs:    make([]unix.Iovec, n),
		froms:   make([]Sockaddr, n),
		control: make([][controlBytes]byte, n),
		buf:     make([]byte, n*MaxDatagram),
	}
	for i := range b.msgs {
		b.iovs[i].Base = &b.buf[i*MaxDatagram]
		b.iovs[i].SetLen(MaxDatagram)
		h := &b.msgs[i].hdr
		h.Name = (*byte)(unsafe.Pointer(&b.froms[i].raw))
		h.Iov = &b.iovs[i]
		h.SetIovlen(1)
		h.Control = &b.control[i][0]
	}
	return b
}

// Len returns how many messages there is room for.
func (b *ReceiveBatch) Len() int { return len(b.msgs) }

// Receive is recvmmsg(2) on a non-blocking socket into the messages from
// index from to index to. It returns how many came.
func (b *ReceiveBatch) Receive(fd int32, from, to int) (int, unix.Errno) {
	for i := from; i < to; i++ {
		h := &b.msgs[i].hdr
		// The kernel has left the lengths of the last call here.
		h.Namelen = uint32(unsafe.Sizeof(b.froms[i].raw))
		h.SetControllen(controlBytes)
		h.Flags = 0
	}
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&b.msgs[from])), uintptr(to-from), unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			return int(n), 0
		case unix.EINTR:
			continue
		}
		return 0, errno
	}
}

// Payload returns the bytes of message i, which stay until it is received into
// again.
func (b *ReceiveBatch) Payload(i int) []byte {
	return b.buf[i*MaxDatagram : i*MaxDatagram+int(b.msgs[i].len)]
}

// From returns the sender of message i.
func (b *ReceiveBatch) From(i int) *Sockaddr { return &b.froms[i] }

// Truncated reports whether a part of message i was lost for want of room.
func (b *ReceiveBatch) Truncated(i int) bool { return b.msgs[i].hdr.Flags&unix.MSG_TRUNC != 0 }

// Control returns what the kernel says of message i: the local address it came
// to, if the socket asks for that (WantPacketInfo), and the size of the
// datagrams that it is made of, all but perhaps the last, or 0 if it is one
// (UDP_GRO).
func (b *ReceiveBatch) Control(i int) (local PacketInfo, segment int) {
	rest := b.control[i][:b.msgs[i].hdr.Controllen]
	for len(rest) >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Pointer(unsafe.SliceData(rest)))
		size := int(h.Len)
		if size < unix.SizeofCmsghdr || size > len(rest) {
			break
		}
		data := rest[unix.CmsgLen(0):size]
		switch {
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
			// struct in_pktinfo: interface, local address, address in the header.
			// They differ for broadcasts, whose address nothing can leave from.
			local.family = unix.AF_INET
			copy(local.ip[:4], data[4:8])
		case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
			local.family = unix.AF_INET6
			copy(local.ip[:], data[:16])
			if netip.AddrFrom16(local.ip).IsLinkLocalUnicast() {
				local.index = binary.NativeEndian.Uint32(data[16:])
			}
		case h.Level == unix.SOL_UDP && h.Type == unix.UDP_GRO && len(data) >= 4:
			segment = int(int32(binary.NativeEndian.Uint32(data)))
		}
		next := unix.CmsgSpace(size - unix.CmsgLen(0))
		if next > len(rest) {
			break
		}
		rest = rest[next:]
	}
	if segment >= int(b.msgs[i].len) {
		segment = 0
	}
	return local, segment
}

// SendBatch gathers datagrams that one call sends. It belongs to one thread.
// It keeps pointers to the payloads it is given, which must stay as they are
// until they are sent.
type SendBatch struct {
	msgs    []mmsghdr
	iovs    []unix.Iovec
	tos     []Sockaddr
	control [][controlBytes]byte
	segment []int32 // of each message; 0 = it is one datagram of any size
	total   []int32 // bytes
	closed  []bool  // nothing more fits into the message
	n, used int     // messages, iovecs
}

// NewSendBatch returns room for n messages and iovs pieces.
func NewSendBatch(n, iovs int) *SendBatch {
	return &SendBatch{
		msgs:    make([]mmsghdr, n),
		iovs:    make([]unix.Iovec, iovs),
		tos:     make([]Sockaddr, n),
		control: make([][controlBytes]byte, n),
		segment: make([]int32, n),
		total:   make([]int32, n),
		closed:  make([]bool, n),
	}
}

// Len returns how many messages are gathered.
func (b *SendBatch) Len() int { return b.n }

// Reset forgets all messages.
func (b *SendBatch) Reset() { b.n, b.used = 0, 0 }

// Add gathers a message: one datagram, or several of size segment in one piece
// (the last may be shorter) if that is not 0. to may be nil for a connected
// socket, and the message leaves from local unless that is zero. It returns
// false if the batch is full.
func (b *SendBatch) Add(payload []byte, segment int, to *Endpoint, local *PacketInfo) bool {
	if b.n == len(b.msgs) || b.used == len(b.iovs) {
		return false
	}
	m := &b.msgs[b.n].hdr
	*m = unix.Msghdr{Iov: &b.iovs[b.used], Control: &b.control[b.n][0]}
	if to != nil {
		b.tos[b.n].setEndpoint(to)
		m.Name = (*byte)(unsafe.Pointer(&b.tos[b.n].raw))
		m.Namelen = b.tos[b.n].len
	}
	b.piece(payload)
	m.SetIovlen(1)
	m.SetControllen(b.putPacketInfo(b.n, local))
	b.segment[b.n] = int32(segment)
	b.total[b.n] = int32(len(payload))
	b.closed[b.n] = segment > 0 && len(payload)%segment != 0
	b.putSegment(b.n)
	b.n++
	return true
}

// Append adds a datagram to the last message, if the kernel can cut it off
// again: all are of one size but the last, which may be shorter. It returns
// false if it can't be.
func (b *SendBatch) Append(payload []byte) bool {
	i := b.n - 1
	if i < 0 || b.closed[i] || b.used == len(b.iovs) || len(payload) == 0 {
		return false
	}
	size := b.segment[i]
	if size == 0 {
		size = b.total[i] // so far it is one datagram
	}
	n := int32(len(payload))
	if n > size || size == 0 || b.total[i]+n > maxSegmented || b.total[i]/size >= maxSegments {
		return false
	}
	b.piece(payload)
	m := &b.msgs[i].hdr
	m.SetIovlen(int(m.Iovlen) + 1)
	if b.segment[i] == 0 {
		b.segment[i] = size
		b.putSegment(i)
	}
	b.total[i] += n
	b.closed[i] = n < size
	return true
}

func (b *SendBatch) piece(payload []byte) {
	b.iovs[b.used].Base = unsafe.SliceData(payload)
	b.iovs[b.used].SetLen(len(payload))
	b.used++
}

// Send is sendmmsg(2) of the messages from index from on, on a non-blocking
// socket. It returns how many were sent; an error is that of the first one
// that was not.
func (b *SendBatch) Send(fd int32, from int) (int, unix.Errno) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&b.msgs[from])), uintptr(b.n-from), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			return int(n), 0
		case unix.EINTR:
			continue
		}
		return 0, errno
	}
}

// Segmented reports whether message i is to be cut by the kernel.
func (b *SendBatch) Segmented(i int) bool { return b.segment[i] > 0 }

// Bytes returns the payload bytes of message i.
func (b *SendBatch) Bytes(i int) int { return int(b.total[i]) }

// Datagrams returns how many datagrams message i is.
func (b *SendBatch) Datagrams(i int) int {
	if size := b.segment[i]; size > 0 {
		return int((b.total[i] + size - 1) / size)
	}
	return 1
}

// Split sends the datagrams of message i one by one, for a kernel or device
// that can't cut. It returns how many were sent and the first error.
func (b *SendBatch) Split(fd int32, i int) (sent int, first unix.Errno) {
	whole := b.msgs[i].hdr
	size := int(b.segment[i])
	whole.SetControllen(int(whole.Controllen) - unix.CmsgSpace(2))
	if whole.Controllen == 0 {
		whole.Control = nil
	}
	pieces := unsafe.Slice(whole.Iov, whole.Iovlen)
	one := &splitScratch{hdr: whole}
	one.hdr.Iov = &one.iov
	one.hdr.SetIovlen(1)
	for _, p := range pieces {
		data := unsafe.Slice(p.Base, p.Len)
		for len(data) > 0 {
			n := min(size, len(data))
			one.iov.Base = &data[0]
			one.iov.SetLen(n)
			_, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&one.hdr)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
			if errno == 0 {
				sent++
			} else if first == 0 {
				first = errno
			}
			data = data[n:]
		}
	}
	return sent, first
}

type splitScratch struct {
	hdr unix.Msghdr
	iov unix.Iovec
}

// putPacketInfo writes where message i leaves from and returns the length of
// the control data.
func (b *SendBatch) putPacketInfo(i int, local *PacketInfo) int {
	if local == nil || local.family == 0 {
		return 0
	}
	c := &b.control[i]
	h := (*unix.Cmsghdr)(unsafe.Pointer(c))
	data := c[unix.CmsgLen(0):]
	if local.family == unix.AF_INET {
		h.Level, h.Type = unix.IPPROTO_IP, unix.IP_PKTINFO
		h.SetLen(unix.CmsgLen(unix.SizeofInet4Pktinfo))
		// The route decides the interface: the address alone is the client's
		// due, and the way back may differ from the way here.
		clear(data[:unix.SizeofInet4Pktinfo])
		copy(data[4:8], local.ip[:4])
		return unix.CmsgSpace(unix.SizeofInet4Pktinfo)
	}
	h.Level, h.Type = unix.IPPROTO_IPV6, unix.IPV6_PKTINFO
	h.SetLen(unix.CmsgLen(unix.SizeofInet6Pktinfo))
	copy(data[:16], local.ip[:])
	binary.NativeEndian.PutUint32(data[16:], local.index)
	return unix.CmsgSpace(unix.SizeofInet6Pktinfo)
}

// putSegment writes the segment size behind the packet info, once there is one.
// It is called once for each message.
func (b *SendBatch) putSegment(i int) {
	m := &b.msgs[i].hdr
	if b.segment[i] == 0 {
		return
	}
	c := b.control[i][m.Controllen:]
	h := (*unix.Cmsghdr)(unsafe.Pointer(unsafe.SliceData(c)))
	h.Level, h.Type = unix.SOL_UDP, unix.UDP_SEGMENT
	h.SetLen(unix.CmsgLen(2))
	binary.NativeEndian.PutUint16(c[unix.CmsgLen(0):], uint16(b.segment[i]))
	m.SetControllen(int(m.Controllen) + unix.CmsgSpace(2))
}

// DatagramSocket is socket(2) of type SOCK_DGRAM, non-blocking and
// close-on-exec.
func DatagramSocket(family int) (int32, unix.Errno) {
	fd, _, errno := unix.RawSyscall(unix.SYS_SOCKET, uintptr(family), unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	return int32(fd), errno
}

// WantPacketInfo has the kernel tell the local address of each datagram
// (IP_PKTINFO, IPV6_RECVPKTINFO).
func WantPacketInfo(fd int32, family int) unix.Errno {
	if family == unix.AF_INET6 {
		return SetOption(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
	}
	return SetOption(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
}

// WantCoalesced has the kernel put datagrams of one flow together (UDP_GRO,
// Linux 5.0).
func WantCoalesced(fd int32) unix.Errno { return SetOption(fd, unix.SOL_UDP, unix.UDP_GRO, 1) }

// WantApart is the end of WantCoalesced. What has been put together is received as
// one datagram from now on, so the socket should be empty.
func WantApart(fd int32) unix.Errno { return SetOption(fd, unix.SOL_UDP, unix.UDP_GRO, 0) }

package main

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmsghdr is the element of recvmmsg(2) and sendmmsg(2).
type mmsghdr struct {
	hdr  unix.Msghdr
	size uint32
	_    [4]byte
}

// controlBytes holds an in_pktinfo and a segment size.
const controlBytes = 64

// udpBatch is memory for messages that one call receives or sends, of IPv4
// only. It belongs to one thread.
type udpBatch struct {
	msgs    []mmsghdr
	iovs    []unix.Iovec
	names   []unix.RawSockaddrInet4
	control [][controlBytes]byte
	buf     []byte
	room    int // bytes for each message
}

func newUDPBatch(n, room int) *udpBatch {
	b := &udpBatch{
		msgs:    make([]mmsghdr, n),
		iovs:    make([]unix.Iovec, n),
		names:   make([]unix.RawSockaddrInet4, n),
		control: make([][controlBytes]byte, n),
		buf:     make([]byte, n*room),
		room:    room,
	}
	for i := range b.msgs {
		b.iovs[i].Base = &b.buf[i*room]
		h := &b.msgs[i].hdr
		h.Name = (*byte)(unsafe.Pointer(&b.names[i]))
		h.Iov = &b.iovs[i]
		h.SetIovlen(1)
		h.Control = &b.control[i][0]
	}
	return b
}

func (b *udpBatch) len() int { return len(b.msgs) }

// receive takes the messages that have come, without waiting for any.
func (b *udpBatch) receive(fd int) (int, error) {
	for i := range b.msgs {
		b.iovs[i].SetLen(b.room)
		h := &b.msgs[i].hdr
		h.Namelen = unix.SizeofSockaddrInet4
		h.SetControllen(controlBytes)
		h.Flags = 0
	}
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&b.msgs[0])), uintptr(len(b.msgs)), unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EAGAIN:
			return 0, nil
		case unix.EINTR:
			continue
		}
		return 0, errno
	}
}

// payload is what message i was received with.
func (b *udpBatch) payload(i int) []byte {
	return b.buf[i*b.room : i*b.room+int(b.msgs[i].size)]
}

// answer sends the first n received messages back as they are.
func (b *udpBatch) answer(fd, n int) error {
	for i := range n {
		b.iovs[i].SetLen(int(b.msgs[i].size))
		b.msgs[i].hdr.SetControllen(0)
	}
	return b.send(fd, n)
}

// from is the sender of message i.
func (b *udpBatch) from(i int) *unix.RawSockaddrInet4 { return &b.names[i] }

// info is the local address of message i, if the socket has IP_PKTINFO, and
// the size of the datagrams that it is made of, or 0, with UDP_GRO.
func (b *udpBatch) info(i int) (local [4]byte, segment int) {
	rest := b.control[i][:b.msgs[i].hdr.Controllen]
	for len(rest) >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Pointer(unsafe.SliceData(rest)))
		size := int(h.Len)
		if size < unix.SizeofCmsghdr || size > len(rest) {
			break
		}
		data := rest[unix.CmsgLen(0):size]
		switch {
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO:
			copy(local[:], data[8:12]) // ipi_addr
		case h.Level == unix.SOL_UDP && h.Type == unix.UDP_GRO:
			segment = int(int32(binary.NativeEndian.Uint32(data)))
		}
		rest = rest[min(len(rest), unix.CmsgSpace(size-unix.CmsgLen(0))):]
	}
	return local, segment
}

// outgoing is the room for message i to send, of that many bytes.
func (b *udpBatch) outgoing(i, size int) []byte {
	b.iovs[i].SetLen(size)
	return b.buf[i*b.room : i*b.room+size]
}

// address has message i sent from source to target. Without it, it goes where
// the socket is connected to.
func (b *udpBatch) address(i int, source [4]byte, target *unix.RawSockaddrInet4) {
	b.names[i] = *target
	c := &b.control[i]
	h := (*unix.Cmsghdr)(unsafe.Pointer(c))
	h.Level, h.Type = unix.IPPROTO_IP, unix.IP_PKTINFO
	h.SetLen(unix.CmsgLen(unix.SizeofInet4Pktinfo))
	data := c[unix.CmsgLen(0):]
	clear(data[:unix.SizeofInet4Pktinfo])
	copy(data[4:8], source[:]) // ipi_spec_dst
	m := &b.msgs[i].hdr
	m.Namelen = unix.SizeofSockaddrInet4
	m.SetControllen(unix.CmsgSpace(unix.SizeofInet4Pktinfo))
}

// send sends the first n messages.
func (b *udpBatch) send(fd, n int) error {
	for i := 0; i < n; {
		sent, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&b.msgs[i])), uintptr(n-i), unix.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			i += int(sent)
		case unix.EINTR:
		default:
			return errno
		}
	}
	return nil
}

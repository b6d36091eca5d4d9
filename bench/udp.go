package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// This file has what the UDP scenarios and their load generators share: what a
// datagram says of itself, sockets, and how they are placed.
//
// A load generator is one thread that is the clients and the server, and never
// sleeps. As two threads on one core they woke each other up for single
// datagrams, which cost them, and the proxy that had to wake them, more than
// the datagrams did: they were the bottleneck. Nor can one thread starve the
// other of the time to receive.

// udpPlacing describes it for the reports.
const udpPlacing = "the load generator is one thread that never sleeps and is both the clients and the server, by recvmmsg and sendmmsg; it is pinned to the first core and the proxy, of one worker as there is no third core for another, to the last (direct: the first alone)"

// udpStamp is the least size of a datagram: it says at its begin and end who
// it is.
//
//	0 magic  4 flow  8 sequence ... sequence again, in the last 8 bytes
const (
	udpStamp = 24
	udpMagic = 0x77656972
)

// putStamp writes who the datagram d is.
func putStamp(d []byte, flow uint32, seq uint64) {
	binary.BigEndian.PutUint32(d, udpMagic)
	binary.BigEndian.PutUint32(d[4:], flow)
	binary.BigEndian.PutUint64(d[8:], seq)
	binary.BigEndian.PutUint64(d[len(d)-8:], seq)
}

// stamp reads it again. It is not ok if d is not a whole datagram of that size.
func stamp(d []byte, size int) (flow uint32, seq uint64, ok bool) {
	if len(d) != size || size < udpStamp || binary.BigEndian.Uint32(d) != udpMagic {
		return 0, 0, false
	}
	seq = binary.BigEndian.Uint64(d[8:])
	return binary.BigEndian.Uint32(d[4:]), seq, seq == binary.BigEndian.Uint64(d[size-8:])
}

const (
	// udpBatchMessages is how many a load generator receives by one call.
	udpBatchMessages = 64

	// plainRoom holds any datagram of the scenarios, coalescedRoom what UDP_GRO
	// puts together.
	plainRoom     = 2048
	coalescedRoom = 1 << 16

	// udpSocketBytes is the receive buffer of the load generator: a loss must be
	// the proxy's.
	udpSocketBytes = 64 << 20

	// warmUDP is how long an unmeasured run lasts.
	warmUDP = 300 * time.Millisecond
)

// udpSocket opens a socket on an address.
func udpSocket(addr netip.AddrPort) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	// As root beyond net.core.rmem_max, else as far as it goes.
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, udpSocketBytes) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, udpSocketBytes)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: addr.Addr().As4(), Port: int(addr.Port())}); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("bind %s: %w", addr, err)
	}
	return fd, nil
}

// udpClientSocket opens a socket that sends from any loopback address, and
// tells which one an answer came to (IP_PKTINFO). To a proxy, datagrams from
// many addresses are as many clients; here, one call sends and receives for all
// of them.
func udpClientSocket() (int, error) {
	fd, err := udpSocket(netip.AddrPortFrom(netip.IPv4Unspecified(), 0))
	if err != nil {
		return -1, err
	}
	err = errors.Join(
		unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, "lo"), // nothing else gets in
		unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1),
	)
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("setsockopt: %w", err)
	}
	return fd, nil
}

// flowAddress is the loopback address of a client's flow: one of four million,
// 127.64.0.0/10.
func flowAddress(n uint64) [4]byte {
	return [4]byte{127, byte(64 + n>>16&63), byte(n >> 8), byte(n)}
}

func rawAddress(addr netip.AddrPort) unix.RawSockaddrInet4 {
	raw := unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: addr.Addr().As4()}
	var port [2]byte
	binary.BigEndian.PutUint16(port[:], addr.Port())
	raw.Port = binary.NativeEndian.Uint16(port[:])
	return raw
}

// beOneThread prepares a load generator's process.
func beOneThread() {
	debug.SetGCPercent(-1)
	runtime.LockOSThread()
}

// udpLoadArgs are the first arguments of a load generator: where it sends to,
// where its server is, and for how long it sends.
type udpLoadArgs struct {
	target, server netip.AddrPort
	time           time.Duration
	numbers        []int // the other arguments
}

func parseUDPLoad(args []string, numbers int) (a udpLoadArgs, err error) {
	if len(args) != 3+numbers {
		return a, fmt.Errorf("%d arguments, want ADDRESS SERVER MILLISECONDS and %d numbers", len(args), numbers)
	}
	if a.target, err = netip.ParseAddrPort(args[0]); err != nil {
		return a, err
	}
	if a.server, err = netip.ParseAddrPort(args[1]); err != nil {
		return a, err
	}
	for _, arg := range args[2:] {
		n, err := strconv.Atoi(arg)
		if err != nil || n < 0 {
			return a, fmt.Errorf("parse %q: not a number from 0 on", arg)
		}
		a.numbers = append(a.numbers, n)
	}
	a.time, a.numbers = time.Duration(a.numbers[0])*time.Millisecond, a.numbers[1:]
	return a, nil
}

// runUDPLoad runs a load generator in front of an instance, and returns its
// line.
func runUDPLoad(ctx context.Context, e *env, in *instance, round int, role string, d time.Duration, numbers ...int) (string, error) {
	args := []string{role, in.target(round), in.servers[0], strconv.FormatInt(d.Milliseconds(), 10)}
	for _, n := range numbers {
		args = append(args, strconv.Itoa(n))
	}
	var out string
	err := onCore(e.places().load, func() (err error) {
		out, err = runSelf(ctx, d+15*time.Second, args...)
		return err
	})
	return out, err
}

// udpTable is the kernel's list of UDP sockets, with their drops.
const udpTable = "/proc/net/udp"

// socketDrops is how many messages found no room in the socket with that
// address.
func socketDrops(table, addr string) (int64, error) {
	want := procAddress(addr)
	for line := range strings.SplitSeq(table, "\n") {
		f := strings.Fields(line)
		if len(f) > 12 && f[1] == want {
			return strconv.ParseInt(f[12], 10, 64)
		}
	}
	return 0, fmt.Errorf("find socket %s: not in %s", addr, udpTable)
}

func readDrops(addr netip.AddrPort) (int64, error) {
	b, err := os.ReadFile(udpTable)
	if err != nil {
		return 0, err
	}
	return socketDrops(string(b), addr.String())
}

package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tcpLoad is a load generator for TCP: one thread that is the clients and the
// server. As two processes they would share two cores with the proxy, and the
// figures would be the scheduler's.
type tcpLoad struct {
	epoll    int
	listener int
	events   [256]unix.EpollEvent
	buf      []byte
	ended    bool // standard input has

	accepted, open int           // connections of the server
	idle           time.Duration // of turns: slept, or without an event

	// client takes an event of the client with that number, when one is set.
	client func(number int, events uint32) error
}

// The kinds of descriptors, in an event's Pad. Clients have their number, from
// 0 on.
const (
	eventEcho int32 = -1 - iota
	eventListener
	eventCommand
)

// tcpAnswer is how long an answer may take.
const tcpAnswer = 5 * time.Second

// tcpRole serves as an echo server on the address that is its argument, and at
// the same time answers these lines with one line each:
//
//	accepted                            connections of the server so far
//	trips TARGET CONNECTIONS BYTES MS   see trips; it never sleeps
//	calm TARGET CONNECTIONS BYTES MS    the same, but it sleeps when it has nothing to do
//	burst TARGET CONNECTIONS MS         see bursts
func tcpRole(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: role-tcp SERVER")
	}
	beOneThread()
	l, err := newTCPLoad(args[0])
	if err != nil {
		return err
	}
	defer l.close()
	if err := l.watch(0, eventCommand, unix.EPOLLIN); err != nil {
		return err
	}
	for !l.ended {
		if err := l.turn(-1); err != nil {
			return err
		}
	}
	return nil
}

func newTCPLoad(server string) (*tcpLoad, error) {
	addr, err := netip.ParseAddrPort(server)
	if err != nil {
		return nil, err
	}
	l := &tcpLoad{buf: make([]byte, 1<<16), epoll: -1, listener: -1}
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll_create: %w", err)
	}
	if l.listener, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		l.close()
		return nil, fmt.Errorf("socket: %w", err)
	}
	err = errors.Join(
		unix.SetsockoptInt(l.listener, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		// The connections have these from it.
		unix.SetsockoptInt(l.listener, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetsockoptTimeval(l.listener, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: int64(tcpAnswer / time.Second)}),
		unix.Bind(l.listener, &unix.SockaddrInet4{Addr: addr.Addr().As4(), Port: int(addr.Port())}),
		unix.Listen(l.listener, 4096),
		l.watch(l.listener, eventListener, unix.EPOLLIN),
	)
	if err != nil {
		l.close()
		return nil, fmt.Errorf("listen on %s: %w", server, err)
	}
	return l, nil
}

func (l *tcpLoad) close() {
	for _, fd := range []int{l.listener, l.epoll} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// watch adds a descriptor to the epoll set.
func (l *tcpLoad) watch(fd int, kind int32, events uint32) error {
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd), Pad: kind}); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// turn waits for events, for milliseconds, with 0 not at all and with -1 without
// limit, and takes them.
func (l *tcpLoad) turn(timeout int) error {
	start := time.Now()
	n, err := rawEpollWait(l.epoll, l.events[:], timeout)
	if err != nil {
		return fmt.Errorf("epoll_wait: %w", err)
	}
	if n == 0 || timeout != 0 {
		l.idle += time.Since(start)
	}
	for i := range n {
		e := &l.events[i]
		switch e.Pad {
		case eventEcho:
			l.echo(int(e.Fd))
		case eventListener:
			err = l.accept()
		case eventCommand:
			err = l.command()
		default:
			err = l.client(int(e.Pad), e.Events)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *tcpLoad) accept() error {
	for {
		fd, _, err := unix.Accept4(l.listener, unix.SOCK_CLOEXEC)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.ECONNABORTED), errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("accept: %w", err)
		}
		l.accepted++
		l.open++
		if err := l.watch(fd, eventEcho, unix.EPOLLIN); err != nil {
			return err
		}
	}
}

// echo sends back what has come. One whose client does not take it for
// tcpAnswer is ended.
func (l *tcpLoad) echo(fd int) {
	n, err := rawRead(fd, l.buf)
	if n <= 0 || err != nil || writeFull(fd, l.buf[:n]) != nil {
		unix.Close(fd)
		l.open--
	}
}

func (l *tcpLoad) command() error {
	n, err := rawRead(0, l.buf)
	if err != nil {
		return fmt.Errorf("read command: %w", err)
	}
	if n == 0 {
		l.ended = true
		return nil
	}
	line := strings.TrimSpace(string(l.buf[:n]))
	text, err := l.answer(strings.Fields(line))
	if err != nil {
		text = "error: " + err.Error()
	}
	fmt.Println(text)
	return nil
}

func (l *tcpLoad) answer(words []string) (string, error) {
	switch {
	case len(words) == 1 && words[0] == "accepted":
		return strconv.Itoa(l.accepted), nil
	case len(words) == 5 && (words[0] == "trips" || words[0] == "calm"):
		target, numbers, err := parseTCPLoad(words[1:])
		if err != nil {
			return "", err
		}
		r, err := runTrips(l, target, numbers[0], numbers[1], time.Duration(numbers[2])*time.Millisecond, words[0] == "calm")
		return r.String(), err
	case len(words) == 4 && words[0] == "burst":
		target, numbers, err := parseTCPLoad(words[1:])
		if err != nil {
			return "", err
		}
		r, err := runBursts(l, target, numbers[0], time.Duration(numbers[1])*time.Millisecond)
		return r.String(), err
	}
	return "", fmt.Errorf("no command %q", words)
}

func parseTCPLoad(words []string) (target netip.AddrPort, numbers []int, err error) {
	if target, err = netip.ParseAddrPort(words[0]); err != nil {
		return target, nil, err
	}
	for _, word := range words[1:] {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return target, nil, fmt.Errorf("parse %q: not a number from 1 on", word)
		}
		numbers = append(numbers, n)
	}
	return target, numbers, nil
}

func writeFull(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := rawWrite(fd, b)
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// latencies are in steps of 100 ns.
type latencies []uint32

func newLatencies() latencies { return make(latencies, 0, 1<<22) } // to grow takes time

func (l *latencies) add(d time.Duration) {
	*l = append(*l, uint32(min(d/100, 1<<32-1)))
}

// quantile is in microseconds, or 0 of nothing. Preconditions: sorted.
func (l latencies) quantile(q float64) float64 {
	if len(l) == 0 {
		return 0
	}
	return float64(l[int(q*float64(len(l)-1))]) / 10
}

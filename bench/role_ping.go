package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// pingBytes is the message of the ping-pong in each direction.
const pingBytes = 64

// pingFormat is the client's line: round trips, trips per second, p50 and p99
// in microseconds.
const pingFormat = "trips %g rate %g p50 %g p99 %g"

type pingResult struct{ Trips, Rate, P50, P99 float64 }

// blockingConn takes a connection out of Go's poller: a wake-up through the
// poller would add its own microseconds to every figure.
func blockingConn(c net.Conn) (*os.File, int, error) {
	f, err := c.(*net.TCPConn).File()
	c.Close()
	if err != nil {
		return nil, 0, err
	}
	fd := int(f.Fd()) // sets the socket to blocking
	if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1); err != nil {
		return nil, 0, fmt.Errorf("setsockopt TCP_NODELAY: %w", err)
	}
	return f, fd, nil
}

// echoServer answers every connection with what it reads, a thread each.
func echoServer(addrs []string) error {
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(2*len(addrs) + 4) // a blocked raw read keeps its P
	for _, addr := range addrs {
		ln, err := net.Listen("tcp4", addr)
		if err != nil {
			return err
		}
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				go echo(c)
			}
		}()
	}
	_, err := io.Copy(io.Discard, os.Stdin) // ends with the parent
	return err
}

func echo(c net.Conn) {
	runtime.LockOSThread() // never unlocked: the thread ends with the connection
	f, fd, err := blockingConn(c)
	if err != nil {
		return
	}
	defer f.Close()
	buf := make([]byte, 4096)
	for {
		n, err := rawRead(fd, buf)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if n <= 0 || err != nil || writeFull(fd, buf[:n]) != nil {
			return
		}
	}
}

func writeFull(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := rawWrite(fd, b)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func readFull(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := rawRead(fd, b)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrUnexpectedEOF
		}
		b = b[n:]
	}
	return nil
}

// pingClient sends a message, waits for its echo, and so on for a while. Its
// arguments are the address and the milliseconds.
func pingClient(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: role-ping ADDRESS MILLISECONDS")
	}
	ms, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if _, err := netip.ParseAddrPort(args[0]); err != nil {
		return err
	}
	debug.SetGCPercent(-1)
	c, err := net.DialTimeout("tcp4", args[0], 3*time.Second)
	if err != nil {
		return err
	}
	f, fd, err := blockingConn(c)
	if err != nil {
		return err
	}
	defer f.Close()
	// A lost answer must not hang the run.
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Sec: 3}); err != nil {
		return fmt.Errorf("setsockopt SO_RCVTIMEO: %w", err)
	}
	r, err := pingFor(fd, time.Duration(ms)*time.Millisecond)
	if err != nil {
		return err
	}
	fmt.Printf(pingFormat+"\n", r.Trips, r.Rate, r.P50, r.P99)
	return nil
}

func pingFor(fd int, d time.Duration) (pingResult, error) {
	msg, got := make([]byte, pingBytes), make([]byte, pingBytes)
	trips := make([]time.Duration, 0, 1<<20)
	start := time.Now()
	last := start
	for last.Sub(start) < d {
		msg[0]++
		if err := writeFull(fd, msg); err != nil {
			return pingResult{}, fmt.Errorf("write: %w", err)
		}
		if err := readFull(fd, got); err != nil {
			return pingResult{}, fmt.Errorf("read: %w", err)
		}
		if got[0] != msg[0] {
			return pingResult{}, fmt.Errorf("read: message %d instead of %d", got[0], msg[0])
		}
		now := time.Now()
		trips = append(trips, now.Sub(last))
		last = now
	}
	slices.Sort(trips)
	at := func(q float64) float64 {
		return float64(trips[int(q*float64(len(trips)-1))]) / float64(time.Microsecond)
	}
	n := float64(len(trips))
	return pingResult{Trips: n, Rate: n / last.Sub(start).Seconds(), P50: at(0.50), P99: at(0.99)}, nil
}

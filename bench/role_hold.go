package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
)

// holdBytes is the one message of a used session, in each direction.
const holdBytes = 64

// holdServer keeps every connection open and echoes what it reads. It answers
// "count" with the number of connections accepted.
func holdServer(addrs []string) error {
	var accepted atomic.Int64
	for _, addr := range addrs {
		ln, err := net.Listen("tcp4", addr)
		if err != nil {
			return err
		}
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					fmt.Fprintln(os.Stderr, "accept:", err)
					return
				}
				accepted.Add(1)
				go echoSlowly(c)
			}
		}()
	}
	return answerLines(func(line string) (string, error) {
		if line != "count" {
			return "", fmt.Errorf("no command %q", line)
		}
		return strconv.FormatInt(accepted.Load(), 10), nil
	})
}

func echoSlowly(c net.Conn) {
	defer c.Close()
	buf := make([]byte, holdBytes)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		if _, err := c.Write(buf[:n]); err != nil {
			return
		}
	}
}

// holdClient opens connections on "open" and passes one message over each on
// "use". Its arguments are the address and the number.
func holdClient(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: role-hold-client ADDRESS NUMBER")
	}
	target, err := netip.ParseAddrPort(args[0])
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	var fds []int
	return answerLines(func(line string) (string, error) {
		switch line {
		case "open":
			for len(fds) < n {
				fd, err := openFrom(len(fds)%4, target)
				if err != nil {
					return "", fmt.Errorf("connection %d: %w", len(fds)+1, err)
				}
				fds = append(fds, fd)
			}
		case "use":
			for i, fd := range fds {
				if err := exchange(fd); err != nil {
					return "", fmt.Errorf("connection %d: %w", i+1, err)
				}
			}
		default:
			return "", fmt.Errorf("no command %q", line)
		}
		return "done", nil
	})
}

// openFrom connects from one of several loopback addresses with a plain
// blocking socket: 9,000 of Go's own would need as much memory again.
func openFrom(source int, target netip.AddrPort) (int, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	limit := &syscall.Timeval{Sec: 5}
	steps := []struct {
		name string
		do   func() error
	}{
		{"setsockopt SO_RCVTIMEO", func() error { return syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, limit) }},
		{"setsockopt SO_SNDTIMEO", func() error { return syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_SNDTIMEO, limit) }},
		// The port is picked by connect, for its destination: bind's own search
		// among ports that are mostly in TIME_WAIT takes milliseconds.
		{"setsockopt IP_BIND_ADDRESS_NO_PORT", func() error { return syscall.SetsockoptInt(fd, syscall.IPPROTO_IP, 24, 1) }},
		{"bind", func() error {
			return syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 30, byte(1 + source)}})
		}},
		{"connect", func() error {
			return syscall.Connect(fd, &syscall.SockaddrInet4{Addr: target.Addr().As4(), Port: int(target.Port())})
		}},
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			syscall.Close(fd)
			return -1, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return fd, nil
}

func exchange(fd int) error {
	var buf [holdBytes]byte
	if err := writeFull(fd, buf[:]); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if err := readFull(fd, buf[:]); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return nil
}

// answerLines answers each line of stdin with one line, until it ends.
func answerLines(answer func(line string) (string, error)) error {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		text, err := answer(in.Text())
		if err != nil {
			text = "error: " + err.Error()
		}
		fmt.Println(text)
	}
	return in.Err()
}

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// holdClient opens connections on "open" and on "use BYTES" passes so many over
// each, there and back. Its arguments are the address and the number.
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
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "open":
			for len(fds) < n {
				fd, err := openFrom(len(fds)%4, target)
				if err != nil {
					return "", fmt.Errorf("connection %d: %w", len(fds)+1, err)
				}
				fds = append(fds, fd)
			}
		case "use":
			size, err := strconv.Atoi(rest)
			if err != nil {
				return "", err
			}
			buf := make([]byte, size)
			for i, fd := range fds {
				if err := exchange(fd, buf); err != nil {
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

func exchange(fd int, buf []byte) error {
	if err := writeFull(fd, buf); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if err := readFull(fd, buf); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return nil
}

func readFull(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := rawRead(fd, b)
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

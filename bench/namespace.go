package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

const (
	namespaceArg      = "in-namespace"
	wantCongestion    = "cubic"
	congestionFile    = "/proc/sys/net/ipv4/tcp_congestion_control"
	congestionAllowed = "/proc/sys/net/ipv4/tcp_allowed_congestion_control"
	readyFD           = 3 // where the child in the namespace tells that it is set up
)

// network says where the comparison runs and under which congestion control.
type network struct {
	Where      string `json:"where"`
	Congestion string `json:"congestion"`
}

func machineNetwork() network {
	return network{Where: "the machine's loopback, settings as found", Congestion: readLine(congestionFile)}
}

// runInNamespace runs this program again in a new network namespace and returns
// its exit code. An error means that the namespace could not be had and nothing
// was run.
//
// The congestion control is a setting of the namespace, so the machine's own
// stays untouched. A namespace may only choose an algorithm that the machine
// allows to everybody; where the wanted one is reserved, it is allowed for the
// moment of the choice and the list put back at once.
func runInNamespace(args []string) (int, error) {
	exe, err := os.Executable()
	if err != nil {
		return 0, err
	}
	ready, readyW, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer ready.Close()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)

	cmd := exec.Command(exe, append([]string{namespaceArg}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{readyW}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET,
		Setpgid:    true, // a terminal's SIGINT reaches it once, through the loop below
		Pdeathsig:  syscall.SIGTERM,
	}
	restore := allowCongestion()
	err = cmd.Start()
	readyW.Close()
	if err == nil {
		// Ends with the child's close of its end, also when the child dies.
		_, _ = io.Copy(io.Discard, ready)
	}
	restore()
	if err != nil {
		return 0, err
	}

	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = cmd.Process.Signal(s)
		case err := <-done:
			if err != nil {
				return max(cmd.ProcessState.ExitCode(), 1), nil // -1 when a signal ended it
			}
			return 0, nil
		}
	}
}

// allowCongestion lets namespaces choose the wanted algorithm and returns the
// function that puts the machine's list back.
func allowCongestion() (restore func()) {
	before := readLine(congestionAllowed)
	if before == "" || slices.Contains(strings.Fields(before), wantCongestion) {
		return func() {}
	}
	if os.WriteFile(congestionAllowed, []byte(before+" "+wantCongestion), 0o644) != nil {
		return func() {}
	}
	return func() {
		if err := os.WriteFile(congestionAllowed, []byte(before), 0o644); err != nil {
			fmt.Fprintf(os.Stderr, "bench: restore %s to %q: %v\n", congestionAllowed, before, err)
		}
	}
}

// enterNamespace sets up the namespace this process was started in.
func enterNamespace() network {
	ready := os.NewFile(readyFD, "ready")
	defer ready.Close()
	n := network{Where: "a network namespace of its own"}
	if err := raiseLoopback(); err != nil {
		fmt.Fprintln(os.Stderr, "bench: raise lo:", err)
	}
	if err := os.WriteFile(congestionFile, []byte(wantCongestion), 0o644); err != nil {
		fmt.Fprintf(os.Stderr, "bench: set congestion control %s: %v\n", wantCongestion, err)
	}
	n.Congestion = readLine(congestionFile)
	return n
}

// raiseLoopback sets IFF_UP on lo, which is interface 1 of every namespace. It
// speaks rtnetlink (man 7 rtnetlink) because the ip command may be absent.
func raiseLoopback() error {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink socket: %w", err)
	}
	defer syscall.Close(fd)

	const size = syscall.SizeofNlMsghdr + syscall.SizeofIfInfomsg
	msg := make([]byte, size)
	ne := binary.NativeEndian
	ne.PutUint32(msg[0:], size)
	ne.PutUint16(msg[4:], syscall.RTM_NEWLINK)
	ne.PutUint16(msg[6:], syscall.NLM_F_REQUEST|syscall.NLM_F_ACK)
	ne.PutUint32(msg[8:], 1)               // sequence
	ne.PutUint32(msg[20:], 1)              // ifi_index
	ne.PutUint32(msg[24:], syscall.IFF_UP) // ifi_flags
	ne.PutUint32(msg[28:], syscall.IFF_UP) // ifi_change
	if err := syscall.Sendto(fd, msg, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return fmt.Errorf("netlink send: %w", err)
	}
	reply := make([]byte, 4096)
	n, _, err := syscall.Recvfrom(fd, reply, 0)
	if err != nil {
		return fmt.Errorf("netlink receive: %w", err)
	}
	if n < syscall.SizeofNlMsghdr+4 || ne.Uint16(reply[4:]) != syscall.NLMSG_ERROR {
		return errors.New("netlink receive: unexpected answer")
	}
	if code := int32(ne.Uint32(reply[syscall.SizeofNlMsghdr:])); code != 0 {
		return fmt.Errorf("netlink set link: %w", syscall.Errno(-code))
	}
	return nil
}

// readLine is the content of a one-line file, empty when it cannot be read.
func readLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

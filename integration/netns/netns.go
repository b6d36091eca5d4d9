package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

const threadNamespace = "/proc/thread-self/ns/net"

// Namespace is a network namespace with its loopback interface up.
type Namespace struct{ fd int }

// Check returns an error that names what this process lacks to use namespaces.
func Check() error {
	if os.Geteuid() != 0 {
		return errors.New("root (CAP_SYS_ADMIN) for network namespaces")
	}
	_, err := ipCommand()
	return err
}

// ipCommand finds ip also where an ordinary user's PATH doesn't look.
func ipCommand() (string, error) {
	if path, err := exec.LookPath("ip"); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, "ip")); err == nil {
			return path, nil
		}
	}
	return "", errors.New("the program ip (Debian package iproute2)")
}

// New returns a fresh namespace, which lasts until the test ends.
func New(tb testing.TB) *Namespace {
	tb.Helper()
	n := &Namespace{fd: -1}
	onThread(tb, func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		var err error
		n.fd, err = unix.Open(threadNamespace, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return err
	}, func() {})
	tb.Cleanup(func() { unix.Close(n.fd) })
	n.IP(tb, "link", "set", "lo", "up")
	return n
}

// Do runs f inside the namespace, on the calling goroutine.
func (n *Namespace) Do(tb testing.TB, f func()) {
	tb.Helper()
	onThread(tb, func() error { return unix.Setns(n.fd, unix.CLONE_NEWNET) }, f)
}

// onThread locks the thread, moves it to a namespace, runs f and brings the
// thread back. It must not end the thread instead, which would be simpler:
// processes that the same thread has started before, for another test, may
// have asked to be killed when it ends (PR_SET_PDEATHSIG).
func onThread(tb testing.TB, enter func() error, f func()) {
	tb.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := unix.Open(threadNamespace, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		tb.Fatalf("open the thread's namespace: %v", err)
	}
	defer unix.Close(before)
	// Deferred, because f may end the test.
	defer func() {
		if err := unix.Setns(before, unix.CLONE_NEWNET); err != nil {
			panic("leave network namespace: " + err.Error())
		}
	}()
	if err := enter(); err != nil {
		tb.Fatalf("enter network namespace: %v", err)
	}
	f()
}

// IP runs ip(8) inside the namespace.
func (n *Namespace) IP(tb testing.TB, args ...string) {
	tb.Helper()
	path, err := ipCommand()
	if err != nil {
		tb.Fatal(err)
	}
	n.Do(tb, func() {
		if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
			tb.Fatalf("ip %v: %v: %s", args, err, out)
		}
	})
}

// Link is one end of a veth pair.
type Link struct {
	Namespace *Namespace
	Name      string
	Addr      string // without prefix length
	mac       string
}

// Join puts a veth pair between two namespaces. Its ends are named veth0 and
// have the addresses 10.77.0.1 and 10.77.0.2. Neighbours are set by hand, so
// that losing the link never shows as a missing ARP answer.
func Join(tb testing.TB, a, b *Namespace) (endA, endB *Link) {
	tb.Helper()
	endA = &Link{a, "veth0", "10.77.0.1", "02:00:00:00:77:01"}
	endB = &Link{b, "veth0", "10.77.0.2", "02:00:00:00:77:02"}
	a.IP(tb, "link", "add", endA.Name, "address", endA.mac, "type", "veth", "peer", "name", endB.Name, "address", endB.mac,
		"netns", fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), b.fd))
	for _, l := range []struct{ own, far *Link }{{endA, endB}, {endB, endA}} {
		n := l.own.Namespace
		n.IP(tb, "address", "add", l.own.Addr+"/24", "dev", l.own.Name)
		n.IP(tb, "link", "set", l.own.Name, "up")
		n.IP(tb, "neighbour", "add", l.far.Addr, "lladdr", l.far.mac, "dev", l.own.Name, "nud", "permanent")
	}
	return endA, endB
}

// AddSilent gives the far side of the link an address that nobody answers for:
// packets to it arrive nowhere, and no error comes back.
func (l *Link) AddSilent(tb testing.TB, addr string) {
	tb.Helper()
	l.Namespace.IP(tb, "neighbour", "add", addr, "lladdr", "02:00:00:00:77:ff", "dev", l.Name, "nud", "permanent")
}

// Cut takes the end down. The other end loses its carrier.
func (l *Link) Cut(tb testing.TB) {
	tb.Helper()
	l.Namespace.IP(tb, "link", "set", l.Name, "down")
}

// Mute makes the end deaf and dumb while the link stays up: it takes an address
// that its neighbour does not know, and forgets the neighbour's.
func (l *Link) Mute(tb testing.TB) {
	tb.Helper()
	l.Namespace.IP(tb, "link", "set", l.Name, "address", "02:00:00:00:77:ee")
	l.Namespace.IP(tb, "neighbour", "flush", "dev", l.Name, "nud", "permanent")
}

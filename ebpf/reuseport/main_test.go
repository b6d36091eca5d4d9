package reuseport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/integration/netns"
)

// Everything must be closed again after the tests.
func TestMain(m *testing.M) {
	code := m.Run()
	left := descriptors()
	for deadline := time.Now().Add(5 * time.Second); len(left) > 0 && time.Now().Before(deadline); left = descriptors() {
		time.Sleep(10 * time.Millisecond)
	}
	if code == 0 && len(left) > 0 {
		fmt.Fprintln(os.Stderr, "left behind:", left)
		code = 1
	}
	os.Exit(code)
}

// descriptors returns this process's maps, programs, sockets and namespaces.
func descriptors() (list []string) {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		to, _ := os.Readlink("/proc/self/fd/" + e.Name())
		for _, kind := range []string{"socket:", "anon_inode:bpf", "net:"} {
			if strings.HasPrefix(to, kind) {
				list = append(list, to)
			}
		}
	}
	return list
}

// missing skips the test for want of something, or fails it where everything
// is meant to be there.
func missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("needs %s, and CI is set", what)
	}
	t.Skipf("needs %s", what)
}

// eventually polls until f holds.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not seen: %s", what)
		}
	}
}

// mustNew returns a Steering that lasts until the test ends.
func mustNew(t testing.TB, p Policy) *Steering {
	t.Helper()
	s, err := New(p)
	if errors.Is(err, ErrNotSupported) {
		missing(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func mustGroup(t testing.TB, s *Steering, p Protocol, maxSockets int) *Group {
	t.Helper()
	g, err := s.NewGroup(p, maxSockets)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

// mustObserve returns a group whose program notes what it sees.
func mustObserve(t testing.TB, s *Steering, p Protocol, maxSockets int) *Group {
	t.Helper()
	observed, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { observed.Close() })
	sockets, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.ReusePortSockArray, KeySize: 4, ValueSize: 8, MaxEntries: uint32(maxSockets)})
	if err != nil {
		t.Fatal(err)
	}
	g, err := s.newGroup(p, sockets, observed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

// seen returns what the program saw of a client's last packet.
func (g *Group) seen(t testing.TB, port int) (hash uint32, cpu int) {
	t.Helper()
	var v uint64
	if err := g.maps.observed.Lookup(uint32(port), &v); err != nil {
		t.Fatalf("packets of port %d: %v", port, err)
	}
	return uint32(v), int(v >> 32)
}

func mustSet(t testing.TB, g *Group, sockets []int) {
	t.Helper()
	if err := g.Set(sockets); err != nil {
		t.Fatal(err)
	}
}

func mustAttach(t testing.TB, g *Group, fd int) {
	t.Helper()
	if err := g.Attach(fd); err != nil {
		t.Fatal(err)
	}
}

func (g *Group) mustCount(t testing.TB) Counters {
	t.Helper()
	c, err := g.Counters()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func wantCounters(t testing.TB, g *Group, want Counters) {
	t.Helper()
	if c := g.mustCount(t); c != want {
		t.Errorf("counters %+v, want %+v", c, want)
	}
}

func wantSessions(t testing.TB, s *Steering, want ...int64) {
	t.Helper()
	got := make([]int64, len(want))
	s.Sessions(got)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("sessions %v, want %v", got, want)
	}
}

// bed is a network namespace with sockets in it.
type bed struct {
	testing.TB
	*netns.Namespace
	rand *rand.Rand
}

func newBed(t testing.TB) *bed {
	t.Helper()
	if err := netns.Check(); err != nil {
		missing(t, err.Error())
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return &bed{t, netns.New(t), rand.New(rand.NewPCG(seed, 0))}
}

// sysctl sets a parameter of the namespace's network.
func (b *bed) sysctl(name, value string) {
	b.Helper()
	b.Do(b, func() {
		if err := os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(value), 0); err != nil {
			b.Fatal(err)
		}
	})
}

var address = &unix.SockaddrInet4{Port: 7000, Addr: [4]byte{127, 0, 0, 1}}

// socket opens a socket in the namespace.
func (b *bed) socket(kind int) int {
	b.Helper()
	fd := -1
	b.Do(b, func() {
		var err error
		if fd, err = unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0); err != nil {
			b.Fatal(err)
		}
	})
	return fd
}

// bound returns one socket for each of n workers, listening if TCP.
func (b *bed) bound(kind int, at *unix.SockaddrInet4, n int, options ...int) []int {
	b.Helper()
	fds := make([]int, n)
	for i := range fds {
		fds[i] = b.socket(kind | unix.SOCK_NONBLOCK)
		b.must(unix.SetsockoptInt(fds[i], unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
		for _, o := range options {
			b.must(unix.SetsockoptInt(fds[i], unix.IPPROTO_TCP, o, 30))
		}
		b.must(unix.Bind(fds[i], at))
		if kind == unix.SOCK_STREAM {
			b.must(unix.Listen(fds[i], 4096))
		}
	}
	return fds
}

func (b *bed) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// connect returns a client's socket and its port.
func (b *bed) connect(kind int, to *unix.SockaddrInet4) (fd, port int) {
	b.Helper()
	fd = b.socket(kind)
	// Other addresses than one, since a port number is in use only once at each.
	from := &unix.SockaddrInet4{Addr: [4]byte{127, byte(1 + b.rand.IntN(200)), byte(b.rand.IntN(256)), byte(1 + b.rand.IntN(200))}}
	b.must(unix.Bind(fd, from))
	b.must(unix.Connect(fd, to))
	return fd, b.port(fd)
}

func (b *bed) port(fd int) int {
	b.Helper()
	name, err := unix.Getsockname(fd)
	b.must(err)
	return name.(*unix.SockaddrInet4).Port
}

// accept waits for a connection at any of the listeners, and returns which.
func (b *bed) accept(listeners []int) (fd, worker int) {
	b.Helper()
	eventually(b, "a connection", func() bool {
		for w, l := range listeners {
			var err error
			if fd, _, err = unix.Accept4(l, unix.SOCK_CLOEXEC); err == nil {
				worker = w
				return true
			}
			if !errors.Is(err, unix.EAGAIN) {
				b.Fatal(err)
			}
		}
		return false
	})
	return fd, worker
}

// receive waits for a datagram at any of the sockets, and returns which.
func (b *bed) receive(sockets []int) (worker int) {
	b.Helper()
	eventually(b, "a datagram", func() bool {
		for w, fd := range sockets {
			var buf [16]byte
			if _, _, err := unix.Recvfrom(fd, buf[:], 0); err == nil {
				worker = w
				return true
			}
		}
		return false
	})
	return worker
}

// abort closes a connection by reset, so that no TIME_WAIT is left.
func abort(fds ...int) {
	for _, fd := range fds {
		_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
		unix.Close(fd)
	}
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

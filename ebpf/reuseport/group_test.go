package reuseport

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Where the program cannot choose, the kernel does, and nobody is refused.
func TestFailsOpen(t *testing.T) {
	b := newBed(t)
	for p := range policies {
		s := mustNew(t, p)
		g := mustGroup(t, s, TCP, 4)
		listeners := b.bound(unix.SOCK_STREAM, address, 2)
		elsewhere := b.bound(unix.SOCK_STREAM, &unix.SockaddrInet4{Port: 7001}, 1)
		connect := func() {
			t.Helper()
			fd, _ := b.connect(unix.SOCK_STREAM, address)
			in, _ := b.accept(listeners)
			abort(fd, in)
		}
		mustAttach(t, g, listeners[0])
		connect()
		wantCounters(t, g, Counters{NoSockets: 1})

		mustSet(t, g, elsewhere)
		connect()
		wantCounters(t, g, Counters{NoSockets: 1, Refused: 1})

		closeAll(elsewhere)
		connect()
		wantCounters(t, g, Counters{NoSockets: 1, Refused: 1, Closed: 1})
		wantSessions(t, s, 0, 0, 0)

		mustSet(t, g, listeners)
		connect()
		want := Counters{NoSockets: 1, Refused: 1, Closed: 1, Selected: 1}
		wantCounters(t, g, want)

		if err := g.Detach(listeners[0]); err != nil {
			t.Fatal(err)
		}
		connect()
		wantCounters(t, g, want)
		closeAll(listeners)
	}
}

// A Set that fails changes nothing and leaves no socket in a slot.
func TestSetErrors(t *testing.T) {
	b := newBed(t)
	s := mustNew(t, Hash)
	g := mustGroup(t, s, TCP, 3)
	sockets := b.bound(unix.SOCK_STREAM, address, 4)
	defer closeAll(sockets)
	plain := b.socket(unix.SOCK_STREAM) // neither bound nor SO_REUSEPORT
	defer unix.Close(plain)
	mustSet(t, g, sockets[:2])
	mustAttach(t, g, sockets[0])
	for _, c := range []struct {
		name    string
		sockets []int
		want    string
	}{
		{"none", nil, "0 workers: want 1 to 256"},
		{"too many workers", make([]int, MaxWorkers+1), "257 workers"},
		{"no room", []int{sockets[2], sockets[3]}, "worker 1: all 3 slots are taken"},
		{"twice the same", []int{sockets[2], sockets[2]}, "same socket"},
		{"plain socket", []int{sockets[2], plain}, "worker 1: "},
		{"not a descriptor", []int{sockets[2], -1}, "bad file descriptor"},
	} {
		err := g.Set(c.sockets)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		slots, err := g.slotsLocked()
		if err != nil {
			t.Fatal(err)
		}
		taken := 0
		for _, cookie := range slots {
			if cookie != noSocket {
				taken++
			}
		}
		if taken != 2 {
			t.Errorf("%s: %d slots are taken, want 2", c.name, taken)
		}
	}
	for range 50 {
		fd, _ := b.connect(unix.SOCK_STREAM, address)
		in, w := b.accept(sockets)
		abort(fd, in)
		if w > 1 {
			t.Fatalf("worker %d was chosen", w)
		}
	}
	wantCounters(t, g, Counters{Selected: 50})
	if _, err := s.NewGroup(TCP, 0); err == nil {
		t.Error("a group without room")
	}
	if _, err := New(policies); err == nil || errors.Is(err, ErrNotSupported) {
		t.Errorf("unknown policy: %v", err)
	}
}

// Sockets can change their workers, go and come back, with no more slots than
// old and new ones need.
func TestSetShuffles(t *testing.T) {
	b := newBed(t)
	g := mustGroup(t, mustNew(t, LeastSessions), TCP, 8)
	sockets := b.bound(unix.SOCK_STREAM, address, 8)
	defer closeAll(sockets)
	mustAttach(t, g, sockets[0])
	for range 40 {
		b.rand.Shuffle(len(sockets), func(i, j int) { sockets[i], sockets[j] = sockets[j], sockets[i] })
		n := 1 + b.rand.IntN(8)
		mustSet(t, g, sockets[:n])
		fd, _ := b.connect(unix.SOCK_STREAM, address)
		in, w := b.accept(sockets)
		abort(fd, in)
		if w >= n {
			t.Fatalf("worker %d of %d was chosen", w, n)
		}
	}
	wantCounters(t, g, Counters{Selected: 40})
	if n := int(g.maps.owners.MaxEntries()); len(g.owned) > n {
		t.Errorf("%d owners are noted, want %d at most", len(g.owned), n)
	}
}

// Another process takes the sockets over while they are steered to.
func TestInherit(t *testing.T) {
	b := newBed(t)
	s := mustNew(t, LeastSessions)
	old := mustGroup(t, s, TCP, 8)
	sockets := b.bound(unix.SOCK_STREAM, address, 3)
	defer func() { closeAll(sockets) }() // one more will come
	mustSet(t, old, sockets)
	mustAttach(t, old, sockets[0])
	connect := func() {
		t.Helper()
		fd, _ := b.connect(unix.SOCK_STREAM, address)
		in, _ := b.accept(sockets)
		abort(fd, in)
	}
	connect()

	passed, err := unix.FcntlInt(uintptr(old.FD()), unix.F_DUPFD_CLOEXEC, 0)
	b.must(err)
	other := mustNew(t, LeastSessions)
	g, err := other.Inherit(TCP, passed)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	sockets = append(sockets, b.bound(unix.SOCK_STREAM, address, 1)...)
	mustSet(t, g, sockets) // three of them are in slots already
	connect()
	wantCounters(t, old, Counters{Selected: 2})
	mustAttach(t, g, sockets[0])
	connect()
	b.must(old.Close())
	for range 7 {
		connect()
	}
	wantCounters(t, g, Counters{Selected: 8})
	wantSessions(t, other, 2, 2, 2, 2)

	passed, err = unix.FcntlInt(uintptr(g.maps.state.FD()), unix.F_DUPFD_CLOEXEC, 0)
	b.must(err)
	if _, err := other.Inherit(TCP, passed); err == nil {
		t.Error("a map of another kind was inherited")
	}
}

// The kernel forgets the program when the group and its sockets are closed.
func TestNothingStays(t *testing.T) {
	b := newBed(t)
	g := mustGroup(t, mustNew(t, Hash), TCP, 1)
	sockets := b.bound(unix.SOCK_STREAM, address, 1)
	mustSet(t, g, sockets)
	mustAttach(t, g, sockets[0])
	info, err := g.prog.Info()
	b.must(err)
	id, _ := info.ID()
	b.must(g.Close())
	b.must(g.Close())
	exists := func() bool {
		p, err := ebpf.NewProgramFromID(id)
		if err == nil {
			p.Close()
		}
		return !errors.Is(err, ebpf.ErrKeyNotExist) && !errors.Is(err, unix.ENOENT)
	}
	if !exists() {
		t.Error("the program is gone while a socket has it")
	}
	closeAll(sockets)
	eventually(t, "the end of the program", func() bool { return !exists() })
}

// Without privileges New says what is missing and leaves nothing; CAP_BPF is
// enough.
func TestPrivileges(t *testing.T) {
	mustNew(t, Hash)
	for p := range policies {
		withCapabilities(t, 0, func() {
			before := len(descriptors())
			_, err := New(p)
			if !errors.Is(err, ErrNotSupported) || !errors.Is(err, unix.EPERM) {
				t.Errorf("%v without capabilities: %v", p, err)
			}
			if n := len(descriptors()); n != before {
				t.Errorf("%v: %d descriptors were left", p, n-before)
			}
			if p == Hash {
				t.Log(err)
			}
		})
		withCapabilities(t, 1<<unix.CAP_BPF, func() {
			s, err := New(p)
			if err != nil {
				t.Errorf("%v with CAP_BPF alone: %v", p, err)
				return
			}
			defer s.Close()
			g, err := s.NewGroup(TCP, 4*MaxWorkers)
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			info, err := g.prog.Info()
			if err != nil {
				t.Fatal(err)
			}
			verified, _ := info.VerifiedInstructions()
			t.Logf("%v: the verifier looked at %d instructions", p, verified)
		})
	}
}

// withCapabilities calls f on a thread with no other capabilities.
func withCapabilities(t *testing.T, mask uint64, f func()) {
	t.Helper()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var before, data [2]unix.CapUserData
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Capget(&header, &before[0]); err != nil {
		t.Fatal(err)
	}
	for i := range data {
		data[i].Effective = uint32(mask >> (32 * i))
		data[i].Permitted = before[i].Permitted
	}
	if err := unix.Capset(&header, &data[0]); err != nil {
		t.Fatal(err)
	}
	defer unix.Capset(&header, &before[0])
	f()
}

package reuseport

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/integration/netns"
)

// A SYN that is sent again is counted once, and an abandoned one until
// Reconcile finds that its session never came.
func TestAbandonedSYN(t *testing.T) {
	server := newBed(t)
	client := newBed(t)
	near, _ := netns.Join(t, server.Namespace, client.Namespace)
	near.AddSilent(t, "10.77.0.9") // which the SYNs seem to come from
	s := mustNew(t, LeastSessions)
	g := mustGroup(t, s, TCP, 2)
	listeners := server.bound(unix.SOCK_STREAM, &unix.SockaddrInet4{Port: 7000}, 2)
	defer closeAll(listeners)
	mustSet(t, g, listeners)
	mustAttach(t, g, listeners[0])

	raw := -1
	client.Do(t, func() {
		var err error
		raw, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		client.must(err)
	})
	defer unix.Close(raw)
	send := func(port uint16, flags byte) {
		t.Helper()
		packet := segment([4]byte{10, 77, 0, 9}, [4]byte{10, 77, 0, 1}, port, 7000, flags)
		client.must(unix.Sendto(raw, packet, 0, &unix.SockaddrInet4{Addr: [4]byte{10, 77, 0, 1}}))
	}
	for port := uint16(1000); port < 1004; port++ {
		for range 3 {
			send(port, tcpSYN)
		}
	}
	wantCounters(t, g, Counters{Selected: 4})
	wantSessions(t, s, 2, 2)

	const fin, rst, ack = 0x01, 0x04, 0x10
	for _, flags := range []byte{0, ack, rst, fin | ack, tcpSYN | ack, tcpSYN | rst, tcpSYN | fin} {
		send(2000, flags)
	}
	wantCounters(t, g, Counters{Selected: 4, NotSYN: 7})
	wantSessions(t, s, 2, 2)

	if n := s.Reconcile([]int64{0, 0}); n != 0 {
		t.Errorf("the first reading corrected %d sessions", n)
	}
	send(1005, tcpSYN) // on its way at the second reading: to be left alone
	if n := s.Reconcile([]int64{0, 0}); n != 4 {
		t.Errorf("the second reading corrected %d sessions, want 4", n)
	}
	got := make([]int64, 2)
	s.Sessions(got)
	if got[0]+got[1] != 1 {
		t.Errorf("sessions %v, want 1 in all", got)
	}
	s.Reconcile([]int64{0, 0})
	wantSessions(t, s, 0, 0)
}

// segment returns an IPv4 packet with a TCP header and nothing else.
func segment(from, to [4]byte, sport, dport uint16, flags byte) []byte {
	p := make([]byte, 40)
	p[0], p[8], p[9] = 0x45, 64, unix.IPPROTO_TCP // the kernel fills in length and checksum
	copy(p[12:], from[:])
	copy(p[16:], to[:])
	tcp := p[20:]
	binary.BigEndian.PutUint16(tcp, sport)
	binary.BigEndian.PutUint16(tcp[2:], dport)
	tcp[4], tcp[12], tcp[tcpFlags], tcp[14] = 1, 5<<4, flags, 64
	sum := uint32(unix.IPPROTO_TCP + len(tcp))
	for i := 12; i < len(p); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(p[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(tcp[16:], ^uint16(sum))
	return p
}

// With SYN cookies a connection comes out of its last ACK, which the program
// doesn't count: it sends it by hash, and Reconcile sets both workers right.
func TestSYNCookies(t *testing.T) {
	b := newBed(t)
	b.sysctl("tcp_syncookies", "2")
	s := mustNew(t, LeastSessions)
	g := mustGroup(t, s, TCP, 4)
	listeners := b.bound(unix.SOCK_STREAM, address, 4)
	defer closeAll(listeners)
	mustSet(t, g, listeners)
	mustAttach(t, g, listeners[0])
	const conns = 60
	actual := make([]int64, 4)
	var fds []int
	for range conns {
		fd, _ := b.connect(unix.SOCK_STREAM, address)
		in, w := b.accept(listeners)
		actual[w]++
		fds = append(fds, fd, in)
	}
	defer abort(fds...)
	wantCounters(t, g, Counters{Selected: conns, NotSYN: conns})
	wantSessions(t, s, 15, 15, 15, 15)
	t.Logf("the connections went to %v", actual)
	s.Reconcile(actual)
	s.Reconcile(actual)
	wantSessions(t, s, actual...)
}

// Connections that a closed listener had not accepted go to the same worker's
// new one, those without a new one to another, and the counters go with them.
func TestMigrate(t *testing.T) {
	for p := range policies {
		b := newBed(t)
		s := mustNew(t, p)
		g := mustGroup(t, s, TCP, 8)
		// Half-open until data comes, if deferred.
		for _, options := range [][]int{nil, {unix.TCP_DEFER_ACCEPT}} {
			old := b.bound(unix.SOCK_STREAM, address, 4, options...)
			mustSet(t, g, old)
			mustAttach(t, g, old[0])
			before := g.mustCount(t)
			const conns = 40
			fds := make([]int, conns)
			for i := range fds {
				fds[i], _ = b.connect(unix.SOCK_STREAM, address)
			}
			counted := make([]int64, 4)
			s.Sessions(counted)
			listeners := b.bound(unix.SOCK_STREAM, address, 2)
			mustSet(t, g, listeners)
			closeAll(old)
			for _, fd := range fds {
				_, err := unix.Write(fd, []byte("?"))
				b.must(err)
			}
			accepted := make([]int64, 4)
			for range fds {
				in, w := b.accept(listeners)
				accepted[w]++
				var buf [1]byte
				n, err := unix.Read(in, buf[:])
				if n != 1 || err != nil {
					t.Errorf("read %d bytes, %v", n, err)
				}
				abort(in)
			}
			abort(fds...)
			c := g.mustCount(t)
			c.Selected -= before.Selected
			c.Migrated -= before.Migrated
			c.Moved -= before.Moved
			want := Counters{Selected: conns, Migrated: conns}
			if p == LeastSessions {
				want = Counters{Selected: conns, Migrated: conns / 2, Moved: conns / 2}
				wantSessions(t, s, accepted...)
				for w, n := range accepted {
					for range n {
						s.Ended(w)
					}
				}
			}
			if c != want {
				t.Errorf("%v: counters %+v, want %+v", p, c, want)
			}
			t.Logf("%v: counted %v, accepted %v", p, counted, accepted)
			closeAll(listeners)
		}
	}
}

// fleet is workers that accept from listeners, and clients that connect.
type fleet struct {
	*bed
	s         *Steering
	actual    [4]atomic.Int64 // sessions of each worker
	running   sync.WaitGroup
	resets    atomic.Int64
	slowest   atomic.Int64
	connected atomic.Int64
}

// serve accepts, answers one byte, and closes, on one listener until it is
// told to stop.
func (f *fleet) serve(w, listener int, stop *atomic.Bool) {
	for !stop.Load() {
		poll := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		_, _ = unix.Poll(poll, 1)
		for !stop.Load() {
			in, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
			if err != nil {
				break
			}
			f.actual[w].Add(1)
			f.running.Go(func() {
				var buf [1]byte
				if n, _ := unix.Read(in, buf[:]); n == 1 {
					_, _ = unix.Write(in, buf[:])
				}
				_, _ = unix.Read(in, buf[:]) // until the client has closed
				unix.Close(in)
				f.actual[w].Add(-1)
				f.s.Ended(w)
			})
		}
	}
}

// client makes connections, one after the other, until there are enough.
func (f *fleet) client(seed uint64, conns *atomic.Int64) {
	r := rand.New(rand.NewPCG(seed, 1))
	to := *address // Connect writes to it
	for conns.Add(-1) >= 0 {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			f.Error(err)
			return
		}
		begin := time.Now()
		err = errors.Join(
			unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, byte(r.IntN(256)), byte(1 + r.IntN(250))}}),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 20}),
			unix.Connect(fd, &to))
		if err == nil {
			if _, err = unix.Write(fd, []byte("?")); err == nil {
				var buf [1]byte
				var n int
				if n, err = unix.Read(fd, buf[:]); n == 0 && err == nil {
					err = unix.ECONNRESET // closed without an answer
				}
			}
		}
		if err != nil {
			if f.resets.Add(1) == 1 {
				f.Logf("the first failure: %v", err)
			}
		}
		f.connected.Add(1)
		for took := int64(time.Since(begin)); ; {
			if s := f.slowest.Load(); took <= s || f.slowest.CompareAndSwap(s, took) {
				break
			}
		}
		abort(fd)
	}
}

// swap runs clients while all listeners are replaced many times. Each time the
// old ones' workers have stopped to accept before, so that they are closed with
// connections in their queues.
func (f *fleet) swap(g *Group, conns, swaps int) {
	const clients, workers = 16, 4
	var left atomic.Int64
	left.Store(int64(conns))
	open := func() (listeners []int, stop func()) {
		listeners = f.bound(unix.SOCK_STREAM, address, workers)
		var serving sync.WaitGroup
		var stopping atomic.Bool
		for w, l := range listeners {
			serving.Go(func() { f.serve(w, l, &stopping) })
		}
		return listeners, func() { stopping.Store(true); serving.Wait() }
	}
	listeners, stop := open()
	if g != nil {
		mustSet(f, g, listeners)
		mustAttach(f, g, listeners[0])
	}
	var calling sync.WaitGroup
	for i := range clients {
		calling.Go(func() { f.Do(f, func() { f.client(uint64(i), &left) }) })
	}
	for n := 1; n <= swaps; n++ {
		eventually(f, "connections", func() bool { return int(f.connected.Load()) >= conns*n/(swaps+1) })
		stop()
		old := listeners
		listeners, stop = open()
		if g != nil {
			mustSet(f, g, listeners)
		}
		closeAll(old)
	}
	calling.Wait()
	stop()
	closeAll(listeners)
	f.running.Wait()
}

// No client is reset when all listeners are replaced, again and again, under
// load, and no session is lost count of.
func TestSwapListeners(t *testing.T) {
	conns, swaps := 45_000, 14
	if testing.Short() {
		conns /= 10
	}
	for _, c := range []struct {
		name    string
		policy  Policy
		steered bool
		conns   int
	}{
		{"plain SO_REUSEPORT", Hash, false, conns / 4},
		{"hash", Hash, true, conns / 4},
		{"least_sessions", LeastSessions, true, conns},
	} {
		f := &fleet{bed: newBed(t), s: mustNew(t, c.policy)}
		var g *Group
		if c.steered {
			g = mustGroup(t, f.s, TCP, 8)
		}
		begin := time.Now()
		f.swap(g, c.conns, swaps)
		t.Logf("%s: %d connections, %d swaps, %d resets, slowest %v, %.1f s", c.name, f.connected.Load(), swaps,
			f.resets.Load(), time.Duration(f.slowest.Load()).Round(time.Millisecond), time.Since(begin).Seconds())
		if !c.steered {
			continue
		}
		if n := f.resets.Load(); n != 0 {
			t.Errorf("%s: %d resets", c.name, n)
		}
		n := g.mustCount(t)
		t.Logf("%+v", n)
		if n.Migrated == 0 {
			t.Errorf("%s: no connection was left by a closed listener", c.name)
		}
		if n.Selected != uint64(c.conns) || n.NoSockets+n.Closed+n.Refused+n.Moved != 0 {
			t.Errorf("%s: counters %+v, want %d selected and no choice left to the kernel", c.name, n, c.conns)
		}
		if c.policy == LeastSessions {
			wantSessions(t, f.s, 0, 0, 0, 0)
		}
	}
}

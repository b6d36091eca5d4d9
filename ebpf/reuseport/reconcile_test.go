package reuseport

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Reconcile takes away what is too much, or too little, at two calls in a row.
func TestReconcile(t *testing.T) {
	for _, c := range []struct {
		name     string
		counters []int64 // before each call: set to, or what the last call left if -100
		actual   []int64
		want     []int64 // after each call
	}{
		{"exact", []int64{5, 5, 5}, []int64{5, 5, 5}, []int64{5, 5, 5}},
		{"on their way once", []int64{5, 9, 5}, []int64{5, 5, 5}, []int64{5, 9, 5}},
		{"the lesser of two", []int64{9, 7, 5}, []int64{5, 5, 5}, []int64{9, 5, 5}},
		{"rest is looked at again", []int64{8, 12, -100}, []int64{5, 5, 5}, []int64{8, 9, 5}},
		{"too little", []int64{2, 1, -100}, []int64{5, 5, 5}, []int64{2, 4, 5}},
		{"below zero", []int64{-3, -3, -100}, []int64{0, 0, 0}, []int64{-3, 0, 0}},
		{"to and fro", []int64{6, 4, 6}, []int64{5, 5, 5}, []int64{6, 4, 6}},
	} {
		s := &Steering{sessions: new([MaxWorkers]int64)}
		for i, n := range c.counters {
			if n != -100 {
				s.sessions[0] = n
			}
			before := s.sessions[0]
			corrected := s.Reconcile(c.actual[i : i+1])
			if got := s.sessions[0]; got != c.want[i] || corrected != max(before-got, got-before) {
				t.Errorf("%s: call %d left %d (said %d corrected), want %d", c.name, i+1, got, corrected, c.want[i])
			}
		}
	}
}

// Workers that cannot be steered to have no counter to correct.
func TestReconcileOfTooManyWorkers(t *testing.T) {
	s := &Steering{sessions: new([MaxWorkers]int64)}
	actual := make([]int64, MaxWorkers+1)
	actual[MaxWorkers-1], actual[MaxWorkers] = 3, 3
	s.Reconcile(actual)
	if corrected := s.Reconcile(actual); corrected != 3 || s.sessions[MaxWorkers-1] != 3 {
		t.Errorf("%d corrected, the last worker has %d, want 3 and 3", corrected, s.sessions[MaxWorkers-1])
	}
}

// Sessions come and go on all workers, more or less as they would, while
// Reconcile is called far too often: the counters stay near the truth, and are
// exact once all is still.
func TestChurn(t *testing.T) {
	b := newBed(t)
	s := mustNew(t, LeastSessions)
	const workers = 4
	g := mustGroup(t, s, TCP, workers)
	listeners := b.bound(unix.SOCK_STREAM, address, workers)
	defer closeAll(listeners)
	mustSet(t, g, listeners)
	mustAttach(t, g, listeners[0])
	var actual [workers]atomic.Int64
	var stop atomic.Bool
	var clients, others sync.WaitGroup
	var connects atomic.Uint64
	read := func() []int64 {
		list := make([]int64, workers)
		for w := range list {
			info, err := unix.GetsockoptTCPInfo(listeners[w], unix.IPPROTO_TCP, unix.TCP_INFO)
			if err != nil {
				t.Error(err)
				return list
			}
			list[w] = actual[w].Load() + int64(info.Unacked) // of a listener, its queue
		}
		return list
	}
	for w, l := range listeners {
		others.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 2))
			var open []int
			for !stop.Load() || len(open) > 0 {
				if in, _, err := unix.Accept4(l, unix.SOCK_CLOEXEC); err == nil {
					actual[w].Add(1)
					open = append(open, in)
				} else if len(open) < 20 && !stop.Load() {
					time.Sleep(100 * time.Microsecond)
					continue
				}
				if len(open) > 0 && (r.IntN(2) == 0 || stop.Load()) {
					abort(open[0])
					open = open[1:]
					actual[w].Add(-1)
					s.Ended(w)
				}
			}
		})
	}
	others.Go(func() {
		for !stop.Load() {
			s.Reconcile(read())
			time.Sleep(3 * time.Millisecond)
		}
	})
	var left atomic.Int64
	left.Store(5000)
	for i := range 4 {
		clients.Go(func() {
			b.Do(b, func() {
				r := rand.New(rand.NewPCG(uint64(i), 3))
				to := *address // Connect writes to it
				for left.Add(-1) >= 0 {
					fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
					if err == nil {
						err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 1, byte(r.IntN(256)), byte(1 + r.IntN(250))}})
					}
					if err == nil {
						err = unix.Connect(fd, &to)
					}
					if err != nil {
						t.Error(err)
					}
					connects.Add(1)
					abort(fd)
				}
			})
		})
	}
	clients.Wait()
	eventually(t, "accepted connections", func() bool {
		poll := make([]unix.PollFd, workers)
		for w, l := range listeners {
			poll[w] = unix.PollFd{Fd: int32(l), Events: unix.POLLIN}
		}
		n, err := unix.Poll(poll, 0)
		return n == 0 && err == nil
	})
	stop.Store(true)
	others.Wait()
	// When both ends reset, the later of the two finds the listeners only: not counted
	// as a connection, which is what NotSYN says.
	want := Counters{Selected: connects.Load(), NotSYN: g.mustCount(t).NotSYN}
	wantCounters(t, g, want)
	before := make([]int64, workers)
	s.Sessions(before)
	n := s.Reconcile(read()) + s.Reconcile(read())
	t.Logf("%d connections; at the end the counters were %v, and %d were corrected", connects.Load(), before, n)
	wantSessions(t, s, 0, 0, 0, 0)
	for _, c := range before {
		if max(c, -c) > 10 {
			t.Errorf("a counter was %d, and no worker has a session", c)
		}
	}
}

func TestEndedAllocatesNothing(t *testing.T) {
	s := &Steering{sessions: new([MaxWorkers]int64)}
	out := make([]int64, 4)
	if n := testing.AllocsPerRun(100, func() { s.Began(1); s.Ended(1); s.Sessions(out) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkEnded(b *testing.B) {
	s := mustNew(b, LeastSessions)
	for b.Loop() {
		s.Ended(1)
	}
}

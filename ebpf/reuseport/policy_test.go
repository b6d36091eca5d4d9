package reuseport

import (
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// The kernel's choices are those of the table, for connections and datagrams,
// with any number of workers.
func TestHashIsModel(t *testing.T) {
	for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM} {
		b := newBed(t)
		p := map[int]Protocol{unix.SOCK_STREAM: TCP, unix.SOCK_DGRAM: UDP}[kind]
		g := mustObserve(t, mustNew(t, Hash), p, 16)
		all := b.bound(kind, address, 8)
		mustAttach(t, g, all[0])
		runs := 0
		for range 6 {
			b.rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			sockets := all[:1+b.rand.IntN(len(all))]
			mustSet(t, g, sockets)
			model := modelTable(len(sockets))
			for range 60 {
				fd, port := b.connect(kind, address)
				worker := 0
				if kind == unix.SOCK_STREAM {
					var in int
					in, worker = b.accept(all)
					abort(in)
				} else {
					_, err := unix.Write(fd, []byte("?"))
					b.must(err)
					worker = b.receive(all)
				}
				abort(fd)
				runs++
				hash, _ := g.seen(t, port)
				if want := model[hash%buckets]; worker != want {
					t.Fatalf("hash %#x came to worker %d, want %d of %d", hash, worker, want, len(sockets))
				}
			}
		}
		wantCounters(t, g, Counters{Selected: uint64(runs)})
		closeAll(all)
	}
}

// modelTable says who has each bucket: worker by worker, each takes buckets
// from whoever has most.
func modelTable(workers int) []int {
	table := make([]int, buckets)
	held := make([]int, workers)
	held[0] = buckets
	b := 0
	for w := 1; w < workers; w++ {
		for range buckets / (w + 1) {
			for table[b] == w || held[table[b]] != slices.Max(held[:w]) {
				b = (b + 2531) % buckets
			}
			held[table[b]]--
			held[w]++
			table[b] = w
			b = (b + 2531) % buckets
		}
	}
	return table
}

func TestHashTable(t *testing.T) {
	var last [buckets]uint8
	for n := 1; n <= 40; n++ {
		var table [buckets]uint8
		byHash(&table, n)
		held := make([]int, n)
		moved := 0
		for b, w := range table {
			held[w]++
			if w != last[b] {
				moved++
				if int(w) != n-1 {
					t.Fatalf("with worker %d, bucket %d moved from %d to %d", n-1, b, last[b], w)
				}
			}
		}
		if n > 1 && moved != buckets/n {
			t.Errorf("with worker %d, %d buckets moved, want %d", n-1, moved, buckets/n)
		}
		if slices.Max(held)-slices.Min(held) > 1 {
			t.Errorf("%d workers have %d to %d buckets", n, slices.Min(held), slices.Max(held))
		}
		last = table
	}
}

// A SYN goes to the worker of the CPU that it came by, which on the loopback
// interface is the one that sent it.
func TestCPUIsModel(t *testing.T) {
	b := newBed(t)
	g := mustObserve(t, mustNew(t, CPU), TCP, 3)
	listeners := b.bound(unix.SOCK_STREAM, address, 3)
	defer closeAll(listeners)
	mustAttach(t, g, listeners[0])
	for n := 1; n <= len(listeners); n++ {
		mustSet(t, g, listeners[:n])
		for range 20 {
			for _, cpu := range cpus(t) {
				var fd, port int
				onCPU(t, cpu, func() { fd, port = b.connect(unix.SOCK_STREAM, address) })
				in, worker := b.accept(listeners)
				abort(in, fd)
				if _, saw := g.seen(t, port); saw != cpu || worker != cpu%n {
					t.Fatalf("connected on CPU %d, received on %d, accepted by worker %d of %d", cpu, saw, worker, n)
				}
			}
		}
	}
	// UDP goes by hash all the same.
	if g := mustGroup(t, mustNew(t, CPU), UDP, 1); g.Policy() != Hash {
		t.Errorf("UDP goes by %v", g.Policy())
	}
}

// cpus returns the CPUs that this thread may use.
func cpus(t *testing.T) (list []int) {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	for cpu := range 8 * len(set) {
		if set.IsSet(cpu) {
			list = append(list, cpu)
		}
	}
	return list
}

func onCPU(t *testing.T, cpu int, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	defer unix.SchedSetaffinity(0, &before)
	f()
}

// Every connection goes to one of the workers that have the fewest sessions
// over both addresses, while others end; and the counters are exact after each.
func TestLeastSessionsIsModel(t *testing.T) {
	b := newBed(t)
	s := mustNew(t, LeastSessions)
	const workers = 5
	addresses := []*unix.SockaddrInet4{address, {Port: 7001, Addr: address.Addr}}
	var listeners [2][]int
	var groups [2]*Group
	for i, a := range addresses {
		groups[i] = mustGroup(t, s, TCP, workers)
		listeners[i] = b.bound(unix.SOCK_STREAM, a, workers)
		defer closeAll(listeners[i])
		mustSet(t, groups[i], listeners[i])
		mustAttach(t, groups[i], listeners[i][0])
	}
	type session struct{ fd, in, worker int }
	var open []session
	model := make([]int64, workers)
	s.Began(2) // of another kind, say UDP
	model[2]++
	connects := [2]uint64{}
	for range 600 {
		if len(open) > 0 && b.rand.IntN(5) < 2 {
			i := b.rand.IntN(len(open))
			abort(open[i].in, open[i].fd)
			s.Ended(open[i].worker)
			model[open[i].worker]--
			open = slices.Delete(open, i, i+1)
		} else {
			i := b.rand.IntN(2)
			connects[i]++
			fd, _ := b.connect(unix.SOCK_STREAM, addresses[i])
			in, worker := b.accept(listeners[i])
			if model[worker] != slices.Min(model) {
				t.Fatalf("worker %d was chosen, sessions %v", worker, model)
			}
			model[worker]++
			open = append(open, session{fd, in, worker})
		}
		wantSessions(t, s, model...)
		if t.Failed() {
			return
		}
	}
	for i, g := range groups {
		wantCounters(t, g, Counters{Selected: connects[i]})
	}
	for _, o := range open {
		abort(o.in, o.fd)
	}
}

// The busiest of four workers has 1.1 of the mean at most, by least sessions;
// the others are logged beside it.
func TestBalance(t *testing.T) {
	for _, conns := range []int{16, 64} {
		for _, c := range []struct {
			name   string
			policy Policy
			plain  bool
		}{
			{"plain SO_REUSEPORT", Hash, true},
			{"hash", Hash, false},
			{"cpu", CPU, false},
			{"least_sessions", LeastSessions, false},
		} {
			const rounds = 20
			b := newBed(t)
			s := mustNew(t, c.policy)
			worst, sum := 0.0, 0.0
			for range rounds {
				g := mustGroup(t, s, TCP, 4)
				listeners := b.bound(unix.SOCK_STREAM, address, 4)
				if !c.plain {
					mustSet(t, g, listeners)
					mustAttach(t, g, listeners[0])
				}
				// A burst: nobody accepts before all have connected.
				var fds []int
				for range conns {
					fd, _ := b.connect(unix.SOCK_STREAM, address)
					fds = append(fds, fd)
				}
				held := make([]int, 4)
				for range conns {
					in, w := b.accept(listeners)
					held[w]++
					fds = append(fds, in)
				}
				abort(fds...)
				closeAll(listeners)
				if c.policy == LeastSessions {
					for w, n := range held {
						for range n {
							s.Ended(w)
						}
					}
				}
				ratio := float64(slices.Max(held)) * 4 / float64(conns)
				worst = max(worst, ratio)
				sum += ratio
				g.Close()
			}
			t.Logf("%d connections, %-18s busiest/mean %.2f, worst of %d rounds %.2f", conns, c.name, sum/rounds, rounds, worst)
			if c.policy == LeastSessions && worst > 1.1 {
				t.Errorf("least_sessions: busiest/mean %.2f, want 1.1 at most", worst)
			}
		}
	}
}

// A UDP flow stays with its worker when all sockets are replaced, and when a
// worker is added unless the new worker takes it.
func TestFlowsStay(t *testing.T) {
	b := newBed(t)
	g := mustGroup(t, mustNew(t, LeastSessions), UDP, 16)
	sockets := b.bound(unix.SOCK_DGRAM, address, 4)
	mustSet(t, g, sockets)
	mustAttach(t, g, sockets[0])
	flows := make([]int, 300)
	for i := range flows {
		flows[i], _ = b.connect(unix.SOCK_DGRAM, address)
	}
	defer closeAll(flows)
	where := func() []int {
		list := make([]int, len(flows))
		for i, fd := range flows {
			_, err := unix.Write(fd, []byte("?"))
			b.must(err)
			list[i] = b.receive(sockets)
		}
		return list
	}
	before := where()
	old := sockets
	sockets = b.bound(unix.SOCK_DGRAM, address, 4)
	mustSet(t, g, sockets)
	if after := where(); !slices.Equal(before, after) {
		t.Error("flows moved with new sockets for the same workers")
	}
	closeAll(old)
	if after := where(); !slices.Equal(before, after) {
		t.Error("flows moved when the old sockets were closed")
	}
	sockets = append(sockets, b.bound(unix.SOCK_DGRAM, address, 1)...)
	mustSet(t, g, sockets)
	moved := 0
	for i, w := range where() {
		if w != before[i] {
			moved++
			if w != 4 {
				t.Errorf("flow %d moved from worker %d to %d", i, before[i], w)
			}
		}
	}
	t.Logf("a fifth worker took %d of %d flows", moved, len(flows))
	if moved < 25 || moved > 110 { // 60 in the mean, standard deviation 7
		t.Errorf("%d of %d flows moved", moved, len(flows))
	}
	mustSet(t, g, sockets[:4])
	if after := where(); !slices.Equal(before, after) {
		t.Error("flows did not come back when the fifth worker went")
	}
	closeAll(sockets)
}

// When nobody has a session, connections that come one by one still spread.
func TestTiesSpread(t *testing.T) {
	b := newBed(t)
	s := mustNew(t, LeastSessions)
	for _, workers := range []int{2, 3, 5} {
		g := mustGroup(t, s, TCP, workers)
		listeners := b.bound(unix.SOCK_STREAM, address, workers)
		mustSet(t, g, listeners)
		mustAttach(t, g, listeners[0])
		const each = 150
		held := make([]int, workers)
		for range each * workers {
			fd, _ := b.connect(unix.SOCK_STREAM, address)
			in, w := b.accept(listeners)
			abort(fd, in)
			s.Ended(w)
			held[w]++
		}
		t.Logf("%d workers: %v", workers, held)
		if slices.Min(held) < each/2 || slices.Max(held) > 3*each/2 {
			t.Errorf("%v connections, want about %d each", held, each)
		}
		closeAll(listeners)
	}
}

// IPv6 sockets, and IPv4 clients that come to them.
func TestIPv6(t *testing.T) {
	b := newBed(t)
	s := mustNew(t, LeastSessions)
	const workers = 3
	g := mustGroup(t, s, TCP, workers)
	open := func() (fd int) {
		b.Do(t, func() {
			var err error
			fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
			b.must(err)
		})
		return fd
	}
	var listeners []int
	for range workers {
		fd := open()
		b.must(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
		b.must(unix.Bind(fd, &unix.SockaddrInet6{Port: 7000}))
		b.must(unix.Listen(fd, 64))
		listeners = append(listeners, fd)
	}
	defer closeAll(listeners)
	mustSet(t, g, listeners)
	mustAttach(t, g, listeners[0])
	for range 10 * workers {
		fd, _ := b.connect(unix.SOCK_STREAM, address)
		in, _ := b.accept(listeners)
		defer abort(fd, in)
		fd = open()
		if err := unix.Connect(fd, &unix.SockaddrInet6{Port: 7000, Addr: [16]byte{15: 1}}); err != nil && err != unix.EINPROGRESS {
			t.Fatal(err)
		}
		in, _ = b.accept(listeners)
		defer abort(fd, in)
	}
	wantCounters(t, g, Counters{Selected: 20 * workers})
	wantSessions(t, s, 20, 20, 20)
}

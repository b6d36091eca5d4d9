package stream

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/sys"
)

// Steerer chooses the worker that gets a new client. ebpf/reuseport has one;
// cmd joins the two, so that the balancer builds and runs without.
type Steerer interface {
	// Group returns what steers one address, on which so many workers may listen.
	Group(p conf.Protocol, workers int) (SteererGroup, error)
	// Inherit returns what steers an address that another process steers as yet.
	// The descriptor is that of the other's FD, and belongs to the group.
	Inherit(p conf.Protocol, fd int) (SteererGroup, error)
	// Began and Ended count a worker's TCP sessions. The steerer has counted
	// those that it chose the worker for. Any goroutine may call them.
	Began(worker int)
	Ended(worker int)
	// Reconcile is told how many there are, by worker, and sets right what has
	// drifted.
	Reconcile(actual []int64) int64
	Close() error
}

// SteererGroup steers one address.
type SteererGroup interface {
	// Set says which socket is which worker's. Sockets that it does not name get
	// nobody any more, and may be closed.
	Set(fds []int) error
	// Attach has the kernel ask the steerer for all sockets on the address of
	// this one.
	Attach(fd int) error
	Detach(fd int) error
	// FD is what another process needs to inherit the group. It must not be Set
	// any more then, unless the other one has given up.
	FD() int
	Close() error
}

// reconcileEvery is how often the steerer's counts are compared with the truth:
// connections that were given up before anybody accepted them leave it too high.
const reconcileEvery = 2 * time.Second

// openSteerer returns the steerer that the configuration asks for, or nil. auto
// goes on without if there can be none.
func (s *Server) openSteerer(p conf.Steering) (Steerer, error) {
	if p == conf.SteerNone || s.newSteerer == nil {
		return nil, nil
	}
	st, err := s.newSteerer(p)
	switch {
	case err == nil:
		return st, nil
	case p == conf.SteerAuto:
		s.logger.Info("workers are not steered: the kernel spreads new clients by a hash", "reason", err)
		return nil, nil
	}
	return nil, fmt.Errorf("steer workers by %s: %w", p, err)
}

// steer has the binding's clients steered to those workers' sockets.
// Preconditions: the workers accept.
func (b *binding) steer(st Steerer, workers []*worker) error {
	if st == nil || b.shared >= 0 {
		return nil
	}
	if b.group == nil {
		var err error
		if fd := b.steered; fd >= 0 {
			b.steered = -1
			b.group, err = st.Inherit(b.place.protocol, fd)
		} else {
			b.group, err = st.Group(b.place.protocol, len(workers))
		}
		if err != nil {
			b.group = nil
			return fmt.Errorf("steer %s: %w", b.place, err)
		}
	}
	var fds []int
	for _, w := range workers {
		fds = append(fds, int(b.fds[w]))
	}
	if err := b.group.Set(fds); err != nil {
		return fmt.Errorf("steer %s: %w", b.place, err)
	}
	// If it is attached already, that costs next to nothing.
	if err := b.group.Attach(fds[0]); err != nil {
		return fmt.Errorf("steer %s: %w", b.place, err)
	}
	return nil
}

// resteer leaves the binding to another steerer, which goes on with the same
// sockets: the kernel lets them be in one group only. Until then they are steered
// as before.
func (b *binding) resteer() {
	if b.group == nil {
		return
	}
	fd, err := unix.FcntlInt(uintptr(b.group.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		b.unsteer(true) // the new group could not have them
		return
	}
	b.steered = fd
	b.unsteer(false)
}

// unsteer gives the choice back to the kernel.
func (b *binding) unsteer(detach bool) {
	if b.group == nil {
		return
	}
	if detach {
		for _, fd := range b.fds {
			_ = b.group.Detach(int(fd)) // gone with the sockets if not now
			break
		}
	}
	_ = b.group.Close()
	b.group = nil
}

// disinherit gives up what another process has steered with. The kernel keeps its
// program for all sockets on the address, new ones included, until it is detached.
func (b *binding) disinherit(detach bool) {
	if detach {
		for _, fd := range b.fds {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DETACH_REUSEPORT_BPF, 0) // gone already is fine
			break
		}
	}
	_ = unix.Close(b.steered)
	b.steered = -1
}

// reconcile compares the steerer's counts with the truth, again and again.
func (s *Server) reconcile() {
	tick := time.NewTicker(reconcileEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.quit:
			return
		case <-tick.C:
		}
		s.mu.Lock()
		if s.steerer != nil && !s.draining {
			s.steerer.Reconcile(s.countLocked())
		}
		s.mu.Unlock()
	}
}

// countLocked returns how many TCP sessions each worker has, and how many wait
// in its accept queues.
func (s *Server) countLocked() []int64 {
	actual := make([]int64, len(s.counters))
	for _, workers := range [][]*worker{s.workers, s.leaving} {
		s.each(workers, func(w *worker) { w.counted.Store(int64(w.tcp.Sessions())) })
		for _, w := range workers {
			actual[w.id] += w.counted.Load()
		}
	}
	for _, b := range s.bindings {
		if b.place.protocol != conf.TCP || b.shared >= 0 {
			continue
		}
		for w, fd := range b.fds {
			waiting, _, _ := sys.AcceptQueue(fd) // 0 if it can't be asked
			actual[w.id] += int64(waiting)
		}
	}
	return actual
}

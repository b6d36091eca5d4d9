package stream

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/sys"
	"github.com/weirlb/weir/stream/tcp"
	"github.com/weirlb/weir/stream/udp"
	"github.com/weirlb/weir/stream/upstream"
)

// binding is one address that the server accepts on, with its sockets. It is
// guarded by the server's mu.
type binding struct {
	place  place
	bound  conf.Address // differs from the place's if the port was 0
	name   string       // of the listener
	order  int          // in the configuration
	tcp    *tcp.Listener
	udp    *udp.Listener
	fds    map[*worker]int32 // a shared socket is one descriptor
	shared int32             // all workers' socket, as a unix one and one of a service manager are; -1 = none
	group  SteererGroup      // nil = the kernel chooses the worker

	congestion string // that sockets from before are to have; "" = as it is

	kept bool // a service manager has the socket too, and its path is not ours to remove
	lent bool // nor as yet if another process has, until commit
	ours bool // sockets of weir itself have the address, or a part of it

	// of another process, until open and steer have used them
	activated bool    // a service manager's rather: to be set up
	inherited []int32 // by worker; one if it is shared
	steered   int     // -1 = nothing
}

// place is what makes two bindings the same one.
type place struct {
	protocol conf.Protocol
	addr     conf.Address
}

func (p place) String() string { return p.protocol.String() + " " + p.addr.String() }

// open opens the sockets of the binding, one for each worker. What is open after
// an error closeUnserved closes.
func (b *binding) open(workers []*worker) (err error) {
	b.fds, b.shared = map[*worker]int32{}, -1
	if len(b.inherited) > 0 {
		return b.takeInherited(workers)
	}
	if b.ours {
		b.bound = b.place.addr
		return b.openFor(workers)
	}
	// With SO_REUSEPORT a second weir, started by mistake, would silently take
	// a share of the clients. A first socket without it finds out whether the
	// address is free. Beside our own sockets it would find those; a second weir has
	// been noticed by them.
	fd, bound, err := b.listen(b.place.addr, false)
	if err != nil {
		return err
	}
	b.bound = bound
	if bound.IsUnix() {
		b.shared = fd
		for _, w := range workers {
			b.fds[w] = fd
		}
		return nil
	}
	sys.Close(fd)
	return b.openFor(workers)
}

// takeInherited gives the workers the sockets of another process. What it has
// no socket for is opened; what is too much stays in inherited.
func (b *binding) takeInherited(workers []*worker) error {
	if b.activated {
		if err := b.adopt(b.inherited[0]); err != nil {
			return fmt.Errorf("listener %q: %w", b.name, err)
		}
	}
	if b.bound.IsUnix() || b.kept && b.tcp != nil {
		b.shared, b.inherited = b.inherited[0], b.inherited[1:]
		return b.openFor(workers)
	}
	n := min(len(workers), len(b.inherited))
	for i, w := range workers[:n] {
		b.fds[w] = b.inherited[i]
	}
	b.inherited = b.inherited[n:]
	return b.openFor(workers[n:])
}

func (b *binding) adopt(fd int32) error {
	if b.udp != nil {
		return b.udp.Adopt(fd, b.bound)
	}
	return b.tcp.Adopt(fd, b.bound)
}

// closeInherited closes what was not taken.
func (b *binding) closeInherited() {
	for _, fd := range b.inherited {
		sys.Close(fd)
	}
	b.inherited = nil
	if b.steered >= 0 {
		sys.Close(int32(b.steered))
		b.steered = -1
	}
}

// openFor opens sockets for further workers.
func (b *binding) openFor(workers []*worker) error {
	for _, w := range workers {
		if b.shared >= 0 {
			b.fds[w] = b.shared
			continue
		}
		fd, _, err := b.listen(b.bound, true)
		if err != nil {
			return err
		}
		b.fds[w] = fd
	}
	return nil
}

func (b *binding) listen(a conf.Address, reusePort bool) (int32, conf.Address, error) {
	var fd int32
	var err error
	if b.udp != nil {
		fd, a, err = b.udp.Listen(a, reusePort)
	} else {
		fd, a, err = b.tcp.Listen(a, reusePort)
	}
	if err != nil {
		err = fmt.Errorf("listener %q: %w", b.name, err)
	}
	return fd, a, err
}

// closeUnserved closes what was opened for workers that were never given it.
func (b *binding) closeUnserved(workers []*worker) {
	for _, w := range workers {
		if fd, ok := b.fds[w]; ok && b.shared < 0 {
			sys.Close(fd)
		}
		delete(b.fds, w)
	}
	if len(b.fds) == 0 {
		b.closeShared()
	}
}

// serve has the worker accept. It runs on the worker's thread, or before that
// runs.
func (b *binding) serve(w *worker) error {
	var errno unix.Errno
	if b.udp != nil {
		errno = w.udp.Serve(b.udp, b.bound, b.fds[w])
	} else {
		errno = w.tcp.Serve(b.tcp, b.fds[w], b.shared >= 0)
	}
	if errno != 0 {
		return fmt.Errorf("listener %q: watch %s: %w", b.name, b.bound, errno)
	}
	return nil
}

// unserve has the worker accept no more. What waits in its accept queue is
// taken first. elsewhere says that another binding covers the address. It runs on
// the worker's thread.
func (b *binding) unserve(w *worker, elsewhere bool) {
	if b.udp != nil {
		w.udp.Unserve(b.fds[w], elsewhere)
	} else {
		w.tcp.Unserve(b.fds[w])
	}
}

// swap has the worker's new sessions be this binding's listener's. It runs on
// the worker's thread.
func (b *binding) swap(w *worker) {
	if b.udp != nil {
		w.udp.Swap(b.fds[w], b.udp)
	} else {
		w.tcp.Swap(b.fds[w], b.tcp)
	}
}

// setCongestion sets what accepted connections inherit. Where the configuration names
// none it is not set to what it is: the socket would no longer follow the system's.
func (b *binding) setCongestion() error {
	if b.congestion == "" || b.bound.IsUnix() {
		return nil
	}
	for _, fd := range b.fds {
		if is, err := congestionOf(fd); err == nil && is == b.congestion && b.tcp.Congestion == "" {
			continue
		}
		if errno := sys.SetCongestion(fd, b.congestion); errno != 0 {
			return fmt.Errorf("listener %q: set congestion %q: %w", b.name, b.congestion, errno)
		}
	}
	return nil
}

// groupOf returns the upstream that sessions go to.
func (b *binding) groupOf() *upstream.Group {
	if b.udp != nil {
		return b.udp.Group
	}
	return b.tcp.Group
}

// release gives the address up to another process: workers have closed their
// sockets, and a unix socket's path is the other's.
func (b *binding) release() {
	if b.shared >= 0 {
		sys.Close(b.shared)
		b.shared = -1
	}
	b.unsteer(false)
}

// closeShared closes a shared socket. The path of a unix socket is removed
// first, so that nobody can connect to a socket that nobody accepts from. Preconditions: no worker
// serves it.
func (b *binding) closeShared() {
	if b.shared < 0 {
		return
	}
	if b.bound.IsUnix() && !b.kept && !b.lent {
		_ = os.Remove(b.bound.Path) // gone already is fine
	}
	sys.Close(b.shared)
	b.shared = -1
}

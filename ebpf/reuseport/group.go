package reuseport

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Group steers what comes to one address to the sockets that the workers have
// there.
type Group struct {
	// immutable
	policy Policy
	maps   maps
	prog   *ebpf.Program
	mem    []byte

	mu     sync.Mutex
	state  *state   // the program reads it; written with mu held
	owned  []uint64 // cookies in the owners map, the oldest first; guarded by mu
	closed bool     // guarded by mu
}

// noSocket is the cookie of an empty slot.
const noSocket = 0

// NewGroup returns a group with room for that many sockets. To replace all of
// them with Set, there must be room for the old and the new ones.
func (s *Steering) NewGroup(p Protocol, maxSockets int) (*Group, error) {
	if maxSockets < 1 || maxSockets > 1<<16 {
		return nil, fmt.Errorf("steer %d sockets: want 1 to 65536", maxSockets)
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		Name:       "weir_sockets",
		Type:       ebpf.ReusePortSockArray,
		KeySize:    4,
		ValueSize:  8, // with 4, user space could not look cookies up
		MaxEntries: uint32(maxSockets),
	})
	if err != nil {
		return nil, fmt.Errorf("create map of sockets: %w", err)
	}
	return s.newGroup(p, m, nil)
}

// Inherit returns a group for sockets that another process steers as yet. fd is
// the FD of that process's group; Inherit takes possession of it, also if it
// fails. The other process steers until Attach.
func (s *Steering) Inherit(p Protocol, fd int) (*Group, error) {
	m, err := ebpf.NewMapFromFD(fd)
	if err != nil {
		return nil, fmt.Errorf("inherit map of sockets: %w", err)
	}
	if m.Type() != ebpf.ReusePortSockArray || m.ValueSize() != 8 {
		m.Close()
		return nil, fmt.Errorf("inherit map of sockets: it is %v", m)
	}
	return s.newGroup(p, m, nil)
}

// newGroup makes everything but the map of sockets, which it closes on error.
func (s *Steering) newGroup(p Protocol, sockets, observed *ebpf.Map) (_ *Group, err error) {
	g := &Group{policy: s.policy, maps: maps{sockets: sockets, sessions: s.m, observed: observed}}
	if p == UDP {
		g.policy = Hash // a flow's datagrams must all reach the worker that has its session
	}
	defer func() {
		if err != nil {
			g.Close()
		}
	}()
	if g.maps.state, g.mem, err = newShared("weir_state", stateBytes); err != nil {
		return nil, fmt.Errorf("create map of workers: %w", err)
	}
	g.state = asState(g.mem)
	g.maps.counters, err = ebpf.NewMap(&ebpf.MapSpec{
		Name:       "weir_exits",
		Type:       ebpf.PerCPUArray,
		KeySize:    4,
		ValueSize:  uint32(8 * exits),
		MaxEntries: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("create map of counters: %w", err)
	}
	if g.policy == LeastSessions {
		g.maps.owners, err = ebpf.NewMap(&ebpf.MapSpec{
			Name:       "weir_owners",
			Type:       ebpf.Hash,
			KeySize:    8,
			ValueSize:  4,
			MaxEntries: 8 * sockets.MaxEntries(),
		})
		if err != nil {
			return nil, fmt.Errorf("create map of owners: %w", err)
		}
	}
	if g.prog, err = load(g.policy, &g.maps); err != nil {
		return nil, fmt.Errorf("load program: %w", err)
	}
	return g, nil
}

// Policy returns the policy that this group goes by: Hash for UDP, else the
// process's.
func (g *Group) Policy() Policy { return g.policy }

// Set steers from now on to these sockets, the first to worker 0 and so on.
// They listen (TCP) or are bound (UDP) with SO_REUSEPORT on the group's
// address. Sockets of the last call may be among them, for any worker. When Set
// returns, nothing comes to the others any more and they can be closed; what
// they have not accepted then migrates. On error nothing has changed.
func (g *Group) Set(sockets []int) (err error) {
	if len(sockets) == 0 || len(sockets) > MaxWorkers {
		return fmt.Errorf("steer to %d workers: want 1 to %d", len(sockets), MaxWorkers)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	slots, err := g.slotsLocked()
	if err != nil {
		return err
	}
	next := &g.state.halves[g.state.next()]
	var cookies, added []uint64
	defer func() {
		if err != nil {
			g.removeLocked(slots, func(c uint64) bool { return slices.Contains(added, c) })
		}
	}()
	for w, fd := range sockets {
		cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
		if err != nil {
			return fmt.Errorf("read cookie of worker %d's socket: %w", w, err)
		}
		if slices.Contains(cookies, cookie) {
			return fmt.Errorf("steer to worker %d: another worker has the same socket", w)
		}
		slot := slices.Index(slots, cookie)
		if slot < 0 {
			if slot = slices.Index(slots, noSocket); slot < 0 {
				return fmt.Errorf("steer to worker %d: all %d slots are taken", w, len(slots))
			}
			if err := g.maps.sockets.Put(uint32(slot), uint64(fd)); err != nil {
				return fmt.Errorf("steer to worker %d: %w", w, err)
			}
			slots[slot] = cookie
			added = append(added, cookie)
		}
		cookies = append(cookies, cookie)
		next.slot[w] = uint16(slot)
	}
	if g.policy == CPU {
		byCPU(&next.worker, len(sockets))
	} else {
		byHash(&next.worker, len(sockets))
	}
	if err := g.ownLocked(cookies); err != nil {
		return err
	}

	g.state.set(len(sockets)) // the switch

	gone := func(c uint64) bool { return c != noSocket && !slices.Contains(cookies, c) }
	if slices.ContainsFunc(slots, gone) {
		waitForPrograms() // some may still be on their way to these
		g.removeLocked(slots, gone)
	}
	return nil
}

// slotsLocked returns the cookie of each slot's socket. The kernel empties a
// slot when its socket is closed.
func (g *Group) slotsLocked() ([]uint64, error) {
	slots := make([]uint64, g.maps.sockets.MaxEntries())
	for i := range slots {
		err := g.maps.sockets.Lookup(uint32(i), &slots[i])
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil, fmt.Errorf("read slot %d: %w", i, err)
		}
	}
	return slots, nil
}

// removeLocked empties the slots whose socket f returns true for. A socket can
// be in one slot only, so one that is replaced but kept open must not stay.
func (g *Group) removeLocked(slots []uint64, f func(cookie uint64) bool) {
	for i, c := range slots {
		if c != noSocket && f(c) {
			_ = g.maps.sockets.Delete(uint32(i)) // closed meanwhile is fine
		}
	}
}

// ownLocked notes whose sockets these are, for when they will have been closed
// and their connections migrate. It forgets the oldest ones.
func (g *Group) ownLocked(cookies []uint64) error {
	if g.maps.owners == nil {
		return nil
	}
	for w, cookie := range cookies {
		if i := slices.Index(g.owned, cookie); i >= 0 {
			g.owned = slices.Delete(g.owned, i, i+1)
		}
		if len(g.owned) == int(g.maps.owners.MaxEntries()) {
			_ = g.maps.owners.Delete(g.owned[0]) // if not there, all the better
			g.owned = slices.Delete(g.owned, 0, 1)
		}
		if err := g.maps.owners.Put(cookie, uint32(w)); err != nil {
			return fmt.Errorf("note owner of worker %d's socket: %w", w, err)
		}
		g.owned = append(g.owned, cookie)
	}
	return nil
}

// Attach makes the group's program that of all sockets, now and later, on the
// address of this one. It replaces another program without a gap. When the
// last socket on the address is closed the program is gone.
func (g *Group) Attach(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_EBPF, g.prog.FD()); err != nil {
		return fmt.Errorf("attach program: %w", err)
	}
	return nil
}

// Detach leaves the choice to the kernel on the address of that socket.
func (g *Group) Detach(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_REUSEPORT_BPF, 0); err != nil {
		return fmt.Errorf("detach program: %w", err)
	}
	// Else they could be in no other group until the kernel has freed this one.
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	slots, err := g.slotsLocked()
	g.removeLocked(slots, func(uint64) bool { return true })
	return err
}

// FD returns the descriptor that another process needs, besides the sockets,
// for Inherit. It stays the group's.
func (g *Group) FD() int { return g.maps.sockets.FD() }

// Counters say how the program's runs have ended. There is one run for each
// datagram, and for each TCP packet that belongs to no connection yet.
type Counters struct {
	Selected uint64 // to the worker of the policy's choice
	NotSYN   uint64 // least_sessions: not counted; answers to SYN cookies, strays
	Migrated uint64 // lost their listener before accept, and went to its worker's new one
	Moved    uint64 // the same, but to another worker: least_sessions, and the first is gone

	// The kernel chose.
	NoSockets uint64 // Set was not called yet
	Closed    uint64 // the worker's socket had been closed and no other one set
	Refused   uint64 // the worker's socket is not of this address; a mistake of the caller
}

// Counters returns the counters, which only grow.
func (g *Group) Counters() (Counters, error) {
	var perCPU [][exits]uint64
	if err := g.maps.counters.Lookup(uint32(0), &perCPU); err != nil {
		return Counters{}, fmt.Errorf("read counters: %w", err)
	}
	var n [exits]uint64
	for _, cpu := range perCPU {
		for e, v := range cpu {
			n[e] += v
		}
	}
	return Counters{
		Selected:  n[exitSelected],
		NotSYN:    n[exitNotSYN],
		Migrated:  n[exitMigrated],
		Moved:     n[exitMoved],
		NoSockets: n[exitNoSockets],
		Closed:    n[exitClosed],
		Refused:   n[exitRefused],
	}, nil
}

// Close closes the group's descriptors, and is safe to call twice. Sockets that
// the program is attached to keep it, and it steers by the last generation.
func (g *Group) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	var errs []error
	if g.mem != nil {
		errs = append(errs, unix.Munmap(g.mem))
		g.mem, g.state = nil, nil
	}
	for _, m := range []*ebpf.Map{g.maps.sockets, g.maps.state, g.maps.counters, g.maps.owners} {
		errs = append(errs, m.Close())
	}
	return errors.Join(append(errs, g.prog.Close())...)
}

// waitForPrograms returns when no program runs that began before. Until then
// packets may be on their way to a socket of the last generation, and the half
// in use by it must not be written.
func waitForPrograms() {
	// MEMBARRIER_CMD_GLOBAL is synchronize_rcu, and a packet is in one RCU
	// section from its lookup to the socket's queue. Where it is refused
	// (nohz_full, seccomp) a SYN in that moment may have to be sent again.
	const membarrierGlobal = 1
	_, _, _ = unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0)
}

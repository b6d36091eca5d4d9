package stream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/handover"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/tcp"
	"github.com/weirlb/weir/stream/udp"
	"github.com/weirlb/weir/stream/upstream"
)

// This file has one process take over another's work; package handover tells
// what is said.

const (
	// batchSessions is how many sessions stand still at a time.
	batchSessions = 64
	// readyPatience bounds the start of the new process, answerPatience every
	// other answer.
	readyPatience  = time.Minute
	answerPatience = 20 * time.Second
	// serialGap is how many sessions may begin while the new process sets up.
	serialGap = 1 << 14 * serialBlock
	// lookAgain is how soon sessions that could not be moved are looked at again.
	lookAgain = 20 * time.Millisecond
)

// HandOver hands everything to the process at the other end: listening sockets,
// the state of peers, and the sessions, if they are asked for. Sessions that are
// not yet connected follow when they are, until ctx is done. When it returns
// without an error the server accepts nothing any more, and Stop ends what is
// left. On error everything goes on here. It returns how many sessions were
// moved. What an operator says of peers meanwhile is refused: it would be lost.
func (s *Server) HandOver(ctx context.Context, c *handover.Conn, sessions bool) (moved int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return 0, errors.New("hand over: the server is stopping")
	}
	s.setBequeathed(true)
	defer func() {
		if err != nil {
			s.setBequeathed(false)
		}
	}()
	c.SetDeadline(time.Now().Add(readyPatience))
	if err := s.bequeath(c); err != nil {
		return 0, err
	}
	answer, _, err := c.Expect(handover.Ready)
	if err != nil {
		return 0, err
	}
	if sessions && answer.Sessions != handover.Sessions {
		s.logger.Warn("sessions stay here until they end: the new process speaks another version of the handover", "version", handover.Sessions, "other", answer.Sessions)
		sessions = false
	}
	all := append(slices.Clone(s.workers), s.leaving...)
	s.each(all, func(w *worker) { w.tcp.Pause() })
	if moved, err = s.move(ctx, c, all, sessions); err != nil {
		for _, b := range s.bindings {
			if b.group != nil { // the other process may have steered to its workers
				s.complain(b.steer(s.steerer, s.workers))
			}
		}
		s.each(all, func(w *worker) { w.tcp.Resume(); w.udp.Resume() })
		return moved, err
	}
	s.reading.Lock()
	s.draining = true // from now on nobody reads what the sockets have
	s.reading.Unlock()
	s.each(all, func(w *worker) { w.tcp.Release(); w.udp.Release() })
	for _, b := range s.bindings {
		b.release()
	}
	return moved, nil
}

func (s *Server) setBequeathed(yes bool) {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.bequeathed = yes
}

// bequeath tells everything that the other process needs to set up.
func (s *Server) bequeath(c *handover.Conn) error {
	hello := handover.Message{Kind: handover.Hello, Version: handover.Version, Serial: s.serials.next.Load() + serialGap}
	if err := c.Send(&hello); err != nil {
		return err
	}
	for _, b := range s.bindings {
		st := handover.SocketState{Protocol: b.place.protocol, Addr: b.place.addr, Bound: b.bound, Worker: -1, Kept: b.kept}
		if b.shared >= 0 {
			if err := c.Send(&handover.Message{Kind: handover.Socket, Socket: &st}, int(b.shared)); err != nil {
				return err
			}
			continue
		}
		for i, w := range s.workers {
			st.Worker = i
			if err := c.Send(&handover.Message{Kind: handover.Socket, Socket: &st}, int(b.fds[w])); err != nil {
				return err
			}
		}
		if b.group != nil {
			if err := c.Send(&handover.Message{Kind: handover.Steered, Socket: &st}, b.group.FD()); err != nil {
				return err
			}
		}
	}
	now := clock.Now()
	for _, g := range s.groups {
		for _, p := range g.Export(now) {
			if err := c.Send(&handover.Message{Kind: handover.Peer, Peer: &p}); err != nil {
				return err
			}
		}
	}
	return c.Send(&handover.Message{Kind: handover.Inherit})
}

// move moves the sessions of paused workers.
func (s *Server) move(ctx context.Context, c *handover.Conn, all []*worker, sessions bool) (moved int, err error) {
	c.SetDeadline(time.Now().Add(answerPatience))
	if err := c.Send(&handover.Message{Kind: handover.Go}); err != nil {
		return 0, err
	}
	// It needs a moment before it can adopt: steering takes tens of milliseconds.
	// Its answer to an empty batch tells; until then sessions go on here.
	if _, err := s.send(c, 0, nil); err != nil {
		return 0, err
	}
	s.each(all, func(w *worker) { w.udp.Pause() })
	if sessions {
		if moved, err = s.moveDatagrams(c, all); err != nil {
			return moved, err
		}
	}
	if err := c.Send(&handover.Message{Kind: handover.Datagrams}); err != nil {
		return moved, err
	}
	for sessions {
		n, err := s.moveStreams(c, all)
		moved += n
		if err != nil {
			return moved, err
		}
		if n > 0 {
			continue
		}
		left := 0
		s.each(all, func(w *worker) { w.counted.Store(int64(w.tcp.Expected())) })
		for _, w := range all {
			left += int(w.counted.Load())
		}
		if left == 0 || !pause(ctx, lookAgain) {
			break
		}
	}
	c.SetDeadline(time.Now().Add(answerPatience))
	if err := c.Send(&handover.Message{Kind: handover.Done}); err != nil {
		return moved, err
	}
	_, _, err = c.Expect(handover.Bye)
	return moved, err
}

// pause waits, and returns false if ctx is done before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// moveStreams moves one batch of TCP sessions of each worker.
func (s *Server) moveStreams(c *handover.Conn, all []*worker) (moved int, err error) {
	for _, w := range all {
		var parcels []*tcp.Parcel
		s.each([]*worker{w}, func(w *worker) { parcels = w.tcp.Pack(batchSessions) })
		if len(parcels) == 0 {
			continue
		}
		refused, err := s.send(c, len(parcels), func(i int) error {
			return c.Send(&handover.Message{Kind: handover.TCP, TCP: &parcels[i].State}, parcels[i].FDs...)
		})
		s.each([]*worker{w}, func(w *worker) {
			for _, p := range parcels {
				switch {
				case err != nil:
					w.tcp.Keep(p)
				case slices.Contains(refused, p.State.Serial):
					w.tcp.Refused(p)
				default:
					w.tcp.Sent(p)
					moved++
				}
			}
		})
		if err != nil {
			return moved, err
		}
	}
	return moved, nil
}

// moveDatagrams moves all UDP sessions.
func (s *Server) moveDatagrams(c *handover.Conn, all []*worker) (moved int, err error) {
	for _, w := range all {
		for {
			var parcels []*udp.Parcel
			s.each([]*worker{w}, func(w *worker) { parcels = w.udp.Pack(batchSessions) })
			if len(parcels) == 0 {
				break
			}
			refused, err := s.send(c, len(parcels), func(i int) error {
				return c.Send(&handover.Message{Kind: handover.UDP, UDP: &parcels[i].State}, parcels[i].FDs...)
			})
			s.each([]*worker{w}, func(w *worker) {
				for _, p := range parcels {
					if err != nil {
						w.udp.Keep(p)
						continue
					}
					// One that the other process can't go on with ends here: its
					// client's next datagram begins a new one there.
					w.udp.Sent(p)
					if !slices.Contains(refused, p.State.Serial) {
						moved++
					}
				}
			})
			if err != nil {
				return moved, err
			}
		}
	}
	return moved, nil
}

// send sends a batch and waits for the answer.
func (s *Server) send(c *handover.Conn, n int, one func(i int) error) (refused []uint64, err error) {
	c.SetDeadline(time.Now().Add(answerPatience))
	for i := range n {
		if err := one(i); err != nil {
			return nil, err
		}
	}
	if err := c.Send(&handover.Message{Kind: handover.Batch, Count: n}); err != nil {
		return nil, err
	}
	m, _, err := c.Expect(handover.Adopted)
	if err != nil {
		return nil, err
	}
	return m.Refused, nil
}

// estate is what another process has left to this one, or the sockets that a
// service manager has opened for it.
type estate struct {
	conn    *handover.Conn // nil = of a service manager
	serial  uint64
	sockets map[place]*legacy
	peers   []*handover.PeerState
}

// legacy is the sockets of one address.
type legacy struct {
	bound   conf.Address
	fds     []int32 // by worker
	steered int     // -1 = nothing
	kept    bool
}

// inherit receives what the other process tells to set up with.
func inherit(c *handover.Conn) (_ *estate, err error) {
	c.SetDeadline(time.Now().Add(readyPatience))
	e := &estate{conn: c, sockets: map[place]*legacy{}}
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	m, _, err := c.Expect(handover.Hello)
	if err != nil {
		return nil, err
	}
	if m.Version != handover.Version {
		return nil, fmt.Errorf("%w: %d, this one %d", handover.ErrVersion, m.Version, handover.Version)
	}
	e.serial = m.Serial
	for {
		m, fds, err := c.Receive()
		if err != nil {
			return nil, err
		}
		switch {
		case m.Kind == handover.Inherit:
			return e, nil
		case m.Kind == handover.Peer && m.Peer != nil:
			e.peers = append(e.peers, m.Peer)
		case m.Kind == handover.Socket && m.Socket != nil && len(fds) == 1:
			l := e.legacy(m.Socket)
			l.fds = append(l.fds, int32(fds[0]))
		case m.Kind == handover.Steered && m.Socket != nil && len(fds) == 1:
			e.legacy(m.Socket).steered = fds[0]
		default:
			handover.CloseAll(fds) // a later version's
		}
	}
}

func (e *estate) legacy(st *handover.SocketState) *legacy {
	p := place{st.Protocol, st.Addr}
	l := e.sockets[p]
	if l == nil {
		l = &legacy{bound: st.Bound, steered: -1, kept: st.Kept}
		e.sockets[p] = l
	}
	return l
}

// take hands out the sockets of an address, once.
func (e *estate) take(p place) *legacy {
	if e == nil {
		return nil
	}
	l := e.sockets[p]
	delete(e.sockets, p)
	return l
}

// unlink removes the paths of unix sockets that nobody has taken, and of which
// the other process has let go.
func (e *estate) unlink() {
	for _, l := range e.sockets {
		if l.bound.IsUnix() && !l.kept {
			_ = os.Remove(l.bound.Path) // gone already is fine
		}
	}
}

// close closes what nobody has taken.
func (e *estate) close() {
	for _, l := range e.sockets {
		for _, fd := range l.fds {
			_ = unix.Close(int(fd))
		}
		if l.steered >= 0 {
			_ = unix.Close(l.steered)
		}
	}
	clear(e.sockets)
}

// takeOver finishes the start of a process that has an estate: everything is
// prepared, and nothing accepts yet. Preconditions: mu is held.
func (s *Server) takeOver(t *transition) error {
	e := s.estate
	now := clock.Now()
	for _, p := range e.peers {
		if g := t.group(p.Upstream); g != nil {
			g.Import(p, now)
		}
	}
	if err := e.conn.Send(&handover.Message{Kind: handover.Ready, Sessions: handover.Sessions}); err != nil {
		return err
	}
	e.conn.SetDeadline(time.Now().Add(readyPatience))
	if _, _, err := e.conn.Expect(handover.Go); err != nil {
		return err
	}
	for _, w := range t.started {
		w.udp.Pause()
	}
	s.commit(t)
	s.serveSurplus()
	err := s.adoptAll()
	// On error the other process may be gone: who else should serve?
	if s.takenOver != nil {
		s.takenOver()
	}
	if err == nil {
		err = e.conn.Send(&handover.Message{Kind: handover.Bye})
	}
	if err != nil {
		s.logger.Error("the handover has broken off", "error", err)
		s.each(s.workers, func(w *worker) { w.udp.Resume() })
	} else {
		e.unlink()
	}
	s.dismissAdopted()
	s.drainSurplus(err == nil)
	s.estate = nil
	return nil
}

// dismissAdopted ends sessions that have come with peers that are not in the
// configuration or that nobody shall use, as a reload would.
func (s *Server) dismissAdopted() {
	now := clock.Now()
	for _, g := range s.groups {
		s.disown(g)
		for _, p := range g.Snapshot(nil, now) {
			if admin := p.Axes[upstream.AxisAdmin].Value; admin != balance.Up.String() {
				t := upstream.Transition{At: now, Axis: upstream.AxisAdmin, To: admin}
				s.events.put(upstream.Event{Group: g, Peer: p.Peer, Transition: t, Turn: p.Turns[upstream.AxisAdmin]})
			}
		}
	}
}

// serveSurplus accepts from the sockets of workers that this process does not
// have: the kernel gives them clients for as long as the other process has them
// open. UDP sockets get nothing more at once.
func (s *Server) serveSurplus() {
	for _, b := range s.bindings {
		for i, fd := range b.inherited {
			n := i % len(s.workers)
			s.each(s.workers[n:n+1], func(w *worker) {
				if b.udp != nil {
					s.complain(errnoOf(w.udp.Serve(b.udp, b.bound, fd)))
					w.udp.Unserve(fd, true)
				} else {
					s.complain(errnoOf(w.tcp.Serve(b.tcp, fd, false)))
				}
			})
		}
	}
}

// drainSurplus takes what waits in these sockets, and closes them, for the other
// process too if they are ours. Where nothing steers here, the kernel chooses.
func (s *Server) drainSurplus(ours bool) {
	for _, b := range s.bindings {
		if b.steered >= 0 {
			b.disinherit(ours)
		}
		for i, fd := range b.inherited {
			if b.udp != nil {
				continue
			}
			n := i % len(s.workers)
			s.each(s.workers[n:n+1], func(w *worker) {
				same, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
				w.tcp.Unserve(fd)
				if err != nil {
					return
				}
				if ours {
					// Else it gets clients until the other process has closed it.
					_ = unix.Shutdown(same, unix.SHUT_RD)
				}
				_ = unix.Close(same)
			})
		}
		b.inherited = nil
	}
}

func errnoOf(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// adoption is a session that has come and waits for its batch to be complete.
type adoption struct {
	m   *handover.Message
	fds []int
}

// adoptAll takes over the sessions, until there are no more.
func (s *Server) adoptAll() error {
	c := s.estate.conn
	var batch []adoption
	defer func() {
		for _, a := range batch {
			handover.CloseAll(a.fds)
		}
	}()
	for {
		c.SetDeadline(time.Time{}) // the other process may wait for connects; its end is noticed
		m, fds, err := c.Receive()
		if err != nil {
			return err
		}
		switch m.Kind {
		case handover.TCP, handover.UDP:
			batch = append(batch, adoption{m, fds})
		case handover.Batch:
			refused := s.adopt(batch)
			batch = nil
			if err := c.Send(&handover.Message{Kind: handover.Adopted, Refused: refused}); err != nil {
				return err
			}
		case handover.Datagrams:
			s.each(s.workers, func(w *worker) { w.udp.Resume() })
		case handover.Done:
			return nil
		default:
			handover.CloseAll(fds)
			return fmt.Errorf("adopt sessions: unexpected message %s", m.Kind)
		}
	}
}

// adopt has workers go on with a batch of sessions, and returns the numbers of
// those that can't be gone on with.
func (s *Server) adopt(batch []adoption) (refused []uint64) {
	var mu sync.Mutex
	var done sync.WaitGroup
	refuse := func(serial uint64) {
		mu.Lock()
		defer mu.Unlock()
		refused = append(refused, serial)
	}
	for _, a := range batch {
		st := a.session()
		w := s.workers[st.Worker%len(s.workers)]
		l, g := s.listenerOf(st, a.m.UDP != nil)
		if g == nil {
			handover.CloseAll(a.fds)
			refuse(st.Serial)
			continue
		}
		p := g.Find(st.Peer, len(s.counters))
		done.Add(1)
		w.loop.Mailbox.Post(func() {
			defer done.Done()
			ok := false
			if a.m.TCP != nil && l.tcp != nil {
				ok = w.tcp.Adopt(l.tcp, p, a.m.TCP, a.fds)
			} else if a.m.UDP != nil && l.udp != nil {
				ok = w.udp.Adopt(l.udp, p, a.m.UDP, a.fds)
			} else {
				handover.CloseAll(a.fds)
			}
			if !ok {
				refuse(st.Serial)
			}
		})
	}
	done.Wait()
	return refused
}

func (a *adoption) session() *handover.Session {
	if a.m.UDP != nil {
		return &a.m.UDP.Session
	}
	if a.m.TCP != nil {
		return &a.m.TCP.Session
	}
	return &handover.Session{}
}

// listenerOf returns a binding whose listener goes on with a session, and the
// upstream that its peer is counted in. A session of a listener that is no
// longer configured is another one's of the same upstream, for its timeouts.
func (s *Server) listenerOf(st *handover.Session, datagrams bool) (*binding, *upstream.Group) {
	g := s.group(st.Peer.Upstream)
	if g == nil {
		return nil, nil
	}
	var other *binding
	for _, b := range s.bindings {
		switch {
		case b.groupOf() != g || (b.udp != nil) != datagrams:
		case b.name == st.Listener:
			return b, g
		default:
			other = b
		}
	}
	if other == nil {
		return nil, nil
	}
	return other, g
}

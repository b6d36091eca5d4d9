package udp

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/internal/sys"
	"github.com/weirlb/weir/stream/loop"
	"github.com/weirlb/weir/stream/upstream"
)

// peerBuffer is asked for, as far as net.core.rmem_max allows.
const peerBuffer = 1 << 20

// crowdedRest is what the quarantine is divided by when too many sockets rest.
const crowdedRest = 4

// conn is a socket that is connected to a peer.
type conn struct {
	fd         int32
	slot       int32
	generation uint32
	pool       *peerPool
	session    *session // nil = pooled
	since      clock.Time
	putOff     bool // the loop will call again in the next turn
}

// peerPool is the idle sockets of one listener to one peer, in the order in
// which they became idle.
type peerPool struct {
	listener *Listener
	book     *book
	peer     *upstream.Peer
	idle     []*conn // a ring of which n from head on are in use
	head, n  int
	least    int // fewest since the last trim
}

func (p *peerPool) push(c *conn) {
	if p.n == len(p.idle) {
		grown := make([]*conn, max(16, 2*len(p.idle)))
		for i := range p.n {
			grown[i] = p.idle[(p.head+i)%len(p.idle)]
		}
		p.idle, p.head = grown, 0
	}
	p.idle[(p.head+p.n)%len(p.idle)] = c
	p.n++
}

// oldest returns the socket that has been idle for longest, or nil.
func (p *peerPool) oldest() *conn {
	if p.n == 0 {
		return nil
	}
	return p.idle[p.head]
}

func (p *peerPool) pop() *conn {
	c := p.idle[p.head]
	p.idle[p.head] = nil
	p.head = (p.head + 1) % len(p.idle)
	p.n--
	p.least = min(p.least, p.n)
	return c
}

type poolKey struct {
	listener *Listener
	peer     *upstream.Peer
}

func (w *Worker) poolOf(l *Listener, p *upstream.Peer) *peerPool {
	key := poolKey{l, p}
	pool := w.pools[key]
	if pool == nil {
		pool = &peerPool{listener: l, book: w.bookOf(l), peer: p}
		w.pools[key] = pool
	}
	return pool
}

// connTo returns a socket that is connected to the peer: one whose quarantine
// is over, or a new one. local says that an error is not the peer's.
func (w *Worker) connTo(l *Listener, p *upstream.Peer) (c *conn, errno unix.Errno, local bool) {
	pool := w.poolOf(l, p)
	now, rest := w.loop.Now(), l.Quarantine
	if w.crowded(pool.book) {
		rest /= crowdedRest
	}
	for c := pool.oldest(); c != nil && now.Sub(c.since) >= rest; c = pool.oldest() {
		w.wake(pool.pop())
		if w.empty(c) {
			w.stats.UpstreamSocketsReused.Add(1)
			return c, 0, false
		}
		w.closeConn(c)
	}
	c, errno, local = w.newConn(pool)
	if shortage(errno) && w.pooled > 0 {
		w.dropIdle()
		c, errno, local = w.newConn(pool)
	}
	return c, errno, local || shortage(errno)
}

// crowded reports whether nearly as many sockets rest as may. Any more would be
// closed, and a new one gets whatever port is free, one that was given up a moment
// ago included. What has rested for a part of the quarantine is no worse than that.
func (w *Worker) crowded(b *book) bool {
	most := b.listener.MaxSessions
	return w.pooled >= w.opt.Pooled-w.opt.Pooled/8 || most > 0 && b.resting >= most-most/8
}

// shortage reports whether this machine has run out of ports or descriptors.
// Connected sockets take a port of the one range, whatever their peer: the
// kernel chooses it before it knows the peer.
func shortage(errno unix.Errno) bool {
	switch errno {
	case unix.EAGAIN, unix.EADDRNOTAVAIL, unix.EADDRINUSE, unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
		return true
	}
	return false
}

// dropIdle closes some idle sockets, whose ports and descriptors sessions need
// now.
func (w *Worker) dropIdle() {
	half := func(p *peerPool) {
		for range (p.n + 1) / 2 {
			w.closeConn(w.wake(p.pop()))
		}
	}
	half(&w.owed)
	for _, p := range w.pools {
		half(p)
	}
}

// empty takes what has come to an idle socket since the loop last heard of it,
// and reports whether the socket may be used again.
func (w *Worker) empty(c *conn) bool {
	for n := range answersPerCall {
		// With no room for it a datagram is taken all the same, and lost.
		if _, errno := sys.Recv(c.fd, nil); errno != 0 {
			return n == 0 && errno == unix.EAGAIN
		}
		w.stats.LateDatagrams.Add(1)
	}
	return false
}

func (w *Worker) newConn(pool *peerPool) (c *conn, errno unix.Errno, local bool) {
	if pool.peer.IsUnix() {
		return nil, unix.EAFNOSUPPORT, true // refused at start
	}
	w.addr.SetInet(pool.peer.Addr)
	fd, errno := sys.DatagramSocket(w.addr.Family())
	if errno != 0 {
		return nil, errno, true
	}
	if !pool.listener.counts() {
		// A peer that is not asked for each datagram may send many at once.
		sys.SetOption(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, peerBuffer)
	}
	if errno := sys.Connect(fd, &w.addr); errno != 0 {
		sys.Close(fd)
		return nil, errno, false
	}
	if w.coalesce && !pool.listener.counts() {
		sys.WantCoalesced(fd)
	}
	slot, generation, c := w.conns.Alloc()
	*c = conn{fd: fd, slot: slot, generation: generation, pool: pool}
	if errno := w.loop.Add(fd, unix.EPOLLIN|unix.EPOLLET, c.token()); errno != 0 {
		w.closeConn(c)
		return nil, errno, true
	}
	return c, 0, false
}

func (c *conn) token() loop.Token { return loop.MakeToken(loop.KindFlow, c.generation, c.slot, 0) }

// giveBack ends a session's use of its socket. One that is owed answers is
// never used again, but it keeps its port to itself until the quarantine is
// over: the kernel might give it to the next session with that very peer.
func (w *Worker) giveBack(c *conn, owed bool) {
	c.session = nil
	c.since = w.loop.Now()
	b, most := c.pool.book, c.pool.listener.MaxSessions
	if b.stale || w.pooled >= w.opt.Pooled || most > 0 && b.resting >= most || owed && c.pool.listener.Quarantine == 0 {
		w.closeConn(c)
		return
	}
	w.pooled++
	b.resting++
	if owed {
		w.owed.push(c)
		return
	}
	c.pool.push(c)
}

// wake counts a socket that no longer rests.
func (w *Worker) wake(c *conn) *conn {
	w.pooled--
	c.pool.book.resting--
	return c
}

func (w *Worker) closeConn(c *conn) {
	sys.Close(c.fd)
	c.fd = -1
	w.conns.Free(c.slot)
}

// trimPools closes the sockets that were not needed since the last time, and
// forgets pools and books that no session can come to any more.
func (w *Worker) trimPools() {
	w.trimBooks()
	for key, p := range w.pools {
		if p.book.stale || p.peer.IsRemoved() {
			for p.n > 0 {
				w.closeConn(w.wake(p.pop()))
			}
			delete(w.pools, key)
			continue
		}
		for range p.least {
			if w.loop.Now().Sub(p.oldest().since) < p.listener.Quarantine {
				break
			}
			w.closeConn(w.wake(p.pop()))
		}
		p.least = p.n
	}
}

// trimBooks forgets the books that no session can come to any more.
func (w *Worker) trimBooks() {
	w.books = slices.DeleteFunc(w.books, func(b *book) bool { return b.stale && b.n == 0 })
	for _, b := range w.books {
		b.former = slices.DeleteFunc(b.former, func(f *book) bool { return f.n == 0 })
	}
}

// releaseOwed closes the sockets that were owed answers and have rested. They
// lie in the order in which they came: where quarantines differ, a short one may
// become longer.
func (w *Worker) releaseOwed() {
	for c := w.owed.oldest(); c != nil && w.loop.Now().Sub(c.since) >= c.pool.listener.Quarantine; c = w.owed.oldest() {
		w.closeConn(w.wake(w.owed.pop()))
	}
}

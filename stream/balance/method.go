package balance

import (
	"fmt"
	"maps"
	"slices"
)

// Method picks peers of one tier of a group, whose peers it was made with.
type Method interface {
	// Pick returns the index of an eligible peer that the session has not
	// tried, or -1. It changes the method's own account of the peers and
	// nothing else: the caller marks the peer as tried, counts the connection
	// and moves Checked. That account may be behind until Settle.
	Pick(s *Selection, now Millis) int
}

// Tracker is a Method that follows the sessions it has placed. The calls come
// in this order: Picked, or Held for a session that another process has placed and
// of which that much has been measured until now; for an attempt that connects Connected and, once
// something or the end of input came from the peer, FirstByte; Released.
type Tracker interface {
	Method
	Picked(p *Peer, now Millis)
	Held(p *Peer, took Times, now Millis)
	Connected(p *Peer, took, now Millis)
	FirstByte(p *Peer, took, now Millis)
	Released(p *Peer, u Use, now Millis)
}

// Use is how a session's use of a peer went.
type Use struct {
	Took   Times // from the pick on; None = did not come to that
	Failed bool  // the peer is to blame for not being connected
}

// Moment is a point in a session's use of a peer up to which a time is taken.
type Moment uint8

// The moments, in nginx's words.
const (
	Connect Moment = iota
	FirstByte
	LastByte
	moments
)

// Times holds a span for each Moment.
type Times [moments]Millis

// None is the span of what did not happen.
const None Millis = -1

// Options are what a method can be told. Each method looks at its own.
type Options struct {
	Method     string
	Consistent bool    // hash: nginx's ring, not its plain arithmetic
	TableSize  int     // maglev: a prime; 0 = fitted to the number of peers
	Time       Moment  // least_time, and random by least_time: what is measured
	Inflight   bool    // least_time, and random by least_time: running sessions count
	Choices    int     // random: 1 or 2
	ByTime     bool    // random: the better of two by least_time, not by least_conn
	Epsilon    float64 // epsilon_greedy: share of sessions that explore, 0..1
	HalfLife   Millis  // epsilon_greedy: after this long a sample counts half
	Failback   bool    // single: go back to an earlier peer as soon as it is eligible
	Seed       uint64  // of the methods that draw lots
}

// Key says what the caller has to put into Selection.Key.
type Key uint8

// What a method hashes.
const (
	NoKey      Key = iota // nothing
	OwnKey                // what its key option says
	AddressKey            // the client's address: 4 or 16 bytes, none for a unix socket
)

// registration is how a method joins the registry, from its own file.
type registration struct {
	// make makes the method. It keeps the slice that it is given, so that the
	// caller may put other peers with the same settings in their places.
	make    func(o Options, peers []*Peer) (Method, error)
	key     Key
	oneTier bool // backups stand at the end of the list and are not a tier of their own
}

var methods = map[string]registration{}

func register(name string, r registration) { methods[name] = r }

// New returns the method of that name for the peers of one tier.
func New(o Options, peers []*Peer) (Method, error) {
	r, ok := methods[o.Method]
	if !ok {
		return nil, fmt.Errorf("find balancing method %q: no such method", o.Method)
	}
	m, err := r.make(o, peers)
	if err != nil {
		return nil, fmt.Errorf("set up balancing method %q: %w", o.Method, err)
	}
	return m, nil
}

// Names lists the methods in alphabetical order.
func Names() []string { return slices.Sorted(maps.Keys(methods)) }

// KeyOf says what sessions of the method need as their key.
func KeyOf(method string) Key { return methods[method].key }

// OneTier reports whether the method sees the backups at the end of the one
// list of peers.
func OneTier(method string) bool { return methods[method].oneTier }

// chooser is a Method that gives every session to one peer.
type chooser interface{ sole(now Seconds) int }

// Sole returns the only one of its peers that a method gives to sessions now, -1 if
// there is none, and false if it gives them any that may be picked. It changes nothing.
func Sole(m Method, now Seconds) (int, bool) {
	if c, ok := m.(chooser); ok {
		return c.sole(now), true
	}
	return -1, false
}

// heir is a Method that goes on where one with other peers has left off.
type heir interface{ inherit(from Method) }

// Succeed has m, which was made for another list of peers, take over what old
// has kept, if it is something that outlives the list.
func Succeed(m, old Method) {
	if h, ok := m.(heir); ok {
		h.inherit(old)
	}
}

// saver is a Method that keeps something beside the peers.
type saver interface {
	// save returns what puts it back.
	save() (restore func())
}

// Rehearse explains the pick that the next session would get, and leaves
// everything as it was. cold says that some peer may be in slow start: those that
// rest sit it out, if that leaves somebody.
func Rehearse(m Method, peers []*Peer, s *Selection, now Millis, cold bool) (int, *Explanation) {
	Settle(m)
	before := make([]Peer, len(peers))
	for i, p := range peers {
		before[i] = *p
	}
	restore := func() {}
	if s, ok := m.(saver); ok {
		restore = s.save()
	}
	resting, selection := cold && Rest(m, peers, now), *s
	i, e := Explain(m, peers, s, now)
	if i < 0 && resting {
		Wake(peers)
		*s = selection
		i, e = Explain(m, peers, s, now) // with the lots that come next
	}
	restore()
	for i, p := range peers {
		*p = before[i]
	}
	return i, e
}

package balance

import "slices"

func init() {
	register("single", registration{oneTier: true, make: func(o Options, peers []*Peer) (Method, error) {
		return &single{peers: peers, failback: o.Failback, active: nobody}, nil
	}})
}

// single sends every session to one active peer, for servers of which only one
// may do the work. Weights do not count, and backups stand at the end of the
// one list.
//
// The active peer stays so while it is up and available. Then the first peer in
// order that is takes over, and keeps the part until it fails in its turn; with
// failback it hands it back as soon as an earlier one is up and available. A
// peer whose fail_timeout is over is available to one session, so each
// fail_timeout that one session tries it while all others stay where they are.
//
// At its max_conns the active peer still is the active one: the session gets
// nobody. The same holds for a session that has tried it: a connect that fails
// below max_fails ends the session's tries, and only the one that makes the
// peer unavailable moves on to the next. With nobody up and available there is
// nobody to take over, and the active peer remains.
type single struct {
	peers    []*Peer
	failback bool
	active   int // or nobody
}

const nobody = -1

func (m *single) Pick(s *Selection, now Millis) int {
	s.decidedBy("being the active peer")
	next := m.sole(now.Seconds())
	if next == nobody {
		return nobody
	}
	if next != m.active {
		m.active = next
		s.decidedBy("taking over as the active peer")
	}
	if s.why != nil {
		s.why.probe(Probe{Peer: m.active, Left: s.leftOut(m.peers, m.active, now.Seconds())})
	}
	if !s.may(m.peers, m.active, now.Seconds()) {
		return nobody
	}
	return m.active
}

// sole returns the peer that is to be the active one, or nobody.
func (m *single) sole(now Seconds) int {
	if !m.failback && m.fit(m.active, now) {
		return m.active
	}
	for i := range m.peers {
		if m.fit(i, now) {
			return i
		}
	}
	return nobody
}

// fit reports whether peer i may be the active one.
func (m *single) fit(i int, now Seconds) bool {
	return i != nobody && m.peers[i].Admin == Up && m.peers[i].Withheld == Eligible && m.peers[i].Available(now)
}

// inherit keeps the active peer, if it is still one of the list.
func (m *single) inherit(from Method) {
	old, ok := from.(*single)
	if !ok || old.active == nobody {
		return
	}
	m.active = slices.Index(m.peers, old.peers[old.active])
}

// cold: there is one active peer, and it gets every session.
func (m *single) cold() cold { return neverCold }

func (m *single) save() func() {
	active := m.active
	return func() { m.active = active }
}

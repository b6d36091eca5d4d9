package balance

// lazyRounds is roundRobin of many peers: it makes rounds without looking at every
// one of them. What a round adds to the accounts is added when somebody wants to
// see them.
//
// As long as the same peers take part, each with its whole weight, a round gives
// every one of them its weight and takes the sum from the winner. Between peers
// of the same weight that changes nothing but for the winner, so they stand in a
// heap, and the winner is among the tops of these. With n peers of w weights a
// pick takes w + log n steps, not n.
//
// It stands on nothing that time alone changes: peers that failures have made
// unavailable bound for how long it holds, and one on trial keeps it from
// beginning.
type lazyRounds struct {
	peers  []*Peer
	byPeer []int // class of each
	class  []class
	total  int     // of the weights of those who take part
	made   int     // rounds that the accounts lack, while on
	until  Seconds // the last second for which it holds
	on     bool
	calm   int // rounds over all peers since it was on
}

// class is the peers of one weight that take part.
type class struct {
	weight int
	heap   []account // the greatest on top; of equals the one that comes first
}

// account is a peer's current weight when lazy rounds began, less what it has paid
// since.
type account struct{ current, index int }

func (a account) before(b account) bool {
	return a.current > b.current || a.current == b.current && a.index < b.index
}

// A round over fewer peers than lazyFrom costs less than 200 ns, a lazy one 80. To
// begin costs as much as some rounds do, and where peers fail the accounts are
// settled again and again: it is worth it after lazyAfter rounds without that.
const (
	lazyFrom  = 32
	lazyAfter = 16
)

// newLazyRounds returns lazyRounds of peers of these weights.
func newLazyRounds(peers []*Peer) *lazyRounds {
	l := &lazyRounds{peers: peers, byPeer: make([]int, len(peers))}
	sizes := map[int]int{}
	for _, p := range peers {
		sizes[p.Weight]++
	}
	place := map[int]int{}
	for i, p := range peers {
		c, ok := place[p.Weight]
		if !ok {
			c = len(l.class)
			place[p.Weight] = c
			l.class = append(l.class, class{p.Weight, make([]account, 0, sizes[p.Weight])})
		}
		l.byPeer[i] = c
	}
	return l
}

func (l *lazyRounds) Pick(s *Selection, now Millis) int {
	switch {
	case s.why != nil, s.triedAny():
		l.settle()
	case l.begin(now.Seconds()):
		return l.round()
	}
	return smooth(l.peers, s, now)
}

// begin is to be called before a round over all peers. It reports whether lazy
// rounds are on, and has them begin if that is worth it.
func (l *lazyRounds) begin(now Seconds) bool {
	if l.on && now > l.until {
		l.settle()
	}
	if l.on {
		return true
	}
	if l.calm++; l.calm <= lazyAfter {
		return false
	}
	l.calm, l.made, l.total, l.until = 0, 0, 0, maxSeconds
	for c := range l.class {
		l.class[c].heap = l.class[c].heap[:0]
	}
	for i, p := range l.peers {
		c := &l.class[l.byPeer[i]]
		switch {
		case !p.Eligible(now):
			if !p.Available(now) {
				l.until = min(l.until, p.Checked+p.FailTimeout)
			}
			continue
		case p.Effective != p.Weight, p.Weight != c.weight, p.MaxFails > 0 && p.Fails >= p.MaxFails:
			return false
		}
		l.total += p.Weight
		c.heap = append(c.heap, account{p.Current, i})
	}
	for c := range l.class {
		h := l.class[c].heap
		for i := len(h)/2 - 1; i >= 0; i-- {
			sink(h, i)
		}
	}
	l.on = true
	return true
}

// round makes a round and returns the winner's index, or -1 if nobody takes part.
func (l *lazyRounds) round() int {
	l.made++
	best, lead := -1, account{}
	for i := range l.class {
		c := &l.class[i]
		if len(c.heap) == 0 {
			continue
		}
		top := account{c.heap[0].current + c.weight*l.made, c.heap[0].index}
		if best < 0 || top.before(lead) {
			best, lead = i, top
		}
	}
	if best < 0 {
		return -1
	}
	h := l.class[best].heap
	h[0].current -= l.total
	sink(h, 0)
	return lead.index
}

// settle brings the peers' current weights up to date, and ends lazy rounds for
// now.
func (l *lazyRounds) settle() {
	l.calm = 0
	if !l.on {
		return
	}
	for _, c := range l.class {
		for _, a := range c.heap {
			l.peers[a.index].Current = a.current + c.weight*l.made
		}
	}
	l.on = false
}

// sink moves the account at i of a heap down to where it belongs.
func sink(h []account, i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if r := child + 1; r < len(h) && h[r].before(h[child]) {
			child = r
		}
		if !h[child].before(h[i]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

// settler is a Method that can be behind with its peers' current weights.
type settler interface{ settle() }

// Settle has m bring its peers' current weights up to date. It is to be called
// before anybody looks at them, and before anything changes that says which of
// the peers are eligible and with what weight; but for picks, sessions that come
// and go below max_conns, and time.
func Settle(m Method) {
	if s, ok := m.(settler); ok {
		s.settle()
	}
}

package balance

// Left says why a peer was left out of a pick.
type Left uint8

// The reasons, of which the first that applies is given.
const (
	Eligible        Left = iota // it was not
	LeftTried                   // the session has attempted it before
	LeftDown                    // by the operator
	LeftDrained                 // by the operator
	LeftUnavailable             // max_fails failures within fail_timeout
	LeftFull                    // at max_conns
	LeftUnchecked               // no check has given its verdict yet
	LeftUnhealthy               // by a check
	LeftEjected                 // as an outlier among the group's peers
	LeftStandby                 // it has another role than the one wanted
	LeftLagging                 // a replica that is too far behind
	LeftConflict                // another peer has the role that only one may have
	LeftWarming                 // slow start left it out of this pick
)

var leftNames = [...]string{
	Eligible: "eligible", LeftTried: "tried", LeftDown: "down", LeftDrained: "drained",
	LeftUnavailable: "unavailable", LeftFull: "full", LeftUnchecked: "unchecked", LeftUnhealthy: "unhealthy",
	LeftEjected: "ejected", LeftStandby: "standby", LeftLagging: "lagging", LeftConflict: "conflict", LeftWarming: "slow start",
}

// String returns the reason in one word.
func (l Left) String() string { return leftNames[l] }

// Ineligible says why the peer is not Eligible, or Eligible.
func (p *Peer) Ineligible(now Seconds) Left {
	switch {
	case p.Admin == Down:
		return LeftDown
	case p.Admin == Drain:
		return LeftDrained
	case p.Withheld != Eligible:
		return p.Withheld
	case !p.Available(now):
		return LeftUnavailable
	case p.Full():
		return LeftFull
	case p.Resting:
		return LeftWarming
	}
	return Eligible
}

// leftOut says why the session may not be given peer i, or Eligible.
func (s *Selection) leftOut(peers []*Peer, i int, now Seconds) Left {
	if s.Tried(i) {
		return LeftTried
	}
	return peers[i].Ineligible(now)
}

// Explanation tells how one pick went.
type Explanation struct {
	Candidates []Candidate // by index
	Winner     int         // -1 = nobody was eligible
	By         string      // what decided, for people; "" = current weight
	Tied       int         // peers that were equal by that, told apart by current weight; 0 = no tie
	Fallback   string      // why round robin decided in the end; "" = it did not have to
	Key        string      // of keyed methods
	Probes     []Probe     // what a search came by, in order
}

// Candidate is one peer in a pick.
type Candidate struct {
	Left      Left
	Weight    int
	Effective int // before the pick
	Before    int // current weight before the pick
	After     int // and after it
	Conns     int // before the pick
	MaxConns  int
	Fails     int
	MaxFails  int
	Until     Seconds // first instant at which it is tried again, if unavailable
	Scored    bool
	Score     float64 // by which the method compares; the least wins
	InTie     bool
}

// Probe is one step of a search: a round of a hash, a point of a ring, a slot
// of a table, a lot drawn.
type Probe struct {
	At   int    // lot, index of the point, slot, or level of weighted_round_robin
	Hash uint32 // value of the point
	Peer int
	Left Left // Eligible = found
}

// Explain picks as m.Pick does and tells how it went. peers are those that m
// was made with.
func Explain(m Method, peers []*Peer, s *Selection, now Millis) (int, *Explanation) {
	Settle(m)
	e := Inspect(peers, s, now.Seconds())
	s.why = e
	e.Winner = m.Pick(s, now)
	s.why = nil
	for i, p := range peers {
		e.Candidates[i].After = p.Current
	}
	return e.Winner, e
}

// Inspect tells where the peers stand, without picking one.
func Inspect(peers []*Peer, s *Selection, now Seconds) *Explanation {
	e := &Explanation{Winner: -1, Candidates: make([]Candidate, len(peers)), Key: string(s.Key)}
	for i, p := range peers {
		e.Candidates[i] = Candidate{
			Left:      s.leftOut(peers, i, now),
			Weight:    p.Weight,
			Effective: p.Effective,
			Before:    p.Current,
			After:     p.Current,
			Conns:     p.Conns,
			MaxConns:  p.MaxConns,
			Fails:     p.Fails,
			MaxFails:  p.MaxFails,
			Until:     p.Checked + p.FailTimeout + 1,
		}
	}
	return e
}

// The rest is called by methods, and does nothing when nobody asks. What is not
// cheap to say they put behind a test of s.why.

func (s *Selection) decidedBy(what string) {
	if s.why != nil {
		s.why.By = what
	}
}

func (s *Selection) leave(why string) {
	if s.why != nil {
		s.why.Fallback = why
	}
}

func (e *Explanation) score(i int, score float64) {
	e.Candidates[i].Scored, e.Candidates[i].Score = true, score
}

func (e *Explanation) tie(i int) {
	e.Candidates[i].InTie = true
	e.Tied++
}

func (e *Explanation) probe(p Probe) { e.Probes = append(e.Probes, p) }

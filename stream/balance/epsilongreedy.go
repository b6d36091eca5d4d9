package balance

import (
	"fmt"
	"math"
)

func init() {
	register("epsilon_greedy", registration{make: func(o Options, peers []*Peer) (Method, error) {
		if !(o.Epsilon >= 0 && o.Epsilon <= 1) {
			return nil, fmt.Errorf("epsilon is %v, not from 0 to 1", o.Epsilon)
		}
		if o.HalfLife <= 0 {
			return nil, fmt.Errorf("half life is %d ms, not above 0", o.HalfLife)
		}
		return &epsilonGreedy{
			random:   newRandom(o, peers),
			epsilon:  o.Epsilon,
			halfLife: o.HalfLife,
		}, nil
	}})
}

// epsilonGreedy sends most sessions to the peer that does best and a share of
// them, epsilon, to peers drawn by weight: the epsilon-greedy answer to the
// multi-armed bandit (R. Sutton, A. Barto, "Reinforcement Learning: An
// Introduction", 2nd edition, section 2.2). Without exploring, a peer that did
// badly once would never be asked again, and one that has got better would
// stay unknown.
//
// The best has the least expected time to a success for its weight: latency /
// success rate / weight. A peer that takes 10 ms and connects one time in two
// costs as much as one that takes 20 ms and always connects. Peers that are
// equal by that take turns as in round robin.
//
// Peers change, so a sample's weight halves every half_life (the exponential
// recency-weighted average of section 2.5, by time instead of by count). A peer
// with too little left of its samples is unknown again, and an unknown peer
// comes before all others, with one session at a time: until that one has
// connected or failed the others go to peers that are known. (A server that
// drops SYNs would else draw all sessions for a whole connect_timeout.)
//
// A retry draws anew whether it explores.
type epsilonGreedy struct {
	random
	epsilon  float64
	halfLife Millis
}

func (m *epsilonGreedy) cold() cold { return coldByPart }

// Loads in microseconds, for each unit of weight where it says so. All products
// with a weight fit into 63 bits.
const (
	// awaitedLoad is that of a peer whose first session is under way, for
	// each unit of weight, so that such peers are equal. Only peers that
	// never succeed have more.
	awaitedLoad = 1_000_000_000
	worstLoad   = 100_000_000_000_000
)

// faded is the weight of samples below which a peer counts as unknown: a single
// sample lasts three half-lives.
const faded = 1.0 / 8

func (m *epsilonGreedy) Pick(s *Selection, now Millis) int {
	if len(m.peers) > 1 && m.rand.Float64() < m.epsilon {
		return m.random.Pick(s, now)
	}
	s.decidedBy("expected time to a success per weight")
	return least(m.peers, s, now, func(p *Peer) int64 { return p.Success.load(p.Weight, now) }, false)
}

// Success is a decayed account of how a peer's sessions went.
type Success struct {
	// sums over the samples, by their weight at the instant of the last one
	last      Millis
	attempts  float64
	successes float64
	connect   float64 // milliseconds until connected, of the successes
	timed     float64 // successes of which a latency is known
	latency   float64 // milliseconds until the first byte, of these

	// what follows from them. All sums decay alike, so only knownUntil
	// depends on the time, and a pick has nothing to compute.
	expected   int64  // microseconds to a success
	knownUntil Millis // attempts weigh less than faded from here on

	awaited bool // a session was sent while unknown and has had no result yet
}

// load is what the method compares, before the weight.
func (e *Success) load(weight int, now Millis) int64 {
	switch {
	case now < e.knownUntil:
		return e.expected
	case e.awaited:
		return awaitedLoad * int64(weight)
	}
	return 0
}

// Picked notes that an unknown peer is being found out about.
func (m *epsilonGreedy) Picked(p *Peer, now Millis) {
	if now >= p.Success.knownUntil {
		p.Success.awaited = true
	}
}

// Held does nothing: what the session has shown of its peer until then is not known
// here.
func (m *epsilonGreedy) Held(*Peer, Times, Millis) {}

// Connected takes the sample of a success.
func (m *epsilonGreedy) Connected(p *Peer, took, now Millis) {
	e := &p.Success
	e.decay(now, m.halfLife)
	e.attempts++
	e.successes++
	e.connect += begun(took)
	e.conclude(m.halfLife)
}

// FirstByte takes the sample of a latency.
func (m *epsilonGreedy) FirstByte(p *Peer, took, now Millis) {
	e := &p.Success
	e.decay(now, m.halfLife)
	e.addLatency(took)
	e.conclude(m.halfLife)
}

// Released takes the sample of a failure, or for a latency the time to connect
// if no first byte has come. A session given up before it was connected says
// nothing.
func (m *epsilonGreedy) Released(p *Peer, u Use, now Millis) {
	e := &p.Success
	e.decay(now, m.halfLife)
	switch {
	case u.Failed:
		e.attempts++
	case u.Took[Connect] != None && u.Took[FirstByte] == None:
		e.addLatency(u.Took[Connect])
	}
	e.conclude(m.halfLife)
}

// decay brings the sums to now.
func (e *Success) decay(now, halfLife Millis) {
	left := math.Exp2(-float64(now-e.last) / float64(halfLife))
	e.last = now
	e.attempts *= left
	e.successes *= left
	e.connect *= left
	e.timed *= left
	e.latency *= left
}

func (e *Success) addLatency(took Millis) {
	e.timed++
	e.latency += begun(took)
}

// begun counts the millisecond that has begun: a peer that takes no measurable
// time must not be free, or its failures would not count.
func begun(took Millis) float64 { return float64(took + 1) }

// conclude works out what picks need, from sums that have just been decayed.
func (e *Success) conclude(halfLife Millis) {
	e.awaited = false
	e.expected = worstLoad
	if e.successes >= faded {
		latency := e.connect / e.successes
		if e.timed >= faded {
			latency = e.latency / e.timed
		}
		e.expected = int64(min(1000*latency*e.attempts/e.successes, worstLoad))
	}
	e.knownUntil = e.last
	if e.attempts > faded {
		e.knownUntil += Millis(float64(halfLife) * math.Log2(e.attempts/faded))
	}
}

package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/upstream"
)

// longestRun is how far a script may move the clock. The clock itself could go
// on for two centuries, and the longest timeout is a year.
const longestRun = 10 * conf.MaxDuration

// Simulation is an upstream as the balancer runs it, with a clock, servers and
// clients that a script moves.
type Simulation struct {
	group   *upstream.Group
	peers   []*upstream.Peer // primaries first, as in the group
	index   map[*upstream.Peer]int
	names   []string
	addrs   []string // as configured
	servers []server // behind the peers

	limits         upstream.Limits
	connectTimeout time.Duration
	facts          upstream.Facts // of every session; the client changes

	clock   clock.Fake
	stopped error // the clock would have gone too far

	out      teller
	number   int     // of the last session
	session  session // the one that is under way
	outcome  *outcome
	held     []holding
	all      tally
	ideal    []float64 // share of a session that each peer ought to get; nil = weights say nothing
	counting *table
}

// holding is a held session; its peer is nil once it has ended, or if it never
// got one.
type holding struct {
	peer  *upstream.Peer
	since clock.Time
	took  upstream.Took
}

// outcome is how a session got to its peer.
type outcome struct {
	at        time.Duration // when it came
	number    int
	held      int // its number among the held ones; 0 = it is not held
	client    netip.AddrPort
	attempts  []attempt
	status    int
	nobody    bool                 // the last pick found no peer
	decisions []*upstream.Decision // one for each pick
	after     []upstream.Snapshot  // when it is over, or stands
}

// attempt is one connect to a peer.
type attempt struct {
	peer    string
	fate    fate
	failure *upstream.Failure // nil = it connected
}

// fate is what comes of a connect.
type fate uint8

const (
	connected fate = iota
	refused
	timedOut
)

var fateNames = [...]string{connected: "connected", refused: "refused", timedOut: "timed out"}

func (f fate) String() string { return fateNames[f] }

// New returns a simulation of the upstream as seen by the listener; nil is one
// with defaults. Host names are not resolved: each is one peer, with an address
// of its own from 198.18.0.0/15 (RFC 2544). Its health checks are left out: all
// peers are healthy. Lots are drawn from seed.
func New(u *conf.Upstream, l *conf.Listener, seed uint64) (*Simulation, error) {
	made := netip.AddrFrom4([4]byte{198, 18, 0, 0})
	makeUp := func(context.Context, string) ([]netip.Addr, error) {
		made = made.Next()
		return []netip.Addr{made}, nil
	}
	unchecked := *u
	unchecked.Checks = nil
	u = &unchecked
	peers, err := upstream.Resolve(context.Background(), u, 1, makeUp)
	if err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	g, err := upstream.NewGroupAt(u, peers, 1, seed, clock.Base)
	if err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	if l == nil {
		standard := conf.NewListener(u.Name)
		l = &standard
	}
	s := &Simulation{
		group:          g,
		peers:          g.Peers(),
		index:          map[*upstream.Peer]int{},
		limits:         upstream.Limits{Tries: l.NextUpstream.Tries, Timeout: l.NextUpstream.Timeout},
		connectTimeout: l.ConnectTimeout,
		facts:          upstream.Facts{Listener: l.Name, Server: serverOf(l)},
	}
	s.servers = make([]server, len(s.peers))
	s.all = newTally(len(s.peers))
	for i, p := range s.snapshot() {
		s.index[s.peers[i]] = i
		s.names = append(s.names, p.Name)
		s.addrs = append(s.addrs, p.Balance.Server)
	}
	s.share()
	return s, nil
}

// serverOf returns where clients connect to: the first address that the
// listener has on TCP.
func serverOf(l *conf.Listener) netip.AddrPort {
	for _, a := range l.Listen {
		if ip, ok := a.IP(); ok {
			return netip.AddrPortFrom(ip, a.Port)
		}
	}
	return netip.AddrPort{}
}

// Format is how a run is told.
type Format uint8

// The formats.
const (
	Text    Format = iota // the first sessions of each connect, for people
	Verbose               // every session, for people
	JSON                  // every session, one object a line
)

// Run carries the script out and tells what happens. A Simulation runs once.
func (s *Simulation) Run(sc *Script, w io.Writer, f Format) error {
	switch f {
	case JSON:
		s.out = newJSONTeller(w, s)
	default:
		s.out = newTextTeller(w, s, sc)
	}
	for i := range sc.events {
		if s.event(&sc.events[i], f != Text); s.stopped != nil {
			break
		}
	}
	s.endTable()
	s.out.totals(s.now(), &s.all)
	if err := s.out.flush(); err != nil {
		return err
	}
	return s.stopped
}

// teller tells a run.
type teller interface {
	event(at time.Duration, e *event, n note)
	session(o *outcome)
	skipped(sessions *tally) // that no session was called for
	show(at time.Duration, peers []upstream.Snapshot)
	table(at time.Duration, t *table)
	totals(at time.Duration, all *tally)
	flush() error
}

// note is what came of an event that is not a connect.
type note struct {
	closed int // close: sessions that it ended
	asked  int // close: and that it named
}

// now is the time since the script's start.
func (s *Simulation) now() time.Duration { return s.clock.Now().Sub(clock.Base) }

// advance moves the clock, as long as that is not out of all reason.
func (s *Simulation) advance(d time.Duration) {
	if s.now()+d > longestRun {
		s.stopped = errors.New("the script goes on for more than ten years: that is where it was stopped")
		return
	}
	s.clock.Advance(d)
}

func (s *Simulation) snapshot() []upstream.Snapshot {
	return s.group.Snapshot(nil, s.clock.Now())
}

// find returns the peers of that name, else those of that address, else nil.
func (s *Simulation) find(text string) []int {
	var named, at []int
	for i := range s.names {
		if s.names[i] == text {
			named = append(named, i)
		}
		if s.addrs[i] == text {
			at = append(at, i)
		}
	}
	if named != nil {
		return named
	}
	return at
}

// event carries one event out.
func (s *Simulation) event(e *event, everySession bool) {
	at := s.now()
	var n note
	switch e.verb {
	case "connect":
		s.connect(e, everySession)
		return
	case "fail":
		s.setServers(e.peers, server{state: "down"})
	case "hang":
		s.setServers(e.peers, server{state: "hang"})
	case "slow":
		s.setServers(e.peers, server{delay: e.span})
	case "heal":
		s.setServers(e.peers, server{})
	case "down":
		s.setAdmin(e.peers, balance.Down)
	case "drain":
		s.setAdmin(e.peers, balance.Drain)
	case "up":
		s.setAdmin(e.peers, balance.Up)
	case "wait":
		s.advance(e.span)
	case "close":
		n = s.close(e)
	case "table":
		s.endTable()
		s.counting = newTable(e, at, &s.all)
	}
	s.out.event(at, e, n)
	if e.verb == "show" {
		s.out.show(at, s.snapshot())
	}
}

func (s *Simulation) setServers(peers []int, to server) {
	for _, i := range peers {
		s.servers[i] = to
	}
}

func (s *Simulation) setAdmin(peers []int, a balance.Admin) {
	for _, i := range peers {
		s.group.SetAdmin(s.peers[i], a, "the script", s.clock.Now())
	}
	s.share()
}

// Of a connect with more sessions than few, only the first ones are told one
// by one.
const (
	fewSessions   = 20
	firstSessions = 10
)

func (s *Simulation) connect(e *event, every bool) {
	every = every || e.n <= fewSessions
	var told tally
	for i := range e.n {
		if !every && i == firstSessions {
			told = s.all.clone()
		}
		s.open(e, i, every || i < firstSessions)
		if s.counting.step(s.all.connects) {
			s.counting.add(&s.all)
		}
		if s.stopped != nil {
			break
		}
	}
	if !every && told.connects > 0 {
		s.out.skipped(s.all.since(&told))
	}
}

// open makes session i of a connect, and ends it if it is not to be held.
func (s *Simulation) open(e *event, i int, tell bool) {
	s.number++
	s.facts.Client, s.facts.Connection = e.from.at(i), uint64(s.number)
	x := &s.session
	x.peer, x.picked, x.status, x.busy = nil, x.picked[:0], 0, false
	w := world{now: s.clock.Now, connect: s.answer}
	s.outcome = nil
	if tell {
		o := &outcome{at: s.now(), number: s.number, client: s.facts.Client}
		s.outcome = o
		w.explain = func(d *upstream.Decision) { o.decisions = append(o.decisions, d) }
		w.failed = func(f *upstream.Failure) { o.attempts[len(o.attempts)-1].failure = f }
	}
	s.group.Begin(&x.attempts, s.limits, s.clock.Now())
	if s.group.Keyed() {
		x.attempts.Key = s.group.AppendKey(x.attempts.Key, &s.facts)
	}
	walk(s.group, x, 0, w)
	s.count()
	if x.peer != nil {
		s.advance(x.took.Connect)
	}
	if e.hold {
		s.held = append(s.held, holding{x.peer, x.since, x.took})
	} else {
		end(s.group, x, upstream.Succeeded, s.clock.Now())
	}
	if o := s.outcome; o != nil {
		o.status, o.nobody, o.after = x.status, x.busy, s.snapshot()
		if e.hold {
			o.held = len(s.held)
		}
		s.out.session(o)
	}
}

// answer is how the server behind a peer takes a connection.
func (s *Simulation) answer(_ int, p *upstream.Peer) answer {
	i := s.index[p]
	behind := &s.servers[i]
	fate := connected
	switch {
	case behind.state == "down":
		fate = refused
	case behind.state == "hang" || behind.delay >= s.connectTimeout:
		fate = timedOut
		s.advance(s.connectTimeout)
	}
	if s.outcome != nil {
		s.outcome.attempts = append(s.outcome.attempts, attempt{peer: p.Name, fate: fate})
	}
	if fate != connected {
		s.all.failed[i]++
		return answer{}
	}
	return answer{true, upstream.Took{Connect: behind.delay, FirstByte: behind.delay}}
}

// why tells the session's picks and failures in sentences, in the order in
// which they happened.
func (s *Simulation) why(o *outcome) []string {
	var out []string
	for i, d := range o.decisions {
		out = append(out, d.Sentence(instant))
		if i < len(o.attempts) && o.attempts[i].failure != nil {
			out = append(out, s.cost(&o.attempts[i]))
		}
	}
	return out
}

// cost tells what a failed attempt has cost its peer.
func (s *Simulation) cost(a *attempt) string {
	cause := "connection refused"
	if a.fate == timedOut {
		cause = fmt.Sprintf("no answer within %s (connect_timeout)", conf.FormatDuration(s.connectTimeout))
	}
	return a.failure.Sentence("connecting to", cause, instant)
}

// count adds the session to the totals.
func (s *Simulation) count() {
	s.all.connects++
	if p := s.session.peer; p != nil {
		s.all.sessions[s.index[p]]++
	} else {
		s.all.nobody++
	}
	for i, part := range s.ideal {
		s.all.ideal[i] += part
	}
}

// close ends held sessions.
func (s *Simulation) close(e *event) note {
	n := note{asked: len(s.held)}
	first, last := 1, len(s.held)
	if e.first > 0 {
		first, last = e.first, min(e.last, last)
		n.asked = last - first + 1
	}
	for i := first - 1; i < last; i++ {
		h := &s.held[i]
		if h.peer == nil || e.first == 0 && !slices.Contains(e.peers, s.index[h.peer]) {
			continue
		}
		end(s.group, &session{peer: h.peer, since: h.since, took: h.took}, upstream.Succeeded, s.clock.Now())
		h.peer = nil
		n.closed++
	}
	return n
}

// share works out which part of each session every peer ought to get: by
// weight, among the primaries that the operator has left in.
func (s *Simulation) share() {
	if m := s.group.Method(); m == conf.First || m == conf.Single {
		return // these give by order, not by weight
	}
	total := 0
	s.ideal = make([]float64, len(s.peers))
	peers := s.snapshot()
	weight := func(p *upstream.Snapshot) int {
		if p.Backup || p.Balance.Admin != balance.Up {
			return 0
		}
		return p.Balance.Weight
	}
	for i := range peers {
		total += weight(&peers[i])
	}
	for i := range peers {
		s.ideal[i] = float64(weight(&peers[i])) / float64(max(total, 1))
	}
}

func (s *Simulation) endTable() {
	if s.counting != nil {
		s.out.table(s.now(), s.counting)
		s.counting = nil
	}
}

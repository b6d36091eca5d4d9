package upstream

import (
	"slices"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/internal/clock"
)

// Axis is one of the separate things that decide whether a peer may be picked.
// Each has one writer, and the peer is eligible if all allow it: what a check
// says can't undo what the operator has said, nor the other way round.
type Axis uint8

// The axes.
const (
	AxisAdmin     Axis = iota // the operator's word
	AxisDiscovery             // where the peer is known from
	AxisPassive               // what live traffic has shown
	AxisActive                // what health checks have
	AxisRole                  // what the peer is among those that hold the same data
	AxisCapacity              // max_conns
	Axes          = int(iota)
)

// String returns the axis as the API and metrics write it.
func (a Axis) String() string {
	return [...]string{"admin", "discovery", "passive", "active", "role", "capacity"}[a]
}

// The values of the axes. Those of AxisAdmin are balance.Admin's names.
const (
	Present    = "present"     // AxisDiscovery; a peer that has been removed is not in its group
	Available  = "available"   // AxisPassive
	OutOfUse   = "unavailable" // max_fails failures within fail_timeout
	Ejected    = "ejected"     // an outlier among the group's peers
	Unchecked  = "none"        // AxisActive: there is no check
	Unknown    = "unknown"     // no verdict yet; of AxisRole too
	Healthy    = "healthy"
	Unhealthy  = "unhealthy"
	AnyRole    = "any" // AxisRole: nobody asks
	IsPrimary  = "primary"
	IsReplica  = "replica"
	Standby    = "standby"  // well, but not in the role that is wanted
	Lagging    = "lagging"  // a replica that is too far behind
	Conflict   = "conflict" // one of several that have a role of which there may be one
	Free       = "free"     // AxisCapacity
	AtMaxConns = "full"
)

// Values lists the values that an axis can have.
func (a Axis) Values() []string {
	return [...][]string{
		AxisAdmin:     {balance.Up.String(), balance.Drain.String(), balance.Down.String()},
		AxisDiscovery: {Present},
		AxisPassive:   {Available, OutOfUse, Ejected},
		AxisActive:    {Unchecked, Unknown, Healthy, Unhealthy},
		AxisRole:      {AnyRole, Unknown, IsPrimary, IsReplica, Standby, Lagging, Conflict},
		AxisCapacity:  {Free, AtMaxConns},
	}[a]
}

// AxisState is where a peer stands on one axis.
type AxisState struct {
	Value string
	Since clock.Time
	Cause string // evidence; "" = it has been so from the start
}

// Transition is a change on one axis.
type Transition struct {
	At       clock.Time
	Axis     Axis
	From, To string
	Cause    string
}

// transitionsKept is how many transitions of a peer are remembered.
const transitionsKept = 64

// transitions is a ring of the latest ones.
type transitions struct {
	ring  []Transition
	total int
}

func (t *transitions) add(x Transition) {
	if len(t.ring) < transitionsKept {
		t.ring = append(t.ring, x)
	} else {
		t.ring[t.total%transitionsKept] = x
	}
	t.total++
}

// list returns them, the oldest first.
func (t *transitions) list() []Transition {
	if t.total <= transitionsKept {
		return append([]Transition(nil), t.ring...)
	}
	at := t.total % transitionsKept
	return append(append([]Transition(nil), t.ring[at:]...), t.ring[:at]...)
}

// Event tells whoever watches a group of a transition, or of something that
// concerns the group as a whole. At is not before the last pick: sessions that were
// picked later had the new state before them.
type Event struct {
	Group *Group
	Peer  *Peer // nil = the group as a whole
	Transition
	Turn  uint64 // how many transitions of the peer on this axis there are with this one
	Alarm Alarm
}

// Alarm is something that concerns a group as a whole.
type Alarm uint8

// The alarms.
const (
	NoAlarm       Alarm = iota
	ConflictBegun       // several peers claim what only one may have
	ConflictEnded
	Succession // another peer than before has the role that only one may have
	PanicBegun // too few peers are healthy: verdicts do not count
	PanicEnded
	CircuitOpened
	CircuitTries // half open
	CircuitClosedAgain
	LimitUnenforced // turns are not seen: the adaptive limit has turned itself off
	LimitEnforced   // they are again
)

// Watch has f told of events from now on. It is called with the group's mutex
// held: it must not block, nor call the group. Preconditions: nobody else has the
// group yet.
func (g *Group) Watch(f func(Event)) { g.watch = f }

func (g *Group) tell(e Event) {
	if g.watch != nil {
		e.Group = g
		g.watch(e)
	}
}

// turnLocked notes a peer's place on an axis, not earlier than the last pick.
// Whatever but time makes a peer eligible or not turns one. Preconditions: mu is held.
func (g *Group) turnLocked(p *Peer, a Axis, value, cause string, now clock.Time) {
	was := &p.axes[a]
	if was.Value == value {
		return
	}
	g.settleLocked()
	now = max(now, g.picked) // whoever has read the clock may have waited for mu
	t := Transition{At: now, Axis: a, From: was.Value, To: value, Cause: cause}
	*was = AxisState{value, now, cause}
	if a == AxisCapacity {
		return // changes as often as sessions come and go
	}
	p.history.add(t)
	p.turns[a]++
	g.tell(Event{Peer: p, Transition: t, Turn: p.turns[a]})
}

// Turns returns how many transitions of a peer on an axis there are since it came.
func (g *Group) Turns(p *Peer, a Axis) uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return p.turns[a]
}

// HasCome reports whether a peer has come to that value on an axis after an instant,
// as far as its history goes back.
func (g *Group) HasCome(p *Peer, a Axis, value string, after clock.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(p.history.ring, func(t Transition) bool { return t.Axis == a && t.To == value && t.At > after })
}

// History returns a peer's latest transitions, the oldest first, and how many
// there were since it came.
func (g *Group) History(p *Peer) (latest []Transition, total int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return p.history.list(), p.history.total
}

// rules are what a configuration says about verdicts: immutable.
type rules struct {
	exactlyOne bool
	onState    conf.OnState
	panicBelow float64
	outlier    *conf.OutlierDetection // nil = off
	checked    bool
	begin      string // AxisActive of a peer before its first verdict
	beginRole  string // and AxisRole
}

func rulesOf(u *conf.Upstream) rules {
	r := rules{
		exactlyOne: u.ExactlyOne,
		onState:    u.OnState,
		panicBelow: u.PanicThreshold,
		outlier:    u.Outlier,
		checked:    len(u.Checks) > 0,
		begin:      Unchecked,
		beginRole:  AnyRole,
	}
	for i := range u.Checks {
		c := &u.Checks[i]
		switch {
		case c.Initial == conf.InitialUnknown:
			r.begin = Unknown
		case r.begin == Unchecked:
			r.begin = Healthy
		}
		if c.Role != conf.AnyRole {
			r.beginRole = Unknown
		}
	}
	return r
}

// Fate returns what becomes of the sessions of a peer of this group that comes
// to that value on that axis.
func (g *Group) Fate(a Axis, value string) conf.Fate {
	on := &g.shape.Load().rules.onState
	switch {
	case a == AxisActive && value == Unhealthy, a == AxisPassive && value == Ejected:
		return on.Unhealthy
	case a == AxisRole && (value == Standby || value == Conflict):
		return on.Standby
	case a == AxisRole && value == Lagging:
		return on.Lagging
	case a == AxisAdmin && value != balance.Up.String():
		return on.Drained
	}
	return conf.Keep
}

// FateOfRemoved returns what becomes of the sessions of peers that go.
func (g *Group) FateOfRemoved() conf.Fate { return g.shape.Load().rules.onState.Removed }

// Pace returns how many sessions may be closed in a second for the sake of
// verdicts; 0 = any number.
func (g *Group) Pace() conf.Rate { return g.shape.Load().rules.onState.Pace }

// Verdict is what the checks of a peer say.
type Verdict struct {
	Active string // Unknown, Healthy, Unhealthy
	Role   string // AnyRole, Unknown, IsPrimary, IsReplica, Standby, Lagging
	Cause  string
}

// Judge takes in the verdict of a peer's checks.
func (g *Group) Judge(p *Peer, v Verdict, now clock.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.IsRemoved() || !g.shape.Load().rules.checked {
		return // it has come late
	}
	g.turnLocked(p, AxisActive, v.Active, v.Cause, now)
	p.role, p.roleCause = v.Role, v.Cause
	g.judgeLocked(now)
	g.callAllLocked(now)
}

// Judgement returns what the checks have said of a peer last.
func (g *Group) Judgement(p *Peer) Verdict {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Verdict{p.axes[AxisActive].Value, p.role, p.axes[AxisActive].Cause}
}

// verdicts is what a group makes of its peers' axes together.
type verdicts struct {
	incumbent *Peer // exactly_one: who has the role; nil = nobody had it yet
	epoch     int   // exactly_one: how many have had it, one after the other
	conflict  bool
	panic     bool
	panics    int // how often
	conflicts int
}

// judgeLocked works out anew who may be picked. It is called after every change
// on an axis, and looks at all peers. Preconditions: mu is held.
func (g *Group) judgeLocked(now clock.Time) {
	sh := g.shape.Load()
	now = max(now, g.picked) // as in turnLocked
	g.electLocked(sh, now)
	known, well := 0, 0
	for _, tier := range sh.peers {
		for _, p := range tier {
			if p.balance.Admin != balance.Up || p.misplaced() {
				continue
			}
			if p.axes[AxisActive].Value != Unknown {
				known++
				if p.left() == balance.Eligible {
					well++
				}
			}
		}
	}
	v := &g.verdicts
	panics := sh.rules.panicBelow > 0 && known > 0 && float64(well) < sh.rules.panicBelow*float64(known)
	if panics != v.panic {
		v.panic = panics
		e := Event{Alarm: PanicEnded, Transition: Transition{At: now}}
		if panics {
			v.panics++
			e.Alarm = PanicBegun
		}
		g.tell(e)
	}
	for _, tier := range sh.peers {
		for _, p := range tier {
			g.withholdLocked(sh, p, now)
		}
	}
}

// withholdLocked applies the verdicts to a peer.
func (g *Group) withholdLocked(sh *shape, p *Peer, now clock.Time) {
	was, left := p.balance.Withheld, p.left()
	if g.verdicts.panic && !p.misplaced() && left != balance.LeftUnchecked {
		left = balance.Eligible
	}
	p.balance.Withheld = left
	if was != balance.Eligible && left == balance.Eligible {
		g.chillLocked(p, now)
	}
	p.forsaken.Store(p.removed.Load() && sh.rules.onState.Removed != conf.Keep || p.balance.Admin == balance.Down ||
		p.balance.Admin == balance.Drain && sh.rules.onState.Drained == conf.CloseFate ||
		left != balance.Eligible && left != balance.LeftUnchecked && sh.rules.fateOf(left) != conf.Keep)
}

func (r *rules) fateOf(left balance.Left) conf.Fate {
	switch left {
	case balance.LeftUnhealthy, balance.LeftEjected:
		return r.onState.Unhealthy
	case balance.LeftLagging:
		return r.onState.Lagging
	}
	return r.onState.Standby
}

// left says why verdicts keep a peer from being picked, panic aside.
func (p *Peer) left() balance.Left {
	switch p.axes[AxisActive].Value {
	case Unknown:
		return balance.LeftUnchecked
	case Unhealthy:
		return balance.LeftUnhealthy
	}
	switch p.axes[AxisRole].Value {
	case Unknown:
		return balance.LeftUnchecked // also with initial = up: it may be the wrong one
	case Standby:
		return balance.LeftStandby
	case Lagging:
		return balance.LeftLagging
	case Conflict:
		return balance.LeftConflict
	}
	if p.ejected {
		return balance.LeftEjected
	}
	return balance.Eligible
}

// misplaced reports whether the peer is no choice whatever its health: another
// server has the role. A panic does not change that: a standby is not sick, it
// is the wrong one.
func (p *Peer) misplaced() bool {
	switch p.axes[AxisRole].Value {
	case Standby, Lagging, Conflict:
		return true
	}
	return false
}

// claims reports whether the peer may be the one of exactly_one.
func (p *Peer) claims() bool {
	a := p.axes[AxisActive].Value
	return p.balance.Admin == balance.Up && (a == Healthy || a == Unchecked) && p.role != Standby && p.role != Lagging && p.role != Unknown
}

// electLocked sees to it that only one peer has what only one may have. Who has
// it keeps it for as long as it claims it; then the first in order that claims
// it gets it. Two servers that both say they are the primary are a fault of
// theirs that weir can't mend: it can only not make it worse by sending clients
// to both.
func (g *Group) electLocked(sh *shape, now clock.Time) {
	v := &g.verdicts
	var claimants []*Peer
	if sh.rules.exactlyOne {
		for _, tier := range sh.peers {
			for _, p := range tier {
				if p.claims() {
					claimants = append(claimants, p)
				}
			}
		}
	}
	if len(claimants) > 0 && (v.incumbent == nil || v.incumbent.IsRemoved() || !v.incumbent.claims()) {
		v.incumbent = claimants[0]
		v.epoch++
		g.tell(Event{Peer: v.incumbent, Alarm: Succession, Transition: Transition{At: now}})
	}
	for _, tier := range sh.peers {
		for _, p := range tier {
			was := p.axes[AxisRole].Value
			switch conflict := sh.rules.exactlyOne && p != v.incumbent && p.claims(); {
			case conflict:
				g.turnLocked(p, AxisRole, Conflict, v.incumbent.Name+" has the role, which only one may have", now)
			case was == Conflict && p.claims():
				g.turnLocked(p, AxisRole, p.role, "no other claims the role", now)
			default:
				g.turnLocked(p, AxisRole, p.role, p.roleCause, now)
			}
		}
	}
	if is := len(claimants) > 1; is != v.conflict {
		v.conflict = is
		e := Event{Alarm: ConflictEnded, Transition: Transition{At: now}}
		if is {
			v.conflicts++
			e.Alarm = ConflictBegun
		}
		g.tell(e)
	}
}

// GroupState is what holds for a group as a whole.
type GroupState struct {
	ExactlyOne bool
	Incumbent  string // name of the peer that has the role; "" = none yet
	Epoch      int
	Conflict   bool // now
	Conflicts  int  // how often
	Panic      bool // now
	Panics     int  // how often
}

// State returns what holds for the group as a whole.
func (g *Group) State() GroupState {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := &g.verdicts
	s := GroupState{ExactlyOne: g.shape.Load().rules.exactlyOne, Epoch: v.epoch, Conflict: v.conflict, Conflicts: v.conflicts, Panic: v.panic, Panics: v.panics}
	if v.incumbent != nil {
		s.Incumbent = v.incumbent.Name
	}
	return s
}

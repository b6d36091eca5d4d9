package health

import (
	"fmt"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/clock"
)

// Health is a peer's state by its checks.
type Health uint8

// The states. A peer is Unknown until every check has given a result, unless
// one has failed already.
const (
	Unknown Health = iota
	Healthy
	Unhealthy
)

// String returns the word that operators see.
func (h Health) String() string {
	return [...]string{Unknown: "unknown", Healthy: "healthy", Unhealthy: "unhealthy"}[h]
}

// RoleState says whether a peer has the role that its checks ask for.
type RoleState uint8

// The states.
const (
	RoleAny     RoleState = iota // no check asks
	RoleHeld                     // the peer has the role
	RoleStandby                  // the server says that it has another one
	RoleLagging                  // a replica over max_lag, or one that can't say how far behind it is
	RoleUnknown                  // a check asks, and the server has not told yet
)

// String returns the state's word. What operators see is [Verdict.ShownRole].
func (r RoleState) String() string {
	return [...]string{RoleAny: "any", RoleHeld: "held", RoleStandby: "standby", RoleLagging: "lagging", RoleUnknown: "unknown"}[r]
}

// Verdict is what all checks of a peer have come to.
type Verdict struct {
	Health Health
	Role   RoleState
	Actual conf.Role     // what the server said it is; AnyRole = not told
	Lag    time.Duration // -1 = not told
	Cause  string        // evidence of the last change, one line
	At     clock.Time    // of the last change of Health or Role
}

// ShownRole returns the word that operators see: "primary" or "replica" if the
// peer has the role that is wanted, else "standby", "lagging", "unknown" or "any".
func (v Verdict) ShownRole() string {
	if v.Role == RoleHeld {
		return v.Actual.String()
	}
	return v.Role.String()
}

// reading is what a server has told about itself.
type reading struct {
	role conf.Role     // AnyRole = not told, or none of the others
	lag  time.Duration // -1 = not told
	note string        // the evidence, such as "pg_is_in_recovery is true"
}

// alive is the reading of a server that has only answered.
func alive(note string) reading { return reading{lag: -1, note: note} }

// A judge turns the results of one check into states, and reads no clock:
//
//	             first result                    fall failures in a row
//	unknown ---------------------> healthy <---------------------------> unhealthy
//	        ---------------------> unhealthy    rise successes in a row
//
// A wanted role is held, or not, with each reading. A replica over max_lag
// lags at once, and after rise readings within it no longer.
type judge struct {
	// immutable
	kind       conf.CheckKind
	rise, fall int
	want       conf.Role
	maxLag     time.Duration // conf.Off = any

	health  Health
	against int // results in a row that speak against health
	role    RoleState
	within  int // readings in a row within max_lag, of a replica that lags
	actual  conf.Role
	lag     time.Duration
	cause   string // of the last change of health or role
}

// newJudge returns a judge that starts with begin, which may be nil.
func newJudge(h *conf.HealthCheck, begin *Verdict) *judge {
	j := &judge{kind: h.Kind, rise: h.Rise, fall: h.Fall, want: h.Role, maxLag: h.MaxLag, lag: -1}
	if h.Initial == conf.InitialUp {
		j.health = Healthy
	}
	if j.want != conf.AnyRole {
		j.role = RoleUnknown
	}
	if begin == nil {
		return j
	}
	if begin.Health != Unknown {
		j.health = begin.Health
	}
	j.actual, j.lag = begin.Actual, begin.Lag
	switch {
	case j.want == conf.AnyRole:
	case begin.Actual == conf.AnyRole:
		j.role = begin.Role
	case begin.Actual != j.want:
		j.role = RoleStandby // the wanted role may be another one since then
	case begin.Role == RoleLagging && j.maxLag != conf.Off:
		j.role = RoleLagging
	default:
		j.role = RoleHeld
	}
	return j
}

// pass takes a success.
func (j *judge) pass(r reading) {
	j.judge(Healthy, j.rise, "passed", "")
	j.actual, j.lag = r.role, r.lag
	if j.want != conf.AnyRole {
		j.judgeRole(r)
	}
}

// fail takes a failure. The role keeps its last value: a server that does not
// answer has not said that it is another.
func (j *judge) fail(cause string) {
	j.within = 0
	j.judge(Unhealthy, j.fall, "failed", ": "+cause)
}

func (j *judge) judge(h Health, need int, verb, cause string) {
	if j.health == h {
		j.against = 0
		return
	}
	j.against++
	switch {
	case j.health == Unknown:
		j.cause = fmt.Sprintf("%s: first check %s%s", j.kind, verb, cause)
	case j.against >= need:
		j.cause = fmt.Sprintf("%s: %d of %d %s%s", j.kind, j.against, need, verb, cause)
	default:
		return
	}
	j.health, j.against = h, 0
}

func (j *judge) judgeRole(r reading) {
	late := j.maxLag != conf.Off && (r.lag < 0 || r.lag > j.maxLag)
	to, why := RoleHeld, r.note
	switch {
	case r.role != j.want:
		to = RoleStandby
	case j.want != conf.Replica:
	case late:
		to, why = RoleLagging, fmt.Sprintf("lag %s, max_lag %s", shownLag(r.lag), conf.FormatDuration(j.maxLag))
	case j.role == RoleLagging && j.maxLag != conf.Off:
		j.within++
		if j.within < j.rise {
			return
		}
		why = fmt.Sprintf("lag %s, %d of %d within max_lag %s", shownLag(r.lag), j.within, j.rise, conf.FormatDuration(j.maxLag))
	}
	j.within = 0
	if to != j.role {
		j.role = to
		j.cause = fmt.Sprintf("%s: %s", j.kind, why)
	}
}

func shownLag(d time.Duration) string {
	if d < 0 {
		return "not known"
	}
	return d.Round(time.Millisecond).String()
}

// agree returns what several checks together say, without cause and time: the
// worst health of any, and the worst role of those that ask for one.
func agree(judges []*judge) Verdict {
	v := Verdict{Health: Healthy, Lag: -1}
	worst := [...]int{RoleAny: 0, RoleHeld: 1, RoleLagging: 2, RoleUnknown: 3, RoleStandby: 4}
	for _, j := range judges {
		if j.health == Unhealthy || j.health == Unknown && v.Health == Healthy {
			v.Health = j.health
		}
		if worst[j.role] > worst[v.Role] || v.Role == RoleAny && j.actual != conf.AnyRole {
			v.Role, v.Actual, v.Lag = j.role, j.actual, j.lag
		}
	}
	return v
}

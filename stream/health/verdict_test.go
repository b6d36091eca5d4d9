package health

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
)

// testCheck returns a check with that rise and fall.
func testCheck(rise, fall int) conf.HealthCheck {
	h := conf.NewHealthCheck(conf.CheckPostgres)
	h.Rise, h.Fall = rise, fall
	return h
}

// feed gives a judge the results of a script and returns the states after each,
// one letter for each result.
//
//	f failure   s success that tells nothing
//	p primary   r replica in time   l replica that is late   q replica that does not know
func feed(j *judge, script string) (health, role string) {
	for _, c := range script {
		switch c {
		case 'f':
			j.fail("it burns")
		case 's':
			j.pass(alive(""))
		case 'p':
			j.pass(reading{role: conf.Primary, lag: -1, note: "it is one"})
		case 'r':
			j.pass(reading{role: conf.Replica, lag: 5 * time.Second, note: "it follows"})
		case 'l':
			j.pass(reading{role: conf.Replica, lag: 6 * time.Second, note: "it follows"})
		case 'q':
			j.pass(reading{role: conf.Replica, lag: -1, note: "it follows"})
		default:
			panic(c)
		}
		health += string("?HU"[j.health])
		role += string("ahsl?"[j.role])
	}
	return health, role
}

// H healthy, U unhealthy, ? unknown.
func TestHealth(t *testing.T) {
	for _, test := range []struct {
		rise, fall   int
		initial      conf.Initial
		script, want string
		cause        string
	}{
		{2, 3, conf.InitialUnknown, "s", "H", "postgres: first check passed"},
		{2, 3, conf.InitialUnknown, "f", "U", "postgres: first check failed: it burns"},
		{2, 3, conf.InitialUnknown, "sfffss", "HHHUUH", "postgres: 2 of 2 passed"},
		{2, 3, conf.InitialUnknown, "sfff", "HHHU", "postgres: 3 of 3 failed: it burns"},
		{2, 3, conf.InitialUnknown, "sffsffs", "HHHHHHH", "postgres: first check passed"}, // in a row
		{2, 3, conf.InitialUnknown, "fsfsfss", "UUUUUUH", "postgres: 2 of 2 passed"},
		{1, 1, conf.InitialUnknown, "sfsfs", "HUHUH", "postgres: 1 of 1 passed"},
		{3, 1, conf.InitialUnknown, "sfsss", "HUUUH", "postgres: 3 of 3 passed"},
		{2, 3, conf.InitialUp, "ff", "HH", ""},
		{2, 3, conf.InitialUp, "fff", "HHU", "postgres: 3 of 3 failed: it burns"},
		{2, 3, conf.InitialUp, "ffsff", "HHHHH", ""},
	} {
		h := testCheck(test.rise, test.fall)
		h.Initial = test.initial
		j := newJudge(&h, nil)
		if got, _ := feed(j, test.script); got != test.want || j.cause != test.cause {
			t.Errorf("rise %d, fall %d, initial %v, %s: %s, %q; want %s, %q",
				test.rise, test.fall, test.initial, test.script, got, j.cause, test.want, test.cause)
		}
	}
}

// a any, h held, s standby, l lagging, ? unknown.
func TestRole(t *testing.T) {
	for _, test := range []struct {
		want         conf.Role
		maxLag       time.Duration
		script, role string
		cause        string
	}{
		{conf.AnyRole, conf.Off, "prlf", "aaaa", "postgres: first check passed"},
		{conf.Primary, conf.Off, "fs", "?s", "postgres: "},
		{conf.Primary, conf.Off, "p", "h", "postgres: it is one"},
		{conf.Primary, conf.Off, "prp", "hsh", "postgres: it is one"},
		{conf.Primary, conf.Off, "pr", "hs", "postgres: it follows"},
		{conf.Primary, 5 * time.Second, "plq", "hss", "postgres: it follows"}, // a lag is asked of replicas only
		{conf.Primary, conf.Off, "pfffr", "hhhhs", "postgres: it follows"},    // who fails has not said that it is another
		{conf.Replica, conf.Off, "rlq", "hhh", "postgres: it follows"},
		{conf.Replica, 5 * time.Second, "rl", "hl", "postgres: lag 6s, max_lag 5s"},
		{conf.Replica, 5 * time.Second, "rq", "hl", "postgres: lag not known, max_lag 5s"},
		{conf.Replica, 5 * time.Second, "rlrlrr", "hllllh", "postgres: lag 5s, 2 of 2 within max_lag 5s"},
		{conf.Replica, 5 * time.Second, "rlrfrr", "hllllh", "postgres: lag 5s, 2 of 2 within max_lag 5s"},
		{conf.Replica, 5 * time.Second, "lpr", "lsh", "postgres: it follows"},
	} {
		h := testCheck(2, 3)
		h.Role, h.MaxLag = test.want, test.maxLag
		j := newJudge(&h, nil)
		if _, got := feed(j, test.script); got != test.role || j.cause != test.cause {
			t.Errorf("role %v, max_lag %v, %s: %s, %q; want %s, %q", test.want, test.maxLag, test.script, got, j.cause, test.role, test.cause)
		}
	}
}

func changes(states string) int {
	n := 0
	for i, c := range states {
		if c != rune(("?" + states)[i]) {
			n++
		}
	}
	return n
}

// What the package's doc says about servers that flap.
func TestFlapping(t *testing.T) {
	const n = 120
	for _, test := range []struct {
		rise, fall    int
		script        string
		health, roles int // changes, the first verdict included
	}{
		{2, 3, "fs", 1, 1},
		{2, 3, "sf", 1, 1},
		{1, 3, "fs", 2, 1},
		{1, 3, "sf", 1, 1},
		{2, 1, "sf", 2, 1},
		{1, 1, "sf", n, 1},
		{2, 3, "sssfff", n / 3, 1},
		{2, 3, "pr", 1, n},
		{2, 3, "rl", 1, 2},
		{1, 1, "rl", 1, n},
	} {
		h := testCheck(test.rise, test.fall)
		h.Role, h.MaxLag = conf.Replica, 5*time.Second
		health, role := feed(newJudge(&h, nil), strings.Repeat(test.script, n/len(test.script)))
		if got := changes(health); got != test.health {
			t.Errorf("rise %d, fall %d, %s again and again: %d changes of health, want %d: %s", test.rise, test.fall, test.script, got, test.health, health)
		}
		if got := changes(role); got != test.roles {
			t.Errorf("rise %d, fall %d, %s again and again: %d changes of the role, want %d: %s", test.rise, test.fall, test.script, got, test.roles, role)
		}
	}
}

// The bounds in the package's doc hold whatever comes, and are as good as reached.
func TestChangesAreBounded(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		h := testCheck(1+r.IntN(4), 1+r.IntN(4))
		h.Role, h.MaxLag = conf.Replica, 5*time.Second
		n := 1 + r.IntN(200)
		var script strings.Builder
		for script.Len() < n {
			// Runs of the same, because single ones change little.
			script.WriteString(strings.Repeat(string("frlq"[r.IntN(4)]), 1+r.IntN(5)))
		}
		health, role := feed(newJudge(&h, nil), script.String()[:n])
		if got, most := changes(health), 2+2*n/(h.Rise+h.Fall); got > most {
			t.Fatalf("rise %d, fall %d: %d changes of health, at most %d: %s", h.Rise, h.Fall, got, most, script.String())
		}
		if got, most := changes(role), 2+2*n/(h.Rise+1); got > most {
			t.Fatalf("rise %d: %d changes of lagging, at most %d: %s", h.Rise, got, most, script.String())
		}
	}
	h := testCheck(2, 3)
	worst := "s" + strings.Repeat("fffss", 40)
	health, _ := feed(newJudge(&h, nil), worst)
	if got, most := changes(health), 2+2*len(worst)/5; got != most-1 {
		t.Errorf("%d changes, want one less than the bound, %d", got, most)
	}
}

func TestAgree(t *testing.T) {
	all := []Health{Unknown, Healthy, Unhealthy}
	for _, a := range all {
		for _, b := range all {
			want := Healthy
			switch {
			case a == Unhealthy || b == Unhealthy:
				want = Unhealthy
			case a == Unknown || b == Unknown:
				want = Unknown
			}
			if got := agree([]*judge{{health: a}, {health: b}}).Health; got != want {
				t.Errorf("%v and %v: %v, want %v", a, b, got, want)
			}
		}
	}
	primary := &judge{want: conf.Primary, role: RoleHeld, actual: conf.Primary, lag: -1}
	late := &judge{want: conf.Replica, role: RoleLagging, actual: conf.Replica, lag: time.Hour}
	silent := &judge{role: RoleAny, lag: -1}
	told := &judge{role: RoleAny, actual: conf.Replica, lag: time.Second}
	for _, test := range []struct {
		judges []*judge
		shown  string
		actual conf.Role
		lag    time.Duration
	}{
		{[]*judge{silent}, "any", conf.AnyRole, -1},
		{[]*judge{silent, told}, "any", conf.Replica, time.Second},
		{[]*judge{silent, primary}, "primary", conf.Primary, -1},
		{[]*judge{late, told, primary}, "lagging", conf.Replica, time.Hour},
	} {
		v := agree(test.judges)
		if v.ShownRole() != test.shown || v.Actual != test.actual || v.Lag != test.lag {
			t.Errorf("%+v, shown %s; want %+v", v, v.ShownRole(), test)
		}
	}
}

// A Checker that takes over goes on from what was known.
func TestBegin(t *testing.T) {
	for _, test := range []struct {
		begin       Verdict
		want        conf.Role
		maxLag      time.Duration
		health      Health
		role        RoleState
		script, and string // and the health after it
	}{
		{Verdict{Health: Healthy}, conf.AnyRole, conf.Off, Healthy, RoleAny, "fff", "HHU"},
		{Verdict{Health: Unhealthy}, conf.AnyRole, conf.Off, Unhealthy, RoleAny, "ss", "UH"},
		{Verdict{}, conf.AnyRole, conf.Off, Unknown, RoleAny, "s", "H"},
		{Verdict{}, conf.Primary, conf.Off, Unknown, RoleAny, "s", "H"},
		// A role that is asked for only from now on is not known yet, and
		// nobody is sent away before the server has said.
		{Verdict{Health: Healthy}, conf.Primary, conf.Off, Healthy, RoleAny, "p", "H"},
		{Verdict{Health: Healthy, Role: RoleUnknown}, conf.Primary, conf.Off, Healthy, RoleUnknown, "p", "H"},
		{Verdict{Health: Healthy, Role: RoleHeld, Actual: conf.Primary}, conf.Primary, conf.Off, Healthy, RoleHeld, "p", "H"},
		{Verdict{Health: Healthy, Role: RoleHeld, Actual: conf.Primary}, conf.Replica, conf.Off, Healthy, RoleStandby, "p", "H"},
		{Verdict{Health: Healthy, Role: RoleHeld, Actual: conf.Primary}, conf.AnyRole, conf.Off, Healthy, RoleAny, "p", "H"},
		{Verdict{Health: Healthy, Role: RoleStandby, Actual: conf.Primary}, conf.Primary, conf.Off, Healthy, RoleHeld, "p", "H"},
		{Verdict{Health: Healthy, Role: RoleStandby}, conf.Primary, conf.Off, Healthy, RoleStandby, "p", "H"},
		{Verdict{Health: Healthy, Role: RoleLagging, Actual: conf.Replica}, conf.Replica, time.Second, Healthy, RoleLagging, "r", "H"},
		{Verdict{Health: Healthy, Role: RoleLagging, Actual: conf.Replica}, conf.Replica, conf.Off, Healthy, RoleHeld, "r", "H"},
	} {
		h := testCheck(2, 3)
		h.Role, h.MaxLag = test.want, test.maxLag
		j := newJudge(&h, &test.begin)
		name := fmt.Sprintf("%+v, then role %v, max_lag %v", test.begin, test.want, test.maxLag)
		if j.health != test.health || j.role != test.role {
			t.Errorf("%s: %v and %v, want %v and %v", name, j.health, j.role, test.health, test.role)
		}
		if got, _ := feed(j, test.script); got != test.and {
			t.Errorf("%s: after %s: %s, want %s", name, test.script, got, test.and)
		}
	}
}

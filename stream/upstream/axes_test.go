package upstream

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/internal/clock"
)

// trial is a group that is judged in a test, and what it tells.
type trial struct {
	*testing.T
	*Group
	now    clock.Fake
	peers  map[string]*Peer
	events []string
}

// newTrial returns a group of peers a, b, c... in the upstream's configuration.
func newTrial(t *testing.T, n int, edit func(u *conf.Upstream)) *trial {
	t.Helper()
	tr := &trial{T: t, peers: map[string]*Peer{}}
	tr.now.Set(clock.Now())
	u := conf.NewUpstream("u")
	for i := range n {
		s := conf.NewServer(conf.Address{Host: "127.0.0.1", Port: uint16(i + 1)})
		s.Name = string(rune('a' + i))
		u.Servers = append(u.Servers, s)
	}
	if edit != nil {
		edit(&u)
	}
	var list []*Peer
	for i := range u.Servers {
		s := &u.Servers[i]
		p := newPeer(s, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), s.Address.Port), 1)
		list = append(list, p)
		tr.peers[s.Name] = p
	}
	g, err := NewGroup(&u, list, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	tr.Group = g
	g.Watch(func(e Event) {
		text := map[Alarm]string{ConflictBegun: "conflict", ConflictEnded: "conflict over", Succession: "succession of ", PanicBegun: "panic", PanicEnded: "panic over"}[e.Alarm]
		if e.Peer != nil {
			text += e.Peer.Name
		}
		if e.Alarm == NoAlarm {
			text += fmt.Sprintf(" %s %s->%s", e.Axis, e.From, e.To)
		}
		tr.events = append(tr.events, text)
	})
	return tr
}

// checked is a check of role.
func checked(role conf.Role) conf.HealthCheck {
	c := conf.NewHealthCheck(conf.CheckPostgres)
	c.Role = role
	return c
}

func (tr *trial) judge(name, active, role string) {
	tr.Judge(tr.peers[name], Verdict{active, role, "the test says so"}, tr.now.Now())
}

// picks returns the names of all peers that sessions get, in order.
func (tr *trial) picks() string {
	tr.Helper()
	got := map[string]bool{}
	for range 4 * len(tr.peers) {
		var a Attempts
		tr.Begin(&a, Limits{}, tr.now.Now())
		p := tr.Pick(&a, tr.now.Now())
		if p == nil {
			return ""
		}
		got[p.Name] = true
		tr.Release(p, Succeeded, Took{Connect: -1, FirstByte: -1}, tr.now.Now())
	}
	var names []string
	for name := range got {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, "")
}

func (tr *trial) wantPicks(want string) {
	tr.Helper()
	if got := tr.picks(); got != want {
		tr.Errorf("sessions get %q, want %q", got, want)
	}
}

func (tr *trial) wantEvents(want ...string) {
	tr.Helper()
	if !slices.Equal(tr.events, want) {
		tr.Errorf("the events are\n%q, want\n%q", tr.events, want)
	}
	tr.events = nil
}

func (tr *trial) states() (text string) {
	for _, s := range tr.Snapshot(nil, tr.now.Now()) {
		text += s.Name + " " + s.State.String() + ", "
	}
	return strings.TrimSuffix(text, ", ")
}

func (tr *trial) wantStates(want string) {
	tr.Helper()
	if got := tr.states(); got != want {
		tr.Errorf("the states are %q, want %q", got, want)
	}
}

// A peer is eligible if every axis allows it, and what one says changes no other.
func TestEligibleIsTheAndOfAllAxes(t *testing.T) {
	tr := newTrial(t, 2, func(u *conf.Upstream) { u.Checks = []conf.HealthCheck{checked(conf.AnyRole)} })
	tr.wantPicks("")
	tr.wantStates("a unchecked, b unchecked")
	tr.judge("a", Healthy, AnyRole)
	tr.wantPicks("a")
	tr.judge("b", Healthy, AnyRole)
	tr.wantPicks("ab")
	tr.wantEvents("a active unknown->healthy", "b active unknown->healthy")

	tr.SetAdmin(tr.peers["b"], balance.Down, "test", tr.now.Now())
	tr.judge("b", Unhealthy, AnyRole)
	tr.judge("b", Healthy, AnyRole)
	tr.wantPicks("a") // a check can't undo the operator's word
	tr.judge("b", Unhealthy, AnyRole)
	tr.SetAdmin(tr.peers["b"], balance.Up, "test", tr.now.Now())
	tr.wantPicks("a") // nor the operator the check's
	tr.wantStates("a up, b unhealthy")
	tr.judge("b", Healthy, AnyRole)
	tr.wantPicks("ab")

	latest, total := tr.History(tr.peers["b"])
	if total != 7 || len(latest) != 7 || latest[0].To != Healthy || latest[1].To != "down" || latest[6].From != Unhealthy {
		t.Errorf("b's history has %d transitions: %v", total, latest)
	}
}

// A peer that a check counts as up from the start is not used before it has said
// what it is, if a role is asked for.
func TestInitialUpAwaitsTheRole(t *testing.T) {
	for _, c := range []struct {
		role conf.Role
		want string
	}{{conf.AnyRole, "ab"}, {conf.Primary, ""}} {
		tr := newTrial(t, 2, func(u *conf.Upstream) {
			u.Checks = []conf.HealthCheck{checked(c.role)}
			u.Checks[0].Initial = conf.InitialUp
		})
		tr.wantPicks(c.want)
		tr.judge("a", Healthy, IsPrimary)
		tr.judge("b", Healthy, Unknown)
		tr.wantPicks("a")
	}
}

// Verdicts say why a peer is left out, to whoever asks for the reasons of a pick.
func TestVerdictsAreReasons(t *testing.T) {
	tr := newTrial(t, 4, func(u *conf.Upstream) { u.Checks = []conf.HealthCheck{checked(conf.Primary)} })
	tr.judge("a", Healthy, Standby)
	tr.judge("b", Unhealthy, AnyRole)
	tr.judge("c", Healthy, Lagging)
	var a Attempts
	tr.Begin(&a, Limits{}, tr.now.Now())
	if p := tr.Pick(&a, tr.now.Now()); p != nil {
		t.Fatalf("picked %v", p)
	}
	got := tr.Inspect(&a, tr.now.Now()).Sentence(func(balance.Seconds) string { return "" })
	for _, want := range []string{"a (standby)", "b (unhealthy)", "c (lagging)", "d (unchecked)"} {
		name, why, _ := strings.Cut(strings.TrimSuffix(want, ")"), " (")
		if !strings.Contains(got, name) || !strings.Contains(got, why) {
			t.Errorf("%q says nothing of %s", got, want)
		}
	}
}

// Whoever has what only one may have keeps it while it claims it.
func TestExactlyOne(t *testing.T) {
	tr := newTrial(t, 3, func(u *conf.Upstream) {
		u.Checks = []conf.HealthCheck{checked(conf.Primary)}
		u.ExactlyOne = true
	})
	tr.judge("b", Healthy, IsPrimary)
	tr.wantPicks("b")
	tr.judge("a", Healthy, Standby)
	tr.judge("c", Healthy, Standby)
	tr.wantEvents("b active unknown->healthy", "succession of b", "b role unknown->primary",
		"a active unknown->healthy", "a role unknown->standby", "c active unknown->healthy", "c role unknown->standby")

	// Another claims it: no session goes there, however often it is said.
	tr.judge("a", Healthy, IsPrimary)
	tr.judge("a", Healthy, IsPrimary)
	tr.wantPicks("b")
	tr.wantStates("a conflict, b up, c standby")
	if s := tr.State(); !s.Conflict || s.Incumbent != "b" || s.Epoch != 1 || s.Conflicts != 1 {
		t.Errorf("the group is %+v", s)
	}
	tr.wantEvents("a role standby->conflict", "conflict")

	// The incumbent is demoted.
	tr.judge("b", Healthy, Standby)
	tr.wantPicks("a")
	tr.wantEvents("succession of a", "a role conflict->primary", "b role primary->standby", "conflict over")

	// And comes back too late.
	tr.judge("b", Healthy, IsPrimary)
	tr.wantPicks("a")
	// A check that fails and passes again in time changes nothing, since nobody
	// else claims it meanwhile.
	tr.judge("b", Healthy, Standby)
	tr.judge("a", Unhealthy, IsPrimary)
	tr.wantPicks("")
	tr.judge("a", Healthy, IsPrimary)
	tr.wantPicks("a")
	if s := tr.State(); s.Conflict || s.Incumbent != "a" || s.Epoch != 2 {
		t.Errorf("the group is %+v", s)
	}
	// The operator hands it over.
	tr.judge("c", Healthy, IsPrimary)
	tr.wantPicks("a")
	tr.SetAdmin(tr.peers["a"], balance.Drain, "test", tr.now.Now())
	tr.wantPicks("c")
}

// In a panic the sick are used, and never those in another role, nor those that
// the operator has taken out.
func TestPanic(t *testing.T) {
	tr := newTrial(t, 5, func(u *conf.Upstream) {
		u.Checks = []conf.HealthCheck{checked(conf.Primary)}
		u.PanicThreshold = 0.5
	})
	tr.wantPicks("") // unknown is not sick
	for _, name := range []string{"a", "b", "c"} {
		tr.judge(name, Healthy, IsPrimary)
	}
	tr.judge("d", Healthy, Standby)
	tr.SetAdmin(tr.peers["e"], balance.Down, "test", tr.now.Now())
	tr.events = nil
	tr.judge("a", Unhealthy, IsPrimary)
	tr.wantPicks("bc")
	tr.judge("b", Unhealthy, IsPrimary)
	tr.wantPicks("abc")
	tr.wantEvents("a active healthy->unhealthy", "b active healthy->unhealthy", "panic")
	tr.judge("b", Healthy, IsPrimary)
	tr.wantPicks("bc")
	tr.wantEvents("b active unhealthy->healthy", "panic over")
}

// A peer that fails in a row is ejected, each time for longer, and never more than
// max_ejection of them at once.
func TestConsecutiveFailuresEject(t *testing.T) {
	tr := newTrial(t, 4, func(u *conf.Upstream) {
		o := conf.DefaultOutlierDetection()
		o.MinSuccessRate = 0
		u.Outlier = &o
		for i := range u.Servers {
			u.Servers[i].MaxFails = 0
		}
	})
	meet := func(name string, o Outcome, word Word) {
		tr.Hold(tr.peers[name], Took{}, tr.now.Now())
		tr.Release(tr.peers[name], o, Took{Connect: -1, FirstByte: -1, Word: word}, tr.now.Now())
	}
	fail := func(name string, n int) {
		for i := range n {
			if i%2 == 0 {
				meet(name, Failed, NotKnown)
			} else {
				meet(name, Succeeded, Broke)
			}
		}
	}
	fail("a", 4)
	meet("a", Succeeded, NoNeed)
	fail("a", 4)
	tr.wantPicks("abcd")
	fail("a", 1)
	tr.wantPicks("bcd")
	fail("b", 5)
	tr.wantPicks("cd")
	fail("c", 50)
	tr.wantPicks("cd") // half of them at most
	wait := func(d time.Duration) {
		tr.now.Advance(d)
		tr.Tick(tr.now.Now())
	}
	wait(29 * time.Second)
	tr.wantPicks("cd")
	wait(time.Second)
	tr.wantPicks("abcd")
	fail("a", 5)
	wait(59 * time.Second)
	tr.wantPicks("bcd")
	tr.wantStates("a ejected, b up, c up, d up")
	wait(time.Second)
	tr.wantPicks("abcd")
}

// The last that may be picked is not ejected: its sessions would have nobody else.
func TestLastInUseIsNotEjected(t *testing.T) {
	tr := newTrial(t, 2, func(u *conf.Upstream) {
		o := conf.DefaultOutlierDetection()
		u.Outlier = &o
	})
	fail := func() {
		for range 5 {
			tr.Hold(tr.peers["b"], Took{}, tr.now.Now())
			tr.Release(tr.peers["b"], Succeeded, Took{Word: Broke}, tr.now.Now())
		}
	}
	tr.SetAdmin(tr.peers["a"], balance.Drain, "test", tr.now.Now())
	fail()
	tr.wantPicks("b")
	tr.SetAdmin(tr.peers["a"], balance.Up, "test", tr.now.Now())
	fail()
	tr.wantPicks("a")
}

// Whoever has become the only server is not ejected any more, and no failure of
// before counts.
func TestOnlyServerLeftIsInUse(t *testing.T) {
	upstreamOf := func(names ...string) *conf.Upstream {
		u := conf.NewUpstream("u")
		o := conf.DefaultOutlierDetection()
		u.Outlier = &o
		for _, name := range names {
			s := conf.NewServer(conf.Address{Host: "127.0.0.1", Port: uint16(name[0])})
			s.Name = name
			u.Servers = append(u.Servers, s)
		}
		return &u
	}
	for name, end := range map[string]func(tr *trial, b *Peer){
		"ejected": func(tr *trial, b *Peer) {
			for range 5 {
				tr.Hold(b, Took{}, tr.now.Now())
				tr.Release(b, Succeeded, Took{Word: Broke}, tr.now.Now())
			}
		},
		"unavailable": func(tr *trial, b *Peer) {
			tr.Hold(b, Took{}, tr.now.Now())
			tr.Release(b, Failed, Took{Connect: -1, FirstByte: -1}, tr.now.Now())
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTrial(t, 0, func(u *conf.Upstream) { *u = *upstreamOf("a", "b") })
			b := tr.peers["b"]
			end(tr, b)
			tr.wantStates("a up, b " + name)
			u := upstreamOf("b")
			plan, err := tr.Plan(u, peersOf(t, u), 1)
			if err != nil {
				t.Fatal(err)
			}
			tr.Update(plan)
			tr.wantPicks("b")
			tr.wantStates("b up")
			if b.axes[AxisPassive].Value != Available {
				t.Errorf("b is %+v", b.axes[AxisPassive])
			}
		})
	}
}

// A peer is ejected for a success rate far below the others'.
func TestSuccessRateEjects(t *testing.T) {
	tr := newTrial(t, 3, func(u *conf.Upstream) {
		u.Outlier = &conf.OutlierDetection{MinSuccessRate: 0.8, Interval: 10 * time.Second, BaseEjectionTime: 30 * time.Second, MaxEjection: 0.5}
	})
	interval := func(good, bad map[string]int) {
		tr.Tick(tr.now.Now())
		for name, n := range good {
			for range n {
				tr.FirstByte(tr.peers[name], true, 0, tr.now.Now())
			}
		}
		for name, n := range bad {
			for range n {
				tr.Hold(tr.peers[name], Took{}, tr.now.Now())
				tr.Release(tr.peers[name], Succeeded, Took{FirstByte: -1, Word: Broke}, tr.now.Now())
			}
		}
		tr.now.Advance(10 * time.Second)
		tr.Tick(tr.now.Now())
	}
	interval(map[string]int{"a": 100, "b": 100, "c": 80}, map[string]int{"c": 20})
	tr.wantPicks("abc") // 80 % where the mean is 93 %
	interval(map[string]int{"a": 100, "b": 100}, map[string]int{"c": 9})
	tr.wantPicks("abc") // too few to tell
	interval(map[string]int{"a": 50, "b": 50, "c": 50}, map[string]int{"a": 50, "b": 50, "c": 50})
	tr.wantPicks("abc") // all are as bad: it is not the peers
	interval(map[string]int{"a": 100, "b": 100, "c": 60}, map[string]int{"c": 40})
	tr.wantPicks("ab")
	wantCause(t, tr, "c", AxisPassive, "60% of 100 sessions went well, where the mean of the peers is 87%; for 30s")
}

func wantCause(t *testing.T, tr *trial, name string, a Axis, want string) {
	t.Helper()
	for _, s := range tr.Snapshot(nil, tr.now.Now()) {
		if s.Name == name && s.Axes[a].Cause != want {
			t.Errorf("the cause is %q, want %q", s.Axes[a].Cause, want)
		}
	}
}

// A server that comes back begins its slow start, whichever axis had kept it out.
func TestSlowStartBeginsOnReturn(t *testing.T) {
	tr := newTrial(t, 2, func(u *conf.Upstream) {
		u.Checks = []conf.HealthCheck{checked(conf.AnyRole)}
		for i := range u.Servers {
			u.Servers[i].SlowStart = 10 * time.Second
			u.Servers[i].MaxFails = 1
		}
	})
	warmth := func() float64 { return tr.Snapshot(nil, tr.now.Now())[0].Warmth }
	step := func(what string, back func()) {
		t.Helper()
		tr.now.Advance(time.Minute)
		if w := warmth(); w != 1 {
			t.Fatalf("before %s its share is %v", what, w)
		}
		back()
		if w := warmth(); w > 0.001 {
			t.Errorf("after %s its share is %v", what, w)
		}
		tr.now.Advance(5 * time.Second)
		if w := warmth(); w < 0.49 || w > 0.51 {
			t.Errorf("half way after %s its share is %v", what, w)
		}
	}
	a := tr.peers["a"]
	tr.judge("b", Healthy, AnyRole)
	step("the first verdict", func() { tr.judge("a", Healthy, AnyRole) })
	step("health", func() {
		tr.judge("a", Unhealthy, AnyRole)
		tr.judge("a", Healthy, AnyRole)
	})
	step("drain", func() {
		tr.SetAdmin(a, balance.Drain, "test", tr.now.Now())
		tr.SetAdmin(a, balance.Up, "test", tr.now.Now())
	})
	step("fail_timeout", func() {
		tr.Hold(a, Took{}, tr.now.Now())
		tr.Release(a, Failed, Took{}, tr.now.Now())
		tr.now.Advance(30 * time.Second)
		tr.wantPicks("ab")
	})
}

// UDP sessions leave a peer as on_state says; by default on every verdict.
func TestForsaken(t *testing.T) {
	for _, c := range []struct {
		fate conf.Fate
		want bool
	}{{conf.FateDefault, true}, {conf.Keep, false}, {conf.CloseFate, true}} {
		tr := newTrial(t, 2, func(u *conf.Upstream) {
			u.Checks = []conf.HealthCheck{checked(conf.Primary)}
			u.OnState.Unhealthy, u.OnState.Standby = c.fate, c.fate
		})
		tr.judge("a", Healthy, IsPrimary)
		if tr.peers["a"].IsForsaken() {
			t.Error("a healthy peer is forsaken")
		}
		tr.judge("a", Unhealthy, IsPrimary)
		if got := tr.peers["a"].IsForsaken(); got != c.want {
			t.Errorf("unhealthy with %q: forsaken is %v", c.fate, got)
		}
		tr.judge("a", Healthy, Standby)
		if got := tr.peers["a"].IsForsaken(); got != c.want {
			t.Errorf("standby with %q: forsaken is %v", c.fate, got)
		}
	}
}

// A reload that adds checks leaves the peers in use until their first verdict, one
// that takes them away forgets what they said, and an upgrade leaves no gap.
func TestVerdictsOutliveChanges(t *testing.T) {
	u := conf.NewUpstream("u")
	for i := range 2 {
		s := conf.NewServer(conf.Address{Host: "127.0.0.1", Port: uint16(i + 1)})
		s.Name = string(rune('a' + i))
		u.Servers = append(u.Servers, s)
	}
	with := u
	with.Checks = []conf.HealthCheck{checked(conf.Primary)}
	with.ExactlyOne = true
	resolve := func(u *conf.Upstream) []*Peer {
		peers, err := Resolve(t.Context(), u, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		return peers
	}
	tr := newTrial(t, 2, nil)
	change := func(u *conf.Upstream) {
		plan, err := tr.Plan(u, resolve(u), 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Added)+len(plan.Removed) > 0 {
			t.Fatalf("the change adds %v and removes %v", plan.Added, plan.Removed)
		}
		tr.Update(plan)
	}
	tr.wantPicks("ab")
	one := with
	one.ExactlyOne = false
	change(&one)
	tr.wantPicks("ab")
	tr.judge("a", Healthy, IsPrimary)
	tr.judge("b", Healthy, Standby)
	tr.wantPicks("a")
	change(&with)
	tr.wantPicks("a")

	heir, err := NewGroup(&with, resolve(&with), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range tr.Export(tr.now.Now()) {
		heir.Import(&st, tr.now.Now())
	}
	old := tr.Group
	tr.Group = heir
	tr.wantPicks("a")
	if s := heir.State(); s.Incumbent != "a" {
		t.Errorf("the heir's group is %+v", s)
	}
	tr.Group = old
	change(&u)
	tr.wantPicks("ab")
	tr.judge("a", Unhealthy, AnyRole) // a verdict that comes late
	tr.wantPicks("ab")
	tr.wantStates("a up, b up")
}

// An upstream whose servers are discovered may have none for a while.
func TestGroupWithoutPeers(t *testing.T) {
	u := conf.NewUpstream("u")
	u.ServerFile = "peers.json"
	g, err := NewGroup(&u, nil, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	now := clock.Now()
	pick := func() *Peer {
		var a Attempts
		g.Begin(&a, Limits{}, now)
		return g.Pick(&a, now)
	}
	if p := pick(); p != nil || len(g.AllStats()) != 2 {
		t.Fatalf("picked %v", p)
	}
	for _, n := range []int{1, 0, 3, 0} {
		var peers []*Peer
		for i := range n {
			s := conf.NewServer(conf.Address{Host: "127.0.0.1", Port: uint16(i + 1)})
			peers = append(peers, newPeer(&s, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(i+1)), 2))
		}
		plan, err := g.Plan(&u, peers, 2)
		if err != nil {
			t.Fatal(err)
		}
		g.Update(plan)
		p := pick()
		if (p != nil) != (n > 0) {
			t.Errorf("of %d peers %v was picked", n, p)
		}
		if p != nil {
			g.Release(p, Succeeded, Took{}, now)
		}
	}
}

// An upgrade leaves the role where it was, whatever the order of the peers, and
// how often it has changed hands.
func TestUpgradeKeepsTheIncumbent(t *testing.T) {
	with := func(u *conf.Upstream) {
		u.Checks = []conf.HealthCheck{checked(conf.Primary)}
		u.ExactlyOne = true
	}
	old, heir := newTrial(t, 3, with), newTrial(t, 3, with)
	for _, name := range []string{"a", "b"} { // the role goes from a to b
		old.judge(name, Healthy, IsPrimary)
		old.judge("a", Healthy, map[string]string{"a": IsPrimary, "b": Standby}[name])
	}
	old.judge("a", Healthy, IsPrimary)
	old.wantStates("a conflict, b up, c unchecked")
	for _, st := range old.Export(old.now.Now()) {
		heir.Import(&st, heir.now.Now())
	}
	heir.wantStates("a conflict, b up, c unchecked")
	if got, want := heir.State(), old.State(); got.Incumbent != "b" || got.Epoch != want.Epoch {
		t.Errorf("the heir's group is %+v, the old one %+v", got, want)
	}
	for _, e := range heir.events {
		if strings.HasPrefix(e, "succession") {
			t.Errorf("the heir says %q", e)
		}
	}
}

// A forecast for the only peer leaves no trace, at max_conns least of all.
func TestForecastOfTheOnlyPeerChangesNothing(t *testing.T) {
	tr := newTrial(t, 1, func(u *conf.Upstream) {
		u.Servers[0].MaxConns = 1
		u.Balance = conf.DefaultBalance(conf.LeastTime)
		u.Balance.Inflight = true
	})
	before := tr.Snapshot(nil, tr.now.Now())[0]
	tr.now.Advance(time.Second)
	if d := tr.Forecast(&Facts{}, tr.now.Now()); d.Peer == nil {
		t.Fatal("nobody would be picked")
	}
	after := tr.Snapshot(nil, tr.now.Now())[0]
	if before.Axes != after.Axes || before.Balance != after.Balance {
		t.Errorf("it was\n%+v\nand is\n%+v", before, after)
	}
}

// Who is told of a verdict ends the sessions that were picked until then. One that
// was picked while the verdict waited for its turn is one of these.
func TestVerdictIsNotBeforeLastPick(t *testing.T) {
	tr := newTrial(t, 2, func(u *conf.Upstream) {
		u.Checks = []conf.HealthCheck{checked(conf.Primary)}
		u.PanicThreshold = 0.9
	})
	tr.judge("a", Healthy, IsPrimary)
	tr.judge("b", Healthy, IsPrimary)
	var told []Event
	tr.Watch(func(e Event) { told = append(told, e) })
	pick := func() (before, picked clock.Time) {
		before = tr.now.Now()
		tr.now.Advance(time.Millisecond)
		picked = tr.now.Now()
		var a Attempts
		tr.Begin(&a, Limits{}, picked)
		if tr.Pick(&a, picked) == nil || tr.Beside(&a, picked.Add(time.Microsecond)) == nil {
			t.Fatal("nobody was picked")
		}
		return before, picked.Add(time.Microsecond) // of the hedge
	}
	a := tr.peers["a"]
	for _, do := range []func(before clock.Time){
		func(before clock.Time) { tr.Judge(a, Verdict{Unhealthy, IsPrimary, "test"}, before) }, // a panic begins
		func(before clock.Time) { tr.Judge(a, Verdict{Healthy, IsPrimary, "test"}, before) },   // and ends
		func(before clock.Time) { tr.SetAdmin(a, balance.Drain, "test", before) },
	} {
		told = nil
		before, picked := pick()
		if do(before); len(told) == 0 {
			t.Fatal("nothing was told")
		}
		for _, e := range told {
			if e.At < picked {
				t.Errorf("%s %s, alarm %d: the event is %v before the last pick", e.Axis, e.To, e.Alarm, picked.Sub(e.At))
			}
		}
	}
}

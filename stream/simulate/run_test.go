package simulate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
)

// mustRun runs a script and returns what is told of it.
func mustRun(tb testing.TB, s *Simulation, f Format, script string) string {
	tb.Helper()
	sc, mistakes := s.ParseScript(script)
	if mistakes != nil {
		tb.Fatalf("script %q: %v", script, mistakes)
	}
	var b strings.Builder
	if err := s.Run(sc, &b, f); err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

// The night that nginx was recorded in comes out the same: the session's ways,
// the weights after each, and the sums in the morning.
func TestNightAndMorning(t *testing.T) {
	s := newTestSimulation(t, func(u *conf.Upstream, _ *conf.Listener) { u.Servers = u.Servers[:2] })
	got := mustRun(t, s, Verbose, "fail a; connect 2; heal a; wait 11s; table at 11,20,50,100,150,200; connect 200")
	for _, want := range []string{
		"   time  session  peer              a       b       why\n",
		"     0s        1  a refused -> b    -1/5    1/1     picked a by current weight: a 10, b 1\n",
		"     0s        2  a refused -> b    -2/1    2/1     ",
		"    11s        3  b                 -1/2    1/1     picked b by current weight: b 3, a -1; a (weight 10) is in debt at",
		"    11s        4  b                 1/3     -1/1    picked b by current weight: b 2, a 1; a (weight 10) is in debt at",
		"    11s        5  a                 0/4     0/1     ",
		"    11s      202  a                 -1/10   1/1     ",
		`
Sessions by peer, counted from 11s on:
  connects    a  share   b  share
        11    8  72.7%   3  27.3%
        20   16  80.0%   4  20.0%
        50   44  88.0%   6  12.0%
       100   89  89.0%  11  11.0%
       150  134  89.3%  16  10.7%
       200  180  90.0%  20  10.0%
     ideal       90.9%       9.1%

202 sessions in 11s:
  peer  sessions  share  ideal  difference  failed attempts
  a          180  89.1%  90.9%        -3.6                2
  b           22  10.9%   9.1%        +3.6                0
`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("missing:\n%s", want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

// A session's line tells when it came, which way it went and what it left.
func TestWays(t *testing.T) {
	for _, c := range []struct {
		name, script string
		edit         func(*conf.Upstream, *conf.Listener)
		want         []string // beginnings of session lines, in order
	}{
		{"a refusal moves on", "fail a; connect 2", nil, []string{"0s 1 a refused -> b -1/5 1/1 0/1", "0s 2 a refused -> b -2/1 2/1 0/1"}},
		{"time passes while a peer hangs", "hang a; connect 2", nil, []string{"0s 1 a timed out -> b", "3s 2 a timed out -> b"}},
		{"as it does with one that is too slow", "slow a 3s; connect", nil, []string{"0s 1 a timed out -> b"}},
		{"and with one that is slow", "slow a 2s; connect 2", nil, []string{"0s 1 a -1/10 1/1", "2s 2 a -2/10 2/1"}},
		{"the backup is last", "fail a b; connect 3", nil, []string{
			"0s 1 a refused -> b refused -> spare one", "0s 2 a refused -> spare one", "0s 3 spare one"}},
		{"nobody is left", "fail a; down b \"spare one\"; connect 3", nil, []string{
			"0s 1 a refused -> given up", "0s 2 a refused -> given up", "0s 3 nobody"}},
		{"a drained peer counts in the tries", "fail a; drain b \"spare one\"; connect", nil, []string{"0s 1 a refused -> nobody"}},
		{"tries end it", "fail a; connect", func(_ *conf.Upstream, l *conf.Listener) { l.NextUpstream.Tries = 1 }, []string{"0s 1 a refused -> given up"}},
		{"and so does time", "hang a; connect", func(_ *conf.Upstream, l *conf.Listener) { l.NextUpstream.Timeout = time.Second }, []string{"0s 1 a timed out -> given up"}},
		{"healed is healed", "hang a; slow b 1s; heal a b; connect 2", nil, []string{"0s 1 a", "0s 2 a"}},
		{"clients that count", "connect 3 from 10.0.0.1+",
			func(u *conf.Upstream, _ *conf.Listener) {
				u.Balance = conf.DefaultBalance(conf.Hash)
				u.Balance.Key = conf.Template{{Variable: conf.VarRemoteAddr}, {Text: ":"}, {Variable: conf.VarRemotePort}}
			},
			[]string{`0s 1 a 0/10 0/1 0/1 picked a by the hash of the key`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := mustRun(t, newTestSimulation(t, c.edit), Text, c.script)
			var got []string
			for line := range strings.SplitSeq(out, "\n") {
				if f := strings.Fields(line); len(f) > 1 && strings.HasSuffix(f[0], "s") && strings.Trim(f[1], "0123456789") == "" {
					got = append(got, strings.Join(f, " "))
				}
			}
			for i, want := range c.want {
				if i >= len(got) || !strings.HasPrefix(got[i], want) {
					t.Errorf("line %d does not begin with %q", i+1, want)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

// Held sessions keep their peer until they are closed, by number, peer or all.
func TestHeldSessions(t *testing.T) {
	s := newTestSimulation(t, func(u *conf.Upstream, _ *conf.Listener) {
		u.Servers[0].Weight, u.Servers[0].MaxConns = 1, 2
		u.Servers[1].MaxConns = 3
		u.Servers = u.Servers[:2]
	})
	got := mustRun(t, s, Text, "connect 6 hold; show; close 1-2; close 1; close b; close 6; close all; connect 1 hold; show")
	for _, want := range []string{
		"     0s        1  a held as 1      -1/1 (1)   1/1 (0)    picked a",
		"     0s        6  nobody           -1/1 (2)   1/1 (3)    no peer is eligible: ",
		"                  a     full        1          1       -1  2 of 2  0 of 2         2\n",
		"     0s           close 1-2: 2 sessions\n",
		"     0s           close 1: no such session is open\n",
		"     0s           close b: 2 sessions\n",
		"     0s           close 6: no such session is open\n",
		"     0s           close all: 1 session\n",
		"     0s        7  b held as 7      0/1 (0)    0/1 (1)    ",
		"                  b     up          1          1        0  1 of 3  0 of 1         4\n",
		"7 sessions in 0s, 1 of them got nobody:\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("missing: %q", want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

// The ideal is counted session by session: what the operator takes out gets
// nothing from then on.
func TestIdealFollowsTheOperator(t *testing.T) {
	s := newTestSimulation(t, func(u *conf.Upstream, _ *conf.Listener) { u.Servers[0].Weight = 3 })
	got := mustRun(t, s, Text, "connect 4; drain a; connect 4; down b; connect 2; up a; table every 30; connect 20")
	for _, want := range []string{
		"\nSessions by peer, counted from 0s on:\n  none, since only 20 connects came after that\n",
		`
30 sessions in 0s:
  peer       sessions  share  ideal  difference  failed attempts
  a                23  76.7%  76.7%        +0.0                0
  b                 5  16.7%  16.7%        +0.0                0
  spare one         2   6.7%   0.0%        +2.0                0
`} {
		if !strings.Contains(got, want) {
			t.Errorf("missing:\n%s\nin:\n%s", want, got)
		}
	}
}

// Methods that give by order have no ideal shares.
func TestNoIdealByOrder(t *testing.T) {
	s := newTestSimulation(t, func(u *conf.Upstream, _ *conf.Listener) { u.Balance = conf.DefaultBalance(conf.First) })
	if got := mustRun(t, s, Text, "table every 1; connect 2"); strings.Contains(strings.ToLower(got), "ideal") {
		t.Error(got)
	}
}

// Asking for the reasons changes no pick, with any method.
func TestExplainingChangesNothing(t *testing.T) {
	const script = "connect 40 from 10.0.0.1+; fail a; connect 30 hold; wait 5s; slow b 20ms; connect 50 from 10.1.0.1+; heal a; wait 11s; drain b; connect 60 from 10.2.0.1:1000+; close all; up b; connect 90"
	for _, method := range []string{conf.RoundRobin, conf.WeightedRoundRobin, conf.LeastConn, conf.LeastTime, conf.Hash, conf.IPHash, conf.Maglev, conf.Random, conf.EpsilonGreedy, conf.First, conf.Single} {
		var sums [3]tally
		for _, f := range []Format{Text, Verbose, JSON} {
			s := newTestSimulation(t, func(u *conf.Upstream, _ *conf.Listener) {
				u.Balance = conf.DefaultBalance(method)
				u.Balance.Key = conf.Template{{Variable: conf.VarRemoteAddr}}
			})
			mustRun(t, s, f, script)
			sums[f] = s.all
		}
		for _, f := range []Format{Verbose, JSON} {
			if fmt.Sprint(sums[f]) != fmt.Sprint(sums[Text]) {
				t.Errorf("%s: %v if every session is explained, %v if few are", method, sums[f], sums[Text])
			}
		}
	}
}

// JSON has one object for each event and session, and the totals at the end.
func TestJSONLines(t *testing.T) {
	s := newTestSimulation(t, func(u *conf.Upstream, _ *conf.Listener) { u.Servers = u.Servers[:2] })
	out := mustRun(t, s, JSON, "fail a; table every 1; connect from 10.0.0.1; wait 2s; connect hold; close 1; show")
	var events []string
	for line := range strings.Lines(out) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		events = append(events, fmt.Sprint(v["event"]))
	}
	if got, want := strings.Join(events, " "), "fail connect wait connect close show table <nil>"; got != want {
		t.Errorf("lines are %s, want %s", got, want)
	}
	for _, want := range []string{
		`{"t_ms":0,"event":"fail","peers":["a"]}` + "\n",
		`{"t_ms":0,"event":"connect","session":1,"client":"10.0.0.1:50000","attempts":[{"peer":"a","ok":false,"fate":"refused","failure":{"sentence":"connecting to a`,
		`"fails":1,"max_fails":2,"effective_before":10,"effective_after":5}},{"peer":"b","ok":true,"fate":"connected"}],"status":200,"decisions":[{"peer":"a","sentence":"picked a`,
		`"weights":[{"peer":"a","current":-1,"effective":5,"conns":0,"fails":1},{"peer":"b","current":1,"effective":1,"conns":0,"fails":0}]}` + "\n",
		`{"t_ms":0,"event":"wait","ms":2000}` + "\n",
		`{"t_ms":2000,"event":"connect","session":2,"held":1,`,
		`{"t_ms":2000,"event":"close","closed":1}` + "\n",
		`"left_out":"tried"`,
		`{"t_ms":2000,"event":"table","from_ms":0,"rows":[{"connects":1,"nobody":0,"peers":[{"peer":"a","sessions":0,"share":0,"ideal":0.9`,
		`{"totals":{"t_ms":2000,"connects":2,"nobody":0,"peers":[{"peer":"a","sessions":0,`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("missing: %s", want)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}

// The clock has an end.
func TestTooLong(t *testing.T) {
	s := newTestSimulation(t, func(_ *conf.Upstream, l *conf.Listener) { l.ConnectTimeout = conf.MaxDuration })
	sc, _ := s.ParseScript("hang a b \"spare one\"; connect 10000000")
	var b strings.Builder
	if err := s.Run(sc, &b, Text); err == nil || !strings.Contains(err.Error(), "more than ten years") {
		t.Errorf("it ended with %v", err)
	}
	if !strings.Contains(b.String(), "sessions in 87600h") {
		t.Errorf("what came before is not told:\n%s", b.String())
	}
}

// A host name is one peer, with an address that no other has.
func TestNamesAreNotResolved(t *testing.T) {
	s := newTestSimulation(t, func(u *conf.Upstream, _ *conf.Listener) {
		u.Servers[0].Address.Host, u.Servers[1].Address.Host = "db1.example", "db2.example"
		u.Servers[1].Address.Port = 5433
	})
	if got := fmt.Sprint(s.peers); got != "[198.18.0.1:5432 198.18.0.2:5433 10.0.0.13:5432]" {
		t.Errorf("peers are %s", got)
	}
	if got := s.find("db2.example:5433"); len(got) != 1 || got[0] != 1 {
		t.Errorf("the name finds %v", got)
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 250 * time.Millisecond: "250ms", 11 * time.Second: "11s", 90 * time.Second: "1m30s", 5 * time.Minute: "5m",
		2 * time.Hour: "2h", 2*time.Hour + time.Second: "2h0m1s", 10 * time.Minute: "10m", 100 * time.Hour: "100h", 1500 * time.Millisecond: "1.5s",
	} {
		if got := span(d); got != want {
			t.Errorf("%d is %q, want %q", d, got, want)
		}
	}
}

// Nobody checks the peers of a simulation: they are well, whatever a check would
// wait for, and with exactly_one the first of them has the role.
func TestChecksAreNotMade(t *testing.T) {
	for _, exactlyOne := range []bool{false, true} {
		s := newTestSimulation(t, func(u *conf.Upstream, _ *conf.Listener) {
			u.Servers = u.Servers[:2]
			u.Servers[0].Weight = 1
			c := conf.NewHealthCheck(conf.CheckPostgres)
			c.Role = conf.Primary
			u.Checks, u.ExactlyOne = []conf.HealthCheck{c}, exactlyOne
		})
		want := []int{2, 2}
		if exactlyOne {
			want = []int{4, 0}
		}
		got := mustRun(t, s, Text, "connect 4")
		if !slices.Equal(s.all.sessions, want) {
			t.Errorf("exactly_one = %v: the peers got %v, want %v:\n%s", exactlyOne, s.all.sessions, want, got)
		}
	}
}

// Slow start begins when the script does.
func TestSlowStartIsOfTheScript(t *testing.T) {
	s := newTestSimulation(t, func(u *conf.Upstream, _ *conf.Listener) { u.Servers[0].SlowStart = 10 * time.Second })
	for _, want := range []float64{0, 0.5, 1} {
		if got := s.snapshot()[0].Warmth; got != want {
			t.Errorf("after %v the peer has %v of its part, want %v", s.now(), got, want)
		}
		s.advance(5 * time.Second)
	}
}

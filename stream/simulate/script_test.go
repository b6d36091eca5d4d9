package simulate

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weirlb/weir/conf"
)

// newTestSimulation returns a simulation of a (weight 10, max_fails 2), b and
// the backup "spare one".
func newTestSimulation(tb testing.TB, edit func(*conf.Upstream, *conf.Listener)) *Simulation {
	tb.Helper()
	u := conf.NewUpstream("db")
	for i, name := range []string{"a", "b", "spare one"} {
		s := conf.NewServer(conf.Address{Host: fmt.Sprintf("10.0.0.1%d", i+1), Port: 5432})
		s.Name, s.Backup = name, i == 2
		u.Servers = append(u.Servers, s)
	}
	u.Servers[0].Weight, u.Servers[0].MaxFails = 10, 2
	l := conf.NewListener("db")
	if edit != nil {
		edit(&u, &l)
	}
	s, err := New(&u, &l, 1)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// Scripts come out as the events that they say, however they are laid out.
func TestParseScript(t *testing.T) {
	for _, c := range []struct{ script, want string }{
		{"connect", "connect 1"},
		{"connect 7", "connect 7"},
		{"connect hold", "connect 1 hold"},
		{"connect 3 hold from unix", "connect 3 from unix hold"},
		{"connect 2 from 10.0.0.255+", "connect 2 from 10.0.0.255:50000 10.0.1.0:50000"},
		{"connect 2 from [2001:db8::1]:7+", "connect 2 from [2001:db8::1]:7 [2001:db8::1]:8"},
		{"connect from ::ffff:10.0.0.1", "connect 1 from 10.0.0.1:50000"},
		{"fail a b", "fail [0 1]"},
		{`drain "spare one"`, "drain [2]"},
		{"heal 10.0.0.12:5432", "heal [1]"},
		{"slow b 1m30s", "slow [1] 1m30s"},
		{"wait 250ms", "wait 250ms"},
		{"connect 9 hold; close 2-9;close 1; close all; close a", "connect 9 hold; close 2-9; close 1-1; close 1-1000000; close [0]"},
		{"table every 10", "table every 10"},
		{"table at 50,11, 20 ,11", "table at [11 20 50]"},
		{"down a;up a;show", "down [0]; up [0]; show"},
		{"  # night\r\n\tfail a # at last\n\n;;hang b;\u00a0connect 2\u2003", "fail [0]; hang [1]; connect 2"},
	} {
		script, mistakes := newTestSimulation(t, nil).ParseScript(c.script)
		if mistakes != nil {
			t.Errorf("%q: %v", c.script, mistakes)
			continue
		}
		var got []string
		for i := range script.events {
			got = append(got, describe(&script.events[i]))
		}
		if got := strings.Join(got, "; "); got != c.want {
			t.Errorf("%q: got %q, want %q", c.script, got, c.want)
		}
	}
}

func describe(e *event) string {
	text := e.verb
	if e.verb == "connect" {
		text += fmt.Sprintf(" %d", e.n)
	}
	if e.from.unix || e.from.first.IsValid() {
		text += " from"
		for i := range min(e.n, 2) {
			if i > 0 && e.from.at(i) == e.from.at(0) {
				break
			}
			text += " " + clientText(e.from.at(i))
		}
	}
	if e.hold {
		text += " hold"
	}
	if e.peers != nil {
		text += fmt.Sprint(" ", e.peers)
	}
	if e.span != 0 {
		text += " " + e.span.String()
	}
	if e.first > 0 {
		text += fmt.Sprintf(" %d-%d", e.first, e.last)
	}
	if e.every > 0 {
		text += fmt.Sprintf(" every %d", e.every)
	}
	if e.at != nil {
		text += fmt.Sprint(" at ", e.at)
	}
	return text
}

// Each mistake is told with its place and what to write instead.
func TestMistakes(t *testing.T) {
	for _, c := range []struct{ script, want string }{
		{"conect 4", `1:1-7 unknown event "conect" | Write "connect".`},
		{"what", `1:1-5 unknown event "what" | The events are connect, fail, hang, slow, heal, wait, close, down, drain, up, show and table.`},
		{"show\nshow me all", `2:6-12 show has nothing after this | Write one event a line, or put a semicolon between two.`},
		{"connect ten", `1:9-12 connect does not know "ten" | Such as: connect 10 from 10.0.0.1+ hold`},
		{"connect 5 hodl", `1:11-15 connect does not know "hodl" | Write "hold".`},
		{"connect 0", `1:9-10 0 is not a number of sessions | The least is 1.`},
		{"connect -3", `1:9-11 -3 is not a number of sessions | The least is 1.`},
		{"connect 3.5", `1:9-12 "3.5" is not a whole number of sessions | Such as: connect 10 from 10.0.0.1+ hold`},
		{"connect 10000001", `1:9-17 10000001 sessions are too many | The most is 10,000,000.`},
		{"connect 99999999999999999999", `1:9-29 99999999999999999999 sessions are too many | The most is 10,000,000.`},
		{"connect 6000000; connect 5000000", `1:26-33 these are too many sessions | All connects of a script together may make 10,000,000; here it is at 11,000,000.`},
		{"connect 1000001 hold", `1:9-16 these are too many sessions to hold | A script may hold 1,000,000; without hold it may make 10,000,000.`},
		{"connect from", `1:1-13 connect needs an address after from | Such as: connect 10 from 10.0.0.1+ hold`},
		{"connect from me", `1:14-16 "me" is not the address of a client | Write an address such as 10.0.0.1, 10.0.0.1:50000, [2001:db8::1]:50000 or unix; with + after it each session has the next one.`},
		{"connect from fe80::1%eth0", `1:14-26 the address of a client has no zone here | Write an address such as 10.0.0.1, 10.0.0.1:50000, [2001:db8::1]:50000 or unix; with + after it each session has the next one.`},
		{"connect 257 from 255.255.255.0+", `1:18-32 counted up from here there are no 257 clients | Begin lower, or connect fewer.`},
		{"connect 7 from 10.0.0.1:65530+", `1:16-31 counted up from here there are no 7 clients | Begin lower, or connect fewer.`},
		{"fail", `1:1-5 fail needs a peer | Such as: fail a`},
		{"fail aa", `1:6-8 there is no peer "aa" | Write "a".`},
		{"fail x", `1:6-7 there is no peer "x" | The upstream has a, b and spare one.`},
		{"fail 10.0.0.15:5432", `1:6-20 there is no peer "10.0.0.15:5432" | Write "10.0.0.11:5432".`},
		{"äöü; up spare", `1:1-4 unknown event "äöü" | The events are connect, fail, hang, slow, heal, wait, close, down, drain, up, show and table.
1:9-14 there is no peer "spare" | Write "spare one".`},
		{`fail "a`, `1:6-8 the quotes are not closed | Write the closing quotes on the same line.`},
		{"slow a", `1:1-7 slow needs a duration after the peer | Such as: slow a 200ms`},
		{"wait", `1:1-5 wait needs a duration | Such as: wait 10s`},
		{"wait 10", `1:6-8 "10" has no unit | Write "10s" for seconds or "10ms" for milliseconds.`},
		{"wait 0", `1:6-7 0 is not a duration here | Write a time from "1ms" to "365d".`},
		{"wait 1000d", `1:6-11 "1000d" is longer than a year | Write a time from "1ms" to "365d".`},
		{"wait 5 minutes", `1:6-7 "5" has no unit | Write "5s" for seconds or "5ms" for milliseconds.`},
		{"close", `1:1-6 close needs a session's number, all or a peer | Such as: close 1-5`},
		{"close 1; connect hold", `1:7-8 no session is held at this place | Connect with hold first: connect 5 hold`},
		{"connect 2 hold; close 3", `1:23-24 there is no held session 3 at this place | They are numbered from 1 to 2 here.`},
		{"connect 2 hold; close 2-1", `1:23-26 "2-1" is not a session's number | Write close 3, close 2-5, close all or close PEER.`},
		{"close al", `1:7-9 there is no peer "al" | Write "all".`},
		{"table", `1:1-6 table needs every or at | Such as: table every 10`},
		{"table evry 10", `1:7-11 table does not know "evry" | Write "every".`},
		{"table at 1,x,", `1:12-13 "x" is not a whole number of connects | Such as: table every 10`},
		{"table every 1\nconnect 5000", `1:13-14 the table would have 5,000 rows | The most is 1,000: count in steps of 6.`},
		{" # nothing", `1:1-1 the script is empty | Write events such as "connect 10; fail a; wait 10s; connect 10; show".`},
	} {
		script, mistakes := newTestSimulation(t, nil).ParseScript(c.script)
		var got []string
		for _, m := range mistakes {
			got = append(got, fmt.Sprintf("%d:%d-%d %s | %s", m.Line, m.Column, m.EndColumn, m.What, m.Hint))
		}
		if got := strings.Join(got, "\n"); got != c.want || script != nil {
			t.Errorf("%q:\n got %s\nwant %s", c.script, got, c.want)
		}
	}
}

// Peers that share a name, or an address, are all meant.
func TestPeersThatShareAName(t *testing.T) {
	s := newTestSimulation(t, func(u *conf.Upstream, _ *conf.Listener) {
		u.Servers[1].Name = "a"
		u.Servers[2].Address = u.Servers[0].Address
	})
	for text, want := range map[string][]int{"a": {0, 1}, "10.0.0.11:5432": {0, 2}, "b": nil} {
		if got := s.find(text); !slices.Equal(got, want) {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
}

// Whatever a script is, it is refused with places inside it, or it runs and
// loses no session.
func FuzzScript(f *testing.F) {
	f.Add("fail a; connect 2; heal a; show; wait 11s; table at 11,20,50; connect 50; show")
	f.Add("connect 5 from 10.0.0.1+ hold\ndrain b # x\nclose 2-3; close a; hang \"spare one\"; down a b; connect 3; close all")
	f.Add("slow a 2s; table every 2; connect 9 from [::1]:65000+; up a")
	f.Add("connect 0 from unix; äö \"x\n close 1-")
	f.Fuzz(func(t *testing.T, text string) {
		s := newTestSimulation(t, nil)
		script, mistakes := s.ParseScript(text)
		if (script == nil) == (len(mistakes) == 0) || len(mistakes) > MaxMistakes {
			t.Fatalf("script %v with %d mistakes", script, len(mistakes))
		}
		for _, m := range mistakes {
			if m.Start < 0 || m.End < m.Start || m.End > len(text) || m.Line < 1 || m.Column < 1 || m.EndColumn < m.Column {
				t.Errorf("mistake at a place that is none: %+v", m)
			}
			if utf8.ValidString(text) && !utf8.ValidString(m.What+m.Hint) {
				t.Errorf("mistake is not text: %q %q", m.What, m.Hint)
			}
		}
		if script == nil {
			return
		}
		connects := 0
		for _, e := range script.events {
			connects += e.n
		}
		if connects > 2000 {
			return // that would only take time
		}
		err := s.Run(script, io.Discard, Format(len(text)%3))
		sum := s.all.nobody
		for _, n := range s.all.sessions {
			sum += n
		}
		if err == nil && s.all.connects != connects || sum != s.all.connects {
			t.Errorf("%d connects in the script, %d made, %d sessions: %v", connects, s.all.connects, sum, err)
		}
		s.close(&event{first: 1, last: maxHeld})
		for _, p := range s.snapshot() {
			if p.Balance.Conns != 0 {
				t.Errorf("%s has %d connections left", p.Name, p.Balance.Conns)
			}
		}
	})
}

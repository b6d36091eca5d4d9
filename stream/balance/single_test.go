package balance

import "testing"

func TestSingle(t *testing.T) {
	const after = start + 11_000 // the fail_timeout of a failure at start is over
	type step struct {
		what string
		do   func(g *group)
		now  Millis
		want string
	}
	fails := func(i int) func(*group) { return func(g *group) { g.fail(i, start) } }
	admin := func(i int, a Admin) func(*group) { return func(g *group) { g.peers[i].Admin = a } }
	for _, c := range []struct {
		name     string
		failback bool
		steps    []step
	}{
		{"stays with who took over", false, []step{
			{"at first", nil, start, "aa"},
			{"a fails", fails(0), start, "bb"},
			{"fail_timeout is over", nil, after, "bb"},
			{"b is put down", admin(1, Down), after, "aa"},
			{"b is back", admin(1, Up), after, "aa"},
		}},
		{"drained is out", false, []step{
			{"a is drained", admin(0, Drain), start, "bb"},
			{"and back", admin(0, Up), start, "bb"},
		}},
		{"one failure of several", false, []step{
			{"max_fails 2", func(g *group) { g.peers[0].MaxFails = 2; g.fail(0, start) }, start, "aa"},
			{"the second", fails(0), start, "b"},
		}},
		{"full is no reason", false, []step{
			{"max_conns", func(g *group) { g.peers[0].MaxConns, g.peers[0].Conns = 1, 1 }, start, "--"},
			{"room again", func(g *group) { g.peers[0].Conns = 0 }, start, "aa"},
		}},
		{"full heir", false, []step{
			{"b is full", func(g *group) { g.peers[1].MaxConns, g.peers[1].Conns = 1, 1; g.fail(0, start) }, start, "-"},
			{"b is the active one all the same", admin(2, Up), after, "-"},
		}},
		{"nobody is there", false, []step{
			{"b takes over", fails(0), start, "b"},
			{"and all fail", func(g *group) { g.fail(1, start); g.fail(2, start) }, start, "--"},
			{"b was the active one", nil, after, "bb"},
		}},
		{"failback", true, []step{
			{"a fails", fails(0), start, "bb"},
			{"a is tried and does well", nil, after, "aa"},
			{"a is put down", admin(0, Down), after, "bb"},
			{"and up", admin(0, Up), after, "aa"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGroup(t, Options{Method: "single", Failback: c.failback}, newPeers(1, 9, 5))
			for _, s := range c.steps {
				if s.do != nil {
					s.do(g)
				}
				if got := g.sessions(len(s.want), s.now); got != s.want {
					t.Fatalf("%s: picked %s, want %s", s.what, got, s.want)
				}
			}
		})
	}
}

// While the connect to an earlier peer is under way all others stay with the
// active one, and so does the session if the connect fails.
func TestSingleFailbackTrial(t *testing.T) {
	g := newGroup(t, Options{Method: "single", Failback: true}, newPeers(1, 1))
	g.fail(0, start)
	var trial Selection
	after := start + 11_000
	if i := g.pick(&trial, after); i != 0 {
		t.Fatalf("picked %d, want the earlier peer", i)
	}
	if got := g.sessions(3, after); got != "bbb" {
		t.Errorf("picked %s during the trial, want bbb", got)
	}
	g.release(0, refused, after)
	if i := g.pick(&trial, after); i != 1 {
		t.Errorf("picked %d after the trial has failed, want the active peer", i)
	}
}

func TestSingleRetry(t *testing.T) {
	g := newGroup(t, Options{Method: "single"}, newPeers(1, 1))
	g.peers[0].MaxFails = 2
	for _, want := range []string{"a-", "ab"} { // the second failure makes it unavailable
		var s Selection
		got := ""
		for range 2 {
			i := g.pick(&s, start)
			got += string(letter(i))
			if i >= 0 {
				g.release(i, Use{Took: notConnected, Failed: i == 0}, start)
			}
		}
		if got != want {
			t.Errorf("picked %s, want %s", got, want)
		}
	}
}

func TestSingleIsOneTier(t *testing.T) {
	for _, name := range Names() {
		if OneTier(name) != (name == "single") {
			t.Errorf("one tier of %s: %v", name, OneTier(name))
		}
	}
}

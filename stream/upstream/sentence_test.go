package upstream

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/internal/clock"
)

// told is a group whose peers are called a, b, c, ... and a clock. Its methods
// are the steps of a story.
type told struct {
	g   *Group
	now clock.Fake
	a   Attempts
	d   *Decision
}

func tell(t *testing.T, b conf.Balance, servers ...conf.Server) *told {
	t.Helper()
	u := conf.NewUpstream("u")
	u.Balance = b
	var peers []*Peer
	for i := range servers {
		s := &servers[i]
		s.Address = conf.Address{Host: "10.0.0.1", Port: uint16(5001 + i)}
		if s.Name == "" {
			s.Name = string(rune('a' + i))
		}
		peers = append(peers, newPeer(s, netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), s.Address.Port), 1))
	}
	g, err := NewGroup(&u, peers, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	story := &told{g: g}
	story.begin("")
	return story
}

// begin starts a session.
func (s *told) begin(key string) *told {
	s.g.Begin(&s.a, Limits{}, s.now.Now())
	s.a.Key = append(s.a.Key, key...)
	return s
}

// pick picks for the session.
func (s *told) pick() *told {
	_, s.d = s.g.Explain(&s.a, s.now.Now())
	return s
}

// fail has the last attempt fail.
func (s *told) fail() *told {
	s.g.Release(s.d.Peer, Failed, Took{Connect: -1, FirstByte: -1}, s.now.Now())
	return s
}

// release ends a session of peer i.
func (s *told) release(i int) *told {
	s.g.Release(s.g.Peers()[i], Succeeded, Took{}, s.now.Now())
	return s
}

// wait lets time pass.
func (s *told) wait(d time.Duration) *told { s.now.Advance(d); return s }

// at says instants as seconds since the start of the story.
func (s *told) at(t balance.Seconds) string {
	return fmt.Sprintf("+%ds", int64(t)-clock.Base.Seconds())
}

func server(edit ...func(*conf.Server)) conf.Server {
	s := conf.NewServer(conf.Address{})
	s.Name = ""
	for _, f := range edit {
		f(&s)
	}
	return s
}

func weight(n int) func(*conf.Server)      { return func(s *conf.Server) { s.Weight = n } }
func maxFails(n int) func(*conf.Server)    { return func(s *conf.Server) { s.MaxFails = n } }
func named(name string) func(*conf.Server) { return func(s *conf.Server) { s.Name = name } }
func full(s *conf.Server)                  { s.MaxConns = 1 }
func spare(s *conf.Server)                 { s.Backup = true }
func isDown(s *conf.Server)                { s.Down = true }

func method(name string, edit ...func(*conf.Balance)) conf.Balance {
	b := conf.DefaultBalance(name)
	for _, f := range edit {
		f(&b)
	}
	return b
}

func TestDecisionsReadAsSentences(t *testing.T) {
	byAddr := conf.Template{{Variable: conf.VarRemoteAddr}}
	keyed := func(b *conf.Balance) { b.Key = byAddr }
	for _, c := range []struct {
		name  string
		story *told
		want  string
	}{
		{"round robin", tell(t, method(conf.RoundRobin), server(weight(3)), server()).pick(),
			`picked a by current weight: a 3, b 1`},
		{"the heavy one is in debt", tell(t, method(conf.RoundRobin), server(weight(5)), server(weight(4))).pick().begin("").pick(),
			`picked b by current weight: b 8, a 1; a (weight 5) is in debt at -4 after its own turns`},
		{"the heavy one has failed", tell(t, method(conf.RoundRobin), server(weight(10), maxFails(2)), server(weight(6))).pick().fail().begin("").pick(),
			`picked b by current weight: b 12, a -1; a (weight 10) is in debt at -6 after its own turns and pays it off slowly: failures left it 5 of its weight, and each pick brings 1 back`},
		{"a retry", tell(t, method(conf.RoundRobin), server(maxFails(3)), server()).pick().fail().pick(),
			`picked b by current weight: b 2; left out: a (already tried in this session)`},
		{"unavailable", tell(t, method(conf.RoundRobin), server(), server()).wait(3 * time.Second).pick().fail().begin("").pick(),
			`picked b by current weight: b 2; left out: a (unavailable until +14s after failure 1 of 1)`},
		{"a trial", tell(t, method(conf.RoundRobin), server(weight(2)), server()).pick().fail().wait(11 * time.Second).begin("").pick().begin("").pick().begin("").pick(),
			`picked a by current weight: a 2, b 1; a's fail_timeout is over (failure 1 of 1), and this session is its trial`},
		{"down and full", tell(t, method(conf.RoundRobin), server(full), server(isDown), server()).pick().begin("").pick(),
			`picked c by current weight: c 2; left out: a (full: 1 of max_conns 1), b (down)`},
		{"a backup", tell(t, method(conf.RoundRobin), server(), server(), server(spare)).pick().fail().pick().fail().begin("").pick(),
			`picked c by current weight: c 1; c is a backup: no primary was left for this session; left out: a (unavailable until +11s after failure 1 of 1), b (unavailable until +11s after failure 1 of 1)`},
		{"a second backup", tell(t, method(conf.RoundRobin), server(full), server(spare), server(spare)).pick().begin("").pick().fail().release(0).pick(),
			`picked c by current weight: c 2; c is a backup: no primary was left for this session; left out: a (eligible again, but this session has moved on to the backups), b (already tried in this session)`},
		{"nobody, not even a backup", tell(t, method(conf.RoundRobin), server(), server(spare), server(spare, isDown)).pick().fail().pick().fail().pick(),
			`no peer is eligible: a (already tried in this session), b (already tried in this session), c (down)`},
		{"the only server", tell(t, method(conf.RoundRobin), server()).pick(),
			`picked a, the only server`},
		{"the only server is full", tell(t, method(conf.RoundRobin), server(full)).pick().begin("").pick(),
			`no peer is eligible: a (full: 1 of max_conns 1)`},
		{"nobody", tell(t, method(conf.RoundRobin), server(), server(maxFails(2)), server(isDown)).pick().fail().pick().fail().pick(),
			`no peer is eligible: a (already tried in this session), b (already tried in this session), c (down)`},
		{"several addresses of one server", tell(t, method(conf.RoundRobin), server(named("db")), server(named("db"))).pick(),
			`picked 10.0.0.1:5001 by current weight: 10.0.0.1:5001 1, 10.0.0.1:5002 1`},
		{"weighted round robin", tell(t, method(conf.WeightedRoundRobin), server(weight(2)), server()).pick().begin("").pick(),
			`picked a by the turn in the cycle of weights: a at level 1`},
		{"least_conn", tell(t, method(conf.LeastConn), server(weight(3)), server(weight(2))).pick().begin("").pick(),
			`picked b by the least connections per weight: b 0, a 0.3333`},
		{"least_conn, tied", tell(t, method(conf.LeastConn), server(), server(), server()).pick().begin("").pick(),
			`picked b by the least connections per weight: b 0, c 0, a 1; equal ones go by current weight: b 2, c 2`},
		{"least_time", tell(t, method(conf.LeastTime), server(), server()).pick().begin("").pick(),
			`picked b by the least time and connections per weight: b 20, a 40`},
		{"hash", tell(t, method(conf.Hash, keyed), server(), server()).begin("10.0.0.7").pick(),
			`picked b by the hash of the key 10.0.0.7: lot 1 is b's`},
		{"hash of a key with spaces", tell(t, method(conf.Hash, keyed), server(), server()).begin("a, b").pick(),
			`picked b by the hash of the key "a, b": lot 1 is b's`},
		{"hash of a binary key", tell(t, method(conf.Hash, keyed), server(), server(isDown)).begin("\x00\x01").pick(),
			`picked a by the hash of the key 0x0001: lot 0 is a's; left out: b (down)`},
		{"hash without a key", tell(t, method(conf.Hash, keyed), server(), server()).pick(),
			`picked a by current weight, since there is nothing to hash or nothing to choose from: a 1, b 1`},
		{"hash that gives up", tell(t, method(conf.Hash, keyed), server(weight(65535), isDown), server()).begin("x").pick(),
			`picked b by current weight, since 20 misses are allowed and this session had one more: b 1; before that by the hash of the key x: lot 3292 is a's (down), lot 26166 is a's (down), lot 55469 is a's (down), 17 more, lot 23103 is a's (down); left out: a (down)`},
		{"consistent hash", tell(t, method(conf.Hash, keyed, func(b *conf.Balance) { b.Consistent = true }), server(), server()).begin("x").pick(),
			`picked b by the place of the key x on the ring: point 178 is b's`},
		{"ip_hash", tell(t, method(conf.IPHash), server(), server()).begin("\x0a\x00\x00\x07").pick(),
			`picked b by the hash of the client's address 10.0.0.7: lot 1 is b's`},
		{"maglev", tell(t, method(conf.Maglev, keyed), server(), server()).begin("x").pick(),
			`picked b by the slot of the key x in the table: slot 30800 is b's`},
		{"random", tell(t, method(conf.Random), server(), server()).pick(),
			`picked a by lot: lot 0 is a's`},
		{"random of two", tell(t, method(conf.Random, func(b *conf.Balance) { b.Choices = 2 }), server(), server()).pick().begin("").pick(),
			`picked a by the least connections per weight of two drawn by lot: a 0, b 1`},
		{"random of two by time", tell(t, method(conf.Random, func(b *conf.Balance) { b.Choices, b.By = 2, conf.LeastTime }), server(), server()).pick(),
			`picked b by the least time and connections per weight of two drawn by lot: b 20, a 20`},
		{"epsilon_greedy", tell(t, method(conf.EpsilonGreedy, func(b *conf.Balance) { b.Epsilon = 0 }), server(), server()).pick().begin("").pick(),
			`picked b by the least expected time to a success per weight: b (not known yet), a (no success yet)`},
		{"epsilon_greedy that explores", tell(t, method(conf.EpsilonGreedy, func(b *conf.Balance) { b.Epsilon = 1 }), server(), server()).pick(),
			`picked a by lot, to explore: lot 0 is a's`},
		{"first", tell(t, method(conf.First), server(full), server()).pick().begin("").pick(),
			`picked b by the place in the list; left out: a (full: 1 of max_conns 1)`},
		{"single", tell(t, method(conf.Single), server(), server(spare)).pick().begin("").pick(),
			`picked a for being the active peer`},
		{"single that takes over", tell(t, method(conf.Single), server(), server(spare)).pick().fail().pick(),
			`picked b for taking over as the active peer; left out: a (already tried in this session)`},
		{"single that does not", tell(t, method(conf.Single), server(maxFails(2)), server()).pick().fail().pick(),
			`no peer is eligible: a (already tried in this session), b (stands by, since only the active peer takes sessions)`},
	} {
		if got := c.story.d.Sentence(c.story.at); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestFailuresReadAsSentences(t *testing.T) {
	peer := func(name string) *Peer { return &Peer{Name: name, addrString: "10.0.0.1:5001"} }
	a := peer("a")
	for _, c := range []struct {
		failure Failure
		want    string
	}{
		{Failure{Peer: a, Charged: true, Fails: 1, MaxFails: 2, Weight: 10, Before: 10, After: 5},
			"connecting to a (10.0.0.1:5001) failed: connection refused; after failure 1 of 2 it stays available; its effective weight falls from 10 to 5"},
		{Failure{Peer: a, Charged: true, Fails: 1, MaxFails: 1, Weight: 1, Before: 1, Unavailable: true, Until: balance.Seconds(clock.Base.Seconds()) + 11},
			"connecting to a (10.0.0.1:5001) failed: connection refused; after failure 1 of 1 it is unavailable until +11s; its effective weight falls from 1 to 0"},
		{Failure{Peer: a, Charged: true, Fails: 3, MaxFails: 2, Weight: 1, Before: 1, After: 1, Unavailable: true, Until: balance.Seconds(clock.Base.Seconds()) + 11},
			"connecting to a (10.0.0.1:5001) failed: connection refused; after 3 failures (max_fails 2) it is unavailable until +11s"},
		{Failure{Peer: a, Charged: true, Fails: 7, Weight: 1, Before: 1, After: 1},
			"connecting to a (10.0.0.1:5001) failed: connection refused; it stays available, since max_fails is 0"},
		{Failure{Peer: peer("10.0.0.1:5001"), Only: true, MaxFails: 1, Weight: 1, Before: 1, After: 1},
			"connecting to 10.0.0.1:5001 failed: connection refused; it stays available, since it is the only server"},
		{Failure{Peer: a, Fails: 1, MaxFails: 2, Weight: 1, Before: 1, After: 1},
			"connecting to a (10.0.0.1:5001) failed: connection refused; that is not the peer's fault and does not count"},
	} {
		if got := c.failure.Sentence("connecting to", "connection refused", new(told).at); got != c.want {
			t.Errorf("\n got %s\nwant %s", got, c.want)
		}
	}
}

// ExplainFailure does what Release does and tells it.
func TestExplainFailureTellsWhatReleaseDid(t *testing.T) {
	s := tell(t, method(conf.RoundRobin), server(weight(10), maxFails(2)), server()).pick()
	f := s.g.ExplainFailure(s.d.Peer, Failed, Took{}, s.now.Now())
	b := s.g.Snapshot(nil, s.now.Now())[0].Balance
	if b.Conns != 0 || f.Fails != b.Fails || f.After != b.Effective || f.Before != 10 || f.After != 5 || !f.Charged || f.Unavailable {
		t.Errorf("it told %+v of %+v", f, b)
	}
	s.begin("").pick().begin("").pick() // a again, for the weight it has left
	f = s.g.ExplainFailure(s.g.Peers()[0], Failed, Took{}, s.now.Now())
	if !f.Unavailable || s.at(f.Until) != "+11s" {
		t.Errorf("it told %+v", f)
	}
}

// Inspect knows what the session has tried, in both tiers.
func TestInspectTellsWhyNobodyWasPicked(t *testing.T) {
	s := tell(t, method(conf.RoundRobin), server(maxFails(2)), server(isDown), server(spare, maxFails(2)))
	s.pick().fail().pick().fail()
	if p := s.g.Pick(&s.a, s.now.Now()); p != nil {
		t.Fatalf("%s was picked", p.Name)
	}
	s.d = s.g.Inspect(&s.a, s.now.Now())
	want := "no peer is eligible: a (already tried in this session), b (down), c (already tried in this session)"
	if got := s.d.Sentence(s.at); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestSentencesStayShort(t *testing.T) {
	servers := make([]conf.Server, 30)
	for i := range servers {
		servers[i] = server(named(fmt.Sprint("s", i)))
	}
	s := tell(t, method(conf.RoundRobin), servers...).pick()
	want := "picked s0 by current weight: s0 1, s1 1, s2 1, s3 1, 26 more"
	if got := s.d.Sentence(s.at); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

package balance

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// model is what the test itself keeps of one peer: what has happened, from
// which it says anew each time whether the peer may be picked.
type model struct {
	operator         string // "" = up
	sessions, most   int
	failures, enough int
	blockedBy        Seconds // last failure, or last pick that came after the block
	block            Seconds
	failed           Seconds
}

// blocked reports whether failures keep the peer from being used.
func (m *model) blocked(now Seconds) bool {
	if m.enough == 0 || m.failures < m.enough {
		return false
	}
	return now <= m.blockedBy+m.block
}

func (m *model) allowed(now Seconds) bool {
	if m.operator != "" || m.blocked(now) {
		return false
	}
	return m.most == 0 || m.sessions < m.most
}

func (m *model) pick(now Seconds) {
	m.sessions++
	if now > m.blockedBy+m.block {
		m.blockedBy = now
	}
}

func (m *model) succeed() {
	if m.failed < m.blockedBy {
		m.failures = 0
	}
}

func (m *model) fail(now Seconds) {
	m.failures++
	m.failed, m.blockedBy = now, now
}

// history is a random one of a group: sessions that come, connect or fail, try
// another peer, and go, while the operator has his way with the peers.
type history struct {
	t      *testing.T
	group  *group
	models []*model
	rand   *rand.Rand
	now    Millis
	open   []*openSession
	active int // of the method single

	picks, nobody, retries, refusals int

	// pick asks the method, and check looks at its answer.
	pick  func(s *Selection) int
	check func(s *openSession, got int)
}

type openSession struct {
	selection Selection
	tried     map[int]bool
	peer      int
	picked    Millis
	took      Times
}

func newHistory(t *testing.T, o Options, r *rand.Rand) *history {
	n := 1 + r.IntN(8)
	if r.IntN(8) == 0 {
		n = 60 + r.IntN(20) // more than fit into one word of tried bits
	}
	h := &history{t: t, rand: r, now: start, active: nobody}
	peers := newPeers(randomWeights(r, n, 1+r.IntN(20))...)
	for _, p := range peers {
		p.MaxFails, p.FailTimeout, p.MaxConns = r.IntN(4), Seconds(r.IntN(5)), r.IntN(4)
		h.models = append(h.models, &model{most: p.MaxConns, enough: p.MaxFails, block: p.FailTimeout})
	}
	h.group = newGroup(t, o, peers)
	h.pick = func(s *Selection) int { return h.group.method.Pick(s, h.now) }
	h.check = h.mustBeAllowed
	return h
}

func (h *history) step() {
	switch h.rand.IntN(8) {
	case 0:
		h.now += Millis(h.rand.IntN(2500))
	case 1:
		h.operate()
	case 2, 3, 4:
		h.begin()
	default:
		if len(h.open) > 0 {
			h.goOn(h.rand.IntN(len(h.open)))
		}
	}
}

func (h *history) operate() {
	i := h.rand.IntN(len(h.models))
	said := []Admin{Up, Up, Up, Drain, Down}[h.rand.IntN(5)]
	Settle(h.group.method)
	h.group.peers[i].Admin = said
	h.models[i].operator = map[Admin]string{Up: "", Drain: "drain", Down: "down"}[said]
}

func (h *history) begin() {
	s := &openSession{tried: map[int]bool{}}
	s.selection.Key = []byte{byte(h.rand.Uint32()), byte(h.rand.Uint32()), byte(h.rand.Uint32()), 1}[:4*h.rand.IntN(2)]
	s.selection.Grow(len(h.models))
	h.open = append(h.open, s)
	h.attempt(len(h.open) - 1)
}

// attempt lets an open session ask for a peer.
func (h *history) attempt(k int) {
	s := h.open[k]
	got := h.pick(&s.selection)
	h.picks++
	h.check(s, got)
	if got < 0 {
		h.nobody++
		h.open = slices.Delete(h.open, k, k+1)
		return
	}
	h.group.picked(&s.selection, got, h.now)
	h.models[got].pick(h.now.Seconds())
	s.tried[got], s.peer, s.picked, s.took = true, got, h.now, notConnected
}

// goOn moves an open session to its next moment.
func (h *history) goOn(k int) {
	s := h.open[k]
	m := h.models[s.peer]
	age := h.now - s.picked
	switch {
	case s.took[Connect] == None && h.rand.IntN(2) == 0: // refused
		h.group.release(s.peer, refused, h.now)
		m.sessions--
		m.fail(h.now.Seconds())
		h.refusals++
		if h.rand.IntN(4) == 0 {
			h.open = slices.Delete(h.open, k, k+1)
			return
		}
		h.retries++
		h.attempt(k)
	case s.took[Connect] == None && h.rand.IntN(8) > 0:
		s.took[Connect] = age
		h.group.connected(s.peer, age, h.now)
		m.succeed()
	case s.took[Connect] != None && s.took[FirstByte] == None && h.rand.IntN(4) > 0:
		s.took[FirstByte] = age
		h.group.firstByte(s.peer, age, h.now)
	default:
		s.took[LastByte] = age
		h.group.release(s.peer, Use{Took: s.took}, h.now)
		m.sessions--
		m.succeed()
		h.open = slices.Delete(h.open, k, k+1)
	}
}

// mustBeAllowed checks that the peer may be picked, or that nobody may.
func (h *history) mustBeAllowed(s *openSession, got int) {
	if got >= 0 {
		if s.tried[got] || !h.models[got].allowed(h.now.Seconds()) {
			h.t.Fatalf("picked %d: tried %v, %+v at %d", got, s.tried[got], *h.models[got], h.now)
		}
		return
	}
	for i, m := range h.models {
		if !s.tried[i] && m.allowed(h.now.Seconds()) {
			h.t.Fatalf("picked nobody, but %d may be: %+v at %d", i, *m, h.now)
		}
	}
}

// mustBeActive checks an answer of the method single.
func (h *history) mustBeActive(s *openSession, got int, failback bool) {
	now := h.now.Seconds()
	able := func(m *model) bool { return m.operator == "" && !m.blocked(now) }
	firstAble := slices.IndexFunc(h.models, able)
	if firstAble >= 0 && (failback || h.active == nobody || !able(h.models[h.active])) {
		h.active = firstAble
	}
	want := h.active
	if firstAble < 0 || s.tried[want] || !h.models[want].allowed(now) {
		want = nobody
	}
	if got != want {
		h.t.Fatalf("picked %d, want %d", got, want)
	}
}

// No method picks a peer that is not eligible or that the session has tried,
// and each finds one if there is one.
func TestEligible(t *testing.T) {
	all := variants()
	each := 1_000_000/len(all) + 1
	if testing.Short() {
		each = 10_000
	}
	total := 0
	for seed, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			r := newRand(t, uint64(100+seed))
			var sum history
			for sum.picks < each {
				h := newHistory(t, all[name], r)
				if all[name].Method == "single" {
					h.check = func(s *openSession, got int) { h.mustBeActive(s, got, all[name].Failback) }
				}
				for range 4000 {
					h.step()
				}
				sum.picks += h.picks
				sum.nobody += h.nobody
				sum.retries += h.retries
				sum.refusals += h.refusals
			}
			total += sum.picks
			t.Logf("%d picks, %d of them for a retry; %d found nobody; %d attempts were refused", sum.picks, sum.retries, sum.nobody, sum.refusals)
		})
	}
	t.Logf("%d picks in total", total)
}

// A pick that is explained is the same pick, and the explanation fits it.
func TestExplain(t *testing.T) {
	all := variants()
	for seed, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			r := newRand(t, uint64(200+seed))
			for range 10 {
				// The history's own group explains, a twin does not.
				h := newHistory(t, all[name], r)
				twins := make([]*Peer, len(h.group.peers))
				for i := range twins {
					twins[i] = new(Peer)
					*twins[i] = *h.group.peers[i]
				}
				twin := mustNew(t, all[name], twins)
				h.pick = func(s *Selection) int {
					for i, p := range h.group.peers {
						*twins[i] = *p
					}
					plain := *s
					plain.triedMore = slices.Clone(s.triedMore)
					want := twin.Pick(&plain, h.now)
					got, e := Explain(h.group.method, h.group.peers, s, h.now)
					if got != want {
						t.Fatalf("picked %d when asked to explain, %d otherwise", got, want)
					}
					for i, p := range h.group.peers {
						if p.Current != twins[i].Current || p.Effective != twins[i].Effective {
							t.Fatalf("peer %d differs: %+v, %+v", i, p, twins[i])
						}
					}
					mustFit(t, h, s, e)
					return got
				}
				h.check = func(*openSession, int) {}
				for range 300 {
					h.step()
				}
			}
		})
	}
}

// mustFit checks an explanation against what it explains.
func mustFit(t *testing.T, h *history, s *Selection, e *Explanation) {
	t.Helper()
	for i, c := range e.Candidates {
		if c.Left != s.leftOut(h.group.peers, i, h.now.Seconds()) {
			t.Fatalf("peer %d is said to be %v", i, c.Left)
		}
	}
	if e.Winner >= 0 && e.Candidates[e.Winner].Left != Eligible {
		t.Fatalf("the winner is said to be %v", e.Candidates[e.Winner].Left)
	}
	if e.Winner >= 0 && e.Tied > 0 && !e.Candidates[e.Winner].InTie {
		t.Fatal("the winner is not among the tied")
	}
	if e.Winner < 0 || e.Fallback != "" || len(e.Probes) == 0 {
		return
	}
	for _, p := range e.Probes {
		if p.Left != e.Candidates[p.Peer].Left {
			t.Fatalf("a probe says of %d %v, and the list %v", p.Peer, p.Left, e.Candidates[p.Peer].Left)
		}
	}
}

func TestIneligibleAgrees(t *testing.T) {
	r := newRand(t, 11)
	seen := map[Left]int{}
	for range 100_000 {
		p := &Peer{
			Admin:    Admin(max(0, r.IntN(5)-2)),
			MaxFails: r.IntN(3), Fails: r.IntN(3), FailTimeout: Seconds(r.IntN(4)), Checked: Seconds(r.IntN(10)),
			MaxConns: r.IntN(3), Conns: r.IntN(3),
		}
		now := Seconds(r.IntN(12))
		left := p.Ineligible(now)
		seen[left]++
		if (left == Eligible) != p.Eligible(now) {
			t.Fatalf("%+v at %d: eligible %v, left out as %v", p, now, p.Eligible(now), left)
		}
	}
	if len(seen) != 5 { // all but LeftTried
		t.Errorf("came by %v", seen)
	}
}

// Each reason for leaving a peer out, with every method.
func TestPickLeavesOut(t *testing.T) {
	reasons := map[string]func(p *Peer){
		"down":        func(p *Peer) { p.Admin = Down },
		"drained":     func(p *Peer) { p.Admin = Drain },
		"unavailable": func(p *Peer) { p.Fails, p.Checked = p.MaxFails, start.Seconds()-p.FailTimeout },
		"full":        func(p *Peer) { p.MaxConns, p.Conns = 1, 1 },
	}
	for name, o := range variants() {
		t.Run(name, func(t *testing.T) {
			for reason, leaveOut := range reasons {
				// Of three peers with weights every one is left out in turn, then
				// all but one, then all.
				for _, c := range []struct {
					out  []int
					want string // peers that may be picked
				}{{[]int{0}, "bc"}, {[]int{1}, "ac"}, {[]int{2}, "ab"}, {[]int{1, 2}, "a"}, {[]int{0, 2}, "b"}, {[]int{0, 1}, "c"}, {[]int{0, 1, 2}, "-"}} {
					g := newGroup(t, o, newPeers(5, 3, 1))
					for _, i := range c.out {
						leaveOut(g.peers[i])
					}
					want := c.want
					if o.Method == "single" && reason == "full" && c.out[0] == 0 {
						want = "-" // a full active peer has no substitute
					}
					for _, key := range manyKeys(50) {
						if got := letter(g.session(key, 1, start)); !slices.Contains([]byte(want), got) {
							t.Fatalf("%s: %v: picked %c, want one of %s", reason, c.out, got, want)
						}
					}
				}
			}
			for tried, want := range []string{"bc", "ac", "ab"} {
				g := newGroup(t, o, newPeers(5, 3, 1))
				if o.Method == "single" && tried == 0 {
					want = "-"
				}
				if got := letter(g.method.Pick(allTried(3, tried), start)); !slices.Contains([]byte(want), got) {
					t.Errorf("%c tried: picked %c, want one of %s", letter(tried), got, want)
				}
			}
			if got := newGroup(t, o, newPeers(5, 3, 1)).method.Pick(allTried(3, 0, 1, 2), start); got != -1 {
				t.Errorf("all tried: picked %d", got)
			}
			if got := newGroup(t, o, newPeers(3)).sessions(3, start); got != "aaa" {
				t.Errorf("one peer: picked %s", got)
			}
			if got := newGroup(t, o, nil).sessions(1, start); got != "-" {
				t.Errorf("no peers: picked %s", got)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	const want = `find balancing method "fair": no such method`
	if _, err := New(Options{Method: "fair"}, newPeers(1)); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

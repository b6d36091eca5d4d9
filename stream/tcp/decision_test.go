package tcp

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/decisions"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/upstream"
)

// said ends the decision log and returns the level and the message of each of
// its lines, with the instants replaced.
func (h *harness) said() (lines []string) {
	h.t.Helper()
	h.writer.Close()
	h.w.logs.decisions, h.writer = nil, nil
	for line := range strings.Lines(h.decided.String()) {
		m := regexp.MustCompile(`level=(\w+) msg="(.*?)" listener=l upstream=u session=(\d+) client=127.0.0.1:\d+ attempt=(\d+)\n`).FindStringSubmatch(line)
		if m == nil {
			h.t.Fatalf("the line is %q", line)
		}
		said := regexp.MustCompile(`\d\d:\d\d:\d\d`).ReplaceAllString(m[2], "LATER")
		lines = append(lines, strings.Join([]string{m[1], m[3] + "." + m[4], said}, " "))
	}
	return lines
}

func (h *harness) wantSaid(want ...string) {
	h.t.Helper()
	got := h.said()
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			h.t.Errorf("line %d:\n got %s\nwant %s", i+1, g, w)
		}
	}
}

// named has the servers called a, b, c, ...
func named(_ *conf.Listener, u *conf.Upstream) {
	for i := range u.Servers {
		u.Servers[i].Name = string(rune('a' + i))
	}
}

func TestFailuresAreToldWithThePickThatFollows(t *testing.T) {
	dead := refused(t)
	dead.Weight, dead.MaxFails = 10, 2
	h := newHarness(t, setup{decisions: conf.DecisionsFailures, edit: named, extra: []conf.Server{dead}})
	h.dial()
	h.dial()
	h.dial() // finds a unavailable, which is not worth a line
	addr := dead.Address.String()
	h.wantSaid(
		"WARN 1.1 connecting to a ("+addr+") failed: connection refused; after failure 1 of 2 it stays available; its effective weight falls from 10 to 5",
		"INFO 1.2 picked b by current weight: b 2; left out: a (already tried in this session)",
		"WARN 2.1 connecting to a ("+addr+") failed: connection refused; after failure 2 of 2 it is unavailable until LATER; its effective weight falls from 6 to 1",
		"INFO 2.2 picked b by current weight: b 3; left out: a (already tried in this session)",
	)
}

func TestEveryPickIsTold(t *testing.T) {
	h := newHarness(t, setup{decisions: conf.DecisionsAll, edit: named, peers: 2})
	h.dial()
	h.dial()
	h.wantSaid(
		"INFO 1.1 picked a by current weight: a 1, b 1",
		"INFO 2.1 picked b by current weight: b 2, a 0",
	)
}

func TestTimeoutAndNobodyAreTold(t *testing.T) {
	mute := blackHole(t)
	h := newHarness(t, setup{decisions: conf.DecisionsFailures, peers: -1, extra: []conf.Server{mute, mute}, edit: func(l *conf.Listener, u *conf.Upstream) {
		named(l, u)
		u.Servers[1].Down = true
	}})
	h.client()
	h.turnUntil("connecting", func() bool { return h.last() != nil })
	h.clock.Advance(4 * time.Second)
	h.wantClosed(stats.ConnectTimeout)
	h.client()
	h.turnUntil("the second session ends", func() bool { return h.closed(stats.NoPeer) == 1 })
	h.wantSaid(
		"WARN 1.1 connecting to a ("+mute.Address.String()+") failed: no answer within 3s (connect_timeout); after failure 1 of 1 it is unavailable until LATER; its effective weight falls from 1 to 0",
		"WARN 2.1 no peer is eligible: a (unavailable until LATER after failure 1 of 1), b (down)",
	)
}

// In both modes a session that runs out of peers says so.
func TestNobodyAfterFailuresIsTold(t *testing.T) {
	for _, mode := range []conf.Decisions{conf.DecisionsFailures, conf.DecisionsAll} {
		dead := refused(t)
		dead.MaxFails = 0
		h := newHarness(t, setup{decisions: mode, peers: -1, extra: []conf.Server{dead, dead}, edit: named})
		h.group.SetAdmin(h.group.Peers()[1], balance.Drain, "test", h.w.Loop.Now()) // drained, which counts as a try
		h.client()
		h.wantClosed(stats.ConnectFailed)
		got := h.said()
		if mode == conf.DecisionsAll {
			if got[0] != "INFO 1.1 picked a by current weight: a 1; left out: b (drained)" {
				t.Errorf("the pick is told as %q", got[0])
			}
			got = got[1:]
		}
		want := []string{
			"WARN 1.1 connecting to a (" + dead.Address.String() + ") failed: connection refused; it stays available, since max_fails is 0",
			"WARN 1.2 no peer is eligible: a (already tried in this session), b (drained)",
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func TestDecisionsThatAreOffAllocateNothing(t *testing.T) {
	h := newHarness(t, setup{})
	s := &session{listener: h.listener}
	s.walk = h.w.borrowWalk(s)
	walk := func() {
		h.group.Begin(&s.walk.Attempts, h.listener.Limits, h.clock.Now())
		s.peer = h.w.pick(s)
		h.w.giveBack(s, s.peer, s.took(h.clock.Now()), upstream.Failed, decisions.TimedOut)
	}
	walk()
	if n := testing.AllocsPerRun(100, walk); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

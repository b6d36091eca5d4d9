package main

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlb/weir/stream/admin"
)

// axed returns a peer whose axes have plain values but for those that are given,
// for 90 seconds.
func axed(name, state string, values map[string]admin.Axis) admin.Peer {
	p := admin.Peer{Upstream: "u", Name: name, Address: name, State: state, Weight: 1, Effective: 1, SlowStart: 1, Axes: map[string]admin.Axis{}}
	for axis, value := range map[string]string{"admin": "up", "discovery": "present", "passive": "available", "active": "none", "role": "any", "capacity": "free"} {
		a := admin.Axis{Value: value}
		if given, ok := values[axis]; ok {
			a = given
		}
		a.Since = time.Now().Add(-90 * time.Second)
		p.Axes[axis] = a
	}
	return p
}

func peersText(p *admin.Peers) string {
	var b strings.Builder
	writePeers(&b, p)
	return b.String()
}

// Where nothing is checked and nothing speaks against a peer, there is one table.
func TestPeersWithoutAxes(t *testing.T) {
	got := peersText(&admin.Peers{Peers: []admin.Peer{axed("a", "up", nil), axed("b", "up", nil)}})
	want := `upstream u
  PEER  STATE  WEIGHT  NOW  TOTAL  SENT  RECV
  a     up          1    0      0   0 B   0 B
  b     up          1    0      0   0 B   0 B
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Each axis is told apart, and below it why a peer is out, and what holds for the
// upstream as a whole.
func TestPeersWithAxes(t *testing.T) {
	cold := axed("a", "slow start", map[string]admin.Axis{"active": {Value: "healthy"}, "role": {Value: "primary"}})
	cold.SlowStart = 0.25
	out := axed("b", "ejected", map[string]admin.Axis{"passive": {Value: "ejected", Cause: "5 in a row"}, "role": {Value: "conflict", Cause: "a has the role"}})
	out.EjectedForSeconds = 12
	stale := time.Now()
	got := peersText(&admin.Peers{
		Peers:   []admin.Peer{cold, out},
		Groups:  map[string]admin.Group{"u": {ExactlyOne: true, Incumbent: "a", Epoch: 22, Conflict: true, Panic: true}},
		Sources: map[string][]admin.Source{"u": {{Name: "fresh.example"}, {Name: "db.example", Servers: 1, Error: "SERVFAIL", StaleSince: &stale}}},
	})
	for _, want := range []string{
		"  a     slow start 25%", "  b     ejected (12s)",
		"  PEER  ADMIN  DISCOVERY  PASSIVE        ACTIVE         ROLE            CAPACITY\n",
		"  a     up     present    available      healthy 1m30s  primary 1m30s   free\n",
		"  b     up     present    ejected 1m30s  none           conflict 1m30s  free\n",
		"  b is ejected since ", ": 5 in a row\n", "  b is conflict since ", ": a has the role\n",
		"  exactly one: a has it, the 22nd so far\n", "  CONFLICT: ", "  PANIC: ",
		"  db.example is not up to date since ", "it is kept, 1 server\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "a is healthy") || strings.Contains(got, "fresh.example") {
		t.Errorf("it tells of what is well:\n%s", got)
	}
}

func TestPeerHistory(t *testing.T) {
	at := time.Date(2026, 11, 30, 6, 0, 0, 123e6, time.Local)
	var b strings.Builder
	writeHistory(&b, &admin.PeerHistory{Upstream: "u", Peer: "a", Address: "10.0.0.1:1", Total: 66, Transitions: []admin.Transition{
		{At: at, Axis: "active", From: "unknown", To: "healthy", Cause: "tcp: first check passed"},
		{At: at, Axis: "role", From: "any", To: "standby", Cause: "it says so"},
	}})
	want := `u/a (10.0.0.1:1): 66 changes, the last 2
  AT                       AXIS    FROM     TO       CAUSE
  2026-11-30 06:00:00.123  active  unknown  healthy  tcp: first check passed
  2026-11-30 06:00:00.123  role    any      standby  it says so
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

package integration_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlb/weir/stream/admin"
)

// The axes of a peer, as `weir peers` names them.
const (
	axisAdmin     = "admin"
	axisDiscovery = "discovery"
	axisPassive   = "passive"
	axisActive    = "active"
	axisRole      = "role"
	axisCapacity  = "capacity"
)

// Their values that tests wait for.
const (
	isPresent   = "present"
	isAvailable = "available"
	isEjected   = "ejected"
	isHealthy   = "healthy"
	isUnhealthy = "unhealthy"
	isPrimary   = "primary"
	isReplica   = "replica"
	isStandby   = "standby"
	isLagging   = "lagging"
	isConflict  = "conflict"
)

// Why a session of a judged peer was closed, as the access log has it.
const (
	endUnhealthy = "peer_unhealthy"
	endStandby   = "peer_standby"
	endRemoved   = "peer_removed"
)

// axed returns the peer UPSTREAM/PEER, which the control API tells.
func (p *proxy) axed(peer string) admin.Peer {
	p.t.Helper()
	upstream, name, _ := strings.Cut(peer, "/")
	for _, one := range p.peers(upstream) {
		if one.Name == name {
			return one
		}
	}
	p.t.Fatalf("there is no peer %s", peer)
	return admin.Peer{}
}

// waitAxis waits until an axis of UPSTREAM/PEER has one of the values, and
// returns it. Its Since is when the verdict fell, which is more exact than when
// the poll saw it.
func (p *proxy) waitAxis(d time.Duration, peer, name string, values ...string) admin.Axis {
	p.t.Helper()
	var last admin.Axis
	deadline := time.Now().Add(scaled(d))
	for {
		last = p.axed(peer).Axes[name]
		if slices.Contains(values, last.Value) {
			return last
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s of %s is %q (%s) after %v, want %q\n%s", name, peer, last.Value, last.Cause, scaled(d), values, p.mustWeir("peers"))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// history returns what became of UPSTREAM/PEER, the oldest first.
func (p *proxy) history(peer string) []admin.Transition {
	p.t.Helper()
	var h admin.PeerHistory
	p.weirJSON(&h, "peers", "--history", peer)
	return h.Transitions
}

// ending is when and why a session ended, by the access log.
type ending struct {
	Time        time.Time
	CloseReason string `json:"close_reason"`
	Peer        string `json:"upstream_addr"`
	Listener    string
	SessionTime float64 `json:"session_time"`
}

// endings returns the sessions that have ended by now.
func (p *proxy) endings() []ending {
	p.t.Helper()
	return accessLog[ending](p)
}

// endedWith returns those endings that have the reason.
func endedWith(all []ending, reason string) []ending {
	return filter(all, func(e ending) bool { return e.CloseReason == reason })
}

// timeline tells what happened when: every line has the time since the last
// event, and what the configuration promises.
type timeline struct {
	t     *testing.T
	p     *proxy
	begin time.Time
}

// event is something that the test did to the servers; time counts from it.
func (l *timeline) event(format string, args ...any) time.Time {
	l.t.Helper()
	l.begin = time.Now()
	l.t.Logf("%s  %s", l.begin.Format("15:04:05.000"), fmt.Sprintf(format, args...))
	return l.begin
}

// at notes what happened at an instant, and what was promised.
func (l *timeline) at(when time.Time, promise, format string, args ...any) {
	l.t.Helper()
	if promise != "" {
		promise = " (promised: " + promise + ")"
	}
	l.t.Logf("%+9d ms  %s%s", when.Sub(l.begin).Milliseconds(), fmt.Sprintf(format, args...), promise)
}

// axes notes the axes of every peer of an upstream, as `weir peers` has them now.
func (l *timeline) axes(upstream string) {
	l.t.Helper()
	var all admin.Peers
	l.p.weirJSON(&all, "peers", upstream)
	now := time.Now()
	for _, peer := range all.Peers {
		var text []string
		for _, axis := range []string{axisAdmin, axisDiscovery, axisPassive, axisActive, axisRole, axisCapacity} {
			text = append(text, axis+" "+peer.Axes[axis].Value)
		}
		name := peer.Name
		if strings.Contains(name, ":") { // one that was discovered has the name of its block
			name = peer.Address
		}
		l.at(now, "", "%s/%s: %s; %d sessions", upstream, name, strings.Join(text, ", "), peer.Conns)
	}
}

// promised fails the test if something happened later than promised. On a slow
// machine the allowance for work, not the configured time, is longer.
func (l *timeline) promised(what string, when, from time.Time, configured, work time.Duration) {
	l.t.Helper()
	took, most := when.Sub(from), configured+scaled(work)
	l.at(when, fmt.Sprintf("within %d ms", (configured+work).Milliseconds()), "%s, %d ms later", what, took.Milliseconds())
	if took > most {
		l.t.Errorf("%s after %v, want at most %v", what, took, most)
	}
}

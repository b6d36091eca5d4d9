package upstream

import (
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/internal/clock"
)

// onlyServer decides where there is nothing to decide.
const onlyServer = "the only server"

// Hedged is Decision.By of a second attempt beside one that takes long. Its
// candidates are not kept.
const Hedged = "hedge"

// Decision is a pick with its reasons. It belongs to whoever asked for it, and
// does not change.
type Decision struct {
	Upstream   string
	Method     string
	Attempt    int    // of the session, from 1
	Peer       *Peer  // nil = nobody was picked
	Denial     Denial // and why not
	Candidates []Candidate
	By         string // what decided; "" = current weight
	Tied       int    // peers that were equal by that and told apart by current weight; 0 = no tie
	Fallback   string // why round robin decided in the end; "" = it did not have to
	Key        string // of keyed methods
	Probes     []Probe
	Backup     bool // the session has moved to the backup tier
}

// Candidate is one peer in a Decision.
type Candidate struct {
	Peer *Peer
	balance.Candidate
	tier int // the peer's, then
}

// Probe is one step of a keyed method's search or of a draw.
type Probe struct {
	Peer *Peer
	balance.Probe
}

// Explain picks as Pick does and tells how the choice came about. It
// allocates.
func (g *Group) Explain(a *Attempts, now clock.Time) (*Peer, *Decision) {
	d := &Decision{Upstream: g.Name, Method: g.Method(), Attempt: len(a.tried) + 1}
	if d.Peer = g.pick(a, now, d); d.Peer == nil {
		d.Denial = a.Denial
	}
	d.Backup = a.tier == backup
	return d.Peer, d
}

// Inspect tells why nobody was picked for a session, after Pick returned nil.
func (g *Group) Inspect(a *Attempts, now clock.Time) *Decision {
	d := &Decision{Upstream: g.Name, Method: g.Method(), Attempt: len(a.tried) + 1, Backup: a.tier == backup, Denial: a.Denial}
	if d.Denial.beforePick() {
		return d
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.settleLocked()
	seconds := balance.Seconds(now.Seconds())
	if a.tier == backup {
		d.addPrimaries(a, seconds)
	}
	d.add(a.shape.peers[a.tier], balance.Inspect(a.shape.state[a.tier], &a.selection, seconds))
	return d
}

// Forecast tells what the next session with those facts would get, and why, and
// changes nothing. It allocates.
func (g *Group) Forecast(f *Facts, now clock.Time) *Decision {
	var a Attempts
	g.Begin(&a, Limits{}, now)
	a.Key = g.AppendKey(a.Key, f)
	a.selection.Key = a.Key
	d := &Decision{Upstream: g.Name, Method: g.Method(), Attempt: 1}
	at := balance.Millis(now.Millis())
	g.mu.Lock()
	defer g.mu.Unlock()
	a.aim(g.shape.Load())
	sh := a.shape
	obstacle, denied := g.obstacleLocked(&sh.bounds, false, now)
	if denied {
		d.Denial = g.foreseeLocked(&sh.bounds, obstacle)
		return d
	}
	defer func() {
		if d.Peer == nil && sh.lacksRoom(&a, balance.Seconds(now.Seconds())) {
			d.Denial = g.foreseeLocked(&sh.bounds, NoQueue)
		}
	}()
	if sh.single {
		d.Peer = sh.onlyLocked(&a, at, d)
		return d
	}
	for a.tier = range sh.peers {
		if len(sh.peers[a.tier]) == 0 {
			break
		}
		a.selection.Reset()
		// Whoever sat out the last pick may still be marked, until coldUntil is 0.
		i, e := balance.Rehearse(sh.methods[a.tier], sh.state[a.tier], &a.selection, at, g.coldUntil != 0)
		d.add(sh.peers[a.tier], e)
		d.Backup = a.tier == backup
		if i >= 0 {
			d.Peer = sh.peers[a.tier][i]
			break
		}
	}
	return d
}

// length and cut take back what was added for a pick that is made again.
func (d *Decision) length() [2]int {
	if d == nil {
		return [2]int{}
	}
	return [2]int{len(d.Candidates), len(d.Probes)}
}

func (d *Decision) cut(to [2]int) {
	if d != nil {
		d.Candidates, d.Probes = d.Candidates[:to[0]], d.Probes[:to[1]]
	}
}

// addPrimaries tells of the primaries that a session has left behind for the
// backups. Its tried bits speak of the backups by now. Preconditions: the
// group's mu is held.
func (d *Decision) addPrimaries(a *Attempts, now balance.Seconds) {
	sh := a.shape
	var none balance.Selection
	none.Grow(len(sh.peers[primary]))
	d.add(sh.peers[primary], balance.Inspect(sh.state[primary], &none, now))
	for i := range d.Candidates {
		if a.hasTried(d.Candidates[i].Peer) {
			d.Candidates[i].Left = balance.LeftTried
		}
	}
}

// add takes in how the pick went in one tier.
func (d *Decision) add(peers []*Peer, e *balance.Explanation) {
	for i, c := range e.Candidates {
		d.Candidates = append(d.Candidates, Candidate{peers[i], c, peers[i].tier})
	}
	for _, p := range e.Probes {
		d.Probes = append(d.Probes, Probe{peers[p.Peer], p})
	}
	d.By, d.Tied, d.Fallback, d.Key = e.By, e.Tied, e.Fallback, e.Key
}

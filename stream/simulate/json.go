package simulate

import (
	"bufio"
	"encoding/json"
	"io"
	"time"

	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/upstream"
)

// jsonTeller tells a run to programs, one object a line.
type jsonTeller struct {
	w   *bufio.Writer
	enc *json.Encoder
	sim *Simulation
	err error // of an encoding; those of writing stay with w
}

func newJSONTeller(w io.Writer, s *Simulation) *jsonTeller {
	t := &jsonTeller{w: bufio.NewWriter(w), sim: s}
	t.enc = json.NewEncoder(t.w)
	t.enc.SetEscapeHTML(false)
	return t
}

func (t *jsonTeller) write(v any) {
	if err := t.enc.Encode(v); t.err == nil {
		t.err = err
	}
}

func (t *jsonTeller) flush() error {
	if t.err != nil {
		return t.err
	}
	return t.w.Flush()
}

func (t *jsonTeller) event(at time.Duration, e *event, n note) {
	if e.verb == "show" || e.verb == "table" {
		return // what they show is told
	}
	type line struct {
		At     int64    `json:"t_ms"`
		Event  string   `json:"event"`
		Peers  []string `json:"peers,omitempty"`
		Ms     int64    `json:"ms,omitempty"`
		Closed *int     `json:"closed,omitempty"`
	}
	l := line{At: at.Milliseconds(), Event: e.verb, Ms: e.span.Milliseconds()}
	for _, i := range e.peers {
		l.Peers = append(l.Peers, t.sim.names[i])
	}
	if e.verb == "close" {
		l.Closed = &n.closed
	}
	t.write(l)
}

type jsonAttempt struct {
	Peer    string       `json:"peer"`
	OK      bool         `json:"ok"`
	Fate    string       `json:"fate"`
	Failure *jsonFailure `json:"failure,omitempty"`
}

type jsonFailure struct {
	Sentence string `json:"sentence"`
	Fails    int    `json:"fails"`
	MaxFails int    `json:"max_fails"`
	Before   int    `json:"effective_before"`
	After    int    `json:"effective_after"`
	Until    *int64 `json:"unavailable_until_ms,omitempty"`
}

// jsonDecision has the names that the lines of log { decisions } have.
type jsonDecision struct {
	Peer       *string         `json:"peer"`
	Sentence   string          `json:"sentence"`
	By         string          `json:"by"`
	Tied       int             `json:"tied"`
	Fallback   string          `json:"fallback,omitempty"`
	Key        string          `json:"key,omitempty"`
	Backup     bool            `json:"backup"`
	Probes     []jsonProbe     `json:"probes,omitempty"`
	Candidates []jsonCandidate `json:"candidates"`
}

type jsonProbe struct {
	At      int    `json:"at"`
	Hash    uint32 `json:"hash,omitempty"`
	Peer    string `json:"peer"`
	LeftOut string `json:"left_out,omitempty"`
}

type jsonCandidate struct {
	Peer      string   `json:"peer"`
	Weight    int      `json:"weight"`
	Effective int      `json:"effective"`
	Before    int      `json:"current_before"`
	After     int      `json:"current_after"`
	Conns     int      `json:"conns"`
	MaxConns  int      `json:"max_conns"`
	Fails     int      `json:"fails"`
	MaxFails  int      `json:"max_fails"`
	Score     *float64 `json:"score,omitempty"`
	InTie     bool     `json:"in_tie,omitempty"`
	LeftOut   string   `json:"left_out,omitempty"`
	Until     *int64   `json:"unavailable_until_ms,omitempty"`
}

// jsonWeight is how a peer stands after a session.
type jsonWeight struct {
	Peer string `json:"peer"`
	jsonAccount
}

type jsonAccount struct {
	Current   int `json:"current"`
	Effective int `json:"effective"`
	Conns     int `json:"conns"`
	Fails     int `json:"fails"`
}

func toAccount(p *balance.Peer) jsonAccount {
	return jsonAccount{p.Current, p.Effective, p.Conns, p.Fails}
}

func (t *jsonTeller) session(o *outcome) {
	type line struct {
		At        int64          `json:"t_ms"`
		Event     string         `json:"event"`
		Session   int            `json:"session"`
		Held      int            `json:"held,omitempty"`
		Client    string         `json:"client"`
		Attempts  []jsonAttempt  `json:"attempts"`
		Status    int            `json:"status"`
		Decisions []jsonDecision `json:"decisions"`
		Weights   []jsonWeight   `json:"weights"`
	}
	l := line{At: o.at.Milliseconds(), Event: "connect", Session: o.number, Held: o.held, Client: clientText(o.client), Status: o.status, Attempts: []jsonAttempt{}}
	for i := range o.attempts {
		l.Attempts = append(l.Attempts, t.attempt(&o.attempts[i]))
	}
	for _, d := range o.decisions {
		l.Decisions = append(l.Decisions, toJSON(d))
	}
	for i := range o.after {
		p := &o.after[i]
		l.Weights = append(l.Weights, jsonWeight{p.Name, toAccount(&p.Balance)})
	}
	t.write(l)
}

func (t *jsonTeller) attempt(a *attempt) jsonAttempt {
	j := jsonAttempt{Peer: a.peer, OK: a.fate == connected, Fate: a.fate.String()}
	if f := a.failure; f != nil {
		j.Failure = &jsonFailure{t.sim.cost(a), f.Fails, f.MaxFails, f.Before, f.After, nil}
		if f.Unavailable && !f.Only {
			j.Failure.Until = millisecond(f.Until)
		}
	}
	return j
}

func toJSON(d *upstream.Decision) jsonDecision {
	j := jsonDecision{Sentence: d.Sentence(instant), By: d.By, Tied: d.Tied, Fallback: d.Fallback, Key: d.KeyText(), Backup: d.Backup}
	if d.Peer != nil {
		j.Peer = &d.Peer.Name
	}
	if d.By == "" || d.Fallback != "" {
		j.By = "current weight"
	}
	for _, p := range d.Probes {
		j.Probes = append(j.Probes, jsonProbe{p.At, p.Hash, p.Peer.Name, leftOut(p.Left)})
	}
	for i := range d.Candidates {
		c := &d.Candidates[i]
		jc := jsonCandidate{
			Peer: c.Peer.Name, Weight: c.Weight, Effective: c.Effective, Before: c.Before, After: c.After,
			Conns: c.Conns, MaxConns: c.MaxConns, Fails: c.Fails, MaxFails: c.MaxFails, InTie: c.InTie, LeftOut: leftOut(c.Left),
		}
		if c.Left == balance.LeftUnavailable {
			jc.Until = millisecond(c.Until)
		}
		if c.Scored {
			jc.Score = &c.Score
		}
		j.Candidates = append(j.Candidates, jc)
	}
	return j
}

// millisecond returns an instant in ms since the script's start.
func millisecond(at balance.Seconds) *int64 {
	ms := 1000 * (int64(at) - clock.Base.Seconds())
	return &ms
}

func leftOut(l balance.Left) string {
	if l == balance.Eligible {
		return ""
	}
	return l.String()
}

// skipped has nothing to tell, since programs are told every session.
func (t *jsonTeller) skipped(*tally) {}

func (t *jsonTeller) show(at time.Duration, peers []upstream.Snapshot) {
	type state struct {
		Peer     string `json:"peer"`
		Server   string `json:"server"`
		Backup   bool   `json:"backup"`
		State    string `json:"state"`
		Weight   int    `json:"weight"`
		MaxConns int    `json:"max_conns"`
		MaxFails int    `json:"max_fails"`
		jsonAccount
		Sessions int `json:"sessions"`
		Failed   int `json:"failed_attempts"`
	}
	var all []state
	for i, p := range peers {
		b := &p.Balance
		all = append(all, state{
			p.Name, b.Server, p.Backup, p.State.String(), b.Weight, b.MaxConns, b.MaxFails,
			toAccount(b), t.sim.all.sessions[i], t.sim.all.failed[i],
		})
	}
	t.write(struct {
		At    int64   `json:"t_ms"`
		Event string  `json:"event"`
		Peers []state `json:"peers"`
	}{at.Milliseconds(), "show", all})
}

type jsonShare struct {
	Peer       string   `json:"peer"`
	Sessions   int      `json:"sessions"`
	Share      float64  `json:"share"`
	Ideal      *float64 `json:"ideal,omitempty"`      // share by weight
	Difference *float64 `json:"difference,omitempty"` // from it, in sessions
	Failed     int      `json:"failed_attempts"`
}

func (t *jsonTeller) shares(c *tally) []jsonShare {
	var all []jsonShare
	for i, n := range c.sessions {
		s := jsonShare{Peer: t.sim.names[i], Sessions: n, Share: c.share(float64(n)), Failed: c.failed[i]}
		if t.sim.ideal != nil {
			ideal, difference := c.share(c.ideal[i]), float64(n)-c.ideal[i]
			s.Ideal, s.Difference = &ideal, &difference
		}
		all = append(all, s)
	}
	return all
}

type jsonRow struct {
	Connects int         `json:"connects"`
	Nobody   int         `json:"nobody"`
	Peers    []jsonShare `json:"peers"`
}

func (t *jsonTeller) row(c *tally) jsonRow { return jsonRow{c.connects, c.nobody, t.shares(c)} }

func (t *jsonTeller) table(at time.Duration, c *table) {
	rows := []jsonRow{}
	for _, r := range c.rows {
		rows = append(rows, t.row(r))
	}
	t.write(struct {
		At    int64     `json:"t_ms"`
		Event string    `json:"event"`
		From  int64     `json:"from_ms"`
		Rows  []jsonRow `json:"rows"`
	}{at.Milliseconds(), "table", c.from.Milliseconds(), rows})
}

func (t *jsonTeller) totals(at time.Duration, all *tally) {
	type totals struct {
		At int64 `json:"t_ms"`
		jsonRow
	}
	t.write(map[string]totals{"totals": {at.Milliseconds(), t.row(all)}})
}

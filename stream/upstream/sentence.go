package upstream

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
)

const (
	// listed is how many peers or steps a sentence names before it only
	// counts the rest.
	listed = 4
	// listedForNobody is that of a sentence about nobody being eligible, in
	// which every peer's reason is what its reader wants.
	listedForNobody = 16
)

// Sentence tells the decision to a person. at writes the instants in it.
func (d *Decision) Sentence(at func(balance.Seconds) string) string {
	if d.Peer == nil {
		return d.Denial.String() + colon(d.reasons(listedForNobody, at))
	}
	parts := []string{"picked " + d.name(d.Peer) + d.how()}
	if d.Fallback != "" {
		parts = append(parts, d.detour()...)
	}
	if d.Backup {
		parts = append(parts, d.name(d.Peer)+" is a backup: no primary was left for this session")
	}
	if c := d.winner(); c != nil && c.MaxFails > 0 && c.Fails >= c.MaxFails {
		parts = append(parts, fmt.Sprintf("%s's fail_timeout is over (%s), and this session is its trial", d.name(c.Peer), failures(c.Fails, c.MaxFails)))
	}
	parts = append(parts, d.debts()...)
	if out := d.reasons(listed, at); len(out) > 0 {
		parts = append(parts, "left out"+colon(out))
	}
	return strings.Join(parts, "; ")
}

// how says what decided for the winner, and with which figures.
func (d *Decision) how() string {
	scores := d.scores()
	switch {
	case d.By == Hedged:
		return " for a second attempt beside the first, which takes long (hedge)"
	case d.By == onlyServer:
		return ", " + onlyServer
	case d.Fallback != "":
		return " by current weight, since " + d.Fallback + colon(d.accounts(false))
	case d.By == "":
		return " by current weight" + colon(d.accounts(false))
	case d.Method == conf.Single:
		return " for " + d.By
	case len(scores) > 0:
		how := " by the least " + d.By + colon(scores)
		if d.Tied > 0 {
			how += "; equal ones go by current weight" + colon(d.accounts(true))
		}
		return how
	}
	return d.means() + colon(d.search())
}

// detour tells which way a search went before it was given up.
func (d *Decision) detour() []string {
	if steps := d.search(); len(steps) > 0 {
		return []string{"before that" + d.means() + colon(steps)}
	}
	return nil
}

// means says what a search goes by.
func (d *Decision) means() string {
	key := ""
	if d.Key != "" {
		key = " " + d.KeyText()
		if strings.ContainsAny(key[1:], ` ,;"`) {
			key = fmt.Sprintf(" %q", d.KeyText())
		}
	}
	switch before, after, found := strings.Cut(d.By, "the key"); {
	case found:
		return " by the " + before + "the key" + key + after
	case d.By == "lot" && d.Method == conf.EpsilonGreedy:
		return " by lot, to explore"
	case d.By == "lot":
		return " by lot"
	}
	return " by the " + d.By + key
}

// KeyText returns the key for people: an address as an address, any other
// binary one in hexadecimal digits.
func (d *Decision) KeyText() string {
	if ip, ok := netip.AddrFromSlice([]byte(d.Key)); ok && d.Method == conf.IPHash {
		return ip.String()
	}
	if strings.IndexFunc(d.Key, func(r rune) bool { return !strconv.IsPrint(r) }) < 0 {
		return d.Key
	}
	return fmt.Sprintf("0x%x", d.Key)
}

// search tells where a keyed method, a draw or a cycle came by.
func (d *Decision) search() []string {
	var steps []string
	for i, p := range d.Probes {
		switch last := len(d.Probes) - 1; {
		case i == listed-1 && i < last:
			steps = append(steps, fmt.Sprintf("%d more", last-i))
		case i >= listed && i < last:
		default:
			steps = append(steps, d.step(p))
		}
	}
	return steps
}

// step tells of one place that a search came by.
func (d *Decision) step(p Probe) string {
	step := ""
	switch {
	case d.Method == conf.WeightedRoundRobin:
		step = fmt.Sprintf("%s at level %d", d.name(p.Peer), p.At)
	case d.Method == conf.Maglev:
		step = fmt.Sprintf("slot %d is %s's", p.At, d.name(p.Peer))
	case p.Hash != 0:
		step = fmt.Sprintf("point %d is %s's", p.At, d.name(p.Peer))
	default:
		step = fmt.Sprintf("lot %d is %s's", p.At, d.name(p.Peer))
	}
	if p.Left != balance.Eligible {
		step += " (" + p.Left.String() + ")"
	}
	return step
}

// scores lists what the method compared, best first.
func (d *Decision) scores() []string {
	return d.list(
		func(c *Candidate) (float64, bool) { return c.Score, c.Scored },
		cmp.Compare[float64],
		d.score)
}

// unknownLoad is from where on a score of epsilon_greedy, in microseconds,
// stands for a peer that has not succeeded yet.
const unknownLoad = 1e9

// score writes a score with its unit, if it has one.
func (d *Decision) score(v float64) string {
	switch {
	case d.Method != conf.EpsilonGreedy:
		return number(v)
	case v == 0:
		return "(not known yet)"
	case v >= unknownLoad:
		return "(no success yet)"
	}
	return number(v/1000) + " ms"
}

// accounts lists what smooth round robin compared, best first: each account
// after its addition and before the winner paid.
func (d *Decision) accounts(tied bool) []string {
	return d.list(
		func(c *Candidate) (float64, bool) {
			return float64(c.Before + c.Effective), d.inPlay(c) && (!tied || c.InTie)
		},
		func(a, b float64) int { return cmp.Compare(b, a) },
		number)
}

// list names the candidates that have a value, in order of it.
func (d *Decision) list(value func(*Candidate) (float64, bool), order func(a, b float64) int, write func(float64) string) []string {
	type entry struct {
		peer  *Peer
		value float64
	}
	var all []entry
	for i := range d.Candidates {
		c := &d.Candidates[i]
		v, ok := value(c)
		switch {
		case ok && c.Peer == d.Peer:
			all = slices.Insert(all, 0, entry{c.Peer, v}) // it leads its equals
		case ok:
			all = append(all, entry{c.Peer, v})
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int { return order(a.value, b.value) })
	var out []string
	for _, e := range all {
		out = append(out, d.name(e.peer)+" "+write(e.value))
	}
	return shorten(out, listed)
}

// debts tells why a peer of greater weight was not picked by round robin.
func (d *Decision) debts() []string {
	winner := d.winner()
	if winner == nil || d.By != "" && d.Fallback == "" && d.Tied == 0 {
		return nil
	}
	var out []string
	for i := range d.Candidates {
		c := &d.Candidates[i]
		if !d.inPlay(c) || c.Weight <= winner.Weight || d.Tied > 0 && !c.InTie || len(out) == listed {
			continue
		}
		if debt := d.debt(c); debt != "" {
			out = append(out, debt)
		}
	}
	return out
}

func (d *Decision) debt(c *Candidate) string {
	name := d.name(c.Peer)
	switch {
	case c.Before < 0 && c.Effective < c.Weight:
		return fmt.Sprintf("%s (weight %d) is in debt at %d after its own turns and pays it off slowly: failures left it %d of its weight, and each pick brings 1 back", name, c.Weight, c.Before, c.Effective)
	case c.Effective < c.Weight:
		return fmt.Sprintf("failures left %s %d of its weight %d, and each pick brings 1 back", name, c.Effective, c.Weight)
	case c.Before < 0:
		return fmt.Sprintf("%s (weight %d) is in debt at %d after its own turns", name, c.Weight, c.Before)
	}
	return ""
}

// reasons lists the peers that could not be picked, with the reason.
func (d *Decision) reasons(listed int, at func(balance.Seconds) string) []string {
	var out []string
	for i := range d.Candidates {
		c := &d.Candidates[i]
		if d.Peer == nil || !d.inPlay(c) {
			out = append(out, d.name(c.Peer)+" ("+d.reason(c, at)+")")
		}
	}
	return shorten(out, listed)
}

func (d *Decision) reason(c *Candidate, at func(balance.Seconds) string) string {
	switch c.Left {
	case balance.Eligible:
		switch {
		case d.Method == conf.Single:
			return "stands by, since only the active peer takes sessions"
		case d.Backup && c.tier == primary:
			return "eligible again, but this session has moved on to the backups"
		}
		return "was not, and is again by now" // Inspect looks later than Pick
	case balance.LeftTried:
		return "already tried in this session"
	case balance.LeftUnavailable:
		return fmt.Sprintf("unavailable until %s after %s", at(c.Until), failures(c.Fails, c.MaxFails))
	case balance.LeftFull:
		return fmt.Sprintf("full: %d of max_conns %d", c.Conns, c.MaxConns)
	}
	return c.Left.String()
}

// inPlay reports whether the candidate could have been picked. A session that
// is with the backups stays there.
func (d *Decision) inPlay(c *Candidate) bool {
	return c.Left == balance.Eligible && (c.tier == backup) == d.Backup
}

// winner returns the candidate that was picked, or nil.
func (d *Decision) winner() *Candidate {
	for i := range d.Candidates {
		if d.Candidates[i].Peer == d.Peer {
			return &d.Candidates[i]
		}
	}
	return nil
}

// name returns what a person calls the peer: its server's name, or its address
// where the server has several.
func (d *Decision) name(p *Peer) string {
	for i := range d.Candidates {
		if other := d.Candidates[i].Peer; other != p && other.Name == p.Name {
			return p.String()
		}
	}
	return p.Name
}

// Sentence tells the failure to a person: what was attempted ("connecting to"),
// why it failed, and what the peer has to bear for it. at writes the instants
// in it.
func (f *Failure) Sentence(what, why string, at func(balance.Seconds) string) string {
	name := f.Peer.Name
	if name != f.Peer.String() {
		name += " (" + f.Peer.String() + ")"
	}
	said := what + " " + name + " failed: " + why + "; " + f.price(at)
	if f.Before != f.After {
		said += fmt.Sprintf("; its effective weight falls from %d to %d", f.Before, f.After)
	}
	return said
}

func (f *Failure) price(at func(balance.Seconds) string) string {
	switch {
	case f.Only:
		return "it stays available, since it is " + onlyServer
	case !f.Charged:
		return "that is not the peer's fault and does not count"
	case f.MaxFails == 0:
		return "it stays available, since max_fails is 0"
	case f.Unavailable:
		return fmt.Sprintf("after %s it is unavailable until %s", failures(f.Fails, f.MaxFails), at(f.Until))
	}
	return fmt.Sprintf("after %s it stays available", failures(f.Fails, f.MaxFails))
}

// failures counts: "failure 1 of 2", or beyond that "3 failures (max_fails 2)".
func failures(n, most int) string {
	if n > most {
		return fmt.Sprintf("%d failures (max_fails %d)", n, most)
	}
	return fmt.Sprintf("failure %d of %d", n, most)
}

// number writes a figure as short as it stays exact enough.
func number(v float64) string {
	if v == math.Trunc(v) || math.Abs(v) >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// shorten counts what goes beyond n entries.
func shorten(list []string, n int) []string {
	if len(list) > n+1 {
		return append(list[:n], fmt.Sprintf("%d more", len(list)-n))
	}
	return list
}

// colon writes a list after a colon, or nothing.
func colon(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return ": " + strings.Join(list, ", ")
}

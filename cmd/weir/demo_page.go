package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weirlb/weir/stream/stats"
)

// eventsKept bounds the events on the page; a low terminal shows fewer.
const eventsKept = 12

// demoSample is what rates are computed from.
type demoSample struct {
	at       time.Time
	accepted uint64    // TCP
	bytes    [3]uint64 // the same, by peer, both directions
	answers  uint64    // UDP
}

func (d *demo) sample(now time.Time) {
	s := demoSample{at: now, accepted: d.accepted(), answers: d.closed()[stats.Answered]}
	for i, p := range d.peers {
		s.bytes[i] = p.Sent + p.Received
	}
	d.samples = append(d.samples, s)
	if n := int(time.Second / demoTick); len(d.samples) > n+1 {
		d.samples = d.samples[1:]
	}
}

// accepted returns how many TCP sessions there were.
func (d *demo) accepted() uint64 {
	queries := uint64(0)
	for _, p := range d.balance.Peers(dnsName) {
		queries += p.Sessions
	}
	total := uint64(0)
	for _, c := range d.balance.Counters() {
		total += c.DownstreamConnections.Load() // after those of queries: it is not less
	}
	return total - queries
}

// closed returns how sessions ended.
func (d *demo) closed() [stats.Reasons]uint64 { return d.balance.Read().Closed() }

// rate returns how fast a counter grew in about the last second.
func (d *demo) rate(counter func(*demoSample) uint64) float64 {
	if len(d.samples) < 2 {
		return 0
	}
	first, last := &d.samples[0], &d.samples[len(d.samples)-1]
	return float64(counter(last)-counter(first)) / last.at.Sub(first.at).Seconds()
}

// open prints what precedes plain lines.
func (d *demo) open() error {
	if d.size != nil {
		return nil
	}
	_, err := fmt.Fprintf(d.out, "%s\n%s\n\n", strings.Join(d.heading(), "\n"), strings.Join(d.legend(), "\n"))
	return err
}

// show draws the page, or prints the events and, once a second, the numbers.
func (d *demo) show(now time.Time) error {
	if d.size != nil {
		cols, rows := d.size()
		return d.screen.draw(d.out, d.page(rows-1), cols, rows)
	}
	var b strings.Builder
	for _, e := range d.events {
		b.WriteString(e + "\n")
	}
	d.events = nil
	if elapsed := now.Sub(d.start); elapsed/time.Second != (elapsed-demoTick)/time.Second {
		fmt.Fprintf(&b, "%s\n", now.Format(time.TimeOnly))
		for _, line := range append(d.table(), d.totals()...) {
			b.WriteString("  " + line + "\n")
		}
	}
	_, err := io.WriteString(d.out, b.String())
	return err
}

// end leaves the terminal as it was and sums up.
func (d *demo) end() error {
	if d.size != nil {
		if err := d.screen.close(d.out); err != nil {
			return err
		}
	}
	seen, _ := d.traffic.sums()
	failed := "no other session failed"
	if seen.failed > 0 {
		failed = fmt.Sprintf("%s failed otherwise, the last one so: %v", count(seen.failed, "session"), seen.err)
	}
	_, err := fmt.Fprintf(d.out, "%v, %s; %s went away %s and cut %s; %s.\n%s\n", time.Since(d.start).Round(time.Second),
		count(int(d.accepted()), "session"), d.servers[demoVictim].name, count(d.absences, "time"), count(seen.cut, "session"), failed, d.dnsSummary())
	return err
}

// page is everything in at most so many lines.
func (d *demo) page(lines int) []string {
	p := append(d.heading(), "")
	p = append(p, d.table()...)
	p = append(p, d.totals()...)
	p = append(p, "")
	p = append(p, d.legend()...)
	p = append(p, "")
	room := min(max(lines-len(p), 1), len(d.events))
	return append(p, d.events[len(d.events)-room:]...)
}

func (d *demo) heading() []string {
	return []string{
		"weir balances TCP and UDP over three servers in this process.",
		fmt.Sprintf("Try it: curl http://%s/   or: echo hi | nc %s", d.addr, strings.Replace(d.addr, ":", " ", 1)),
		"Try it: dig @" + strings.Replace(d.dnsAddr, ":", " -p ", 1) + " TXT demo",
	}
}

// table has one line for each peer under a headline, 79 columns wide.
func (d *demo) table() []string {
	const format = "%-4s %-15s %6s %-11s %3s %8s %5s %5s %7s %6s"
	lines := []string{fmt.Sprintf(format, "peer", "address", "weight", "state", "now", "picked", "share", "ideal", "bytes/s", "bytes")}
	var picked uint64
	weights := 0
	for i, p := range d.peers {
		picked += p.Sessions - d.since[i].Sessions
		if p.Balance.Fails == 0 {
			weights += p.Balance.Weight
		}
	}
	for i, p := range d.peers {
		weight := p.Balance.Weight
		if p.Balance.Fails > 0 {
			weight = 0
		}
		lines = append(lines, fmt.Sprintf(format,
			p.Name, p.Addr, fmt.Sprintf("%d/%d", p.Balance.Effective, p.Balance.Weight), p.State,
			fmt.Sprint(p.Balance.Conns), fmt.Sprint(p.Sessions),
			percent(p.Sessions-d.since[i].Sessions, picked), percent(uint64(weight), uint64(weights)),
			humanBytes(d.rate(func(s *demoSample) uint64 { return s.bytes[i] })), humanBytes(float64(p.Sent+p.Received))))
	}
	return lines
}

func (d *demo) totals() []string {
	closed := d.closed()
	ended := make([]string, 0, stats.Reasons)
	for r, n := range closed[:stats.Answered] { // the others are UDP's
		if n > 0 {
			ended = append(ended, fmt.Sprintf("%v %d", stats.CloseReason(r), n))
		}
	}
	sessions := 0
	current := make([]string, len(d.peers))
	for i, p := range d.peers {
		sessions += p.Balance.Conns
		current[i] = fmt.Sprintf("%s %d", p.Name, p.Balance.Current)
	}
	seen, _ := d.traffic.sums()
	clients := fmt.Sprintf("%d answered, %d cut when %s went away, %d failed", seen.answered, seen.cut, d.servers[demoVictim].name, seen.failed)
	if seen.err != nil {
		clients += ": " + seen.err.Error()
	}
	return append([]string{
		fmt.Sprintf("sessions  %.0f/s, %d now", d.rate(func(s *demoSample) uint64 { return s.accepted }), sessions),
		"ended     " + strings.Join(ended, ", "),
		"clients   " + clients,
		"current   " + strings.Join(current, ", "),
	}, d.dnsTotals()...)
}

func (d *demo) legend() []string {
	return []string{
		"weight   effective/configured: failures take some off, later picks return it",
		"share    of the picks since the usable peers last changed; ideal by weight",
		"current  a pick adds effective weights, takes the greatest, subtracts the sum",
	}
}

func percent(part, whole uint64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", float64(part)/float64(whole)*100)
}

// humanBytes writes an amount in at most six columns.
func humanBytes(n float64) string {
	for _, unit := range []string{"B", "kB", "MB", "GB"} {
		switch {
		case n < 9.95 && unit != "B":
			return fmt.Sprintf("%.1f %s", n, unit)
		case n < 999.5:
			return fmt.Sprintf("%.0f %s", n, unit)
		}
		n /= 1000
	}
	return fmt.Sprintf("%.1f TB", n)
}

// demoScreen redraws lines in place on a terminal.
type demoScreen struct {
	drawn      int // lines above the cursor that are ours
	cols, rows int
}

// The control sequences in use (ECMA-48).
const (
	hideCursor  = "\x1b[?25l"
	showCursor  = "\x1b[?25h"
	clearLine   = "\x1b[K" // from the cursor on
	clearBelow  = "\x1b[J"
	clearScreen = "\x1b[H\x1b[2J"
)

func (s *demoScreen) draw(w io.Writer, lines []string, cols, rows int) error {
	var b strings.Builder
	b.WriteString(hideCursor + "\r")
	switch {
	case s.cols != 0 && (s.cols != cols || s.rows != rows):
		b.WriteString(clearScreen) // the terminal has moved our lines, who knows where
	case s.drawn > 0:
		fmt.Fprintf(&b, "\x1b[%dA", s.drawn)
	}
	s.cols, s.rows = cols, rows
	// The last line stays free for the cursor, the last column because some
	// terminals wrap there.
	lines = lines[:min(len(lines), max(rows-1, 1))]
	for _, line := range lines {
		b.WriteString(line[:min(len(line), max(cols-1, 1))] + clearLine + "\n")
	}
	b.WriteString(clearBelow)
	s.drawn = len(lines)
	_, err := io.WriteString(w, b.String())
	return err
}

// close gives the terminal back. The \r goes over the ^C that it has echoed.
func (s *demoScreen) close(w io.Writer) error {
	_, err := io.WriteString(w, "\r"+clearLine+showCursor)
	return err
}

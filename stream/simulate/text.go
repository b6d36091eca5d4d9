package simulate

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/upstream"
)

// The layout of a line: time, session, peer, a column for each peer, and why.
const (
	lineWidth = 120 // at which sentences are broken
	timeWidth = 7
	mostCells = 8  // peers with a column of their own; more get none
	whyAtMost = 64 // a sentence that would begin further right goes below its line
	gap       = "  "
)

// textTeller tells a run to people.
type textTeller struct {
	w       *bufio.Writer
	sim     *Simulation
	holding bool
	number  int   // width of the session numbers
	way     int   // width of the way to the peer
	cells   []int // width of each peer's column; nil = there are none
	why     int   // where sentences begin
}

func newTextTeller(w io.Writer, s *Simulation, sc *Script) *textTeller {
	t := &textTeller{w: bufio.NewWriter(w), sim: s, holding: sc.holding, number: len("session")}
	name, total := 0, 0
	for i, p := range s.snapshot() {
		name = max(name, utf8.RuneCountInString(s.names[i]))
		total += p.Balance.Weight
	}
	t.way = max(name, len("peer"))
	if sc.failing {
		t.way = max(t.way, min(2*name+len(" timed out -> "), 40))
	}
	if sc.holding {
		t.way += len(" held as 99")
	}
	t.why = timeWidth + t.number + t.way + 3*len(gap)
	if len(s.peers) <= mostCells {
		widest := len(fmt.Sprintf("-%d/%d", total, total))
		if sc.holding {
			widest += len(" (99)")
		}
		for _, n := range s.names {
			width := max(widest, utf8.RuneCountInString(n))
			t.cells = append(t.cells, width)
			t.why += width + len(gap)
		}
	}
	t.heading()
	return t
}

// heading explains the columns.
func (t *textTeller) heading() {
	fmt.Fprintf(t.w, "upstream %q by %s: %s\n", t.sim.group.Name, t.sim.group.Method(), list(t.sim.names))
	switch {
	case t.cells == nil:
	case t.holding:
		fmt.Fprintln(t.w, "Below each peer: its current/effective weight after the session (and its sessions then).")
	default:
		fmt.Fprintln(t.w, "Below each peer: its current/effective weight after the session.")
	}
	t.w.WriteByte('\n')
	line := t.begin("time", "session", "peer")
	for i, width := range t.cells {
		line += gap + pad(t.sim.names[i], width)
	}
	if t.why <= whyAtMost {
		line += gap + "why"
	}
	t.line(line)
}

// begin writes the columns that all lines have.
func (t *textTeller) begin(at, number, what string) string {
	return fmt.Sprintf("%*s%s%*s%s%s", timeWidth, at, gap, t.number, number, gap, pad(what, t.way))
}

func (t *textTeller) line(text string) {
	t.w.WriteString(strings.TrimRight(text, " "))
	t.w.WriteByte('\n')
}

// pad fills text up to a width.
func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

func (t *textTeller) event(at time.Duration, e *event, n note) {
	text := e.text
	if e.verb == "close" {
		switch {
		case n.closed == 0:
			text += ": no such session is open"
		case n.asked != 1:
			text += fmt.Sprintf(": %s", count(n.closed, "session"))
		}
	}
	t.line(t.begin(span(at), "", text))
}

func (t *textTeller) session(o *outcome) {
	line := t.begin(span(o.at), strconv.Itoa(o.number), o.way())
	for i, width := range t.cells {
		line += gap + pad(t.cell(&o.after[i]), width)
	}
	indent := t.why
	if t.why > whyAtMost {
		t.line(line)
		line, indent = "", timeWidth+t.number+2*len(gap)
	}
	for _, sentence := range t.sim.why(o) {
		for _, part := range wrap(sentence, lineWidth-indent) {
			t.line(pad(line, indent-len(gap)) + gap + part)
			line = ""
		}
	}
}

// way tells from where to where the session went.
func (o *outcome) way() string {
	var b strings.Builder
	for _, a := range o.attempts {
		if b.Len() > 0 {
			b.WriteString(" -> ")
		}
		b.WriteString(a.peer)
		if a.fate != connected {
			b.WriteString(" " + a.fate.String())
		}
	}
	switch {
	case o.nobody && b.Len() == 0:
		b.WriteString("nobody")
	case o.nobody:
		b.WriteString(" -> nobody")
	case o.status != 200:
		b.WriteString(" -> given up")
	}
	if o.held > 0 && o.status == 200 {
		fmt.Fprintf(&b, " held as %d", o.held)
	}
	return b.String()
}

func (t *textTeller) cell(p *upstream.Snapshot) string {
	text := fmt.Sprintf("%d/%d", p.Balance.Current, p.Balance.Effective)
	if t.holding {
		text += fmt.Sprintf(" (%d)", p.Balance.Conns)
	}
	return text
}

func (t *textTeller) skipped(s *tally) {
	var parts []string
	for i, n := range s.sessions {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", t.sim.names[i], digits(n)))
		}
	}
	if s.nobody > 0 {
		parts = append(parts, "nobody "+digits(s.nobody))
	}
	failed := 0
	for _, n := range s.failed {
		failed += n
	}
	text := fmt.Sprintf("... %s more: %s", digits(s.connects), list(parts))
	if failed > 0 {
		text += fmt.Sprintf(", after %s", count(failed, "failed attempt"))
	}
	t.line(t.begin("", "", text))
}

func (t *textTeller) show(_ time.Duration, peers []upstream.Snapshot) {
	rows := [][]string{{"peer", "state", "weight", "effective", "current", "conns", "fails", "sessions"}}
	for i, p := range peers {
		b := &p.Balance
		state := p.State.String()
		if p.Backup {
			state += ", backup"
		}
		rows = append(rows, []string{p.Name, state, strconv.Itoa(b.Weight), strconv.Itoa(b.Effective), strconv.Itoa(b.Current),
			of(b.Conns, b.MaxConns), of(b.Fails, b.MaxFails), strconv.Itoa(t.sim.all.sessions[i])})
	}
	t.grid(timeWidth+t.number+2*len(gap), 2, rows)
}

// of writes a number with its limit, if there is one.
func of(n, limit int) string {
	if limit == 0 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d of %d", n, limit)
}

func (t *textTeller) table(_ time.Duration, c *table) {
	head := []string{"connects"}
	for _, n := range t.sim.names {
		head = append(head, n, "share")
	}
	nobody := len(c.rows) > 0 && c.rows[len(c.rows)-1].nobody > 0
	if nobody {
		head = append(head, "nobody")
	}
	rows := [][]string{head}
	for _, r := range c.rows {
		row := []string{strconv.Itoa(r.connects)}
		for _, n := range r.sessions {
			row = append(row, strconv.Itoa(n), percent(r.share(float64(n))))
		}
		if nobody {
			row = append(row, strconv.Itoa(r.nobody))
		}
		rows = append(rows, row)
	}
	if len(c.rows) > 0 && t.sim.ideal != nil {
		last := c.rows[len(c.rows)-1]
		row := []string{"ideal"}
		for _, n := range last.ideal {
			row = append(row, "", percent(last.share(n)))
		}
		rows = append(rows, row)
	}
	fmt.Fprintf(t.w, "\nSessions by peer, counted from %s on:\n", span(c.from))
	if len(c.rows) == 0 {
		fmt.Fprintf(t.w, "  none, since only %s came after that\n", count(c.reached, "connect"))
		return
	}
	t.grid(len(gap), 0, rows)
	if len(c.at) > 0 {
		fmt.Fprintf(t.w, "  %d and more were not reached.\n", c.at[0])
	}
}

func (t *textTeller) totals(at time.Duration, all *tally) {
	head := []string{"peer", "sessions", "share"}
	if t.sim.ideal != nil {
		head = append(head, "ideal", "difference")
	}
	rows := [][]string{append(head, "failed attempts")}
	for i, n := range all.sessions {
		row := []string{t.sim.names[i], strconv.Itoa(n), percent(all.share(float64(n)))}
		if t.sim.ideal != nil {
			row = append(row, percent(all.share(all.ideal[i])), fmt.Sprintf("%+.1f", float64(n)-all.ideal[i]))
		}
		rows = append(rows, append(row, strconv.Itoa(all.failed[i])))
	}
	text := "in " + span(at)
	if all.nobody > 0 {
		text += fmt.Sprintf(", %s of them got nobody", digits(all.nobody))
	}
	fmt.Fprintf(t.w, "\n%s %s:\n", count(all.connects, "session"), text)
	t.grid(len(gap), 1, rows)
	if t.sim.ideal != nil && all.connects > 0 {
		fmt.Fprintln(t.w, "Ideal is by weight, among the primaries that were not down or drained; the difference is in sessions.")
	}
}

func (t *textTeller) flush() error { return t.w.Flush() }

// grid writes rows in columns, of which the first ones stand left and the
// others right.
func (t *textTeller) grid(indent, left int, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	for _, row := range rows {
		line := strings.Repeat(" ", indent)
		for i, c := range row {
			if i > 0 {
				line += gap
			}
			if i >= left {
				line += strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			}
			line += pad(c, widths[i]*min(1, max(0, left-i)))
		}
		t.line(line)
	}
}

func percent(part float64) string { return fmt.Sprintf("%.1f%%", 100*part) }

// count writes a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return digits(n) + " " + noun + "s"
}

// span writes a time since the script's start: 0s, 250ms, 1m30s, 2h.
func span(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// instant writes an instant as the time since the script's start.
func instant(at balance.Seconds) string {
	return span(time.Duration(int64(at)-clock.Base.Seconds()) * time.Second)
}

// wrap breaks a text into lines of that width.
func wrap(text string, width int) []string {
	var lines []string
	for _, w := range strings.Fields(text) {
		last := len(lines) - 1
		if last >= 0 && utf8.RuneCountInString(lines[last])+1+utf8.RuneCountInString(w) <= width {
			lines[last] += " " + w
			continue
		}
		lines = append(lines, w)
	}
	return lines
}

package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/weirlb/weir/conf"
)

// What a script may ask for. The bounds keep a slip of the finger from filling
// the memory or running for hours.
const (
	MaxScriptBytes = 1 << 20
	maxSessions    = 10_000_000 // over the whole script
	maxHeld        = 1_000_000
	maxRows        = 1_000 // of a table
	MaxMistakes    = 20    // that are told; more are the same one again
)

// Script is a list of events whose words are all known to make sense.
type Script struct {
	events  []event
	failing bool // some connect may fail
	holding bool // some sessions stay open
}

// event is one line of a script.
type event struct {
	verb  string
	text  string        // as written, for people
	n     int           // connect: sessions
	from  clients       // connect
	hold  bool          // connect
	peers []int         // fail, heal, hang, slow, down, up, drain, close
	span  time.Duration // wait, slow
	first int           // close: held sessions from first to last; 0 = those of peers
	last  int
	every int   // table: connects between rows; 0 = at
	at    []int // table, ascending
}

// verbs lists the events with the parser of what follows the word, and an
// example.
var verbs = map[string]struct {
	parse   func(*parser, *event)
	example string
}{
	"connect": {(*parser).connect, "connect 10 from 10.0.0.1+ hold"},
	"fail":    {(*parser).servers, "fail a"},
	"hang":    {(*parser).servers, "hang a"},
	"heal":    {(*parser).servers, "heal a"},
	"slow":    {(*parser).slow, "slow a 200ms"},
	"wait":    {(*parser).wait, "wait 10s"},
	"close":   {(*parser).close, "close 1-5"},
	"down":    {(*parser).servers, "down a"},
	"drain":   {(*parser).servers, "drain a"},
	"up":      {(*parser).servers, "up a"},
	"show":    {(*parser).nothing, "show"},
	"table":   {(*parser).table, "table every 10"},
}

// verbNames are the verbs in the order in which people are told of them.
var verbNames = []string{"connect", "fail", "hang", "slow", "heal", "wait", "close", "down", "drain", "up", "show", "table"}

// ParseScript reads a script for the simulation's peers. A script with mistakes
// is nil, and all its mistakes are told.
func (s *Simulation) ParseScript(text string) (*Script, []Mistake) {
	p := parser{sim: s, text: text}
	if len(text) > MaxScriptBytes {
		p.mistake(0, 0, fmt.Sprintf("the script is longer than %d bytes", MaxScriptBytes), "Is it a script?")
		return nil, p.mistakes
	}
	for p.pos < len(text) && len(p.mistakes) < MaxMistakes {
		if p.split(); len(p.words) > 0 {
			p.statement()
		}
	}
	p.endTable()
	if len(p.script.events) == 0 && len(p.mistakes) == 0 {
		p.mistake(0, 0, "the script is empty", `Write events such as "connect 10; fail a; wait 10s; connect 10; show".`)
	}
	if len(p.mistakes) > 0 {
		slices.SortStableFunc(p.mistakes, func(a, b Mistake) int { return a.Start - b.Start })
		return nil, p.mistakes
	}
	return &p.script, nil
}

// word is a part of a statement with its place in the text.
type word struct {
	text       string
	start, end int
}

type parser struct {
	sim      *Simulation
	text     string
	pos      int
	words    []word // of the statement, not parsed yet
	verb     word
	example  string // of the verb
	before   word   // the last word that was parsed
	script   Script
	mistakes []Mistake

	connects  int // so far
	held      int
	tableAt   word // the table that is being counted; "" = none
	tableStep int
	tableFrom int // connects before it
}

// split takes the words up to the end of the line or a semicolon.
func (p *parser) split() {
	p.words = p.words[:0]
	for p.pos < len(p.text) {
		rest := p.text[p.pos:]
		switch c := rest[0]; {
		case c == '\n' || c == ';':
			p.pos++
			return
		case c == '#':
			p.pos += len(upTo(rest, "\n"))
		case c == '"':
			inside := upTo(rest[1:], "\"\n")
			end := p.pos + 1 + len(inside)
			if end == len(p.text) || p.text[end] == '\n' {
				p.mistake(p.pos, end, "the quotes are not closed", "Write the closing quotes on the same line.")
			} else {
				end++
			}
			p.words = append(p.words, word{inside, p.pos, end})
			p.pos = end
		default:
			n := strings.IndexFunc(rest, func(r rune) bool { return unicode.IsSpace(r) || r == ';' })
			if n < 0 {
				n = len(rest)
			}
			if n == 0 {
				p.pos += len(rest) - len(strings.TrimLeftFunc(rest, func(r rune) bool { return unicode.IsSpace(r) && r != '\n' }))
				continue
			}
			p.words = append(p.words, word{rest[:n], p.pos, p.pos + n})
			p.pos += n
		}
	}
}

// upTo returns the text before the first of the characters.
func upTo(text, chars string) string {
	if i := strings.IndexAny(text, chars); i >= 0 {
		return text[:i]
	}
	return text
}

// mistake notes what is wrong with a piece of the text.
func (p *parser) mistake(start, end int, what, hint string) {
	if len(p.mistakes) < MaxMistakes {
		p.mistakes = append(p.mistakes, newMistake(p.text, start, end, what, hint))
	}
}

func (p *parser) wrong(w word, what, hint string) { p.mistake(w.start, w.end, what, hint) }

// next takes a word.
func (p *parser) next() (word, bool) {
	if len(p.words) == 0 {
		return word{}, false
	}
	p.before = p.words[0]
	p.words = p.words[1:]
	return p.before, true
}

// need is next where something has to stand.
func (p *parser) need(what string) (word, bool) {
	w, ok := p.next()
	if !ok {
		p.mistake(p.verb.start, p.before.end, fmt.Sprintf("%s needs %s", p.verb.text, what), p.such())
	}
	return w, ok
}

// such gives an example of the statement.
func (p *parser) such() string { return "Such as: " + p.example }

func (p *parser) statement() {
	first, last := p.words[0], p.words[len(p.words)-1]
	p.verb, _ = p.next()
	v, ok := verbs[p.verb.text]
	if !ok {
		hint := "The events are " + list(verbNames) + "."
		if near := nearest(p.verb.text, verbNames); near != "" {
			hint = fmt.Sprintf("Write %q.", near)
		}
		p.wrong(p.verb, fmt.Sprintf("unknown event %q", p.verb.text), hint)
		return
	}
	p.example = v.example
	e := event{verb: p.verb.text, text: strings.Join(strings.Fields(p.text[first.start:last.end]), " ")}
	told := len(p.mistakes)
	v.parse(p, &e)
	if w, more := p.next(); more && len(p.mistakes) == told {
		p.mistake(w.start, last.end, fmt.Sprintf("%s has nothing after this", p.verb.text), "Write one event a line, or put a semicolon between two.")
	}
	p.script.events = append(p.script.events, e)
}

func (p *parser) nothing(*event) {}

// connect reads connect [N] [from ADDR] [hold].
func (p *parser) connect(e *event) {
	e.n = 1
	at := p.verb
	from := word{}
	for i := 0; len(p.words) > 0; i++ {
		switch w, _ := p.next(); {
		case w.text == "hold":
			e.hold = true
		case w.text == "from":
			var ok bool
			if from, ok = p.need("an address after from"); ok {
				p.clients(from, e)
			}
		case i == 0 && strings.IndexAny(w.text, "-0123456789") == 0:
			at = w
			e.n = p.number(w, "sessions", maxSessions)
		default:
			hint := p.such()
			near := nearest(w.text, []string{"from", "hold"})
			if near != "" {
				hint = fmt.Sprintf("Write %q.", near)
			}
			p.wrong(w, fmt.Sprintf("connect does not know %q", w.text), hint)
			if near == "from" {
				p.next() // its address is no further mistake
			}
		}
	}
	if p.connects += e.n; p.connects > maxSessions {
		p.wrong(at, "these are too many sessions", fmt.Sprintf("All connects of a script together may make %s; here it is at %s.", digits(maxSessions), digits(p.connects)))
		p.connects -= e.n
	}
	if e.hold {
		p.script.holding = true
		if p.held += e.n; p.held > maxHeld {
			p.wrong(at, "these are too many sessions to hold", fmt.Sprintf("A script may hold %s; without hold it may make %s.", digits(maxHeld), digits(maxSessions)))
			p.held -= e.n
		}
	}
	if from.text != "" && !e.from.reach(e.n) {
		p.wrong(from, fmt.Sprintf("counted up from here there are no %s clients", digits(e.n)), "Begin lower, or connect fewer.")
	}
}

// clients reads where a connect comes from.
func (p *parser) clients(w word, e *event) {
	c, err := parseClients(w.text)
	if err != nil {
		p.wrong(w, err.Error(), "Write an address such as 10.0.0.1, 10.0.0.1:50000, [2001:db8::1]:50000 or unix; with + after it each session has the next one.")
		return
	}
	e.from = c
}

// number reads a whole number from 1 to most. It returns 1 in place of one that
// is wrong.
func (p *parser) number(w word, of string, most int) int {
	n, err := strconv.Atoi(w.text)
	switch {
	case errors.Is(err, strconv.ErrRange) || n > most:
		p.wrong(w, fmt.Sprintf("%s %s are too many", w.text, of), fmt.Sprintf("The most is %s.", digits(most)))
	case err != nil:
		p.wrong(w, fmt.Sprintf("%q is not a whole number of %s", w.text, of), p.such())
	case n < 1:
		p.wrong(w, fmt.Sprintf("%s is not a number of %s", w.text, of), "The least is 1.")
	default:
		return n
	}
	return 1
}

// servers reads one or more peers.
func (p *parser) servers(e *event) {
	if p.verb.text == "fail" || p.verb.text == "hang" {
		p.script.failing = true
	}
	w, ok := p.need("a peer")
	for ; ok; w, ok = p.next() {
		p.peer(w, e)
	}
}

// peer reads a peer by its name, or by its address. Peers that share it are all
// meant. or are words that might have stood there too.
func (p *parser) peer(w word, e *event, or ...string) {
	found := p.sim.find(w.text)
	if found == nil {
		hint := "The upstream has " + list(p.sim.names) + "."
		if near := nearest(w.text, slices.Concat(or, p.sim.names, p.sim.addrs)); near != "" {
			hint = fmt.Sprintf("Write %q.", near)
		}
		p.wrong(w, fmt.Sprintf("there is no peer %q", w.text), hint)
	}
	e.peers = append(e.peers, found...)
}

// slow reads slow PEER DURATION.
func (p *parser) slow(e *event) {
	if w, ok := p.need("a peer"); ok {
		p.peer(w, e)
		if w, ok := p.need("a duration after the peer"); ok {
			p.duration(w, e)
		}
	}
	p.script.failing = p.script.failing || e.span >= p.sim.connectTimeout
}

// wait reads wait DURATION.
func (p *parser) wait(e *event) {
	if w, ok := p.need("a duration"); ok {
		p.duration(w, e)
	}
}

func (p *parser) duration(w word, e *event) {
	span, err := conf.ParseDuration(w.text)
	if err != nil {
		what, hint, _ := strings.Cut(err.Error(), ": ")
		if hint == "" || strings.Contains(hint, `"off"`) { // which a timeout may be
			hint = `write a time from "1ms" to "365d"`
		}
		p.wrong(w, what, capital(hint)+".")
	}
	e.span = span
}

// close reads close N, N-M, all or a peer.
func (p *parser) close(e *event) {
	w, ok := p.need("a session's number, all or a peer")
	switch {
	case !ok:
		return
	case w.text == "all":
		e.first, e.last = 1, maxHeld
		return
	case strings.Trim(w.text, "0123456789-") != "":
		p.peer(w, e, "all")
		return
	}
	from, to, isRange := strings.Cut(w.text, "-")
	if !isRange {
		to = from
	}
	var err1, err2 error
	e.first, err1 = strconv.Atoi(from)
	e.last, err2 = strconv.Atoi(to)
	switch {
	case err1 != nil || err2 != nil || e.first < 1 || e.first > e.last:
		p.wrong(w, fmt.Sprintf("%q is not a session's number", w.text), "Write close 3, close 2-5, close all or close PEER.")
	case e.last > p.held && p.held == 0:
		p.wrong(w, "no session is held at this place", "Connect with hold first: connect 5 hold")
	case e.last > p.held:
		p.wrong(w, fmt.Sprintf("there is no held session %d at this place", e.last), fmt.Sprintf("They are numbered from 1 to %d here.", p.held))
	}
}

// table reads table every N, or table at N,M,...
func (p *parser) table(e *event) {
	p.endTable()
	p.tableAt, p.tableStep, p.tableFrom = p.verb, 0, p.connects
	w, ok := p.need("every or at")
	switch {
	case !ok:
	case w.text == "every":
		if w, ok := p.need("a number after every"); ok {
			e.every = p.number(w, "connects", maxSessions)
			p.tableAt, p.tableStep = w, e.every
		}
	case w.text == "at":
		w, ok := p.need("numbers after at")
		for ; ok; w, ok = p.next() {
			p.rows(w, e)
		}
		slices.Sort(e.at)
		e.at = slices.Compact(e.at)
	default:
		hint := "Write table every 10, or table at 10,20,50."
		if near := nearest(w.text, []string{"every", "at"}); near != "" {
			hint = fmt.Sprintf("Write %q.", near)
		}
		p.wrong(w, fmt.Sprintf("table does not know %q", w.text), hint)
	}
}

// rows reads numbers with commas between them.
func (p *parser) rows(w word, e *event) {
	start := w.start
	for piece := range strings.SplitSeq(strings.Trim(w.text, ","), ",") {
		start += strings.Index(p.text[start:w.end], piece)
		if len(e.at) == maxRows {
			p.wrong(w, fmt.Sprintf("a table has %s rows at most", digits(maxRows)), "Leave some out.")
			p.words = nil
			return
		}
		e.at = append(e.at, p.number(word{piece, start, start + len(piece)}, "connects", maxSessions))
		start += len(piece)
	}
}

// endTable looks at a table whose connects are all known.
func (p *parser) endTable() {
	if p.tableStep == 0 {
		return
	}
	if n := (p.connects - p.tableFrom) / p.tableStep; n > maxRows {
		p.wrong(p.tableAt, fmt.Sprintf("the table would have %s rows", digits(n)), fmt.Sprintf("The most is %s: count in steps of %s.", digits(maxRows), digits((p.connects-p.tableFrom)/maxRows+1)))
	}
	p.tableStep = 0
}

// digits writes a number with a comma before each three digits.
func digits(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

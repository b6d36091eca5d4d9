package hclfile

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
)

// WriteDiagnostics writes the diagnostics for people: where, what is wrong,
// the source line with the place underlined, and what to write instead. It
// underlines with characters, so that nothing is lost without colour.
func (r *Result) WriteDiagnostics(w io.Writer, color bool) error {
	return WriteDiagnostics(w, r.Diagnostics, r.filename, r.source, color)
}

// WriteDiagnostics writes diagnostics about one source text.
func WriteDiagnostics(w io.Writer, diags hcl.Diagnostics, filename string, src []byte, color bool) error {
	p := printer{w: bufio.NewWriter(w), filename: filename, src: src, color: color}
	for i, d := range diags {
		if i > 0 {
			p.w.WriteByte('\n')
		}
		p.diagnostic(d)
	}
	return p.w.Flush()
}

type printer struct {
	w        *bufio.Writer
	filename string
	src      []byte
	color    bool
}

// Colours of a terminal (ECMA-48).
const (
	bold   = "\x1b[1m"
	red    = "\x1b[1;31m"
	yellow = "\x1b[1;33m"
	blue   = "\x1b[34m"
	plain  = "\x1b[0m"
)

func (p *printer) paint(color, text string) string {
	if !p.color {
		return text
	}
	return color + text + plain
}

func (p *printer) diagnostic(d *hcl.Diagnostic) {
	severity, color := "error", red
	if d.Severity == hcl.DiagWarning {
		severity, color = "warning", yellow
	}
	where := p.filename
	if d.Subject != nil {
		where = p.position(*d.Subject)
	}
	fmt.Fprintf(p.w, "%s: %s %s\n", printable(where), p.paint(color, severity+":"), p.paint(bold, printable(shorten(d.Summary))))
	if d.Subject != nil {
		p.snippet(*d.Subject, "^", color)
	}
	for _, line := range strings.Split(d.Detail, "\n") {
		if line != "" {
			fmt.Fprintf(p.w, "  %s\n", printable(shorten(line)))
		}
	}
	if also, ok := d.Extra.(related); ok {
		fmt.Fprintf(p.w, "%s: %s\n", printable(p.position(also.at)), also.label)
		p.snippet(also.at, "-", blue)
	}
}

// position writes a range as editors and terminals understand it,
// FILE:LINE:COLUMN, with the last column after a hyphen.
func (p *printer) position(r hcl.Range) string {
	name := r.Filename
	if name == "" {
		name = p.filename
	}
	switch {
	case r.Start.Line == 0:
		return name
	case r.End.Line > r.Start.Line && r.End.Column > 1:
		return fmt.Sprintf("%s:%d:%d-%d:%d", name, r.Start.Line, r.Start.Column, r.End.Line, r.End.Column-1)
	case r.End.Line == r.Start.Line && r.End.Column > r.Start.Column+1:
		return fmt.Sprintf("%s:%d:%d-%d", name, r.Start.Line, r.Start.Column, r.End.Column-1)
	}
	return fmt.Sprintf("%s:%d:%d", name, r.Start.Line, r.Start.Column)
}

// maxLineWidth is how much of a long source line is shown.
const maxLineWidth = 120

// snippet shows the first line of the range, underlined with the mark.
func (p *printer) snippet(r hcl.Range, mark, color string) {
	if r.Start.Line == 0 || r.Start.Byte > len(p.src) {
		return
	}
	line := lineAt(p.src, r.Start.Byte)
	lineStart := bytes.LastIndexByte(p.src[:r.Start.Byte], '\n') + 1
	from := min(r.Start.Byte-lineStart, len(line))
	to := min(max(r.End.Byte-lineStart, from), len(line))
	// Both ends on borders of characters, whatever the range says.
	for from > 0 && from < len(line) && !utf8.RuneStart(line[from]) {
		from--
	}
	for to < len(line) && !utf8.RuneStart(line[to]) {
		to++
	}
	before, inside, after := cut(line, from, to)
	under := strings.Repeat(mark, max(1, width(printable(inside))))
	number := fmt.Sprintf("%4d", r.Start.Line)
	fmt.Fprintf(p.w, "%s | %s%s%s\n", number, printable(before), p.paint(color, printable(inside)), printable(after))
	fmt.Fprintf(p.w, "%s | %s%s\n", strings.Repeat(" ", len(number)), blankOf(before), p.paint(color, under))
}

// cut splits a line around the underlined part and shortens what is too long.
func cut(line string, from, to int) (before, inside, after string) {
	before, inside, after = line[:from], line[from:to], line[to:]
	if r := []rune(before); len(r) > maxLineWidth/2 && len(line) > maxLineWidth {
		before = "..." + string(r[len(r)-maxLineWidth/2+3:])
	}
	if r := []rune(inside); len(r) > maxLineWidth/2 && len(line) > maxLineWidth {
		inside = string(r[:maxLineWidth/2-3]) + "..."
	}
	if r := []rune(after); len(r) > maxLineWidth/2 && len(line) > maxLineWidth {
		after = string(r[:maxLineWidth/2-3]) + "..."
	}
	return before, inside, after
}

// shorten cuts a line of a message that quotes something very long.
func shorten(line string) string {
	const most = 1000
	if len(line) <= most {
		return line
	}
	return line[:most] + "..."
}

// printable replaces what a terminal would act on: a file may hold anything.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsPrint(r) || unicode.Is(unicode.Mn, r) {
			return r
		}
		return unicode.ReplacementChar
	}, strings.ToValidUTF8(text, string(unicode.ReplacementChar)))
}

// blankOf returns white space that is as wide as the text on a terminal.
func blankOf(text string) string {
	var b strings.Builder
	for _, r := range printable(text) {
		switch {
		case r == '\t':
			b.WriteByte('\t')
		default:
			b.WriteString(strings.Repeat(" ", width(string(r))))
		}
	}
	return b.String()
}

// width is the number of columns that a text takes on a terminal: none for
// marks that join the letter before, two for the wide scripts of East Asia.
func width(text string) int {
	n := 0
	for _, r := range text {
		switch {
		case unicode.Is(unicode.Mn, r):
		case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana), r >= 0x1F300 && r <= 0x1FAFF, r >= 0xFF01 && r <= 0xFF60:
			n += 2
		default:
			n++
		}
	}
	return n
}

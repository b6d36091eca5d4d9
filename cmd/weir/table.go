package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// textWidth is where sentences are broken.
const textWidth = 80

// table is lines of columns under headings. A heading that begins with ">" has
// its column flushed right.
type table struct {
	headings []string
	lines    [][]string
}

func (t *table) add(cells ...string) { t.lines = append(t.lines, cells) }

// write writes the table, indented. Columns in which nothing stands are left out.
func (t *table) write(w io.Writer, indent string) {
	widths := make([]int, len(t.headings))
	for _, line := range t.lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	headings := make([]string, len(t.headings))
	for i, h := range t.headings {
		headings[i] = strings.TrimPrefix(h, ">")
		if widths[i] > 0 {
			widths[i] = max(widths[i], len(headings[i]))
		}
	}
	for _, line := range append([][]string{headings}, t.lines...) {
		var b strings.Builder
		b.WriteString(indent)
		for i, cell := range line {
			if widths[i] == 0 {
				continue
			}
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if strings.HasPrefix(t.headings[i], ">") {
				cell = space + cell
			} else {
				cell += space
			}
			b.WriteString(cell + "  ")
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

// fields writes names and values, one pair a line, values below each other.
func fields(w io.Writer, pairs ...string) {
	width := 0
	for i := 0; i < len(pairs); i += 2 {
		width = max(width, len(pairs[i]))
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			continue
		}
		lead := fmt.Sprintf("  %-*s  ", width, pairs[i])
		for _, line := range wrap(pairs[i+1], textWidth-len(lead)) {
			fmt.Fprintln(w, strings.TrimRight(lead+line, " "))
			lead = strings.Repeat(" ", len(lead))
		}
	}
}

// wrap breaks a text at spaces into lines of at most so many columns, where it can.
func wrap(text string, width int) []string {
	var lines []string
	for _, part := range strings.Split(text, "\n") {
		line := ""
		for _, word := range strings.Fields(part) {
			if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
				lines, line = append(lines, line), ""
			}
			if line != "" {
				line += " "
			}
			line += word
		}
		lines = append(lines, line)
	}
	return lines
}

// amount writes a number of bytes, or nothing for none.
func amount(n uint64) string { return humanBytes(float64(n)) }

// ago writes a time span in at most six columns: 0.3s, 12s, 5m03s, 4h07m, 3d04h.
func ago(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// number writes a count with its thousands set apart.
func number[T int | int64 | uint64](n T) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

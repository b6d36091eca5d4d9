package simulate

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Mistake is what is wrong with a piece of a script.
type Mistake struct {
	Start, End   int // bytes of the script
	Line, Column int // of Start, from 1; columns count characters
	EndColumn    int // the one after the piece, which is on the same line
	What         string
	Hint         string // what to do instead
}

// String returns the mistake in one line.
func (m Mistake) String() string {
	return fmt.Sprintf("%d:%d: %s. %s", m.Line, m.Column, m.What, m.Hint)
}

func newMistake(text string, start, end int, what, hint string) Mistake {
	lineStart := strings.LastIndexByte(text[:start], '\n') + 1
	column := utf8.RuneCountInString(text[lineStart:start]) + 1
	return Mistake{
		Start: start, End: end,
		Line: strings.Count(text[:start], "\n") + 1, Column: column,
		EndColumn: column + utf8.RuneCountInString(text[start:end]),
		What:      what, Hint: hint,
	}
}

// nearest returns the word that was probably meant, or "": one letter in three
// may be wrong, or the end may be missing.
func nearest(word string, words []string) string {
	const longest = 64 // that is worth the time, which grows with the square
	if len(word) > longest {
		return ""
	}
	best, least := "", max(1, utf8.RuneCountInString(word)/3)+1
	for _, w := range words {
		if len(w) > longest {
			continue
		}
		a, b := []rune(strings.ToLower(word)), []rune(strings.ToLower(w))
		if d := distance(a, b); d < least && d < max(len(a), len(b)) {
			best, least = w, d
		}
	}
	for _, w := range words {
		if best == "" && len(word) >= 3 && strings.HasPrefix(w, strings.ToLower(word)) {
			best = w
		}
	}
	return best
}

// distance is the number of letters to insert, remove or replace that turns a
// into b. Two letters that changed places count as one.
func distance(a, b []rune) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
		for j := 1; j <= len(b); j++ {
			if i == 0 {
				rows[i][j] = j
				continue
			}
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// list writes names as a sentence does, and only counts them after a dozen.
func list(names []string) string {
	const most = 12
	if n := len(names); n > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), n-most)
	}
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

// capital begins a sentence.
func capital(text string) string {
	r, n := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(r)) + text[n:]
}

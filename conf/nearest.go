package conf

import (
	"strings"
	"unicode/utf8"
)

// Nearest returns the candidate that the word was probably meant to be, or "".
// A typing mistake is one letter in three at most; more is another word.
func Nearest(word string, candidates []string) string {
	const longest = 64 // of a word that is worth comparing: the distance takes time in its square
	if len(word) > longest {
		return ""
	}
	best, bestDistance := "", max(1, utf8.RuneCountInString(word)/3)+1
	for _, c := range candidates {
		if strings.EqualFold(c, word) {
			return c
		}
		if len(c) > longest {
			continue
		}
		if d := Distance(strings.ToLower(word), strings.ToLower(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	// Someone who writes the beginning of a name, or goes on after its end,
	// means that name: "back" for "backup", "warning" for "warn".
	if best == "" && len(word) >= 3 {
		for _, c := range candidates {
			if strings.HasPrefix(c, strings.ToLower(word)) || len(c) >= 3 && strings.HasPrefix(strings.ToLower(word), c) {
				return c
			}
		}
	}
	return best
}

// Distance is the number of letters to insert, remove, replace or swap with
// their neighbour that turns a into b (optimal string alignment).
func Distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	older, old, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range old {
		old[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			row[j] = min(old[j]+1, row[j-1]+1, old[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
		older, old, row = old, row, older
	}
	return old[len(y)]
}

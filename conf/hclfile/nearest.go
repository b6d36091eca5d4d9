package hclfile

import (
	"strings"

	"github.com/weirlb/weir/conf"
)

func nearest(word string, candidates []string) string { return conf.Nearest(word, candidates) }

// oneOf writes the names as a sentence does: "a, b or c", each in quotes.
func oneOf(names []string) string {
	var b strings.Builder
	for i, n := range names {
		switch {
		case i == 0:
		case i == len(names)-1:
			b.WriteString(" or ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(`"` + n + `"`)
	}
	return b.String()
}

package hclfile

import (
	"fmt"
	"strings"
	"testing"
)

// wrap puts a line into a block of the kind, nested as the language wants it.
func wrap(b *block, line string) string {
	inside := map[string]string{
		"file":          "%s",
		"worker":        "worker {\n%s\n}",
		"log":           "log {\n%s\n}",
		"upstream":      "upstream \"a\" {\nserver \"10.0.0.1:1\" {}\n%s\n}",
		"balance":       "upstream \"a\" {\nserver \"10.0.0.1:1\" {}\nbalance \"round_robin\" {\n%s\n}\n}",
		"server":        "upstream \"a\" {\nserver \"10.0.0.1:1\" {\n%s\n}\n}",
		"listener":      "listener \"b\" {\nlisten = [\"127.0.0.1:2\"]\nupstream = \"a\"\n%s\n}",
		"next_upstream": "listener \"b\" {\nlisten = [\"127.0.0.1:2\"]\nupstream = \"a\"\nnext_upstream {\n%s\n}\n}",
	}[b.name]
	return fmt.Sprintf(inside, line) + "\n"
}

// Every word of the language that is not built yet says so, exactly where it
// stands, whether it is written as an attribute or as a block.
func TestLaterWords(t *testing.T) {
	rest := map[string]string{"attribute": ` = "x"`, "block": ` {}`, "labelled block": ` "x" {}`}
	n := 0
	for _, b := range everyBlock() {
		for _, word := range b.later {
			for form, suffix := range rest {
				src := wrap(b, word+suffix)
				wantNotBuilt(t, fmt.Sprintf("%s in %s as %s", word, b.name, form), src, word)
			}
			n++
		}
	}
	if n < 25 {
		t.Errorf("only %d words were tried", n)
	}
}

func TestLaterValues(t *testing.T) {
	for _, m := range laterMethods {
		wantNotBuilt(t, "method "+m, fmt.Sprintf("upstream \"a\" {\nserver \"10.0.0.1:1\" {}\nbalance %q {}\n}\n", m), `"`+m+`"`)
	}
	for _, f := range laterFields {
		wantNotBuilt(t, "field "+f, fmt.Sprintf("log {\nfields = [%q]\n}\n", f), `"`+f+`"`)
	}
	wantNotBuilt(t, "udp", wrap(listenerBlock, `protocol = "udp"`), `"udp"`)
}

func wantNotBuilt(t *testing.T, name, src, at string) {
	t.Helper()
	r := Parse([]byte(src), "x.hcl", Options{})
	for _, d := range r.Diagnostics {
		if strings.HasSuffix(d.Summary, "is not built yet") {
			if got := string(d.Subject.SliceBytes([]byte(src))); got != at {
				t.Errorf("%s: the range is %q, want %q", name, got, at)
			}
			return
		}
		if strings.Contains(d.Summary, "unknown word") {
			t.Errorf("%s: %s", name, d.Summary)
		}
	}
	t.Errorf("%s: no diagnostic says that it is not built yet:\n%s", name, text(r))
}

// No word has two meanings in one block, and every example in the tables is a
// value that the decoder takes.
func TestTables(t *testing.T) {
	for _, b := range everyBlock() {
		seen := map[string]bool{}
		for _, w := range append(b.words(), b.later...) {
			if seen[w] {
				t.Errorf("%s: %q stands twice in the table", b.name, w)
			}
			seen[w] = true
		}
		for _, a := range b.attrs {
			if b == listenerBlock && (a.name == "listen" || a.name == "upstream") {
				continue // in every file of wrap already
			}
			src := wrap(b, a.name+" = "+a.example)
			if b != upstreamBlock && b != serverBlock {
				src += "upstream \"a\" {\nserver \"10.0.0.1:1\" {}\n}\n"
			}
			if b != listenerBlock && b != nextUpstreamBlock {
				src += "listener \"b\" {\nlisten = [\"127.0.0.1:2\"]\nupstream = \"a\"\n}\n"
			}
			if a.name == "backup" {
				src = strings.Replace(src, "upstream \"a\" {", "upstream \"a\" {\nserver \"10.0.0.2:1\" {}", 1)
			}
			if r := Parse([]byte(src), "x.hcl", Options{}); r.Config == nil {
				t.Errorf("%s: example of %s is refused:\n%s", b.name, a.name, text(r))
			}
		}
	}
}

package hclfile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlb/weir/conf"
)

// wrap puts a line into a block of the kind, nested as the language wants it.
func wrap(b *block, line string) string {
	inside := map[string]string{
		"file":          "%s",
		"worker":        "worker {\n%s\n}",
		"log":           "log {\n%s\n}",
		"admin":         "admin {\nlisten = \"unix:/a\"\n%s\n}",
		"upstream":      "upstream \"a\" {\nserver \"10.0.0.1:1\" {}\n%s\n}",
		"balance":       "upstream \"a\" {\nserver \"10.0.0.1:1\" {}\nbalance \"round_robin\" {\n%s\n}\n}",
		"server":        "upstream \"a\" {\nserver \"10.0.0.1:1\" {\n%s\n}\n}",
		"listener":      "listener \"b\" {\nlisten = [\"127.0.0.1:2\"]\nupstream = \"a\"\n%s\n}",
		"udp":           "listener \"b\" {\nlisten = [\"127.0.0.1:2\"]\nupstream = \"a\"\nprotocol = \"udp\"\nudp {\n%s\n}\n}",
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
	for _, v := range laterVariables {
		wantNotBuilt(t, "field "+v, fmt.Sprintf("log {\nfields = [%q]\n}\n", v), `"`+v+`"`)
		for _, key := range []string{v, `"${` + v + `}"`, `"${local.salt}-${` + v + `}"`} {
			src := fmt.Sprintf("locals {\nsalt = 1\n}\nupstream \"a\" {\nserver \"10.0.0.1:1\" {}\nbalance \"hash\" {\nkey = %s\n}\n}\n", key)
			wantNotBuilt(t, "key "+key, src, v)
		}
	}
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
			if b == balanceBlock || b == adminBlock && a.name == "listen" {
				continue // TestOptions, and in every file of wrap already
			}
			src := wrap(b, a.name+" = "+a.example)
			if b != upstreamBlock && b != serverBlock {
				src += "upstream \"a\" {\nserver \"10.0.0.1:1\" {}\n}\n"
			}
			if b != listenerBlock && b != nextUpstreamBlock && b != udpBlock {
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

// Every option of every method is taken with its example, beside what the
// method requires, and refused by the methods that it does not belong to.
func TestOptions(t *testing.T) {
	required := map[string]string{conf.Hash: "key = remote_addr\n", conf.Maglev: "key = remote_addr\n"}
	beside := map[string]string{"by": "choices = 2\n", "time": "choices = 2\nby = \"least_time\"\n", "inflight": "choices = 2\nby = \"least_time\"\n"}
	for _, m := range methods {
		for _, a := range balanceBlock.attrs {
			options := a.name + " = " + a.example + "\n"
			if a.name != "key" {
				options += required[m.name]
			}
			if m.name == conf.Random {
				options += beside[a.name]
			}
			src := fmt.Sprintf("upstream \"a\" {\nserver \"10.0.0.1:1\" {}\nbalance %q {\n%s}\n}\n%s", m.name, options, wrap(listenerBlock, ""))
			r := Parse([]byte(src), "x.hcl", Options{})
			switch refused := strings.Contains(text(r), "has no option"); {
			case m.takes(a.name) && r.Config == nil:
				t.Errorf("%s: example of %s is refused:\n%s", m.name, a.name, text(r))
			case !m.takes(a.name) && !refused:
				t.Errorf("%s takes %s", m.name, a.name)
			}
		}
	}
}

// What is offered for other programs' names of methods is accepted as it
// stands.
func TestForeignMethods(t *testing.T) {
	lines := []string{"random two least_time=first_byte", "random(2)", "hash $remote_port consistent", "hash $http_host", "least_time header inflight"}
	for name := range foreignMethods {
		if methodNamed(name) != nil {
			t.Errorf("%q is ours", name)
		}
		lines = append(lines, name)
	}
	for _, line := range lines {
		_, example := translateMethod(line)
		_, block, ok := strings.Cut(example, "balance ")
		src := fmt.Sprintf("upstream \"a\" {\nserver \"10.0.0.1:1\" {}\nbalance %s\n}\n%s", block, wrap(listenerBlock, ""))
		if r := Parse([]byte(src), "x.hcl", Options{}); !ok || r.Config == nil {
			t.Errorf("%s: %q is refused:\n%s", line, example, text(r))
		}
	}
	for name, ours := range foreignVariables {
		if isVariable(name) || !isVariable(ours) {
			t.Errorf("variable %q is called %q", name, ours)
		}
	}
}

func TestNextPrime(t *testing.T) {
	for n, want := range map[int]int{0: 2, 2: 2, 3: 3, 4: 5, 65536: 65537, 65537: 65537, conf.MaxTableSize - 10: conf.MaxTableSize} {
		if got := nextPrime(n); got != want {
			t.Errorf("nextPrime(%d) = %d, want %d", n, got, want)
		}
	}
}

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
		"file":              "%s",
		"worker":            "worker {\n%s\n}",
		"log":               "log {\n%s\n}",
		"admin":             "admin {\nlisten = \"unix:/a\"\n%s\n}",
		"upstream":          "upstream \"a\" {\nserver \"10.0.0.1:1\" {}\n%s\n}",
		"balance":           "upstream \"a\" {\nserver \"10.0.0.1:1\" {}\nbalance \"round_robin\" {\n%s\n}\n}",
		"server":            "upstream \"a\" {\nserver \"10.0.0.1:1\" {\n%s\n}\n}",
		"listener":          "listener \"b\" {\nlisten = [\"127.0.0.1:2\"]\nupstream = \"a\"\n%s\n}",
		"udp":               "listener \"b\" {\nlisten = [\"127.0.0.1:2\"]\nupstream = \"a\"\nprotocol = \"udp\"\nudp {\n%s\n}\n}",
		"resolver":          "resolver {\n%s\n}",
		"health_check":      "upstream \"a\" {\nserver \"10.0.0.1:1\" {}\nhealth_check \"tcp\" {\n%s\n}\n}",
		"tls":               "upstream \"a\" {\nserver \"10.0.0.1:1\" {}\nhealth_check \"tls\" {\ntls {\n%s\n}\n}\n}",
		"step":              "upstream \"a\" {\nserver \"10.0.0.1:1\" {}\nhealth_check \"send_expect\" {\nstep {\n%s\n}\n}\n}",
		"on_state":          "upstream \"a\" {\nserver \"10.0.0.1:1\" {}\non_state {\n%s\n}\n}",
		"outlier_detection": "upstream \"a\" {\nserver \"10.0.0.1:1\" {}\noutlier_detection {\n%s\n}\n}",
		"queue":             "upstream \"a\" {\nserver \"10.0.0.1:1\" {}\nqueue {\n%s\n}\n}",
		"circuit_breaker":   "upstream \"a\" {\nserver \"10.0.0.1:1\" {}\ncircuit_breaker {\n%s\n}\n}",
		"adaptive_limit":    "upstream \"a\" {\nserver \"10.0.0.1:1\" {}\nqueue {}\nadaptive_limit \"gradient\" {\n%s\n}\n}",
		"hedge":             "listener \"b\" {\nlisten = [\"127.0.0.1:2\"]\nupstream = \"a\"\nhedge {\n%s\n}\n}",
		"limits":            "listener \"b\" {\nlisten = [\"127.0.0.1:2\"]\nupstream = \"a\"\nlimits {\n%s\n}\n}",
		"next_upstream":     "listener \"b\" {\nlisten = [\"127.0.0.1:2\"]\nupstream = \"a\"\nnext_upstream {\n%s\n}\n}",
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
	if n < 7 {
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
			if b == balanceBlock || b == healthCheckBlock || b == adminBlock && a.name == "listen" {
				continue // TestOptions, TestCheckOptions, and in every file of wrap already
			}
			if b == checkTLSBlock && strings.HasSuffix(a.name, "_file") {
				continue // TestCheckTLSFiles
			}
			line := a.name + " = " + a.example
			switch {
			case b == adaptiveLimitBlock:
				continue // TestLimitOptions
			case b == breakerBlock && a.name != "failures":
				line += "\nfailures = 1"
			case b == limitsBlock && strings.HasSuffix(a.name, "_prefix"):
				line += "\nsessions_per_client = 1"
			}
			src := wrap(b, line)
			if !strings.HasPrefix(src, "upstream ") {
				src += "upstream \"a\" {\nserver \"10.0.0.1:1\" {}\n}\n"
			}
			if !strings.HasPrefix(src, "listener ") {
				src += "listener \"b\" {\nlisten = [\"127.0.0.1:2\"]\nupstream = \"a\"\n}\n"
			}
			if a.name == "resolve" {
				src = strings.Replace(src, "10.0.0.1:1", "db.example:1", 1)
			}
			if a.name == "service" {
				src = strings.Replace(src, "10.0.0.1:1", "_pg._tcp.example", 1)
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

// Every option of every kind of check is taken with its example, beside what
// the kind requires, and refused by the kinds that it does not belong to.
func TestCheckOptions(t *testing.T) {
	required := map[conf.CheckKind]string{conf.CheckMySQL: "user = \"weir\"\n", conf.CheckSendExpect: "step {\nsend = \"a\"\n}\n"}
	beside := map[string]string{"role": "user = \"weir\"\n", "max_lag": "role = \"replica\"\nuser = \"weir\"\n", "password": "user = \"weir\"\n", "database": "user = \"weir\"\n"}
	blocks := map[string]string{"tls": "tls {}\n", "step": "step {\nsend = \"a\"\n}\n"}
	names := []string{"tls", "step"}
	for _, a := range healthCheckBlock.attrs {
		names = append(names, a.name)
	}
	opts := Options{ReadFile: func(string) ([]byte, error) { return []byte("secret\n"), nil }}
	for _, k := range checkKinds {
		for _, name := range names {
			options := blocks[name]
			if options == "" {
				options = name + " = " + healthCheckBlock.attr(name).example + "\n"
			}
			more := beside[name]
			if more == "" && name != "user" || k.name == conf.CheckSendExpect && name != "step" {
				more += required[k.name]
			}
			options += more
			if k.name == conf.CheckAMQP && name == "user" {
				options += "password = \"x\"\n"
			}
			src := fmt.Sprintf("upstream \"a\" {\nserver \"10.0.0.1:1\" {}\nhealth_check %q {\n%s}\n}\n%s", k.name, options, wrap(listenerBlock, ""))
			r := Parse([]byte(src), "x.hcl", opts)
			what := "has no option"
			if blocks[name] != "" {
				what = "have no " + name + " block"
			}
			switch refused := strings.Contains(text(r), strings.Replace(what, "has", "have", 1)); {
			case k.takes(name) && r.Config == nil:
				t.Errorf("%s: example of %s is refused:\n%s", k.name, name, text(r))
			case !k.takes(name) && !refused:
				t.Errorf("%s takes %s", k.name, name)
			}
		}
	}
}

// Every option of every algorithm is taken with its example, beside what the
// algorithm requires, and refused by those that it does not belong to.
func TestLimitOptions(t *testing.T) {
	for _, a := range limitAlgorithms {
		for _, attr := range adaptiveLimitBlock.attrs {
			options := attr.name + " = " + attr.example + "\n"
			if a.name == conf.AIMD && attr.name != "target" {
				options += "target = \"200ms\"\n"
			}
			src := fmt.Sprintf("upstream \"a\" {\nserver \"10.0.0.1:1\" {}\nqueue {}\nadaptive_limit %q {\n%s}\n}\n%s", a.name, options, wrap(listenerBlock, ""))
			r := Parse([]byte(src), "x.hcl", Options{})
			switch refused := strings.Contains(text(r), "has no option"); {
			case a.takes(attr.name) && r.Config == nil:
				t.Errorf("%s: example of %s is refused:\n%s", a.name, attr.name, text(r))
			case !a.takes(attr.name) && !refused:
				t.Errorf("%s takes %s", a.name, attr.name)
			}
		}
	}
	for name, ours := range foreignAlgorithms {
		if limitAlgorithmNamed(name) != nil || limitAlgorithmNamed(string(ours)) == nil {
			t.Errorf("%q is called %q", name, ours)
		}
	}
}

// What a limit begins with and what it counts follow from what is written.
func TestLimitDefaults(t *testing.T) {
	defaults := conf.DefaultAdaptiveLimit(conf.Vegas)
	for written, want := range map[string]conf.AdaptiveLimit{
		"":                         {Min: 1, Max: 1000, Initial: defaults.Initial, Measure: conf.MeasureTurn, ApplyTo: conf.LimitTurns},
		"min = 100":                {Min: 100, Max: 1000, Initial: 100, Measure: conf.MeasureTurn, ApplyTo: conf.LimitTurns},
		"max = 7":                  {Min: 1, Max: 7, Initial: 7, Measure: conf.MeasureTurn, ApplyTo: conf.LimitTurns},
		"min = 30\nmax = 30":       {Min: 30, Max: 30, Initial: 30, Measure: conf.MeasureTurn, ApplyTo: conf.LimitTurns},
		"initial = 1000":           {Min: 1, Max: 1000, Initial: 1000, Measure: conf.MeasureTurn, ApplyTo: conf.LimitTurns},
		"measure = \"connect\"":    {Min: 1, Max: 1000, Initial: defaults.Initial, Measure: conf.MeasureConnect, ApplyTo: conf.LimitSessions},
		"measure = \"first_byte\"": {Min: 1, Max: 1000, Initial: defaults.Initial, Measure: conf.MeasureFirstByte, ApplyTo: conf.LimitSessions},
		"measure = \"turn\"":       {Min: 1, Max: 1000, Initial: defaults.Initial, Measure: conf.MeasureTurn, ApplyTo: conf.LimitTurns},
		"apply_to = \"session\"":   {Min: 1, Max: 1000, Initial: defaults.Initial, Measure: conf.MeasureTurn, ApplyTo: conf.LimitSessions},
	} {
		want.Algorithm, want.Window = conf.Vegas, defaults.Window
		src := fmt.Sprintf("upstream \"a\" {\nserver \"10.0.0.1:1\" {}\nqueue {}\nadaptive_limit \"vegas\" {\n%s\n}\n}\n%s", written, wrap(listenerBlock, ""))
		r := Parse([]byte(src), "x.hcl", Options{})
		if r.Config == nil {
			t.Errorf("%q is refused:\n%s", written, text(r))
			continue
		}
		if got := *r.Config.Upstreams[0].Limit; got != want {
			t.Errorf("%q is %+v, want %+v", written, got, want)
		}
	}
}

// What is offered for other programs' names of checks is a kind of check.
func TestForeignChecks(t *testing.T) {
	for name := range foreignKinds {
		kind, detail := translateCheckKind(name)
		if checkKindNamed(name) != nil || checkKindNamed(string(kind)) == nil || detail == "" {
			t.Errorf("%q is called %q: %q", name, kind, detail)
		}
	}
	for _, line := range []string{"health_check interval=10 passes=2 fails=3 port=8080 mandatory;", "health_check;", "health_check udp;", "health_check interval=5s passes=2"} {
		r := Parse([]byte("upstream \"a\" {\n"+line+"\n}\n"), "x.hcl", Options{})
		_, block, ok := strings.Cut(r.Diagnostics[0].Detail, "Write\n")
		src := "upstream \"a\" {\nserver \"10.0.0.1:1\" {}\n" + block + "\n}\n" + wrap(listenerBlock, "")
		if r := Parse([]byte(src), "x.hcl", Options{}); !ok || r.Config == nil || len(r.Config.Upstreams[0].Checks) != 1 {
			t.Errorf("%s: %q is refused:\n%s", line, block, text(r))
		}
	}
}

package hclfile

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/weirlb/weir/conf"
)

const minimal = `upstream "db" {
  server "10.0.0.11:5432" {}
}
listener "db" {
  listen   = ["0.0.0.0:5432"]
  upstream = "db"
}
`

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if r := Load(write("good.hcl", minimal, 0o644), Options{}); r.Config == nil || len(r.Diagnostics) != 0 {
		t.Fatalf("refused:\n%s", text(r))
	}
	secret := write("secret.hcl", minimal, 0)
	for name, c := range map[string]struct{ path, want string }{
		"missing":   {filepath.Join(dir, "nothing.hcl"), "there is no file " + filepath.Join(dir, "nothing.hcl")},
		"directory": {dir, "is a directory: name the file in it"},
		"too big":   {write("big.hcl", strings.Repeat("#", MaxFileBytes+1), 0o644), "the limit is 16384 KiB"},
		"secret":    {secret, "may not be read by this user"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.path == secret && os.Geteuid() == 0 {
				asNobody(t)
			}
			r := Load(c.path, Options{})
			if r.Config != nil || !strings.Contains(text(r), c.want) {
				t.Errorf("want %q in:\n%s", c.want, text(r))
			}
		})
	}
}

// asNobody has this goroutine read files as an ordinary user until the test
// ends (setfsuid(2)): root may read any file.
func asNobody(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	if err := syscall.Setfsuid(65534); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Setfsuid(0)
		runtime.UnlockOSThread()
	})
}

// What is too much for a value is not for a list of servers.
func TestBigServerFile(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "peers.json"), bytes.Repeat([]byte(" "), MaxValueBytes+1), 0o644)
	path := filepath.Join(dir, "weir.hcl")
	os.WriteFile(path, []byte(`upstream "db" {
  server_file = "peers.json"
}
listener "db" {
  listen   = ["127.0.0.1:5432"]
  upstream = "db"
}`), 0o644)
	r := Load(path, Options{})
	if r.Config == nil || len(r.Notes()) != 0 {
		t.Errorf("notes: %q\n%s", r.Notes(), text(r))
	}
}

// file() is relative to the configuration, not to the working directory, and
// takes off exactly one newline.
func TestFileFunction(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "name"), []byte("web\n"), 0o644)
	os.WriteFile(filepath.Join(dir, "binary"), []byte("\xff"), 0o644)
	os.WriteFile(filepath.Join(dir, "big"), bytes.Repeat([]byte("x"), MaxValueBytes+1), 0o644)
	path := filepath.Join(dir, "weir.hcl")
	for call, want := range map[string]string{
		`file("name")`:                    "",
		`file("./name")`:                  "",
		`file("` + dir + `/name")`:        "",
		`file("nothing")`:                 "there is no file",
		`file("binary")`:                  "is not UTF-8 text",
		`file("big")`:                     "the limit is 1024 KiB",
		`file(".")`:                       "is a directory",
		`file("")`:                        "the path is empty",
		`file()`:                          "not enough function arguments",
		`file("name", "x")`:               "too many function arguments",
		`file(null)`:                      "invalid function argument",
		`"${file("name")}\n"`:             "bad name of a server",
		`trimspace("${file("name")}\n")`:  "",
		`[file("name")]`:                  `name = "web"`,
		`lower(upper(file("name")))`:      "",
		`coalesce(null, "web")`:           "",
		`jsondecode("{\"a\":\"web\"}").a`: "",
	} {
		src := strings.Replace(minimal, `{}`, "{\n name = "+call+"\n}", 1)
		os.WriteFile(path, []byte(src), 0o644)
		r := Load(path, Options{})
		switch {
		case want != "" && !strings.Contains(text(r), want):
			t.Errorf("%s: want %q in:\n%s", call, want, text(r))
		case want == "" && (r.Config == nil || r.Config.Upstreams[0].Servers[0].Name != "web"):
			t.Errorf("%s:\n%s", call, text(r))
		}
	}
}

func TestLimitsUnknown(t *testing.T) {
	src := "worker {\n max_sessions = 100000000\n}\n" + minimal
	if r := Parse([]byte(src), "x.hcl", Options{}); len(r.Diagnostics) != 0 {
		t.Errorf("lints about limits that are not known:\n%s", text(r))
	}
}

func TestColor(t *testing.T) {
	r := Parse([]byte("wroker {}\n"), "x.hcl", Options{})
	var b strings.Builder
	if err := r.WriteDiagnostics(&b, true); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), red+"^^^^^^"+plain) {
		t.Errorf("no colour in %q", b.String())
	}
	if strings.Contains(text(r), "\x1b") {
		t.Errorf("colour where none was asked for: %q", text(r))
	}
}

// A file can't make the terminal do things through the lines that are shown.
func TestNoEscapesFromFile(t *testing.T) {
	r := Parse([]byte("upstream \"\x1b[2J\" {\n x\x1b]0;a\x07 = 1\n}\n"), "x.hcl", Options{})
	if !r.Diagnostics.HasErrors() || strings.ContainsAny(text(r), "\x1b\x07") {
		t.Errorf("%q", text(r))
	}
}

func TestNearest(t *testing.T) {
	valid := []string{"weight", "max_fails", "max_conns", "warn", "backup"}
	for word, want := range map[string]string{
		"wieght": "weight", "Weight": "weight", "maxfails": "max_fails", "max_fial": "max_fails", "warning": "warn",
		"back": "backup", "colour": "", "": "", strings.Repeat("weight", 1000): "",
	} {
		if got := nearest(word, valid); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

// FuzzParse feeds the reader anything: no panic, a configuration or an error
// but not both, and every range inside the text.
func FuzzParse(f *testing.F) {
	for _, dir := range []string{"good", "bad"} {
		paths, _ := filepath.Glob(filepath.Join("testdata", dir, "*.hcl"))
		for _, p := range paths {
			if src, err := os.ReadFile(p); err == nil && len(src) < 2000 {
				f.Add(src)
			}
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if len(src) > 64<<10 {
			return // long inputs take the fuzzer's time and find nothing else
		}
		opts := testOptions()
		opts.ReadFile = func(string) ([]byte, error) { return []byte("text\n"), nil }
		r := Parse(src, "x.hcl", opts)
		if (r.Config == nil) != r.Diagnostics.HasErrors() {
			t.Fatalf("config %v with diagnostics:\n%s", r.Config, text(r))
		}
		for _, d := range r.Diagnostics {
			if s := d.Subject; s != nil && (s.Start.Byte < 0 || s.Start.Byte > s.End.Byte || s.End.Byte > len(src)) {
				t.Fatalf("range %v of %q is outside of %d bytes", s, d.Summary, len(src))
			}
			if d.Summary == "" || d.Detail == "" && d.Severity == 1 {
				t.Fatalf("diagnostic without advice: %+v", d)
			}
		}
		text(r)
		if r.Config != nil {
			r.Notes()
			checkKeys(t, r.Config)
			checkDatagrams(t, r.Config)
			checkHealth(t, r.Config)
			checkOverload(t, r.Config)
			again := Parse(Effective(r.Config, true), "x.hcl", opts)
			if again.Config == nil {
				t.Fatalf("what is in effect is refused:\n%s\n%s", text(again), Effective(r.Config, true))
			}
			if diff := difference(r.Config, again.Config); diff != "" {
				t.Fatalf("what is in effect is something else (-file +effective):\n%s\n%s", diff, Effective(r.Config, true))
			}
		}
	})
}

// checkHealth holds the checks of a configuration against what package conf
// says of them.
func checkHealth(t *testing.T, c *conf.Config) {
	for _, u := range c.Upstreams {
		if len(u.Servers) == 0 && u.ServerFile == "" {
			t.Fatalf("upstream %q has neither servers nor a file of them", u.Name)
		}
		for _, h := range u.Checks {
			steps := 0
			for _, s := range h.Steps {
				for _, set := range []bool{s.Send != nil, s.Expect != nil, s.Match != nil} {
					if set {
						steps++
					}
				}
			}
			switch {
			case h.Rise < 1, h.Fall < 1, h.Interval <= 0, h.Timeout <= 0, h.Port < 0, h.Port > 65535:
				t.Fatalf("bad schedule %+v", h)
			case h.Kind == conf.CheckTLS && h.TLS == nil, h.Kind == conf.CheckHTTP && len(h.Status) == 0, h.Kind == conf.CheckSendExpect && steps == 0, steps != len(h.Steps):
				t.Fatalf("incomplete check %+v", h)
			case h.MaxLag != conf.Off && h.Role != conf.Replica, h.Kind == conf.CheckMySQL && h.User == "":
				t.Fatalf("check that can't be made %+v", h)
			}
		}
	}
}

// checkDatagrams holds the UDP listeners of a configuration against what
// package conf says of them.
func checkDatagrams(t *testing.T, c *conf.Config) {
	for _, l := range c.Listeners {
		defaults, u := conf.NewListener(l.Name), l.UDP
		switch {
		case l.Protocol == conf.TCP && u != defaults.UDP:
			t.Fatalf("TCP listener with %+v", u)
		case u.IdleTimeout <= 0, u.Requests < 0, u.Responses < conf.NoResponses, u.MaxSessions < 0, u.Quarantine < 0:
			t.Fatalf("bad bounds %+v", u)
		case l.Protocol == conf.UDP && (l.ConnectTimeout != defaults.ConnectTimeout || l.NextUpstream != defaults.NextUpstream ||
			l.Priority != defaults.Priority || l.Hedge != nil || l.Limits != defaults.Limits):
			t.Fatalf("UDP listener with settings of TCP: %+v", l)
		case l.Protocol == conf.UDP && slices.ContainsFunc(slices.Concat(l.Listen, addresses(c.Upstream(l.Upstream))), conf.Address.IsUnix):
			t.Fatalf("UDP listener %q with unix sockets", l.Name)
		}
	}
}

// checkOverload holds what bounds the load against what package conf says of it.
func checkOverload(t *testing.T, c *conf.Config) {
	share := func(f float64) bool { return f > 0 && f < 1 }
	datagrams := map[string]bool{}
	for _, l := range c.Listeners {
		datagrams[l.Upstream] = datagrams[l.Upstream] || l.Protocol == conf.UDP
		h, m := l.Hedge, l.Limits
		switch {
		case l.Priority < 0 || l.Priority >= conf.Priorities, l.NextUpstream.Backoff < 0, l.NextUpstream.Backoff > time.Minute:
			t.Fatalf("out of range: %+v", l)
		case h != nil && ((h.After == conf.Off) != share(h.Percentile) || h.After < 0 || h.Max <= 0 || h.Max > 1):
			t.Fatalf("bad hedge %+v", h)
		case m.Sessions < 0, m.SessionsPerClient < 0, m.IPv4Prefix < 1, m.IPv4Prefix > 32, m.IPv6Prefix < 1, m.IPv6Prefix > 128,
			m.AcceptRate < 0, m.UploadRate < 0, m.UploadRate > conf.MaxByteRate, m.DownloadRate < 0, m.DownloadRate > conf.MaxByteRate:
			t.Fatalf("bad limits %+v", m)
		}
	}
	for _, u := range c.Upstreams {
		q, b, l := u.Queue, u.Breaker, u.Limit
		if datagrams[u.Name] && (q != nil || b != nil || l != nil) {
			t.Fatalf("upstream %q of a UDP listener has %+v, %+v, %+v", u.Name, q, b, l)
		}
		if q != nil && (q.Max < 1 || q.Timeout <= 0) {
			t.Fatalf("bad queue %+v", q)
		}
		if b != nil && (b.MaxSessions < 0 || b.MaxPending < 0 || b.MaxRetries < 0 || b.Failures < 0 || b.MaxSessions+b.MaxPending+b.MaxRetries+b.Failures == 0 ||
			b.Window <= 0 || b.OpenFor <= 0 || b.Probes < 1) {
			t.Fatalf("bad circuit breaker %+v", b)
		}
		if l == nil {
			continue
		}
		aimd := l.Algorithm == conf.AIMD
		switch {
		case l.Min < 1 || l.Initial < l.Min || l.Max < l.Initial, l.Window < 10:
			t.Fatalf("bad range %+v", l)
		case aimd != (l.Target > 0), aimd != share(l.Percentile), aimd != share(l.Backoff):
			t.Fatalf("limit with the wrong options %+v", l)
		case l.ApplyTo == conf.LimitTurns && (l.Measure != conf.MeasureTurn || q == nil):
			t.Fatalf("limit of turns with %+v, queue %+v", l, q)
		}
	}
}

func addresses(u *conf.Upstream) (all []conf.Address) {
	for _, s := range u.Servers {
		all = append(all, s.Address)
	}
	return all
}

// checkKeys holds the keys of a configuration against what package conf says of
// them.
func checkKeys(t *testing.T, c *conf.Config) {
	for _, u := range c.Upstreams {
		if b := u.Balance; (b.Method == conf.Hash || b.Method == conf.Maglev) != (len(b.Key) > 0) {
			t.Fatalf("%s has the key %q", b.Method, b.Key)
		}
		text := false
		for _, p := range u.Balance.Key {
			switch {
			case p.Variable != "" && (p.Text != "" || !slices.Contains(conf.KeyVariables(), p.Variable)), p.Variable == "" && (p.Text == "" || text):
				t.Fatalf("bad part %+v of the key %+v", p, u.Balance.Key)
			}
			text = p.Variable == ""
		}
	}
}

// Formatting, as weir fmt does it, changes nothing of what a file says.
func TestFormatKeepsMeaning(t *testing.T) {
	for _, path := range files(t, "good") {
		r := parseFile(t, path)
		opts := testOptions()
		opts.ReadFile = func(name string) ([]byte, error) {
			return readFile(filepath.Join(filepath.Dir(path), name), MaxValueBytes)
		}
		again := Parse(hclwrite.Format(r.source), filepath.Base(path), opts)
		if again.Config == nil {
			t.Fatalf("%s: refused after formatting:\n%s", path, text(again))
		}
		if diff := cmp.Diff(dump(r.Config), dump(again.Config)); diff != "" {
			t.Errorf("%s: formatting changes it (-before +after):\n%s", path, diff)
		}
	}
}

// A Go stack that overflows ends the process, and no test could catch it: what
// would recurse is refused before it does.
func TestHostileFiles(t *testing.T) {
	const n = 1 << 14
	flat := []string{"attributes", "labels", "lines", "unclosed", "quotes", "one long line"}
	for name, src := range map[string]string{
		"parentheses":    "a = " + strings.Repeat("(", n),
		"brackets":       "a = " + strings.Repeat("[", n),
		"braces":         "a = " + strings.Repeat("{a=", n),
		"blocks":         strings.Repeat("a {\n", n),
		"not":            "a = " + strings.Repeat("!", n) + "true\n",
		"minus":          "a = " + strings.Repeat("-", n) + "1\n",
		"sum":            "locals {\na = 1" + strings.Repeat("+1", n) + "\n}\n",
		"sum over lines": "locals {\na = (1" + strings.Repeat("\n+1", n) + ")\n}\n",
		"conditions":     "locals {\na = 1" + strings.Repeat("==1?1:1", n) + "\n}\n",
		"indices":        "locals {\na = [1]\nb = local.a" + strings.Repeat("[0]", n) + "\n}\n",
		"splats":         "locals {\na = [1]\nb = local.a" + strings.Repeat(".*", n) + "\n}\n",
		"attributes":     "locals {\na = [1]\nb = local.a" + strings.Repeat(".x", n) + "\n}\n",
		"templates":      "a = " + strings.Repeat(`"${`, n),
		"directives":     "locals {\na = \"" + strings.Repeat("%{if true}", n) + "\"\n}\n",
		"calls":          "locals {\na = " + strings.Repeat("lower(", n) + "\n}\n",
		"labels":         "a" + strings.Repeat(` "x"`, n) + " {}\n",
		"lines":          strings.Repeat("a\n", n),
		"unclosed":       strings.Repeat("a {\n}\n", n/4) + "b {\n",
		"exponent":       "locals {\na = \"${1e99999999}\"\n}\n",
		"small exponent": "listener \"a\" {\nidle_timeout = 1e-99999999\n}\n",
		"digits":         "worker {\ncount = 1" + strings.Repeat("0", n) + "\n}\n",
		"quotes":         strings.Repeat(`"`, n),
		"one long line":  strings.Repeat("x", n) + ";",
	} {
		t.Run(name, func(t *testing.T) {
			r := Parse([]byte(src), "x.hcl", testOptions())
			if r.Config != nil {
				t.Error("accepted")
			}
			out := text(r)
			if !slices.Contains(flat, name) && !strings.Contains(out, "are too deep") && !strings.Contains(out, "is too long") {
				t.Errorf("the bounds did not stop it:\n%.1000s", out)
			}
			if n := len(out); n > 64<<10 {
				t.Errorf("%d bytes of diagnostics", n)
			}
		})
	}
}

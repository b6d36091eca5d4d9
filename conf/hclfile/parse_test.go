package hclfile

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirlb/weir/conf"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// testOptions is the machine that golden files are read on.
func testOptions() Options {
	env := map[string]string{"DB_HOST": "db.example", "WEIGHT": "5", "SERVERS": "10.0.0.1:80,10.0.0.2:80", "LEVEL": "debug", "DOWN": "true"}
	return Options{
		Env: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		Limits: Limits{
			OpenFiles: 20_000, SomaxConn: 128, FirstPort: 32768, LastPort: 60999, PipePagesSoft: 16384,
		},
	}
}

func text(r *Result) string {
	var b strings.Builder
	r.WriteDiagnostics(&b, false)
	return b.String()
}

// golden compares with a file that only -update writes.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run go test -update and read what it writes)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}

// parseFile parses a golden file under its base name, so that diagnostics do
// not depend on where the test runs.
func parseFile(t *testing.T, path string) *Result {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	opts := testOptions()
	opts.ReadFile = func(name string) ([]byte, error) {
		return readFile(filepath.Join(filepath.Dir(path), name), MaxValueBytes)
	}
	return Parse(src, filepath.Base(path), opts)
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", dir, "*.hcl"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files in testdata/%s: %v", dir, err)
	}
	return paths
}

func TestBad(t *testing.T) {
	for _, path := range files(t, "bad") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			r := parseFile(t, path)
			if !r.Diagnostics.HasErrors() || r.Config != nil {
				t.Fatalf("accepted:\n%s", text(r))
			}
			golden(t, strings.TrimSuffix(path, ".hcl")+".diag", text(r))
		})
	}
}

func TestGood(t *testing.T) {
	for _, path := range files(t, "good") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			r := parseFile(t, path)
			if r.Config == nil {
				t.Fatalf("refused:\n%s", text(r))
			}
			golden(t, strings.TrimSuffix(path, ".hcl")+".txt", dump(r.Config)+notes(r)+text(r))
		})
	}
}

// Every word of the language, every kind of check, method, algorithm and profile stands in a
// good file and in a bad one.
func TestGoldenFilesHaveEveryWord(t *testing.T) {
	words := slices.Concat(checkKindNames(), methodNames(), limitAlgorithmNames())
	for _, p := range conf.Profiles() {
		words = append(words, string(p))
	}
	for _, b := range everyBlock() {
		words = append(words, b.words()...)
	}
	for _, dir := range []string{"good", "bad"} {
		var all strings.Builder
		for _, path := range files(t, dir) {
			src, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(src)
		}
		text := all.String()
		for _, w := range words {
			if !regexp.MustCompile(`\b` + w + `\b`).MatchString(text) {
				t.Errorf("%q is in no %s file", w, dir)
			}
		}
	}
}

func notes(r *Result) string {
	var b strings.Builder
	for _, n := range r.Notes() {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}

// dump writes a configuration so that a reader can hold it against the file.
func dump(c *conf.Config) string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("worker count=%d max_sessions=%d shutdown_timeout=%s", c.Worker.Count, c.Worker.MaxSessions, conf.FormatDuration(c.Worker.ShutdownTimeout))
	if c.Worker.Steering != conf.SteerAuto {
		p("worker steering=%s", c.Worker.Steering)
	}
	p("log level=%s format=%d access=%s decisions=%d fields=%v", c.Log.Level, c.Log.Format, c.Log.Access, c.Log.Decisions, c.Log.Fields)
	if a := c.Admin; a != (conf.Admin{}) {
		p("admin listen=%s group=%q token_file=%q metrics=%s", a.Listen, a.Group, a.TokenFile, a.Metrics)
	}
	if r := c.Resolver; len(r.Servers) > 0 || r.Timeout != conf.DefaultResolver().Timeout || r.Valid != 0 {
		p("resolver servers=%v timeout=%s valid=%s", r.Servers, r.Timeout, r.Valid)
	}
	for _, u := range c.Upstreams {
		p("upstream %q balance=%s congestion=%q", u.Name, dumpBalance(u.Balance), u.Congestion)
		for _, s := range u.Servers {
			p("  server %s name=%q weight=%d max_fails=%d fail_timeout=%s max_conns=%d backup=%t down=%t",
				s.Label(), s.Name, s.Weight, s.MaxFails, s.FailTimeout, s.MaxConns, s.Backup, s.Down)
			if s.SlowStart != conf.Off || s.Resolve || s.Service {
				p("    slow_start=%s resolve=%t service=%t", s.SlowStart, s.Resolve, s.Service)
			}
		}
		dumpHealth(p, &u)
		dumpOverload(p, &u)
	}
	for _, l := range c.Listeners {
		p("listener %q upstream=%q congestion=%q", l.Name, l.Upstream, l.Congestion)
		if l.Profile != conf.NoProfile {
			p("  profile=%s", l.Profile)
		}
		for i, a := range l.Listen {
			if i == 3 && len(l.Listen) > 6 {
				p("  listen ... %d more", len(l.Listen)-3)
				break
			}
			p("  listen %s", a)
		}
		if l.Protocol == conf.UDP {
			p("  protocol=%s idle_timeout=%s requests=%d responses=%d max_sessions=%d quarantine=%s", l.Protocol, conf.FormatDuration(l.UDP.IdleTimeout),
				l.UDP.Requests, l.UDP.Responses, l.UDP.MaxSessions, l.UDP.Quarantine)
			continue
		}
		p("  connect_timeout=%s idle_timeout=%s half_close_timeout=%s dead_peer_timeout=%s tries=%d timeout=%s",
			conf.FormatDuration(l.ConnectTimeout), conf.FormatDuration(l.IdleTimeout), conf.FormatDuration(l.HalfCloseTimeout),
			conf.FormatDuration(l.DeadPeerTimeout), l.NextUpstream.Tries, conf.FormatDuration(l.NextUpstream.Timeout))
		dumpLimits(p, &l)
	}
	return b.String()
}

// dumpHealth writes what judges the servers of an upstream, as far as it is
// there. Absolute paths depend on where the test runs.
func dumpHealth(p func(string, ...any), u *conf.Upstream) {
	if u.ServerFile != "" || u.ExactlyOne || u.PanicThreshold != 0 {
		p("  server_file=%q exactly_one=%t panic_threshold=%v", atHome(u.ServerFile), u.ExactlyOne, u.PanicThreshold)
	}
	for _, h := range u.Checks {
		p("  check %s interval=%s timeout=%s rise=%d fall=%d initial=%s port=%d", h.Kind, h.Interval, h.Timeout, h.Rise, h.Fall, h.Initial, h.Port)
		switch h.Kind {
		case conf.CheckHTTP:
			p("    method=%s path=%s host=%q status=%v body=%v", h.Method, h.Path, h.Host, h.Status, h.Body)
		case conf.CheckPostgres, conf.CheckMySQL, conf.CheckRedis:
			p("    role=%s max_lag=%s user=%q password=%q database=%q galera=%t", h.Role, h.MaxLag, h.User, h.Password, h.Database, h.Galera)
		case conf.CheckAMQP, conf.CheckMQTT, conf.CheckNATS, conf.CheckKafka:
			p("    user=%q password=%q vhost=%q", h.User, h.Password, h.VHost)
		}
		for _, s := range h.Steps {
			p("    step send=%q expect=%q match=%v", s.Send, s.Expect, s.Match)
		}
		if t := h.TLS; t != nil {
			p("    tls server_name=%q alpn=%q ca_file=%q cert_file=%q key_file=%q verify=%t", t.ServerName, t.ALPN, atHome(t.CAFile), atHome(t.CertFile), atHome(t.KeyFile), t.Verify)
		}
	}
	if o := u.OnState; o != conf.DefaultOnState() {
		p("  on_state unhealthy=%s standby=%s lagging=%s drained=%s removed=%s pace=%s", o.Unhealthy, o.Standby, o.Lagging, o.Drained, o.Removed, conf.FormatRate(o.Pace))
	}
	if o := u.Outlier; o != nil {
		p("  outliers consecutive_failures=%d min_success_rate=%v interval=%s base_ejection_time=%s max_ejection=%v",
			o.ConsecutiveFailures, o.MinSuccessRate, o.Interval, o.BaseEjectionTime, o.MaxEjection)
	}
}

// dumpOverload writes what bounds the load of an upstream, as far as it is there.
func dumpOverload(p func(string, ...any), u *conf.Upstream) {
	if q := u.Queue; q != nil {
		p("  queue max=%d timeout=%s", q.Max, q.Timeout)
	}
	if c := u.Breaker; c != nil {
		p("  breaker max_sessions=%d max_pending=%d max_retries=%d failures=%d window=%s open_for=%s probes=%d",
			c.MaxSessions, c.MaxPending, c.MaxRetries, c.Failures, c.Window, c.OpenFor, c.Probes)
	}
	if l := u.Limit; l != nil {
		p("  limit %s min=%d max=%d initial=%d window=%d measure=%s apply_to=%s target=%s percentile=%v backoff=%v", l.Algorithm, l.Min, l.Max, l.Initial, l.Window,
			word(limitMeasures, l.Measure), word(limitUnits, l.ApplyTo), conf.FormatDuration(l.Target), l.Percentile, l.Backoff)
	}
}

// dumpLimits writes what a listener does for the case of overload, as far as it
// is there.
func dumpLimits(p func(string, ...any), l *conf.Listener) {
	defaults := conf.NewListener(l.Name)
	if n := l.NextUpstream; n.Backoff != conf.Off || n.BeforeFirstByte {
		p("  backoff=%s before_first_byte=%t", conf.FormatDuration(n.Backoff), n.BeforeFirstByte)
	}
	if l.Priority != defaults.Priority {
		p("  priority=%d", l.Priority)
	}
	if h := l.Hedge; h != nil {
		p("  hedge after=%s percentile=%v max=%v", conf.FormatDuration(h.After), h.Percentile, h.Max)
	}
	if m := l.Limits; m != defaults.Limits {
		p("  limits sessions=%d sessions_per_client=%d of /%d and /%d accept_rate=%s upload_rate=%d download_rate=%d",
			m.Sessions, m.SessionsPerClient, m.IPv4Prefix, m.IPv6Prefix, conf.FormatRate(m.AcceptRate), m.UploadRate, m.DownloadRate)
	}
}

// atHome takes the directory of the tests off a path.
func atHome(path string) string {
	here, _ := os.Getwd()
	return strings.TrimPrefix(path, here)
}

// dumpBalance writes a method with its own options.
func dumpBalance(b conf.Balance) string {
	values := map[string]any{
		"key": b.Key, "consistent": b.Consistent, "table_size": b.TableSize, "time": b.Time, "inflight": b.Inflight,
		"choices": b.Choices, "by": b.By, "epsilon": b.Epsilon, "half_life": conf.FormatDuration(b.HalfLife), "failback": b.Failback,
	}
	text := b.Method
	for _, o := range methodNamed(b.Method).options {
		text += fmt.Sprintf(" %s=%v", o.name, values[o.name])
		if o.name == "key" {
			text += fmt.Sprintf("(%d parts)", len(b.Key))
		}
	}
	return text
}

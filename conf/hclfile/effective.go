package hclfile

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/weirlb/weir/conf"
)

// Effective writes a configuration as a file that says the same: every value is
// there, whether it was written, is a default, or comes from a profile. A value
// that a file can only leave out is a comment with its meaning. Parse reads it
// to an equal configuration, but for passwords: they are conf.HidesPassword
// unless secrets is true. What steps of a check send is written as it is.
func Effective(c *conf.Config, secrets bool) []byte {
	w := effective{secrets: secrets}
	w.worker(&c.Worker)
	w.log(&c.Log)
	w.admin(&c.Admin)
	w.resolver(&c.Resolver)
	for i := range c.Upstreams {
		w.upstream(&c.Upstreams[i])
	}
	for i := range c.Listeners {
		w.listener(&c.Listeners[i])
	}
	return hclwrite.Format([]byte(w.text.String()))
}

// effective is a file that is being written.
type effective struct {
	text    strings.Builder
	secrets bool
	inside  int // blocks around the next line
}

func (w *effective) line(format string, args ...any) {
	w.text.WriteString(strings.Repeat("  ", w.inside))
	fmt.Fprintf(&w.text, format, args...)
	w.text.WriteByte('\n')
}

func (w *effective) open(header string) {
	if w.inside == 0 && w.text.Len() > 0 {
		w.text.WriteByte('\n')
	}
	w.line("%s {", header)
	w.inside++
}

func (w *effective) close() {
	w.inside--
	w.line("}")
}

// set writes an attribute. The value is an HCL expression.
func (w *effective) set(name, value string) { w.line("%s = %s", name, value) }

// absent stands for a value that a file leaves out.
func (w *effective) absent(name, meaning string) { w.line("# %s: %s", name, meaning) }

func (w *effective) number(name string, n int)   { w.set(name, strconv.Itoa(n)) }
func (w *effective) boolean(name string, b bool) { w.set(name, strconv.FormatBool(b)) }
func (w *effective) duration(name string, d time.Duration) {
	w.set(name, literalString(conf.FormatDuration(d)))
}

// durationOrZero writes a duration for which 0 is a time like any other.
func (w *effective) durationOrZero(name string, d time.Duration) {
	if d == 0 {
		w.set(name, `"0s"`)
		return
	}
	w.duration(name, d)
}

// orAuto writes a number, or "auto" for 0.
func (w *effective) orAuto(name string, n int) {
	if n == 0 {
		w.set(name, `"auto"`)
		return
	}
	w.number(name, n)
}

// orAbsent writes a text, or what its absence means.
func (w *effective) orAbsent(name, text, meaning string) {
	if text == "" {
		w.absent(name, meaning)
		return
	}
	w.set(name, literalString(text))
}

func (w *effective) ratio(name string, r float64) { w.set(name, strconv.FormatFloat(r, 'f', -1, 64)) }

// percent writes a ratio as a percentage, if that is the same number.
func (w *effective) percent(name string, r float64) {
	text := strconv.FormatFloat(r*100, 'f', -1, 64) + "%"
	if again, err := conf.ParsePercent(text); err != nil || again != r {
		w.ratio(name, r)
		return
	}
	w.set(name, literalString(text))
}

func (w *effective) list(name string, texts []string) {
	var items []string
	for _, t := range texts {
		items = append(items, literalString(t))
	}
	w.set(name, "["+strings.Join(items, ", ")+"]")
}

// literalString writes a text as a quoted template that stands for it. The
// signs that begin an interpolation are escaped by their code points: doubling
// them, as the language also allows, is ambiguous behind another one.
func literalString(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i, r := range text {
		begins := (r == '$' || r == '%') && strings.HasPrefix(text[i+1:], "{")
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case begins, r <= 0xffff && !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		case !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// template writes a session template. A dollar sign in its text goes into an
// interpolation of its own: before a brace or a name it would mean something.
func template(t conf.Template) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, p := range t {
		if p.Variable != "" {
			b.WriteString("${" + string(p.Variable) + "}")
			continue
		}
		for i, text := range strings.Split(p.Text, "$") {
			if i > 0 {
				b.WriteString(`${"$"}`)
			}
			quoted := literalString(text)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	b.WriteByte('"')
	return b.String()
}

// word is the configuration's word for a value.
func word[T comparable](choices []choice[T], value T) string {
	i := slices.IndexFunc(choices, func(c choice[T]) bool { return c.value == value })
	return literalString(choices[i].word)
}

func (w *effective) worker(c *conf.Worker) {
	w.open("worker")
	w.orAuto("count", c.Count)
	w.set("steering", word(steerings, c.Steering))
	w.orAuto("max_sessions", c.MaxSessions)
	w.duration("shutdown_timeout", c.ShutdownTimeout)
	w.close()
}

func (w *effective) log(c *conf.Log) {
	w.open("log")
	w.set("level", word(logLevels, c.Level))
	w.set("format", word(logFormats, c.Format))
	w.set("access", literalString(c.Access))
	w.set("decisions", word(logDecisions, c.Decisions))
	w.list("fields", variableNames(c.Fields))
	w.close()
}

func (w *effective) admin(c *conf.Admin) {
	if *c == (conf.Admin{}) {
		w.text.WriteByte('\n')
		w.absent("admin", "none")
		return
	}
	w.open("admin")
	address := func(name string, a conf.Address) {
		if a.IsZero() {
			w.absent(name, "none")
			return
		}
		w.set(name, literalString(a.String()))
	}
	address("listen", c.Listen)
	w.orAbsent("group", c.Group, "none")
	w.orAbsent("token_file", c.TokenFile, "none")
	address("metrics", c.Metrics)
	w.close()
}

func (w *effective) resolver(c *conf.Resolver) {
	w.open("resolver")
	if len(c.Servers) == 0 {
		w.absent("servers", "those of the system")
	} else {
		w.list("servers", addressTexts(c.Servers))
	}
	w.duration("timeout", c.Timeout)
	if c.Valid == 0 {
		w.set("valid", `"ttl"`)
	} else {
		w.duration("valid", c.Valid)
	}
	w.close()
}

// addressTexts writes addresses, those with ports in a row as a range.
func addressTexts(list []conf.Address) []string {
	var out []string
	for i := 0; i < len(list); {
		first, n := list[i], 1
		for i+n < len(list) && !first.IsUnix() && list[i+n].Host == first.Host && int(list[i+n].Port) == int(first.Port)+n {
			n++
		}
		text := first.String()
		if n > 1 {
			text += fmt.Sprintf("-%d", int(first.Port)+n-1)
		}
		out = append(out, text)
		i += n
	}
	return out
}

func (w *effective) upstream(u *conf.Upstream) {
	w.open("upstream " + literalString(u.Name))
	w.balance(&u.Balance)
	named := map[string]int{}
	for _, s := range u.Servers {
		named[s.Name]++
	}
	for i := range u.Servers {
		w.server(&u.Servers[i], named[u.Servers[i].Name] == 1)
	}
	w.orAbsent("server_file", u.ServerFile, "none")
	w.orAbsent("congestion", u.Congestion, "the system's")
	for i := range u.Checks {
		w.check(&u.Checks[i])
	}
	if len(u.Checks) == 0 {
		w.absent("health_check", "none")
	}
	w.boolean("exactly_one", u.ExactlyOne)
	w.onState(&u.OnState)
	w.outliers(u.Outlier)
	if u.PanicThreshold == 0 {
		w.set("panic_threshold", `"off"`)
	} else {
		w.percent("panic_threshold", u.PanicThreshold)
	}
	w.queue(u.Queue)
	w.circuitBreaker(u.Breaker)
	w.adaptiveLimit(u.Limit)
	w.close()
}

// balance writes a method with its own options, and of those of random only
// the ones that have an effect: the others are refused.
func (w *effective) balance(b *conf.Balance) {
	options := methodNamed(b.Method).options
	if len(options) == 0 {
		w.line("balance %s {}", literalString(b.Method))
		return
	}
	w.open("balance " + literalString(b.Method))
	for _, o := range options {
		switch o.name {
		case "key":
			w.set(o.name, template(b.Key))
		case "consistent":
			w.boolean(o.name, b.Consistent)
		case "table_size":
			w.orAuto(o.name, b.TableSize)
		case "time":
			if usesTimes(*b) {
				w.set(o.name, word(times, b.Time))
			}
		case "inflight":
			if usesTimes(*b) {
				w.boolean(o.name, b.Inflight)
			}
		case "choices":
			w.number(o.name, b.Choices)
		case "by":
			if b.Choices == 2 {
				w.set(o.name, word(comparisons, b.By))
			}
		case "epsilon":
			w.ratio(o.name, b.Epsilon)
		case "half_life":
			w.duration(o.name, b.HalfLife)
		case "failback":
			w.boolean(o.name, b.Failback)
		default:
			panic("no way to write the option " + o.name)
		}
	}
	w.close()
}

// server writes a server. Servers may share a default name but no written one.
func (w *effective) server(s *conf.Server, unique bool) {
	w.open("server " + literalString(s.Label()))
	if unique {
		w.set("name", literalString(s.Name))
	} else {
		w.absent("name", "the address, as of another server")
	}
	w.number("weight", s.Weight)
	w.number("max_fails", s.MaxFails)
	w.durationOrZero("fail_timeout", s.FailTimeout)
	w.number("max_conns", s.MaxConns)
	w.duration("slow_start", s.SlowStart)
	w.boolean("backup", s.Backup)
	w.boolean("down", s.Down)
	w.boolean("resolve", s.Resolve)
	w.boolean("service", s.Service)
	w.close()
}

func (w *effective) check(h *conf.HealthCheck) {
	w.open("health_check " + literalString(string(h.Kind)))
	for _, o := range checkKindNamed(string(h.Kind)).all() {
		switch o.name {
		case "interval":
			w.duration(o.name, h.Interval)
		case "timeout":
			w.duration(o.name, h.Timeout)
		case "rise":
			w.number(o.name, h.Rise)
		case "fall":
			w.number(o.name, h.Fall)
		case "initial":
			w.set(o.name, word(initials, h.Initial))
		case "port":
			w.number(o.name, h.Port)
		case "method":
			w.set(o.name, literalString(h.Method))
		case "path":
			w.set(o.name, literalString(h.Path))
		case "host":
			w.orAbsent(o.name, h.Host, "the server's address")
		case "status":
			var ranges []string
			for _, r := range h.Status {
				ranges = append(ranges, r.String())
			}
			w.list(o.name, ranges)
		case "body":
			if h.Body == nil {
				w.absent(o.name, "any")
			} else {
				w.set(o.name, literalString(h.Body.String()))
			}
		case "role":
			w.set(o.name, word(roles, h.Role))
		case "max_lag":
			w.duration(o.name, h.MaxLag)
		case "user":
			w.orAbsent(o.name, h.User, "none")
		case "password":
			w.password(o.name, h)
		case "database":
			if h.User == "" {
				w.absent(o.name, "none is asked for without a user")
			} else {
				w.set(o.name, literalString(h.Database))
			}
		case "vhost":
			w.set(o.name, literalString(h.VHost))
		case "galera":
			w.boolean(o.name, h.Galera)
		case "tls":
			w.tls(h.TLS)
		case "step":
			w.steps(h.Steps)
		default:
			panic("no way to write the option " + o.name)
		}
	}
	w.close()
}

func (w *effective) password(name string, h *conf.HealthCheck) {
	switch {
	case h.Password == "" && h.User == "":
		w.absent(name, "none")
	case h.Password == "" || w.secrets:
		w.set(name, literalString(h.Password))
	default:
		w.set(name, literalString(conf.HidesPassword))
	}
}

func (w *effective) tls(t *conf.CheckTLSOptions) {
	if t == nil {
		w.absent("tls", "none")
		return
	}
	w.open("tls")
	w.orAbsent("server_name", t.ServerName, "the server's host")
	if len(t.ALPN) == 0 {
		w.absent("alpn", "none")
	} else {
		w.list("alpn", t.ALPN)
	}
	w.orAbsent("ca_file", t.CAFile, "the system's roots")
	w.orAbsent("cert_file", t.CertFile, "none")
	w.orAbsent("key_file", t.KeyFile, "none")
	w.boolean("verify", t.Verify)
	w.close()
}

func (w *effective) steps(steps []conf.Step) {
	if len(steps) == 0 {
		w.absent("step", "none: an empty datagram, which must not be refused")
	}
	for _, s := range steps {
		w.open("step")
		if s.Match != nil {
			w.set("match", literalString(s.Match.String()))
		}
		w.bytes("send", s.Send)
		w.bytes("expect", s.Expect)
		w.close()
	}
}

// bytes writes bytes as a text if they look like one, and in hexadecimal
// otherwise: the language normalizes texts beyond ASCII.
func (w *effective) bytes(name string, b []byte) {
	text := func(c byte) bool { return c >= ' ' && c <= '~' || c == '\r' || c == '\n' || c == '\t' }
	switch {
	case len(b) == 0:
	case !slices.ContainsFunc(b, func(c byte) bool { return !text(c) }):
		w.set(name, literalString(string(b)))
	default:
		w.set(name+"_hex", literalString(hex.EncodeToString(b)))
	}
}

func (w *effective) onState(o *conf.OnState) {
	w.open("on_state")
	for _, f := range stateFates {
		w.orAbsent(f.name, f.of(o).String(), "TCP sessions run on, UDP clients go elsewhere")
	}
	w.set("pace", literalString(conf.FormatRate(o.Pace)))
	w.close()
}

func (w *effective) outliers(o *conf.OutlierDetection) {
	if o == nil {
		w.absent("outlier_detection", "none")
		return
	}
	w.open("outlier_detection")
	w.number("consecutive_failures", o.ConsecutiveFailures)
	w.ratio("min_success_rate", o.MinSuccessRate)
	w.duration("interval", o.Interval)
	w.duration("base_ejection_time", o.BaseEjectionTime)
	w.percent("max_ejection", o.MaxEjection)
	w.close()
}

func (w *effective) queue(q *conf.Queue) {
	if q == nil {
		w.absent("queue", "none: nobody waits for a server")
		return
	}
	w.open("queue")
	w.number("max", q.Max)
	w.duration("timeout", q.Timeout)
	w.close()
}

func (w *effective) circuitBreaker(c *conf.CircuitBreaker) {
	if c == nil {
		w.absent("circuit_breaker", "none")
		return
	}
	w.open("circuit_breaker")
	w.number("max_sessions", c.MaxSessions)
	w.number("max_pending", c.MaxPending)
	w.number("max_retries", c.MaxRetries)
	w.number("failures", c.Failures)
	if c.Failures == 0 {
		w.absent("window, open_for, probes", "it never opens")
	} else {
		w.duration("window", c.Window)
		w.duration("open_for", c.OpenFor)
		w.number("probes", c.Probes)
	}
	w.close()
}

func (w *effective) adaptiveLimit(l *conf.AdaptiveLimit) {
	if l == nil {
		w.absent("adaptive_limit", "none")
		return
	}
	w.open("adaptive_limit " + literalString(string(l.Algorithm)))
	for _, o := range limitAlgorithmNamed(string(l.Algorithm)).all() {
		switch o.name {
		case "min":
			w.number(o.name, l.Min)
		case "max":
			w.number(o.name, l.Max)
		case "initial":
			w.number(o.name, l.Initial)
		case "window":
			w.number(o.name, l.Window)
		case "measure":
			w.set(o.name, word(limitMeasures, l.Measure))
		case "apply_to":
			w.set(o.name, word(limitUnits, l.ApplyTo))
		case "target":
			w.duration(o.name, l.Target)
		case "percentile":
			w.ratio(o.name, l.Percentile)
		case "backoff":
			w.ratio(o.name, l.Backoff)
		default:
			panic("no way to write the option " + o.name)
		}
	}
	w.close()
}

func (w *effective) listener(l *conf.Listener) {
	w.open("listener " + literalString(l.Name))
	w.list("listen", addressTexts(l.Listen))
	w.set("protocol", literalString(l.Protocol.String()))
	w.set("upstream", literalString(l.Upstream))
	w.orAbsent("profile", string(l.Profile), "none")
	if l.Protocol == conf.UDP {
		w.datagrams(&l.UDP)
	} else {
		w.connections(l)
	}
	w.close()
}

func (w *effective) connections(l *conf.Listener) {
	w.duration("connect_timeout", l.ConnectTimeout)
	w.duration("idle_timeout", l.IdleTimeout)
	w.duration("half_close_timeout", l.HalfCloseTimeout)
	w.duration("dead_peer_timeout", l.DeadPeerTimeout)
	w.orAbsent("congestion", l.Congestion, "the system's")
	w.number("priority", l.Priority)
	w.open("next_upstream")
	w.number("tries", l.NextUpstream.Tries)
	w.duration("timeout", l.NextUpstream.Timeout)
	w.duration("backoff", l.NextUpstream.Backoff)
	w.boolean("before_first_byte", l.NextUpstream.BeforeFirstByte)
	w.close()
	w.hedge(l.Hedge)
	w.limits(&l.Limits)
}

func (w *effective) hedge(h *conf.Hedge) {
	if h == nil {
		w.absent("hedge", "none")
		return
	}
	w.open("hedge")
	if h.After == conf.Off {
		w.set("after", literalString(conf.FormatPercentile(h.Percentile)))
	} else {
		w.duration("after", h.After)
	}
	w.percent("max", h.Max)
	w.close()
}

func (w *effective) limits(l *conf.Limits) {
	w.open("limits")
	w.number("sessions", l.Sessions)
	w.number("sessions_per_client", l.SessionsPerClient)
	if l.SessionsPerClient == 0 {
		w.absent("ipv4_prefix, ipv6_prefix", "clients are not told apart")
	} else {
		w.number("ipv4_prefix", l.IPv4Prefix)
		w.number("ipv6_prefix", l.IPv6Prefix)
	}
	w.set("accept_rate", literalString(conf.FormatRate(l.AcceptRate)))
	w.set("upload_rate", literalString(conf.FormatByteRate(l.UploadRate)))
	w.set("download_rate", literalString(conf.FormatByteRate(l.DownloadRate)))
	w.close()
}

func (w *effective) datagrams(u *conf.Datagrams) {
	w.open("udp")
	w.duration("idle_timeout", u.IdleTimeout)
	w.number("requests", u.Requests)
	if u.Responses == conf.NoResponses {
		w.set("responses", `"none"`)
	} else {
		w.number("responses", u.Responses)
	}
	w.orAuto("max_sessions", u.MaxSessions)
	w.durationOrZero("quarantine", u.Quarantine)
	w.close()
}

package hclfile

import (
	"fmt"
	"math"
	"slices"

	"github.com/weirlb/weir/conf"
)

var queueBlock = &block{
	name:   "queue",
	header: "queue {",
	single: true,
	attrs: []attribute{
		{"max", kindNumber, `100`},
		{"timeout", kindDuration, `"2s"`},
	},
	noOff: map[string]string{"timeout": `Clients that wait for ever keep the others out of the queue. Write a time, such as "2s".`},
}

var breakerBlock = &block{
	name:   "circuit_breaker",
	header: "circuit_breaker {",
	single: true,
	attrs: []attribute{
		{"max_sessions", kindNumber, `1000`},
		{"max_pending", kindNumber, `200`},
		{"max_retries", kindNumber, `20`},
		{"failures", kindNumber, `50`},
		{"window", kindDuration, `"10s"`},
		{"open_for", kindDuration, `"5s"`},
		{"probes", kindNumber, `3`},
	},
	noOff: map[string]string{
		"window":   `Failures of all time would add up. Write a time, such as "10s", or failures = 0 for a breaker that never opens.`,
		"open_for": `The servers need time to recover. Write one, such as "5s", or failures = 0 for a breaker that never opens.`,
	},
}

var adaptiveLimitBlock = &block{
	name:   "adaptive_limit",
	label:  "algorithm",
	header: `adaptive_limit "aimd" {`,
	single: true,
	attrs:  limitAttributes(),
}

// maxAtOnce bounds what may wait or be under way at once: far more than a
// process has sessions, low enough that a slip of the finger is noticed.
const maxAtOnce = 1_000_000

func (d *decoder) queue(b *body, u *declaredUpstream) {
	q := conf.DefaultQueue()
	b.number("max", 1, maxAtOnce, &q.Max)
	b.duration("timeout", never, &q.Timeout)
	u.queue, u.Queue = b, &q
}

// circuitBreaker reads a circuit_breaker block. What it says of the breaker's
// opening has no effect on one that never opens.
func (d *decoder) circuitBreaker(b *body, u *declaredUpstream) {
	const maxProbes = 1000
	c := conf.DefaultCircuitBreaker()
	b.number("max_sessions", 0, math.MaxInt32, &c.MaxSessions)
	b.number("max_pending", 0, math.MaxInt32, &c.MaxPending)
	b.number("max_retries", 0, math.MaxInt32, &c.MaxRetries)
	b.number("failures", 0, math.MaxInt32, &c.Failures)
	b.duration("window", never, &c.Window)
	b.duration("open_for", never, &c.OpenFor)
	b.number("probes", 1, maxProbes, &c.Probes)
	u.breaker, u.Breaker = b, &c

	bounds := []string{"max_sessions", "max_pending", "max_retries", "failures"}
	switch {
	case c.Failures > 0, d.incomplete(b), slices.ContainsFunc(bounds, b.unclear):
	case c.MaxSessions == 0 && c.MaxPending == 0 && c.MaxRetries == 0:
		d.errorf(b.headerAt, "circuit_breaker limits nothing", "Without %s it has no effect. Write one of them, or remove the block.", oneOf(bounds))
	default:
		for _, name := range []string{"window", "open_for", "probes"} {
			if b.isSet(name) {
				d.errorf(b.nameRange(name), name+" has no effect without failures", "The breaker never opens: write failures = %s too, or remove %s.", b.schema.attr("failures").example, name)
			}
		}
	}
}

// limitAlgorithm is an algorithm of an adaptive limit, with the options that it
// takes beside those that all take, in the order in which they are read.
type limitAlgorithm struct {
	name    conf.LimitAlgorithm
	options []limitOption
}

// limitOption is an attribute of an adaptive_limit block, and how it is read.
type limitOption struct {
	attribute
	read func(b *body, l *conf.AdaptiveLimit)
}

// limitAlgorithms is the table of all there is to write in an adaptive_limit
// block. No algorithm and no option is named anywhere else but in checks, hints
// and lints.
var limitAlgorithms = []limitAlgorithm{
	{name: conf.AIMD, options: []limitOption{
		{attribute{"target", kindDuration, `"200ms"`}, readTarget},
		{attribute{"percentile", kindRatio, `0.95`}, readPercentile},
		{attribute{"backoff", kindRatio, `0.9`}, readLimitBackoff},
	}},
	{name: conf.Gradient},
	{name: conf.Vegas},
}

// commonLimitOptions are those of every algorithm.
var commonLimitOptions = []limitOption{
	{attribute{"min", kindNumber, `10`}, func(b *body, l *conf.AdaptiveLimit) { b.number("min", 1, maxAtOnce, &l.Min) }},
	{attribute{"max", kindNumber, `500`}, func(b *body, l *conf.AdaptiveLimit) { b.number("max", 1, maxAtOnce, &l.Max) }},
	{attribute{"initial", kindNumber, `50`}, func(b *body, l *conf.AdaptiveLimit) { b.number("initial", 1, maxAtOnce, &l.Initial) }},
	{attribute{"window", kindNumber, `100`}, func(b *body, l *conf.AdaptiveLimit) { b.number("window", minSamples, maxSamples, &l.Window) }},
	{attribute{"measure", kindString, `"turn"`}, func(b *body, l *conf.AdaptiveLimit) { choose(b, "measure", limitMeasures, nil, &l.Measure) }},
	{attribute{"apply_to", kindString, `"turn"`}, readApplyTo},
}

// The samples that a decision may be made from: a percentile of less means
// nothing, and more takes too long to gather.
const minSamples, maxSamples = 10, 100_000

var limitMeasures = []choice[conf.Measure]{
	{"connect", conf.MeasureConnect},
	{"first_byte", conf.MeasureFirstByte},
	{"turn", conf.MeasureTurn},
}

var limitUnits = []choice[conf.Unit]{{"session", conf.LimitSessions}, {"turn", conf.LimitTurns}}

// limitAttributes lists the options of all algorithms, each once: the words
// that may stand in an adaptive_limit block. Which algorithm takes which is
// seen when the block is read, because its label may come from a dynamic block.
func limitAttributes() []attribute {
	var all []attribute
	for _, o := range commonLimitOptions {
		all = append(all, o.attribute)
	}
	for _, a := range limitAlgorithms {
		for _, o := range a.options {
			all = append(all, o.attribute)
		}
	}
	return all
}

func limitAlgorithmNamed(name string) *limitAlgorithm {
	i := slices.IndexFunc(limitAlgorithms, func(a limitAlgorithm) bool { return string(a.name) == name })
	if i < 0 {
		return nil
	}
	return &limitAlgorithms[i]
}

func limitAlgorithmNames() []string {
	var names []string
	for _, a := range limitAlgorithms {
		names = append(names, string(a.name))
	}
	return names
}

// all lists the options of the algorithm, those of every one first.
func (a *limitAlgorithm) all() []limitOption { return slices.Concat(commonLimitOptions, a.options) }

func (a *limitAlgorithm) takes(name string) bool {
	return slices.ContainsFunc(a.all(), func(o limitOption) bool { return o.name == name })
}

// whose says which algorithm an option belongs to, and what this one takes.
func (a *limitAlgorithm) whose(option string) string {
	var owners, own []string
	for _, other := range limitAlgorithms {
		if other.takes(option) {
			owners = append(owners, string(other.name))
		}
	}
	for _, o := range a.all() {
		own = append(own, o.name)
	}
	return fmt.Sprintf("%q belongs to %s; %q takes %s.", option, and(owners), a.name, and(own))
}

// adaptiveLimit reads an adaptive_limit block.
func (d *decoder) adaptiveLimit(b *body, u *declaredUpstream) {
	u.limit = b
	a := d.limitAlgorithm(b)
	if a == nil {
		return // there is no telling which options it would take
	}
	for _, attr := range b.schema.attrs {
		if written, ok := b.attrs[attr.name]; ok && !a.takes(attr.name) {
			d.errorf(written.NameRange, fmt.Sprintf("%s has no option %q", a.name, attr.name), "%s", a.whose(attr.name))
		}
	}
	l := conf.DefaultAdaptiveLimit(a.name)
	for _, o := range a.all() {
		o.read(b, &l)
	}
	d.checkLimitRange(b, &l)
	d.checkLimitUnit(b, &l)
	u.Limit = &l
}

// limitAlgorithm finds the algorithm that a block names, or the one that is
// meant by a wrong name, so that the options are looked at too; nil if there is
// none.
func (d *decoder) limitAlgorithm(b *body) *limitAlgorithm {
	if a := limitAlgorithmNamed(b.label); a != nil {
		return a
	}
	summary := fmt.Sprintf("unknown algorithm %q", b.label)
	if name, detail := translateLimitAlgorithm(b.label); detail != "" {
		d.errorf(b.labelAt, summary, "%s", detail)
		return limitAlgorithmNamed(string(name))
	}
	d.errorf(b.labelAt, summary, "%s", instead(b.label, limitAlgorithmNames()))
	return limitAlgorithmNamed(nearest(b.label, limitAlgorithmNames()))
}

func readTarget(b *body, l *conf.AdaptiveLimit) {
	b.duration("target", never, &l.Target)
	if l.Target == conf.Off {
		b.require("target", fmt.Sprintf("%s needs a target", l.Algorithm),
			`Say which latency is too much: the limit falls while a window's percentile is above it. Write target = "200ms"`)
	}
}

// readPercentile leaves out the ends, of which 0 is the fastest of all samples
// and 1 a single outlier.
func readPercentile(b *body, l *conf.AdaptiveLimit) {
	share := l.Percentile
	b.ratio("percentile", &share)
	if share == 0 || share == 1 {
		b.d.errorf(b.valueRange("percentile"), "percentile is out of range", "It takes a number between 0 and 1, such as 0.95: neither 0, the fastest of all samples, nor 1, the slowest.")
		return
	}
	l.Percentile = share
}

func readLimitBackoff(b *body, l *conf.AdaptiveLimit) {
	const least = 0.5
	factor := l.Backoff
	b.ratio("backoff", &factor)
	if factor < least || factor == 1 {
		b.d.errorf(b.valueRange("backoff"), "backoff is out of range", "The limit is multiplied with it when the latency is too high: it takes a number from %v to less than 1, such as 0.9.", least)
		return
	}
	l.Backoff = factor
}

// readApplyTo reads what is limited. Only turns that are measured are known to
// end, so that without a word a limit by another latency is one of sessions.
func readApplyTo(b *body, l *conf.AdaptiveLimit) {
	if l.Measure != conf.MeasureTurn {
		l.ApplyTo = conf.LimitSessions
	}
	choose(b, "apply_to", limitUnits, nil, &l.ApplyTo)
}

// checkLimitRange refuses an empty range and a begin outside of it. A begin
// that is not written goes to the nearest end.
func (d *decoder) checkLimitRange(b *body, l *conf.AdaptiveLimit) {
	if b.unclear("min") || b.unclear("max") {
		return
	}
	if l.Min > l.Max {
		at, detail := b.valueRange("min"), fmt.Sprintf("Write min of at most %d, or a higher max.", l.Max)
		where := related{b.valueRange("max"), "max is set here"}
		if !b.isSet("max") {
			if d.incomplete(b) {
				return
			}
			detail = fmt.Sprintf("%d is the default: write max too.", l.Max)
		}
		d.report(at, fmt.Sprintf("min = %d is more than max = %d", l.Min, l.Max), detail, where)
		return
	}
	if !b.isSet("initial") {
		l.Initial = min(max(l.Initial, l.Min), l.Max)
		return
	}
	if b.unclear("initial") || l.Min <= l.Initial && l.Initial <= l.Max || d.incomplete(b) {
		return
	}
	end := "min"
	if l.Initial > l.Max {
		end = "max"
	}
	d.report(b.valueRange("initial"), fmt.Sprintf("initial = %d is not between min = %d and max = %d", l.Initial, l.Min, l.Max),
		"The limit begins there and never leaves that range. Write a number from it, or remove initial.", related{b.valueRange(end), end + " is set here"})
}

// checkLimitUnit refuses to count what is not measured.
func (d *decoder) checkLimitUnit(b *body, l *conf.AdaptiveLimit) {
	if l.ApplyTo != conf.LimitTurns || l.Measure == conf.MeasureTurn || b.unclear("measure") || b.unclear("apply_to") {
		return
	}
	d.report(b.valueRange("apply_to"), `apply_to = "turn" needs measure = "turn"`,
		fmt.Sprintf("A latency up to %s says nothing of the turns that follow. Write measure = \"turn\", or apply_to = \"session\".",
			map[conf.Measure]string{conf.MeasureConnect: "the connection", conf.MeasureFirstByte: "the first byte"}[l.Measure]),
		related{b.valueRange("measure"), "measure is set here"})
}

// checkTurns refuses a limit of turns that does not say how long a client's
// bytes may wait.
func (d *decoder) checkTurns(b *body, u *declaredUpstream) {
	l := u.Limit
	if l == nil || l.ApplyTo != conf.LimitTurns || l.Measure != conf.MeasureTurn || u.queue != nil || d.incomplete(b) || u.limit.unclear("measure") || u.limit.unclear("apply_to") {
		return
	}
	at, what := u.limit.headerAt, "Turns are what it limits, unless apply_to says something else."
	if u.limit.isSet("apply_to") {
		at, what = u.limit.valueRange("apply_to"), "It limits turns."
	}
	d.errorf(at, fmt.Sprintf("upstream %q limits turns and has no queue", u.Name),
		"%s Beyond the limit a client's next bytes wait, and the queue block says for how long: write queue { timeout = \"2s\" } in the upstream. To limit sessions, write apply_to = \"session\".", what)
}

// bounds lists the blocks that bound what an upstream takes on.
func (u *declaredUpstream) bounds() []*body {
	return slices.DeleteFunc([]*body{u.queue, u.breaker, u.limit}, func(b *body) bool { return b == nil })
}

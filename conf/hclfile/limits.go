package hclfile

import (
	"regexp"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/weirlb/weir/conf"
)

var limitsBlock = &block{
	name:   "limits",
	header: "limits {",
	single: true,
	attrs: []attribute{
		{"sessions", kindNumber, `10000`},
		{"sessions_per_client", kindNumber, `100`},
		{"ipv4_prefix", kindNumber, `24`},
		{"ipv6_prefix", kindNumber, `64`},
		{"accept_rate", kindRate, `"500/s"`},
		{"upload_rate", kindByteRate, `"10MiB/s"`},
		{"download_rate", kindByteRate, `"10MiB/s"`},
	},
}

var hedgeBlock = &block{
	name:   "hedge",
	header: "hedge {",
	single: true,
	attrs: []attribute{
		{"after", kindDuration, `"p95"`},
		{"max", kindPercent, `"10%"`},
	},
	noOff: map[string]string{"after": `Without the hedge block no session has a second attempt to connect. Remove it, or write when it begins, such as "p95" or "20ms".`},
}

// limits reads what bounds the clients of a listener.
func (d *decoder) limits(b *body, l *declaredListener) {
	b.number("sessions", 0, maxSessions, &l.Limits.Sessions)
	b.number("sessions_per_client", 0, maxSessions, &l.Limits.SessionsPerClient)
	b.number("ipv4_prefix", 1, 32, &l.Limits.IPv4Prefix)
	b.number("ipv6_prefix", 1, 128, &l.Limits.IPv6Prefix)
	b.rate("accept_rate", &l.Limits.AcceptRate)
	b.byteRate("upload_rate", &l.Limits.UploadRate)
	b.byteRate("download_rate", &l.Limits.DownloadRate)
	if l.Limits.SessionsPerClient > 0 || b.unclear("sessions_per_client") || d.incomplete(b) {
		return
	}
	for _, name := range []string{"ipv4_prefix", "ipv6_prefix"} {
		if b.isSet(name) {
			d.errorf(b.nameRange(name), name+" has no effect without sessions_per_client",
				"It says how many bits of an address make one client, whose sessions nobody counts. Write sessions_per_client = %s too, or remove %s.", b.schema.attr("sessions_per_client").example, name)
		}
	}
}

// hedge reads a hedge block.
func (d *decoder) hedge(b *body, l *declaredListener) {
	h := conf.DefaultHedge()
	b.hedgeAfter(&h)
	b.percent("max", never, &h.Max)
	if h.Max == 0 {
		d.errorf(b.valueRange("max"), "max can't be 0", "No session would have a second attempt to connect. Write a percentage, such as %s, or remove the hedge block.", b.schema.attr("max").example)
	}
	l.hedge, l.Hedge = b, &h
}

// percentileLike matches what people write who mean a percentile and no
// duration.
var percentileLike = regexp.MustCompile(`^(?i:p[\d.]*%?|[\d.]+\s*(?:%|th))$`)

// hedgeAfter reads when a second attempt begins: a duration, or a percentile of
// the connect times.
func (b *body) hedgeAfter(h *conf.Hedge) {
	const name = "after"
	v, at, ok := b.value(name)
	if !ok {
		return
	}
	summary := name + " takes a duration or a percentile"
	if v.Type() == cty.Number {
		if n, _ := v.AsBigFloat().Float64(); n >= 0.5 && n <= 0.999 {
			b.d.errorf(at, summary, "Write %s = %q", name, conf.FormatPercentile(n))
			return
		}
	}
	if v.Type() == cty.String && percentileLike.MatchString(v.AsString()) {
		share, err := conf.ParsePercentile(v.AsString())
		if err != nil {
			b.d.errorf(at, summary, "%s.", sentence(err))
			return
		}
		h.Percentile = share
		return
	}
	if b.duration(name, never, &h.After); h.After != conf.Off {
		h.Percentile = 0
	}
}

// maxBackoff bounds the wait before a third attempt, which doubles for each
// that follows while a client waits.
const maxBackoff = time.Minute

// nextUpstream reads when a session moves on to another server.
func (d *decoder) nextUpstream(b *body, l *declaredListener) {
	n := &l.NextUpstream
	b.number("tries", 0, maxTries, &n.Tries)
	b.duration("timeout", orOff, &n.Timeout)
	b.duration("backoff", orOff, &n.Backoff)
	b.boolean("before_first_byte", &n.BeforeFirstByte)
	if n.Backoff > maxBackoff {
		d.errorf(b.valueRange("backoff"), "backoff is too long",
			"It doubles with each further attempt, and the client waits: write at most %q; \"25ms\" is usual.", conf.FormatDuration(maxBackoff))
	}
	l.nextUpstream = b
}

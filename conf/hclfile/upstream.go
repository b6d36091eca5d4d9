package hclfile

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"github.com/weirlb/weir/conf"
)

var upstreamBlock = &block{
	name:   "upstream",
	label:  "name",
	header: `upstream "NAME" {`,
	attrs: []attribute{
		{"congestion", kindString, `"cubic"`},
		{"server_file", kindString, `"peers.json"`},
		{"exactly_one", kindBool, `true`},
		{"panic_threshold", kindPercent, `"30%"`},
	},
	blocks: []*block{balanceBlock, serverBlock, healthCheckBlock, onStateBlock, outlierBlock, queueBlock, breakerBlock, adaptiveLimitBlock},
}

// declaredUpstream is an upstream with the places its parts were written at.
type declaredUpstream struct {
	conf.Upstream
	nameAt, congestionAt, exactlyOneAt hcl.Range
	balance                            *body // nil = none in the file
	onState                            *body // nil = none in the file
	queue, breaker, limit              *body // nil = none in the file
	servers                            []declaredServer
	checks                             []declaredCheck
	ownChecks                          bool           // the file has health checks, good or bad
	named                              map[string]int // index of the first server of each name
}

func (d *decoder) upstream(b *body) {
	name, ok := d.name(b.label, b.labelAt, "an upstream")
	if ok {
		for _, other := range d.upstreams {
			if other.Name == name {
				d.report(b.labelAt, fmt.Sprintf("upstream %q is defined twice", name),
					"Give one of the two another name, or move its servers into the other.", related{other.nameAt, "first defined here"})
				break
			}
		}
	}
	u := declaredUpstream{Upstream: conf.NewUpstream(name), nameAt: b.labelAt, congestionAt: b.valueRange("congestion"), exactlyOneAt: b.nameRange("exactly_one"), named: map[string]int{}}
	d.congestion(b, &u.Congestion)
	for _, s := range b.each(serverBlock) {
		d.server(s, &u)
	}
	if m := b.one(balanceBlock); m != nil {
		d.balance(m, &u)
	}
	for _, h := range b.each(healthCheckBlock) {
		d.healthCheck(h, &u)
	}
	if o := b.one(onStateBlock); o != nil {
		d.onState(o, &u)
	}
	if o := b.one(outlierBlock); o != nil {
		d.outliers(o, &u)
	}
	if q := b.one(queueBlock); q != nil {
		d.queue(q, &u)
	}
	if c := b.one(breakerBlock); c != nil {
		d.circuitBreaker(c, &u)
	}
	if l := b.one(adaptiveLimitBlock); l != nil {
		d.adaptiveLimit(l, &u)
	}
	d.checkTurns(b, &u)
	d.serverFile(b, &u)
	d.eligibility(b, &u)
	d.checkServers(b, &u)
	d.checkSlowStart(&u)
	d.checkUnixServers(&u)
	d.upstreams = append(d.upstreams, u)
}

// eligibility reads how many servers may be used at once.
func (d *decoder) eligibility(b *body, u *declaredUpstream) {
	b.boolean("exactly_one", &u.ExactlyOne)
	b.percent("panic_threshold", orOff, &u.PanicThreshold)
	if u.ExactlyOne && u.PanicThreshold > 0 {
		d.report(b.nameRange("panic_threshold"), "panic_threshold has no use beside exactly_one",
			"When few servers are healthy it has all of them used, and exactly_one allows one at most. Remove one of the two.", related{u.exactlyOneAt, "exactly_one is set here"})
	}
}

// checkServers refuses what nginx refuses too: an upstream that has nothing to
// pick from. What a server_file will hold is not known here.
func (d *decoder) checkServers(b *body, u *declaredUpstream) {
	if b.isSet("server_file") {
		return
	}
	for _, s := range u.servers {
		if !s.Backup {
			return
		}
	}
	switch {
	case d.incomplete(b):
	case len(u.servers) == 0:
		d.errorf(b.headerAt, fmt.Sprintf("upstream %q has no server", u.Name), `Add at least one: server "10.0.0.11:5432" {}`)
	default:
		d.errorf(b.headerAt, fmt.Sprintf("upstream %q has only backup servers", u.Name),
			"A backup is used when no other server can be: remove backup = true from at least one of the %d.", len(u.servers))
	}
}

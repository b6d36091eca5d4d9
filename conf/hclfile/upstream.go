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
	},
	blocks: []*block{balanceBlock, serverBlock},
	later: []string{
		"server_file", "health_check", "exactly_one", "on_state", "outlier_detection",
		"panic_threshold", "queue", "circuit_breaker", "adaptive_limit",
	},
}

// declaredUpstream is an upstream with the places its parts were written at.
type declaredUpstream struct {
	conf.Upstream
	nameAt, congestionAt hcl.Range
	balance              *body // nil = none in the file
	servers              []declaredServer
	named                map[string]int // index of the first server of each name
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
	u := declaredUpstream{Upstream: conf.NewUpstream(name), nameAt: b.labelAt, congestionAt: b.valueRange("congestion"), named: map[string]int{}}
	d.congestion(b, &u.Congestion)
	for _, s := range b.each(serverBlock) {
		d.server(s, &u)
	}
	if m := b.one(balanceBlock); m != nil {
		d.balance(m, &u)
	}
	d.checkServers(b, &u)
	d.upstreams = append(d.upstreams, u)
}

// checkServers refuses what nginx refuses too: an upstream that has nothing to
// pick from.
func (d *decoder) checkServers(b *body, u *declaredUpstream) {
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

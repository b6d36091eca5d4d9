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

var balanceBlock = &block{
	name:   "balance",
	label:  "method",
	header: `balance "round_robin" {}`,
	single: true,
}

// methods are the balancing methods that are built; laterMethods those that
// the language has beside them.
var (
	methods      = []string{conf.BalanceRoundRobin}
	laterMethods = []string{
		"weighted_round_robin", "least_conn", "least_time", "hash", "ip_hash", "maglev",
		"random", "epsilon_greedy", "first", "single",
	}
	// foreignMethods are other people's names for them.
	foreignMethods = map[string]string{
		"roundrobin":        "round_robin",
		"static-rr":         "round_robin",
		"rr":                "round_robin",
		"wrr":               "weighted_round_robin",
		"leastconn":         "least_conn",
		"least_connections": "least_conn",
		"least_request":     "least_conn",
		"source":            "ip_hash",
		"source_hash":       "ip_hash",
		"ring_hash":         "hash",
		"power_of_two":      "random",
	}
)

// declaredUpstream is an upstream with the places its parts were written at.
type declaredUpstream struct {
	conf.Upstream
	nameAt  hcl.Range
	servers []declaredServer
	named   map[string]int // index of the first server of each name
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
	u := declaredUpstream{Upstream: conf.NewUpstream(name), nameAt: b.labelAt, named: map[string]int{}}
	d.congestion(b, &u.Congestion)
	if m := b.one(balanceBlock); m != nil {
		d.method(m, &u.Balance)
	}
	for _, s := range b.each(serverBlock) {
		d.server(s, &u)
	}
	d.checkServers(b, &u)
	d.upstreams = append(d.upstreams, u)
}

func (d *decoder) method(b *body, into *string) {
	name := b.label
	if ours, ok := foreignMethods[name]; ok {
		d.errorf(b.labelAt, fmt.Sprintf("unknown balancing method %q", name), "It is called %q here.%s", ours, laterSuffix(ours, laterMethods))
		return
	}
	switch near := nearest(name, append(methods[:len(methods):len(methods)], laterMethods...)); {
	case contains(methods, name):
		*into = name
	case contains(laterMethods, name):
		d.notBuilt(b.labelAt, name, "among the balancing methods")
	case near != "":
		d.errorf(b.labelAt, fmt.Sprintf("unknown balancing method %q", name), "Write %q.%s", near, laterSuffix(near, laterMethods))
	default:
		d.errorf(b.labelAt, fmt.Sprintf("unknown balancing method %q", name), "Write %s.", oneOf(methods))
	}
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

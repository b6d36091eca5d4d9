package hclfile

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/weirlb/weir/conf"
)

// lintQueue warns of a queue in which nobody ever waits. What servers a
// server_file will bring is not known here.
func (d *decoder) lintQueue(u *declaredUpstream) {
	if u.Queue == nil || u.Limit != nil || u.ServerFile != "" || slices.ContainsFunc(u.Servers, func(s conf.Server) bool { return s.MaxConns > 0 }) {
		return
	}
	d.warn(u.queue.headerAt, fmt.Sprintf("nobody ever waits in the queue of upstream %q", u.Name),
		"Sessions wait while every server has its max_conns, or an adaptive_limit is reached, and the upstream has neither. Write max_conns in each server block, an adaptive_limit block, or remove the queue.", related{})
}

// lintOverload warns of what a listener does for the case of overload and what
// its upstream leaves without effect.
func (d *decoder) lintOverload(l *declaredListener) {
	u := d.upstreamNamed(l.Upstream)
	if u == nil {
		return
	}
	if (l.priorityAt != hcl.Range{}) && u.Queue == nil && u.Limit == nil {
		d.warn(l.priorityAt, "priority has no effect",
			fmt.Sprintf("It says who waits less, and nobody waits for upstream %q: it has neither a queue nor an adaptive_limit block.", u.Name), related{u.nameAt, "the upstream is here"})
	}
	d.lintTurns(l, u)
	d.lintBackoff(l, u)
	d.lintHedge(l, u)
}

// lintTurns warns of limits that follow turns where the two sides do not take
// turns.
func (d *decoder) lintTurns(l *declaredListener, u *declaredUpstream) {
	if u.Limit == nil || u.Limit.Measure != conf.MeasureTurn || (l.profileAt == hcl.Range{}) {
		return
	}
	why := ""
	switch l.Profile {
	case conf.ProfileMQTT, conf.ProfileAMQP, conf.ProfileNATS:
		why = "servers send by themselves what is published, and most of what clients send is not answered"
	case conf.ProfileKafka:
		why = "clients send their next requests before they have an answer, and a fetch waits for news on purpose"
	default:
		return
	}
	d.warn(l.profileAt, fmt.Sprintf("the adaptive_limit of upstream %q follows turns, which %s has not", u.Name, l.Profile),
		fmt.Sprintf("A turn is what a client sends and the server's next byte after it, but %s. Write measure = \"connect\" with apply_to = \"session\", or max_conns.", why), related{u.nameAt, "the upstream is here"})
}

func (d *decoder) lintBackoff(l *declaredListener, u *declaredUpstream) {
	const first = 3 // the first attempt that waits
	n := l.NextUpstream
	if n.Backoff == conf.Off {
		return
	}
	at := l.nextUpstream.nameRange("backoff")
	switch {
	case alone(&u.Upstream):
		d.warn(at, "backoff has no effect with a single server", fmt.Sprintf("Upstream %q has no other server to try. Remove the line, or add a server.", u.Name), related{})
	case n.Tries > 0 && n.Tries < first:
		d.warn(at, fmt.Sprintf("backoff has no effect with tries = %d", n.Tries), fmt.Sprintf("The first wait is before attempt %d: the second goes to another server at once.", first), related{l.nextUpstream.valueRange("tries"), "tries is set here"})
	}
}

func (d *decoder) lintHedge(l *declaredListener, u *declaredUpstream) {
	switch {
	case l.Hedge == nil:
	case alone(&u.Upstream):
		d.warn(l.hedge.headerAt, "hedge has no effect with a single server", fmt.Sprintf("Upstream %q has no other server to try. Remove the block, or add a server.", u.Name), related{})
	case l.Hedge.After >= l.ConnectTimeout:
		d.warn(l.hedge.valueRange("after"), fmt.Sprintf("hedge after %s comes too late", conf.FormatDuration(l.Hedge.After)),
			fmt.Sprintf("The first attempt has been given up by then: connect_timeout is %s. Write a shorter time, or a percentile such as \"p95\".", conf.FormatDuration(l.ConnectTimeout)), related{})
	}
}

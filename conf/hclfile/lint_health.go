package hclfile

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/weirlb/weir/conf"
)

// lintHealth warns of what checks do to servers, and of what they can't tell.
func (d *decoder) lintHealth(u *declaredUpstream) {
	for _, c := range u.checks {
		if c.Timeout > c.Interval {
			d.warn(c.timeAt(), fmt.Sprintf("a check may take %s and is due every %s", conf.FormatDuration(c.Timeout), conf.FormatDuration(c.Interval)),
				"The next one waits for the one before it, so that a server that does not answer is judged more slowly than interval says. Write a timeout of at most interval.", related{})
		}
	}
	d.lintBareChecks(u)
	asksRole := slices.ContainsFunc(u.Checks, func(h conf.HealthCheck) bool { return h.Role != conf.AnyRole })
	if u.ExactlyOne && !asksRole {
		d.warn(u.exactlyOneAt, fmt.Sprintf("exactly_one in upstream %q asks no server for its role", u.Name),
			"No health check has a role, so that any eligible server may be the one: it is kept until it is no longer eligible, and then another takes its place. To follow the primary of a database, write role = \"primary\" in a check of it.", related{})
	}
}

// timeAt is where the file says how long a check may take.
func (c *declaredCheck) timeAt() hcl.Range {
	if c.isSet("timeout") {
		return c.valueRange("timeout")
	}
	return c.valueRange("interval")
}

// bareChecks says what a connect without a word does to the servers at these
// ports, and what to write.
var bareChecks = map[uint16]string{
	5432: `PostgreSQL starts a process for each, and may log it. Write health_check "postgres" {}, which asks a question and says goodbye; with user and role it tells the primary from replicas.`,
	3306: `MySQL counts it as an error, and after max_connect_errors of them it blocks this host (error 1129), clients' sessions and all. Write health_check "mysql" { user = "weir" }, which logs in and says goodbye.`,
}

// lintBareChecks warns of checks that connect and say nothing to servers that
// take it amiss.
func (d *decoder) lintBareChecks(u *declaredUpstream) {
	for i, h := range u.Checks {
		if h.Kind != conf.CheckTCP || h.TLS != nil {
			continue
		}
		for _, s := range u.servers {
			port := s.Address.Port
			if h.Port != 0 {
				port = uint16(h.Port)
			}
			detail, ok := bareChecks[port]
			if !ok {
				continue
			}
			at := d.profileOf(u)
			if u.ownChecks {
				at = u.checks[i].labelAt
			}
			d.warn(at, fmt.Sprintf("a tcp check of port %d connects and says nothing", port), detail, related{s.addressAt, "this server is checked"})
			break
		}
	}
}

// profileOf is where the file sets the profile of an upstream.
func (d *decoder) profileOf(u *declaredUpstream) hcl.Range {
	for _, l := range d.users[u.Name] {
		if l.Profile != conf.NoProfile {
			return l.profileAt
		}
	}
	return u.nameAt
}

// movingKeys says of servers that start slowly what becomes of hash keys.
func movingKeys(c *conf.Config) []string {
	var notes []string
	for _, u := range c.Upstreams {
		if alone(&u) || !slices.Contains([]string{conf.Hash, conf.IPHash, conf.Maglev}, u.Balance.Method) {
			continue
		}
		for _, s := range u.Servers {
			if s.SlowStart != conf.Off {
				notes = append(notes, fmt.Sprintf("upstream %q: with %s, keys of a server that starts slowly are with others for up to %s (slow_start), and come back one by one",
					u.Name, u.Balance.Method, conf.FormatDuration(s.SlowStart)))
				break
			}
		}
	}
	return notes
}

package hclfile

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/weirlb/weir/conf"
)

// lintBalance warns of what a method makes of the servers that it has.
func (d *decoder) lintBalance(u *declaredUpstream) {
	if alone(&u.Upstream) {
		d.lintNoChoice(u)
		return
	}
	d.lintFailureCosts(u)
	switch u.Balance.Method {
	case conf.Hash, conf.Maglev:
		d.lintKey(u)
		d.lintBackups(u)
	case conf.IPHash:
		d.lintIPHash(u)
		d.lintBackups(u)
	case conf.EpsilonGreedy:
		d.lintEpsilon(u)
	case conf.First:
		d.lintWeights(u)
		d.lintFirst(u)
	case conf.Single:
		d.lintWeights(u)
	}
}

// lintNoChoice warns of a method for a single server. Nothing else that
// methods do matters there.
func (d *decoder) lintNoChoice(u *declaredUpstream) {
	if m := u.Balance.Method; m != conf.RoundRobin {
		d.warn(u.balance.labelAt, fmt.Sprintf("%s has nothing to choose from", m),
			fmt.Sprintf("Upstream %q has 1 server, which gets every session. Add a server, or remove the balance block.", u.Name), related{})
	}
}

// twice says what becomes of an address that an upstream has two times.
func twice(b *conf.Balance) string {
	const own = "Each is a peer of its own, with its own failures and its own max_conns."
	switch {
	case b.Method == conf.Hash && b.Consistent:
		return own + " The two share their points on the ring, of which they have as many as the heavier one alone, and take turns with the keys that fall on them, as round robin does. If the server shall get more keys, list it once with a higher weight."
	case b.Method == conf.Maglev:
		return own + " Each has its own share of the table, so that a key stays with one of the two. If the server shall get more keys, one with a higher weight says so."
	case ignoresWeight(b.Method):
		return own
	}
	return own + " If it shall get more sessions, one server with a higher weight says so."
}

func ignoresWeight(method string) bool { return method == conf.First || method == conf.Single }

// lintKey warns of a key that does not tell sessions apart. It is legal, as in
// nginx.
func (d *decoder) lintKey(u *declaredUpstream) {
	for _, p := range u.Balance.Key {
		both := p.Variable == conf.VarProtocol && len(d.protocolsOf(u.Name)) > 1
		if p.Variable != "" && !slices.Contains(sameForAll, p.Variable) || both {
			return
		}
	}
	detail := fmt.Sprintf("Upstream %q has %s, and one gets every session.", u.Name, size(u))
	switch text := u.Balance.Key.String(); {
	case isVariable(text):
		detail += fmt.Sprintf(" The text is not the variable: write key = \"${%s}\"", text)
	case withBraces(text) != text:
		detail += fmt.Sprintf(" Variables are written with braces: key = \"%s\"", withBraces(text))
	default:
		detail += " For a server for each client, write key = remote_addr"
	}
	d.warn(u.balance.valueRange("key"), "the key is the same for every session", detail, related{})
}

// sameForAll are the variables that have one value in all sessions of an
// upstream, if it is used with one protocol.
var sameForAll = []conf.Variable{conf.VarUpstream, conf.VarProtocol, conf.VarHostname, conf.VarPid}

func (d *decoder) lintIPHash(u *declaredUpstream) {
	d.warn(u.balance.labelAt, "ip_hash gives all clients of an IPv4 /24 to one server",
		fmt.Sprintf("Upstream %q has %s. The method looks at the first three octets of an IPv4 address and at all of an IPv6 one, and all clients of unix sockets are one to it. To tell addresses apart, write balance \"hash\" { key = remote_addr }", u.Name, size(u)), related{})
	d.lintIPHashWeights(u)
}

// lintIPHashWeights warns of servers beyond the hash's range: it is taken
// modulo 6271, and each server has as many numbers as its weight, in order.
func (d *decoder) lintIPHashWeights(u *declaredUpstream) {
	const modulus = 6271
	sum := 0
	for _, s := range u.servers {
		if s.Backup {
			continue
		}
		if sum >= modulus {
			d.warn(s.addressAt, fmt.Sprintf("ip_hash places no client on server %s", s.Name),
				fmt.Sprintf("Its numbers go from 0 to %d, and the weights of the servers before this one add up to %d. Write smaller weights in the same proportion.", modulus-1, sum), related{})
		}
		sum += s.Weight
	}
}

func servers(n int) string {
	if n == 1 {
		return "1 server"
	}
	return fmt.Sprintf("%d servers", n)
}

// size says how many servers an upstream has, as far as that is known.
func size(u *declaredUpstream) string {
	switch {
	case u.ServerFile == "":
		return servers(len(u.servers))
	case len(u.servers) == 0:
		return "the servers of its server_file"
	}
	return servers(len(u.servers)) + " and those of its server_file"
}

// primaries counts the servers that are not backups.
func primaries(u *declaredUpstream) int {
	n := 0
	for _, s := range u.servers {
		if !s.Backup {
			n++
		}
	}
	return n
}

// lintBackups says what becomes of keys when backups take over; nginx refuses
// them after a line with hash.
func (d *decoder) lintBackups(u *declaredUpstream) {
	i := slices.IndexFunc(u.servers, func(s declaredServer) bool { return s.Backup })
	if i < 0 {
		return
	}
	d.warn(u.balance.labelAt, fmt.Sprintf("%s moves all keys at once to the backup servers of upstream %q", u.Balance.Method, u.Name),
		fmt.Sprintf("Primaries: %d, backups: %d. When no primary is eligible for a session, all keys are placed among the backups alone, and they move back when a primary is eligible again. A server without backup = true has its share of the keys at all times.", primaries(u), len(u.servers)-primaries(u)),
		related{u.servers[i].backupAt, "backup is set here"})
}

// lintEpsilon warns of the two ends of the range.
func (d *decoder) lintEpsilon(u *declaredUpstream) {
	at := u.balance.valueRange("epsilon")
	switch u.Balance.Epsilon {
	case 0:
		// See stream/balance: one sample is forgotten after three half-lives.
		d.warn(at, "epsilon = 0 never explores",
			fmt.Sprintf("A server that did badly gets no session until what is known of it has faded, for one sample after 3 half_life = %s, and one that has got better is not found out about. Write a small share, such as epsilon = 0.1", conf.FormatDuration(3*u.Balance.HalfLife)), related{})
	case 1:
		d.warn(at, "epsilon = 1 uses nothing of what it learns",
			`Every session explores: servers are drawn by weight, as balance "random" {} does. Write a small share, such as epsilon = 0.1`, related{})
	}
}

// lintWeights warns of weights that a method does not look at.
func (d *decoder) lintWeights(u *declaredUpstream) {
	weighted := 0
	var at hcl.Range
	for _, s := range u.servers {
		if s.Weight == 1 {
			continue
		}
		if weighted++; weighted == 1 {
			at = s.weightAt
		}
	}
	if weighted > 0 {
		d.warn(at, fmt.Sprintf("weight has no effect with %s", u.Balance.Method),
			fmt.Sprintf("Only the order of the servers counts. Upstream %q has %s with a weight: remove it, or use another method.", u.Name, servers(weighted)), related{})
	}
}

// lintFirst warns of servers that first never fills. The last one, and
// backups, may be without a bound.
func (d *decoder) lintFirst(u *declaredUpstream) {
	order := slices.DeleteFunc(slices.Clone(u.servers), func(s declaredServer) bool { return s.Backup || s.Down })
	endless := func(s declaredServer) bool { return s.MaxConns == 0 }
	i := slices.IndexFunc(order, endless)
	last := len(order) - 1
	if i < 0 || i == last || u.ServerFile != "" {
		return
	}
	var names []string
	for _, s := range order[i:last] {
		if endless(s) {
			names = append(names, s.Name)
		}
	}
	const shown = 10
	list := and(names[:min(len(names), shown)])
	if more := len(names) - shown; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	d.warn(order[i].addressAt, fmt.Sprintf("first never fills server %s", order[i].Name),
		fmt.Sprintf("It has no max_conns, so the %d behind it get sessions only while it is unavailable. Each server but the last needs one: write max_conns for %s.", last-i, list), related{})
}

// usesEffectiveWeight reports whether failures change what the method picks
// before max_fails is reached: smooth round robin does that, and the methods
// that decide ties by it.
func usesEffectiveWeight(method string) bool {
	return slices.Contains([]string{conf.RoundRobin, conf.LeastConn, conf.LeastTime}, method)
}

// failureCost is what a failure takes of a server's weight: weight / max_fails
// in whole numbers, as in nginx; see stream/upstream.
func failureCost(s *conf.Server) int { return s.Weight / s.MaxFails }

// lintFailureCosts warns where the arithmetic of failureCost surprises.
// max_fails is 1 unless the file says otherwise.
func (d *decoder) lintFailureCosts(u *declaredUpstream) {
	if !usesEffectiveWeight(u.Balance.Method) {
		return
	}
	for i := range u.servers {
		s := &u.servers[i]
		if s.Weight == 1 || s.MaxFails < 2 {
			continue
		}
		cost, rest := failureCost(&s.Server), s.Weight%s.MaxFails
		switch {
		case cost == 0:
			d.warn(s.maxFailsAt, fmt.Sprintf("a failure of server %s costs it no weight", s.Name),
				fmt.Sprintf("Each failure takes weight / max_fails = %d / %d, which is 0 in whole numbers: until it is unavailable, the server gets all its share. With a weight of %d or more it would get less after each failure.", s.Weight, s.MaxFails, s.MaxFails),
				related{})
		case rest != 0:
			d.warn(s.maxFailsAt, fmt.Sprintf("failures of server %s never cost it all of its weight", s.Name),
				fmt.Sprintf("Each failure takes weight / max_fails = %d / %d, which is %d in whole numbers: %d failures take %d of %d. With a weight of %d they take all.",
					s.Weight, s.MaxFails, cost, s.MaxFails, s.Weight-rest, s.Weight, s.Weight-rest),
				related{})
		}
	}
}

// failureCosts says what a failure of each server costs, where that is less
// than all of its weight and no warning has said it.
func failureCosts(c *conf.Config) []string {
	var notes []string
	for _, u := range c.Upstreams {
		if alone(&u) || !usesEffectiveWeight(u.Balance.Method) {
			continue
		}
		for _, s := range u.Servers {
			if s.Weight > 1 && s.MaxFails > 1 && s.Weight%s.MaxFails == 0 {
				notes = append(notes, fmt.Sprintf("server %s of upstream %q: each failure costs %d of %d", s.Name, u.Name, failureCost(&s), s.Weight))
			}
		}
	}
	return notes
}

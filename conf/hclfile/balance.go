package hclfile

import (
	"fmt"
	"slices"

	"github.com/weirlb/weir/conf"
)

var balanceBlock = &block{
	name:   "balance",
	label:  "method",
	header: `balance "round_robin" {}`,
	single: true,
	attrs:  optionAttributes(),
}

// method is a balancing method, with the options that it takes in the order in
// which they are read.
type method struct {
	name    string
	options []option
	// check refuses options that have no effect beside one another; may be nil.
	check func(b *body, chosen conf.Balance)
}

// option is an attribute of a balance block, and how it is read.
type option struct {
	attribute
	read func(b *body, u *declaredUpstream)
}

// methods is the table of all there is to write in a balance block. No method
// and no option is named anywhere else but in hints and lints.
var methods = []method{
	{name: conf.RoundRobin},
	{name: conf.WeightedRoundRobin},
	{name: conf.LeastConn},
	{name: conf.LeastTime, options: []option{timeOption, inflightOption}},
	{name: conf.Hash, options: []option{keyOption, consistentOption}},
	{name: conf.IPHash},
	{name: conf.Maglev, options: []option{keyOption, tableSizeOption}},
	{name: conf.Random, options: []option{choicesOption, byOption, timeOption, inflightOption}, check: checkRandom},
	{name: conf.EpsilonGreedy, options: []option{epsilonOption, halfLifeOption}},
	{name: conf.First},
	{name: conf.Single, options: []option{failbackOption}},
}

var (
	keyOption        = option{attribute{"key", kindTemplate, `"${remote_addr}"`}, readKey}
	consistentOption = option{attribute{"consistent", kindBool, `true`}, func(b *body, u *declaredUpstream) {
		b.boolean("consistent", &u.Balance.Consistent)
	}}
	tableSizeOption = option{attribute{"table_size", kindNumber, `"auto"`}, readTableSize}
	timeOption      = option{attribute{"time", kindString, `"first_byte"`}, func(b *body, u *declaredUpstream) {
		choose(b, "time", times, nil, &u.Balance.Time)
	}}
	inflightOption = option{attribute{"inflight", kindBool, `true`}, func(b *body, u *declaredUpstream) {
		b.boolean("inflight", &u.Balance.Inflight)
	}}
	choicesOption = option{attribute{"choices", kindNumber, `2`}, func(b *body, u *declaredUpstream) {
		b.number("choices", 1, 2, &u.Balance.Choices)
	}}
	byOption = option{attribute{"by", kindString, `"least_time"`}, func(b *body, u *declaredUpstream) {
		choose(b, "by", comparisons, nil, &u.Balance.By)
	}}
	epsilonOption = option{attribute{"epsilon", kindRatio, `0.1`}, func(b *body, u *declaredUpstream) {
		b.ratio("epsilon", &u.Balance.Epsilon)
	}}
	halfLifeOption = option{attribute{"half_life", kindDuration, `"10s"`}, func(b *body, u *declaredUpstream) {
		b.duration("half_life", never, &u.Balance.HalfLife)
	}}
	failbackOption = option{attribute{"failback", kindBool, `true`}, func(b *body, u *declaredUpstream) {
		b.boolean("failback", &u.Balance.Failback)
	}}
)

var times = []choice[conf.Time]{
	{"connect", conf.TimeConnect},
	{"first_byte", conf.TimeFirstByte},
	{"last_byte", conf.TimeLastByte},
}

var comparisons = []choice[string]{
	{conf.LeastConn, conf.LeastConn},
	{conf.LeastTime, conf.LeastTime},
}

// optionAttributes lists the options of all methods, each once: the words that
// may stand in a balance block. Which method takes which is seen when the
// block is read, because its label may come from a dynamic block.
func optionAttributes() []attribute {
	var all []attribute
	for _, m := range methods {
		for _, o := range m.options {
			if !slices.ContainsFunc(all, func(a attribute) bool { return a.name == o.name }) {
				all = append(all, o.attribute)
			}
		}
	}
	return all
}

func methodNamed(name string) *method {
	i := slices.IndexFunc(methods, func(m method) bool { return m.name == name })
	if i < 0 {
		return nil
	}
	return &methods[i]
}

func methodNames() []string {
	var names []string
	for _, m := range methods {
		names = append(names, m.name)
	}
	return names
}

func (m *method) takes(name string) bool {
	return slices.ContainsFunc(m.options, func(o option) bool { return o.name == name })
}

// balance reads a balance block. The upstream's servers are known by then.
func (d *decoder) balance(b *body, u *declaredUpstream) {
	m := d.method(b)
	if m == nil {
		return // there is no telling which options it would take
	}
	u.balance, u.Balance = b, conf.DefaultBalance(m.name)
	for _, a := range b.schema.attrs {
		if written, ok := b.attrs[a.name]; ok && !m.takes(a.name) {
			d.errorf(written.NameRange, fmt.Sprintf("%s has no option %q", m.name, a.name), "%s", m.whose(a.name))
		}
	}
	for _, o := range m.options {
		o.read(b, u)
	}
	if m.check != nil {
		m.check(b, u.Balance)
	}
}

// method finds the method that a block names, or the one that is meant by a
// wrong name, so that the options are looked at too; nil if there is none.
func (d *decoder) method(b *body) *method {
	if m := methodNamed(b.label); m != nil {
		return m
	}
	summary := fmt.Sprintf("unknown balancing method %q", b.label)
	if m, example := translateMethod(b.label); m != nil {
		d.errorf(b.labelAt, summary, "%s", example)
		return m
	}
	d.errorf(b.labelAt, summary, "%s", instead(b.label, methodNames()))
	return methodNamed(nearest(b.label, methodNames()))
}

// whose says which methods an option belongs to, and what this one takes.
func (m *method) whose(option string) string {
	var owners, own []string
	for _, other := range methods {
		if other.takes(option) {
			owners = append(owners, other.name)
		}
	}
	for _, o := range m.options {
		own = append(own, o.name)
	}
	if len(own) == 0 {
		return fmt.Sprintf("%q belongs to %s; %q has no options.", option, and(owners), m.name)
	}
	return fmt.Sprintf("%q belongs to %s; %q takes %s.", option, and(owners), m.name, and(own))
}

func readKey(b *body, u *declaredUpstream) {
	key, at, ok := b.template("key")
	switch {
	case !ok && b.label != u.Balance.Method:
		// What to write for the wrong name has a key already.
	case !ok:
		b.require("key", fmt.Sprintf("%s needs a key", u.Balance.Method),
			"Say what of a session places it: key = remote_addr, or several parts as a text: key = \"${remote_addr}:${server_port}\"")
	case len(key) == 0:
		b.d.errorf(at, "key is empty", "Say what of a session places it: key = remote_addr")
	}
	u.Balance.Key = key
}

// readTableSize reads the size of a maglev table. A prime lets each server
// walk over all slots of the table, whatever its step.
func readTableSize(b *body, u *declaredUpstream) {
	const name = "table_size"
	n := 0
	b.numberOrAuto(name, 2, conf.MaxTableSize, &n)
	u.Balance.TableSize = n
	at := b.valueRange(name)
	switch prime := nextPrime(max(n, len(u.servers))); {
	case n == 0:
	case n < len(u.servers):
		b.d.errorf(at, fmt.Sprintf("table_size is less than the number of servers, %d", len(u.servers)),
			"Each server needs a place in the table: write a prime from %d to %d, at best a hundred times the number of servers, or \"auto\".", prime, conf.MaxTableSize)
	case n != prime:
		b.d.errorf(at, fmt.Sprintf("table_size = %d is not a prime", n), "Write %d, the next one, or \"auto\".", prime)
	}
}

// nextPrime is the least prime that is not less than n.
func nextPrime(n int) int {
	for n = max(n, 2); !isPrime(n); {
		n++
	}
	return n
}

func isPrime(n int) bool {
	for d := 2; d*d <= n; d++ {
		if n%d == 0 {
			return false
		}
	}
	return n >= 2
}

// checkRandom refuses options that the others leave without effect. It says
// nothing about values that were refused themselves.
func checkRandom(b *body, chosen conf.Balance) {
	if b.unclear("choices") || b.unclear("by") {
		return
	}
	if at := b.nameRange("by"); chosen.Choices != 2 && b.isSet("by") {
		b.d.errorf(at, "by has no effect with choices = 1", "It compares two servers: write choices = 2 too, or remove by.")
	}
	if chosen.By == conf.LeastTime {
		return
	}
	for _, name := range []string{"time", "inflight"} {
		if b.isSet(name) {
			b.d.errorf(b.nameRange(name), fmt.Sprintf("%s has no effect without by = %q", name, conf.LeastTime),
				"Random looks at times only to compare two servers by them: write choices = 2 and by = %q too, or remove %s.", conf.LeastTime, name)
		}
	}
}

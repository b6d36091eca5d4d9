package hclfile

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/weirlb/weir/conf"
)

var healthCheckBlock = &block{
	name:   "health_check",
	label:  "kind",
	header: `health_check "tcp" {`,
	attrs:  checkAttributes(),
	blocks: []*block{checkTLSBlock, stepBlock},
}

// checkKind is a kind of health check, with the options that it takes beside
// those that all take, in the order in which they are read.
type checkKind struct {
	name    conf.CheckKind
	options []checkOption
	// check refuses what does not go together; may be nil.
	check func(b *body, h *conf.HealthCheck)
}

// checkOption is an attribute or a kind of block in a health_check block, and
// how it is read.
type checkOption struct {
	attribute
	block *block // nil = it is an attribute
	read  func(b *body, h *conf.HealthCheck)
}

// checkKinds is the table of all there is to write in a health_check block. No
// kind and no option is named anywhere else but in hints and lints.
var checkKinds = []checkKind{
	{name: conf.CheckTCP, options: []checkOption{tlsOption}},
	{name: conf.CheckTLS, options: []checkOption{tlsOption}},
	{name: conf.CheckHTTP, options: []checkOption{methodOption, pathOption, hostOption, statusOption, bodyOption, tlsOption}},
	{name: conf.CheckSendExpect, options: []checkOption{stepOption, tlsOption}, check: checkSteps},
	{name: conf.CheckPostgres, options: []checkOption{roleOption, maxLagOption, userOption, passwordOption, databaseOption, tlsOption}, check: checkLogin},
	{name: conf.CheckMySQL, options: []checkOption{roleOption, maxLagOption, userOption, passwordOption, galeraOption, tlsOption}, check: checkMySQL},
	{name: conf.CheckRedis, options: []checkOption{roleOption, maxLagOption, userOption, passwordOption, tlsOption}, check: checkReplica},
	{name: conf.CheckAMQP, options: []checkOption{userOption, passwordOption, vhostOption, tlsOption}, check: checkAMQP},
	{name: conf.CheckMQTT, options: []checkOption{userOption, passwordOption, tlsOption}, check: checkLogin},
	{name: conf.CheckNATS, options: []checkOption{userOption, passwordOption, tlsOption}, check: checkLogin},
	{name: conf.CheckKafka, options: []checkOption{userOption, passwordOption, tlsOption}, check: checkLogin},
	{name: conf.CheckUDP, options: []checkOption{stepOption}, check: checkDatagramSteps},
}

// commonOptions are those of every kind.
var commonOptions = []checkOption{
	{attribute: attribute{"interval", kindDuration, `"2s"`}, read: func(b *body, h *conf.HealthCheck) {
		b.duration("interval", never, &h.Interval)
	}},
	{attribute: attribute{"timeout", kindDuration, `"1s"`}, read: func(b *body, h *conf.HealthCheck) {
		b.duration("timeout", never, &h.Timeout)
	}},
	{attribute: attribute{"rise", kindNumber, `2`}, read: func(b *body, h *conf.HealthCheck) {
		b.number("rise", 1, maxInARow, &h.Rise)
	}},
	{attribute: attribute{"fall", kindNumber, `3`}, read: func(b *body, h *conf.HealthCheck) {
		b.number("fall", 1, maxInARow, &h.Fall)
	}},
	{attribute: attribute{"initial", kindString, `"unknown"`}, read: func(b *body, h *conf.HealthCheck) {
		choose(b, "initial", initials, nil, &h.Initial)
	}},
	{attribute: attribute{"port", kindNumber, `8080`}, read: func(b *body, h *conf.HealthCheck) {
		b.number("port", 0, 65535, &h.Port)
	}},
}

var (
	tlsOption    = checkOption{attribute: attribute{name: "tls"}, block: checkTLSBlock, read: readCheckTLS}
	stepOption   = checkOption{attribute: attribute{name: "step"}, block: stepBlock, read: readSteps}
	methodOption = checkOption{attribute: attribute{"method", kindString, `"GET"`}, read: readMethod}
	pathOption   = checkOption{attribute: attribute{"path", kindString, `"/health"`}, read: readPath}
	hostOption   = checkOption{attribute: attribute{"host", kindString, `"www.example"`}, read: readHost}
	statusOption = checkOption{attribute: attribute{"status", kindList, `["200-399"]`}, read: readStatus}
	bodyOption   = checkOption{attribute: attribute{"body", kindString, `"\"status\": *\"ok\""`}, read: func(b *body, h *conf.HealthCheck) {
		b.pattern("body", &h.Body)
	}}
	roleOption   = checkOption{attribute: attribute{"role", kindString, `"primary"`}, read: readRole}
	maxLagOption = checkOption{attribute: attribute{"max_lag", kindDuration, `"5s"`}, read: func(b *body, h *conf.HealthCheck) {
		b.duration("max_lag", orOff, &h.MaxLag)
	}}
	userOption     = checkOption{attribute: attribute{"user", kindString, `"weir"`}, read: readUser}
	passwordOption = checkOption{attribute: attribute{"password", kindString, `file("/etc/weir/check.password")`}, read: func(b *body, h *conf.HealthCheck) {
		if text, _, ok := b.text("password"); ok {
			h.Password = text
		}
	}}
	databaseOption = checkOption{attribute: attribute{"database", kindString, `"postgres"`}, read: func(b *body, h *conf.HealthCheck) {
		b.filled("database", &h.Database)
	}}
	vhostOption = checkOption{attribute: attribute{"vhost", kindString, `"/"`}, read: func(b *body, h *conf.HealthCheck) {
		b.filled("vhost", &h.VHost)
	}}
	galeraOption = checkOption{attribute: attribute{"galera", kindBool, `true`}, read: func(b *body, h *conf.HealthCheck) {
		b.boolean("galera", &h.Galera)
	}}
)

var initials = []choice[conf.Initial]{{"unknown", conf.InitialUnknown}, {"up", conf.InitialUp}}

var roles = []choice[conf.Role]{{"primary", conf.Primary}, {"replica", conf.Replica}, {"any", conf.AnyRole}}

// checkAttributes lists the attributes of all kinds, each once: the words that
// may stand in a health_check block. Which kind takes which is seen when the
// block is read, because its label may come from a dynamic block.
func checkAttributes() []attribute {
	var all []attribute
	add := func(options []checkOption) {
		for _, o := range options {
			if o.block == nil && !slices.ContainsFunc(all, func(a attribute) bool { return a.name == o.name }) {
				all = append(all, o.attribute)
			}
		}
	}
	add(commonOptions)
	for _, k := range checkKinds {
		add(k.options)
	}
	return all
}

func checkKindNamed(name string) *checkKind {
	i := slices.IndexFunc(checkKinds, func(k checkKind) bool { return string(k.name) == name })
	if i < 0 {
		return nil
	}
	return &checkKinds[i]
}

func checkKindNames() []string {
	var names []string
	for _, k := range checkKinds {
		names = append(names, string(k.name))
	}
	return names
}

// all lists the options of the kind, those of every kind first.
func (k *checkKind) all() []checkOption { return slices.Concat(commonOptions, k.options) }

func (k *checkKind) takes(name string) bool {
	return slices.ContainsFunc(k.all(), func(o checkOption) bool { return o.name == name })
}

// declaredCheck is a health check with its block.
type declaredCheck struct {
	conf.HealthCheck
	*body
}

// healthCheck reads a health_check block.
func (d *decoder) healthCheck(b *body, u *declaredUpstream) {
	u.ownChecks = true
	k := d.checkKind(b)
	if k == nil {
		return // there is no telling which options it would take
	}
	for _, a := range b.schema.attrs {
		if written, ok := b.attrs[a.name]; ok && !k.takes(a.name) {
			d.errorf(written.NameRange, fmt.Sprintf("%s checks have no option %q", k.name, a.name), "%s", k.whose(a.name))
		}
	}
	for _, c := range b.blocks {
		if !k.takes(c.Type) {
			d.errorf(c.TypeRange, fmt.Sprintf("%s checks have no %s block", k.name, c.Type), "%s", k.whose(c.Type))
		}
	}
	h := conf.NewHealthCheck(k.name)
	for _, o := range k.all() {
		o.read(b, &h)
	}
	if k.check != nil {
		k.check(b, &h)
	}
	u.Checks = append(u.Checks, h)
	u.checks = append(u.checks, declaredCheck{h, b})
}

// checkKind finds the kind that a block names, or the one that is meant by a
// wrong name, so that the options are looked at too; nil if there is none.
func (d *decoder) checkKind(b *body) *checkKind {
	if k := checkKindNamed(b.label); k != nil {
		return k
	}
	summary := fmt.Sprintf("unknown kind of health check %q", b.label)
	if name, detail := translateCheckKind(b.label); detail != "" {
		d.errorf(b.labelAt, summary, "%s", detail)
		return checkKindNamed(string(name))
	}
	d.errorf(b.labelAt, summary, "%s", instead(b.label, checkKindNames()))
	return checkKindNamed(nearest(b.label, checkKindNames()))
}

// whose says which kinds an option belongs to, and what this one takes.
func (k *checkKind) whose(option string) string {
	var owners, own []string
	for _, other := range checkKinds {
		if other.takes(option) {
			owners = append(owners, string(other.name))
		}
	}
	for _, o := range k.all() {
		own = append(own, o.name)
	}
	return fmt.Sprintf("%q belongs to %s; %q takes %s.", option, and(owners), k.name, and(own))
}

// filled reads a text that may not be empty.
func (b *body) filled(name string, into *string) {
	text, at, ok := b.text(name)
	switch {
	case !ok:
	case text == "":
		b.d.errorf(at, name+" is empty", "Remove it, or write one: %s = %s", name, b.schema.attr(name).example)
	default:
		*into = text
	}
}

// httpToken is what a method is made of (RFC 9110, section 5.6.2).
var httpToken = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

func readMethod(b *body, h *conf.HealthCheck) {
	text, at, ok := b.text("method")
	switch upper := strings.ToUpper(text); {
	case !ok:
	case !httpToken.MatchString(text):
		b.d.errorf(at, fmt.Sprintf("method can't be %q", text), `Write a method of HTTP, such as "GET" or "HEAD".`)
	case text != upper:
		b.d.errorf(at, fmt.Sprintf("method can't be %q", text), "Methods of HTTP are in capitals: write %q.", upper)
	default:
		h.Method = text
	}
}

// visible matches what may stand in a line of an HTTP request without ending a
// part of it.
var visible = regexp.MustCompile(`^[!-~]+$`)

func readPath(b *body, h *conf.HealthCheck) {
	text, at, ok := b.text("path")
	switch {
	case !ok:
	case strings.Contains(text, "://"):
		b.d.errorf(at, fmt.Sprintf("path can't be %q", text), `Write what follows the host, such as "/health", and the host in host.`)
	case !strings.HasPrefix(text, "/"):
		b.d.errorf(at, fmt.Sprintf("path can't be %q", text), "It begins with a slash: write %s.", quote("/"+text))
	case !visible.MatchString(text):
		b.d.errorf(at, fmt.Sprintf("path can't be %q", text), "Spaces and letters beyond ASCII are written with percent signs, as in \"/a%%20b\".")
	default:
		h.Path = text
	}
}

func readHost(b *body, h *conf.HealthCheck) {
	text, at, ok := b.text("host")
	switch {
	case !ok:
	case !visible.MatchString(text) || strings.Contains(text, "/"):
		b.d.errorf(at, fmt.Sprintf("host can't be %q", text), `Write what stands in the Host header, such as "www.example" or "www.example:8080".`)
	default:
		h.Host = text
	}
}

var (
	statusForm  = regexp.MustCompile(`^([1-5]\d\d)(?:-([1-5]\d\d))?$`)
	statusClass = regexp.MustCompile(`^([1-5])(?i:xx|\*\*?)$`)
)

func readStatus(b *body, h *conf.HealthCheck) {
	list, at, ok := b.list("status")
	if !ok {
		return
	}
	if len(list) == 0 {
		b.d.errorf(at, "status is empty", `Write which statuses are good: status = ["200-399"]`)
		return
	}
	h.Status = nil
	for _, it := range list {
		m := statusForm.FindStringSubmatch(it.text)
		if m == nil {
			detail := `Write a status of HTTP, such as "200", or a range of them, such as "200-399".`
			if class := statusClass.FindStringSubmatch(it.text); class != nil {
				detail = fmt.Sprintf("Write \"%s00-%s99\".", class[1], class[1])
			}
			b.d.errorf(it.at, fmt.Sprintf("status can't be %q", it.text), "%s", detail)
			continue
		}
		from, _ := strconv.Atoi(m[1])
		to := from
		if m[2] != "" {
			to, _ = strconv.Atoi(m[2])
		}
		if to < from {
			b.d.errorf(it.at, fmt.Sprintf("status range %q ends before it starts", it.text), "Write \"%d-%d\".", to, from)
			continue
		}
		h.Status = append(h.Status, conf.StatusRange{From: from, To: to})
	}
}

// foreignRoles are other words for what servers are to one another.
var foreignRoles = map[string]string{
	"master": "primary", "leader": "primary", "writer": "primary", "write": "primary", "read_write": "primary", "rw": "primary",
	"slave": "replica", "standby": "replica", "secondary": "replica", "follower": "replica", "reader": "replica", "read": "replica", "read_only": "replica", "ro": "replica",
}

func readRole(b *body, h *conf.HealthCheck) {
	if v, at, ok := b.value("role"); ok && v.Type() == cty.String {
		if ours := foreignRoles[normalized(v.AsString())]; ours != "" {
			b.d.errorf(at, fmt.Sprintf("role can't be %q", v.AsString()), "Write %q.", ours)
			return
		}
	}
	choose(b, "role", roles, nil, &h.Role)
}

func readUser(b *body, h *conf.HealthCheck) { b.filled("user", &h.User) }

// checkLogin refuses what can't be asked without a login.
func checkLogin(b *body, h *conf.HealthCheck) {
	checkReplica(b, h)
	if h.User != "" || b.unclear("user") || b.d.incomplete(b) {
		return
	}
	for _, needs := range []struct {
		name string
		set  bool
		why  string
	}{
		{"role", h.Role != conf.AnyRole, "Which role a server has is asked in a session"},
		{"max_lag", h.MaxLag != conf.Off, "How far a server lags behind is asked in a session"},
		{"password", h.Password != "", "The password belongs to a login"},
		{"database", h.Kind == conf.CheckPostgres && b.isSet("database"), "Without a login the check asks for no database"},
	} {
		if needs.set {
			b.d.errorf(b.nameRange(needs.name), needs.name+" needs a user", `%s: write user = "weir" too, or remove %s.`, needs.why, needs.name)
		}
	}
}

// checkReplica refuses a lag of anything but a replica.
func checkReplica(b *body, h *conf.HealthCheck) {
	if h.MaxLag != conf.Off && h.Role != conf.Replica && !b.unclear("role") && !b.d.incomplete(b) {
		b.d.errorf(b.nameRange("max_lag"), "max_lag is for replicas", `With role = %q it would never be looked at: write role = "replica" too, or remove max_lag.`, h.Role)
	}
}

func checkMySQL(b *body, h *conf.HealthCheck) {
	if h.User == "" {
		b.require("user", "a mysql check needs a user",
			`MySQL counts each connect without a login as an error, and after max_connect_errors of them it blocks this host (error 1129): a check without a login would take the server away from its clients. Make a user that may do nothing (CREATE USER weir IDENTIFIED BY '...'; for max_lag GRANT REPLICATION CLIENT, or SLAVE MONITOR in MariaDB, ON *.* TO weir) and write user = "weir".`)
	}
	checkReplica(b, h)
}

func checkAMQP(b *body, h *conf.HealthCheck) {
	if b.isSet("user") && !b.isSet("password") && !b.d.incomplete(b) {
		b.d.errorf(b.nameRange("user"), "user without password", "The password would be that of guest. Write password = %s too.", b.schema.attr("password").example)
	}
}

// checkUnixServers refuses checks that a unix socket can't be asked.
func (d *decoder) checkUnixServers(u *declaredUpstream) {
	for _, c := range u.checks {
		for _, s := range u.servers {
			if !s.Address.IsUnix() {
				continue
			}
			where := related{s.addressAt, "a unix socket"}
			switch {
			case c.Port != 0:
				d.report(c.nameRange("port"), fmt.Sprintf("%s has no port to check", s.Address), "Remove port, or give this server an upstream of its own.", where)
			case c.TLS != nil:
				d.report(c.headerAt, fmt.Sprintf("a check can't speak TLS to %s", s.Address), "Servers take no TLS on their unix sockets. Write a check without it, or give this server an upstream of its own.", where)
			case c.Kind == conf.CheckUDP:
				d.report(c.headerAt, fmt.Sprintf("%s takes no UDP", s.Address), "Write a check of another kind, or give this server an upstream of its own.", where)
			}
			break
		}
	}
}

package hclfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirlb/weir/conf"
)

// foreignKinds are other names for the kinds of health checks: HAProxy's,
// Envoy's, and those of servers.
var foreignKinds = map[string]conf.CheckKind{
	"connect": conf.CheckTCP, "l4": conf.CheckTCP, "port": conf.CheckTCP,
	"ssl": conf.CheckTLS, "ssl_hello": conf.CheckTLS, "ssl_hello_chk": conf.CheckTLS,
	"httpchk": conf.CheckHTTP, "http_check": conf.CheckHTTP, "web": conf.CheckHTTP,
	"tcp_check": conf.CheckSendExpect, "expect": conf.CheckSendExpect, "match": conf.CheckSendExpect,
	"pgsql": conf.CheckPostgres, "postgresql": conf.CheckPostgres, "pg": conf.CheckPostgres, "pgsql_check": conf.CheckPostgres,
	"mariadb": conf.CheckMySQL, "galera": conf.CheckMySQL, "mysql_check": conf.CheckMySQL,
	"valkey": conf.CheckRedis, "keydb": conf.CheckRedis, "redis_check": conf.CheckRedis,
	"rabbitmq": conf.CheckAMQP, "amqp091": conf.CheckAMQP,
	"mosquitto": conf.CheckMQTT, "emqx": conf.CheckMQTT,
	"jetstream": conf.CheckNATS, "redpanda": conf.CheckKafka,
	"dns": conf.CheckUDP,
}

// translateCheckKind says what to write for another name of a kind. The kind
// is "" if there is none like it; the text is "" if the name is not known.
func translateCheckKind(name string) (conf.CheckKind, string) {
	normal := normalized(name)
	if kind, ok := foreignKinds[normal]; ok {
		return kind, fmt.Sprintf("Write health_check %q", kind)
	}
	switch normal {
	case "https":
		return conf.CheckHTTP, `Write health_check "http" with a tls { } block in it.`
	case "exec", "script", "external", "external_check", "agent", "agent_check", "command":
		return "", "Weir starts no program to judge a server. Write the check that the server itself can answer, or have the program write a server_file."
	case "smtp", "smtpchk", "imap", "pop3", "ftp", "ldap", "ldap_check", "memcached":
		return conf.CheckSendExpect, "There is no kind of its own for it. Write health_check \"send_expect\" with the protocol's first words as steps."
	case "ping", "icmp":
		return "", `A machine that answers a ping may have no server. Write health_check "tcp", or the kind of its protocol.`
	case "grpc":
		return conf.CheckHTTP, `There is no kind of its own for it. Write health_check "http" on a port that speaks HTTP/1.1, or "tcp".`
	}
	return "", ""
}

// foreignCheckOptions are words that stand beside a server or a health_check
// directive in nginx and HAProxy, and what they are in a health_check block.
var foreignCheckOptions = map[string]string{
	"interval": "interval", "inter": "interval",
	"timeout": "timeout",
	"passes":  "rise", "rise": "rise",
	"fails": "fall", "fall": "fall",
	"port": "port",
}

// checkBlock writes a health_check block of options as nginx or HAProxy have
// them, names and values.
func checkBlock(kind conf.CheckKind, options [][2]string) string {
	var lines []string
	for _, o := range options {
		name := foreignCheckOptions[o[0]]
		if i := slices.IndexFunc(commonOptions, func(c checkOption) bool { return c.name == name }); i >= 0 && o[1] != "" {
			value := o[1]
			if _, plain := parseNumber(value); plain && o[0] == "inter" {
				value += "ms" // HAProxy's unit for times without one
			}
			lines = append(lines, fmt.Sprintf("  %s = %s", name, asValue(commonOptions[i].kind, value)))
		}
	}
	if len(lines) == 0 {
		return fmt.Sprintf("health_check %q {}", kind)
	}
	return fmt.Sprintf("health_check %q {\n%s\n}", kind, strings.Join(lines, "\n"))
}

// explainHealthCheck translates nginx's health_check directive.
func explainHealthCheck(g func(int) string) (string, string) {
	kind := conf.CheckTCP
	var options [][2]string
	for _, word := range strings.Fields(g(2)) {
		name, value, _ := strings.Cut(word, "=")
		if name == "udp" {
			kind = conf.CheckUDP
		}
		options = append(options, [2]string{name, value})
	}
	return "a health check is a block", "It stands in the upstream block. Write\n" + checkBlock(kind, options)
}

// explainExpect translates nginx's regular expressions in match blocks.
func explainExpect(g func(int) string) (string, string) {
	flags := ""
	if g(2) != "" {
		flags = "(?i)"
	}
	return "equals sign is missing", fmt.Sprintf("A regular expression is written match = \"%s%s\"", flags, g(3))
}

// explainResolver translates nginx's resolver directive.
func explainResolver(g func(int) string) (string, string) {
	var servers []string
	valid := ""
	for _, word := range strings.Fields(g(2)) {
		name, value, isOption := strings.Cut(word, "=")
		switch {
		case name == "valid":
			valid = value
		case isOption:
		default:
			if !strings.Contains(strings.TrimPrefix(word, "["), ":") || strings.HasSuffix(word, "]") {
				word += ":53"
			}
			servers = append(servers, quote(word))
		}
	}
	lines := fmt.Sprintf("resolver {\n  servers = [%s]\n", strings.Join(servers, ", "))
	if valid != "" {
		lines += fmt.Sprintf("  valid = %s\n", asValue(kindDuration, valid))
	}
	return "resolver is a block", "It stands at the top of the file. Write\n" + lines + "}"
}

// explainServer translates the server lines of nginx and HAProxy, with what
// they say about checks, which are blocks of the upstream here.
func explainServer(g func(int) string) (string, string) {
	address := strings.Trim(g(2), `"`)
	options := strings.Fields(g(3))
	if len(options) > 0 && !strings.Contains(address, ":") && strings.Contains(options[0], ":") && !strings.Contains(options[0], "=") {
		address, options = options[0], append([]string{"name=" + address}, options[1:]...)
	}
	var lines, around []string
	var checkOptions [][2]string
	kind := conf.CheckKind("")
	for i := 0; i < len(options); i++ {
		name, value, has := strings.Cut(options[i], "=")
		name = normalized(name)
		beside := func() string {
			if !has && i+1 < len(options) {
				i++
				value = options[i]
			}
			return value
		}
		switch a := serverBlock.attr(name); {
		case name == "service" && has: // nginx: the service's name beside the domain
			if !strings.Contains(value, ".") {
				value = "_" + value + "._tcp"
			}
			address = value + "." + address
			lines = append(lines, "  service = true")
		case name == "slowstart":
			lines = append(lines, "  slow_start = "+asValue(kindDuration, beside()))
		case name == "disabled":
			lines = append(lines, "  down = true")
		case name == "resolvers":
			beside()
			lines = append(lines, "  resolve = true")
		case name == "maxconn":
			lines = append(lines, "  max_conns = "+asValue(kindNumber, beside()))
		case name == "maxqueue":
			around = append(around, "queue {\n  max = "+asValue(kindNumber, beside())+"\n}")
		case name == "check":
			kind = conf.CheckTCP
		case name == "check_ssl":
			kind = conf.CheckTLS
		case name == "on_marked_down":
			if beside() == "shutdown-sessions" {
				around = append(around, "on_state {\n  unhealthy = \"close\"\n}")
			}
		case name == "observe":
			beside()
			around = append(around, "outlier_detection {}")
		case foreignCheckOptions[name] != "":
			checkOptions = append(checkOptions, [2]string{name, beside()})
		case a == nil:
		case a.kind == kindBool:
			if value == "" {
				value = "true"
			}
			lines = append(lines, fmt.Sprintf("  %s = %s", name, asValue(a.kind, value)))
		default:
			lines = append(lines, fmt.Sprintf("  %s = %s", name, asValue(a.kind, beside())))
		}
	}
	if kind == "" && len(checkOptions) > 0 {
		kind = conf.CheckTCP
	}
	if slices.Contains(lines, "  service = true") {
		lines = slices.DeleteFunc(lines, func(l string) bool { return l == "  resolve = true" })
	}
	text := fmt.Sprintf("server %q {}", address)
	if len(lines) > 0 {
		text = fmt.Sprintf("server %q {\n%s\n}", address, strings.Join(lines, "\n"))
	}
	if kind != "" {
		around = append([]string{checkBlock(kind, checkOptions)}, around...)
	}
	switch {
	case len(around) > 0:
		return "a server is a block", fmt.Sprintf("Write\n%s\nand once in the upstream block, for all its servers\n%s", text, strings.Join(around, "\n"))
	case len(lines) == 0:
		return "a server is a block", "Write " + text
	}
	return "a server is a block", "Write\n" + text
}

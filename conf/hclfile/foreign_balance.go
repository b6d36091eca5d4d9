package hclfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirlb/weir/conf"
)

// foreignMethods are other programs' names for the methods: nginx's, HAProxy's,
// Envoy's, those of the Linux Virtual Server, and plain language. Arguments
// follow the method as in nginx.
var foreignMethods = map[string]string{
	"roundrobin": "round_robin",
	"rr":         "round_robin",
	"static_rr":  "weighted_round_robin",
	"wrr":        "weighted_round_robin",

	"leastconn":          "least_conn",
	"least_connection":   "least_conn",
	"least_connections":  "least_conn",
	"least_request":      "least_conn",
	"least_requests":     "least_conn",
	"weighted_leastconn": "least_conn",
	"lc":                 "least_conn",
	"wlc":                "least_conn",
	"sed":                "least_conn",
	"nq":                 "least_conn",
	"leasttime":          "least_time",
	"least_response":     "least_time",
	"ewma":               "least_time",
	"peak_ewma":          "least_time",

	"source":          "hash $remote_addr",
	"source_hash":     "hash $remote_addr",
	"source_ip":       "hash $remote_addr",
	"source_ip_hash":  "hash $remote_addr",
	"sh":              "hash $remote_addr",
	"dh":              "hash $server_addr",
	"hdr":             "hash $remote_addr",
	"uri":             "hash $remote_addr",
	"url_param":       "hash $remote_addr",
	"rdp_cookie":      "hash $remote_addr",
	"consistent":      "hash $remote_addr consistent",
	"consistent_hash": "hash $remote_addr consistent",
	"ketama":          "hash $remote_addr consistent",
	"ring_hash":       "hash $remote_addr consistent",
	"mh":              "maglev $remote_addr",
	"client_ip_hash":  "ip_hash",
	"iphash":          "ip_hash",

	"p2c":           "random two",
	"power_of_two":  "random two",
	"two_choices":   "random two",
	"random_choose": "random two",

	"ovf":            "first",
	"fo":             "single",
	"failover":       "single",
	"active_backup":  "single",
	"active_passive": "single",
	"active_standby": "single",
	"bandit":         "epsilon_greedy",
}

// httpMethods are those of HAProxy that look into HTTP requests and other
// protocols above TCP.
var httpMethods = []string{"hdr", "uri", "url_param", "rdp_cookie"}

// translateMethod finds the method that another program's line means, such as
// "leastconn", "random(2)" or "hash $remote_addr consistent", and says how it
// is written here; nil if there is none.
func translateMethod(line string) (*method, string) {
	words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" =(),;", r) })
	if len(words) == 0 {
		return nil, ""
	}
	name := normalized(words[0])
	args := words[1:]
	reason := ""
	if slices.Contains(httpMethods, name) {
		args, reason = nil, "Weir balances TCP and UDP and looks into no request. "
	}
	if ours, ok := foreignMethods[name]; ok {
		words := strings.Fields(ours)
		name, args = words[0], append(words[1:], args...)
	}
	m := methodNamed(name)
	if m == nil {
		return nil, ""
	}
	return m, reason + "Write" + m.written(args)
}

func normalized(word string) string { return strings.ToLower(strings.ReplaceAll(word, "-", "_")) }

// written is the method as a balance block, after a space or on lines of its
// own, with nginx's arguments as options.
func (m *method) written(args []string) string {
	var options []string
	for _, arg := range args {
		if o := m.argument(arg); o != "" && !slices.Contains(options, o) {
			options = append(options, o)
		}
	}
	if m.takes("key") && !slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(o, "key ") }) {
		options = append([]string{"key = remote_addr"}, options...)
	}
	switch len(options) {
	case 0:
		return fmt.Sprintf(" balance %q {}", m.name)
	case 1:
		return fmt.Sprintf(" balance %q { %s }", m.name, options[0])
	}
	return fmt.Sprintf("\nbalance %q {\n  %s\n}", m.name, strings.Join(options, "\n  "))
}

// argument writes an argument of nginx's directive for the method as an
// option, or "" if it has no meaning here.
func (m *method) argument(arg string) string {
	name, isVariable := strings.CutPrefix(arg, "$")
	switch {
	case m.takes("key") && isVariable && slices.Contains(conf.KeyVariables(), conf.Variable(name)):
		return "key = " + name
	case m.takes("consistent") && arg == "consistent":
		return "consistent = true"
	case m.takes("choices") && (arg == "two" || arg == "2"):
		return "choices = 2"
	case m.takes("by") && (arg == conf.LeastConn || arg == conf.LeastTime):
		return fmt.Sprintf("by = %q", arg)
	case m.takes("time") && (arg == "connect" || arg == "first_byte" || arg == "last_byte"):
		return fmt.Sprintf("time = %q", arg)
	case m.takes("time") && arg == "header": // nginx http
		return `time = "first_byte"`
	case m.takes("inflight") && arg == "inflight":
		return "inflight = true"
	}
	return ""
}

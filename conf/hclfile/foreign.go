package hclfile

import (
	"errors"
	"regexp"
	"strings"
)

// foreignHint says what to write for another program's word. value is the text
// that stood beside it, which goes into the answer if it fits there.
func foreignHint(word, value string) (string, bool) {
	if methodNamed(normalized(word)) != nil { // nginx's directives
		_, example := translateMethod(word + " " + value)
		return "A method is a balance block in the upstream block. " + example, true
	}
	text, ok := foreign[normalized(word)]
	if !ok {
		return "", false
	}
	value = strings.TrimSpace(value)
	if _, number, ok := strings.Cut(value, " "); ok && normalized(word) == "limit_conn" { // behind the name of nginx's zone
		value = number
	}
	value, _, _ = strings.Cut(value, " ")
	if _, plain := parseNumber(value); plain && strings.HasPrefix(normalized(word), "timeout_") {
		value += "ms" // HAProxy's unit for times without one
	}
	if normalized(word) == "proxy_responses" && value == "0" {
		// The one word that both have, with opposite meanings.
		return `Write udp { responses = "none" } in the listener block: nginx's 0 is no answer at all, and responses = 0 any number.`, true
	}
	if value != "" {
		text = strings.ReplaceAll(text, `"NAME"`, quote(strings.Trim(value, `"`)))
		if m := exampleSetting.FindAllStringSubmatchIndex(text, -1); len(m) == 1 {
			name := text[m[0][2]:m[0][3]]
			a := anyAttribute(name)
			if a != nil && fits(a, value) {
				text = text[:m[0][4]] + asValue(a.kind, value) + text[m[0][5]:]
			}
		}
	}
	return sentence(errors.New(strings.TrimSuffix(text, "."))) + ".", true
}

// fits reports whether a value of another program is one of the attribute.
func fits(a *attribute, value string) bool {
	_, isNumber := parseNumber(value)
	switch a.kind {
	case kindDuration:
		return true
	case kindNumber:
		return value[0] != '$'
	case kindRate:
		return isNumber
	case kindByteRate:
		return foreignSize.MatchString(value)
	}
	return a.name == "listen" || a.name == "access"
}

// exampleSetting is the part of an answer that shows a setting.
var exampleSetting = regexp.MustCompile(`(\w+) = ("[^"]*"|\d+|\[[^\]]*\])`)

// foreign translates words of nginx, HAProxy and Envoy: what to write here, as
// the end of a sentence that names the word. Words that are spelled as ours
// but stand in another block are listed only where people mean something else
// by them; words.go finds the others by itself.
var foreign = map[string]string{
	// nginx stream
	"proxy_timeout":               `write idle_timeout = "10m" in the listener block; for UDP, in its udp block`,
	"proxy_requests":              `write udp { requests = 1 } in the listener block`,
	"proxy_responses":             `write udp { responses = 1 } in the listener block; nginx's 0, no answer at all, is "none" here, and 0 is any number`,
	"proxy_connect_timeout":       `write connect_timeout = "3s" in the listener block`,
	"proxy_pass":                  `write upstream = "NAME" in the listener block`,
	"proxy_next_upstream":         `a next_upstream { } block in the listener block sets its bounds; moving on to the next peer is always on`,
	"proxy_next_upstream_tries":   `write next_upstream { tries = 2 } in the listener block`,
	"proxy_next_upstream_timeout": `write next_upstream { timeout = "10s" } in the listener block`,
	"proxy_socket_keepalive":      `write dead_peer_timeout = "30s" in the listener block`,
	"so_keepalive":                `write dead_peer_timeout = "30s" in the listener block`,
	"proxy_half_close":            `half-close is always passed on; half_close_timeout = "1m" in the listener block bounds it`,
	"proxy_buffer_size":           `weir sizes its buffers by itself: remove it`,
	"tcp_nodelay":                 `it is always on: remove it`,
	"reuseport":                   `it is always on: remove it`,
	"backlog":                     `the kernel's net.core.somaxconn is used: remove it`,
	"worker_processes":            `write worker { count = "auto" }`,
	"worker_connections":          `write worker { max_sessions = "auto" }`,
	"worker_rlimit_nofile":        `weir raises the limit by itself: write worker { max_sessions = "auto" }`,
	"worker_shutdown_timeout":     `write worker { shutdown_timeout = "30s" }`,
	"access_log":                  `write log { access = "/var/log/weir/access.log" }`,
	"error_log":                   `write log { level = "info" }; the log goes to standard error`,
	"log_format":                  `write log { fields = ["time", "remote_addr", "status"] }`,
	"stream":                      `listener and upstream blocks stand at the top of the file, with nothing around them`,
	"events":                      `nothing needs to be set: remove it, or see worker { }`,
	"http":                        `weir balances TCP and UDP and reads no HTTP: write a listener block`,

	"zone":                 `all workers share one state of an upstream: remove it`,
	"health_check_timeout": `write timeout = "1s" in the health_check block`,
	"ipv6":                 `addresses of both families are asked for: remove it`,
	"resolver_timeout":     `write timeout = "5s" in the resolver block`,
	"match":                `a check of what a server answers is written health_check "send_expect" { } in the upstream block, with step blocks`,

	// HAProxy
	"global":             `write a worker { } or log { } block`,
	"defaults":           `there are no defaults to inherit: use locals { } for values that repeat`,
	"frontend":           `write listener "NAME" { }`,
	"backend":            `write upstream "NAME" { }`,
	"bind":               `write listen = ["0.0.0.0:5432"] in the listener block`,
	"default_backend":    `write upstream = "NAME" in the listener block`,
	"use_backend":        `write upstream = "NAME" in the listener block`,
	"dgram_bind":         `write protocol = "udp" in the listener block, and the address in listen`,
	"mode":               `write protocol = "tcp", or remove it: tcp is the default`,
	"maxconn":            `write max_conns = 200 in the server block, sessions = 10000 in a limits block of the listener, or max_sessions = 10000 in the worker block`,
	"maxconns":           `write max_conns = 200 in the server block, sessions = 10000 in a limits block of the listener, or max_sessions = 10000 in the worker block`,
	"hash_type":          `write balance "hash" { } with consistent = true in the upstream block`,
	"max_connections":    `write max_sessions = 1000 in a circuit_breaker block of the upstream, or max_conns = 200 in the server block`,
	"nbthread":           `write worker { count = "auto" }`,
	"nbproc":             `write worker { count = "auto" }`,
	"threads":            `write worker { count = "auto" }`,
	"timeout":            `say which one: connect_timeout, idle_timeout, half_close_timeout or dead_peer_timeout in the listener block; a health_check, next_upstream, queue or resolver block has a timeout = "1s" of its own`,
	"timeout_connect":    `write connect_timeout = "3s" in the listener block`,
	"timeout_client":     `write idle_timeout = "10m" in the listener block`,
	"timeout_server":     `write idle_timeout = "10m" in the listener block`,
	"timeout_client_fin": `write half_close_timeout = "1m" in the listener block`,
	"timeout_server_fin": `write half_close_timeout = "1m" in the listener block`,
	"client_timeout":     `write idle_timeout = "10m" in the listener block`,
	"server_timeout":     `write idle_timeout = "10m" in the listener block`,
	"retries":            `write next_upstream { tries = 2 } in the listener block`,
	"option":             `options are attributes here, written NAME = VALUE`,
	"clitcpka":           `write dead_peer_timeout = "30s" in the listener block`,
	"srvtcpka":           `write dead_peer_timeout = "30s" in the listener block`,
	"disabled":           `write down = true in the server block`,
	"hard_stop_after":    `write worker { shutdown_timeout = "30s" }`,

	"resolvers":             `write resolver { servers = ["127.0.0.1:53"] } at the top of the file, and resolve = true in the server block`,
	"nameserver":            `write servers = ["127.0.0.1:53"] in a resolver block`,
	"init_addr":             `names are looked up at start; one that is followed has resolve = true in the server block`,
	"server_template":       `write one server block with resolve = true, or with service = true for SRV records: each of its addresses is a server`,
	"default_server":        `write the settings into each server block, which dynamic "server" makes from a list; what they say of checks stands in a health_check block`,
	"slowstart":             `write slow_start = "30s" in the server block`,
	"check":                 `write health_check "tcp" {} in the upstream block`,
	"checks":                `write health_check "tcp" {} in the upstream block`,
	"check_ssl":             `write health_check "tls" {} in the upstream block`,
	"inter":                 `write interval = "2s" in the health_check block`,
	"fastinter":             `every check waits for interval: remove it`,
	"downinter":             `every check waits for interval: remove it`,
	"timeout_check":         `write timeout = "1s" in the health_check block`,
	"on_marked_down":        `write on_state { unhealthy = "close" } in the upstream block`,
	"on_marked_up":          `write exactly_one = true in the upstream block: the sessions of backups are not closed when a server is back`,
	"observe":               `write outlier_detection {} in the upstream block`,
	"error_limit":           `write outlier_detection { consecutive_failures = 5 } in the upstream block`,
	"on_error":              `write outlier_detection {} in the upstream block`,
	"agent_check":           `weir asks no agent: have it write a server_file, or use weir drain and weir weight`,
	"external_check":        `weir starts no program to judge a server: have it write a server_file, or write a health_check that the server itself can answer`,
	"option_httpchk":        `write health_check "http" { } in the upstream block`,
	"option_tcp_check":      `write health_check "send_expect" { } with step blocks in the upstream block`,
	"option_ssl_hello_chk":  `write health_check "tls" {} in the upstream block`,
	"option_pgsql_check":    `write health_check "postgres" { } in the upstream block`,
	"option_mysql_check":    `write health_check "mysql" { user = "weir" } in the upstream block`,
	"option_redis_check":    `write health_check "redis" {} in the upstream block`,
	"option_smtpchk":        `write health_check "send_expect" { } with step blocks in the upstream block`,
	"option_ldap_check":     `write health_check "send_expect" { } with step blocks in the upstream block`,
	"option_external_check": `weir starts no program to judge a server: have it write a server_file, or write a health_check that the server itself can answer`,
	"option_allbackups":     `all backups take part when they are needed: remove it`,
	"httpchk":               `write health_check "http" { } in the upstream block`,
	"http_check":            `write health_check "http" { } in the upstream block, with method, path, host, status and body in it`,
	"tcp_check":             `write health_check "send_expect" { } in the upstream block, with a step { } for each send and expect`,
	"http_check_expect":     `write status = ["200-399"] or body = "a regular expression" in a health_check "http" block`,
	"http_check_send":       `write method, path and host in a health_check "http" block`,
	"tcp_check_send":        `write step { send = "PING\\r\\n" } in a health_check "send_expect" block`,
	"tcp_check_send_binary": `write step { send_hex = "0d0a" } in a health_check "send_expect" block`,
	"tcp_check_expect":      `write step { expect = "PONG" } or step { match = "a regular expression" } in a health_check "send_expect" block`,
	"tcp_check_connect":     `a health_check "send_expect" block connects by itself; it has port, and tls { }`,

	// Envoy, and plain language
	"cluster":                          `write upstream "NAME" { }`,
	"clusters":                         `write upstream "NAME" { }`,
	"pool":                             `write upstream "NAME" { }`,
	"listeners":                        `write one listener "NAME" { } block for each`,
	"upstreams":                        `write one upstream "NAME" { } block for each`,
	"servers":                          `write one server "HOST:PORT" {} block for each`,
	"endpoint":                         `write server "HOST:PORT" {} in the upstream block`,
	"endpoints":                        `write one server "HOST:PORT" {} block for each in the upstream block`,
	"peer":                             `write server "HOST:PORT" {} in the upstream block`,
	"node":                             `write server "HOST:PORT" {} in the upstream block`,
	"host":                             `write server "HOST:PORT" {} in the upstream block`,
	"lb_policy":                        `a method is written balance "round_robin" {} in the upstream block`,
	"method":                           `a method is written balance "round_robin" {} in the upstream block`,
	"algorithm":                        `a method is written balance "round_robin" {} in the upstream block`,
	"address":                          `write listen = ["0.0.0.0:5432"] in a listener block, or server "10.0.0.11:5432" {} in an upstream block`,
	"port":                             `the port stands with the address: listen = ["0.0.0.0:5432"], or server "10.0.0.11:5432" {}`,
	"concurrency":                      `write worker { count = "auto" }`,
	"workers":                          `write worker { count = "auto" }`,
	"udp_timeout":                      `write udp { idle_timeout = "1m" } in the listener block`,
	"tcp":                              `TCP is what a listener takes unless protocol says something else; its settings stand in the listener block`,
	"drain_timeout":                    `write worker { shutdown_timeout = "30s" }`,
	"drain_time":                       `write worker { shutdown_timeout = "30s" }`,
	"keepalive":                        `write dead_peer_timeout = "30s" in the listener block`,
	"tcp_keepalive":                    `write dead_peer_timeout = "30s" in the listener block`,
	"congestion_control":               `write congestion = "cubic"`,
	"logging":                          `write a log { } block`,
	"variable":                         `write locals { NAME = VALUE } and use local.NAME, or env.NAME for the environment`,
	"health_checks":                    `write one health_check "tcp" {} block for each in the upstream block`,
	"healthcheck":                      `write health_check "tcp" {} in the upstream block`,
	"health":                           `write health_check "tcp" {} in the upstream block`,
	"probe":                            `write health_check "tcp" {} in the upstream block`,
	"check_interval":                   `write interval = "2s" in the health_check block`,
	"check_timeout":                    `write timeout = "1s" in the health_check block`,
	"healthy_threshold":                `write rise = 2 in the health_check block`,
	"unhealthy_threshold":              `write fall = 3 in the health_check block`,
	"success_threshold":                `write rise = 2 in the health_check block`,
	"failure_threshold":                `write fall = 3 in the health_check block`,
	"passes":                           `write rise = 2 in the health_check block`,
	"fails":                            `write fall = 3 in the health_check block`,
	"mandatory":                        `write initial = "unknown" in the health_check block, or nothing: it is the default`,
	"hostname":                         `write host = "www.example" in a health_check "http" block, or server "HOST:PORT" {} in the upstream block`,
	"expected_statuses":                `write status = ["200-399"] in a health_check "http" block`,
	"healthy_panic_threshold":          `write panic_threshold = "30%" in the upstream block`,
	"max_ejection_percent":             `write max_ejection = "50%" in the outlier_detection block`,
	"consecutive_5xx":                  `write consecutive_failures = 5 in the outlier_detection block`,
	"consecutive_gateway_failure":      `write consecutive_failures = 5 in the outlier_detection block`,
	"consecutive_local_origin_failure": `write consecutive_failures = 5 in the outlier_detection block`,
	"slow_start_config":                `write slow_start = "30s" in the server block`,
	"dns_refresh_rate":                 `write resolver { valid = "30s" } at the top of the file`,
	"dns_resolvers":                    `write resolver { servers = ["127.0.0.1:53"] } at the top of the file`,
	"close_connections_on_host_health_failure": `write on_state { unhealthy = "close" } in the upstream block`,
	"include": `a configuration is one file`,

	// what bounds the load, of nginx, HAProxy and Envoy
	"proxy_upload_rate":    `write limits { upload_rate = "10MiB/s" } in the listener block`,
	"proxy_download_rate":  `write limits { download_rate = "10MiB/s" } in the listener block`,
	"limit_rate":           `write limits { download_rate = "10MiB/s" } in the listener block`,
	"limit_conn":           `write limits { sessions_per_client = 100 } in the listener block`,
	"limit_conn_zone":      `a client is its address, or a network of ipv4_prefix and ipv6_prefix bits: write limits { sessions_per_client = 100 } in the listener block`,
	"limit_conn_log_level": `what is refused stands in the access log: remove it`,
	"limit_req":            `weir counts sessions and reads no requests: write limits { accept_rate = "500/s" } in the listener block`,
	"fullconn":             `a limit that follows the load is written adaptive_limit "gradient" { } in the upstream block`,
	"maxqueue":             `write queue { max = 100 } in the upstream block, where all its servers share one queue`,
	"timeout_queue":        `write queue { timeout = "2s" } in the upstream block`,
	"maxconnrate":          `write limits { accept_rate = "500/s" } in the listener block`,
	"maxsessrate":          `write limits { accept_rate = "500/s" } in the listener block`,
	"rate_limit":           `write limits { accept_rate = "500/s" } in the listener block`,
	"rate_limit_sessions":  `write limits { accept_rate = "500/s" } in the listener block`,
	"option_redispatch":    `moving on to the next server is always on; a next_upstream { } block in the listener block sets its bounds`,
	"redispatch":           `moving on to the next server is always on; a next_upstream { } block in the listener block sets its bounds`,
	"retry_on":             `a failed connect is followed by the next server; for one that ends a session before its first byte write next_upstream { before_first_byte = true } in the listener block`,
	"max_connect_attempts": `write next_upstream { tries = 2 } in the listener block`,
	"num_retries":          `write next_upstream { tries = 2 } in the listener block`,
	"retry_back_off":       `write next_upstream { backoff = "25ms" } in the listener block`,
	"max_pending_requests": `write circuit_breaker { max_pending = 200 } in the upstream block`,
	"max_requests":         `weir counts sessions and reads no requests: write circuit_breaker { max_sessions = 1000 } in the upstream block`,
	"thresholds":           `write circuit_breaker { } in the upstream block, with max_sessions, max_pending and max_retries in it`,
	"retry_budget":         `write circuit_breaker { max_retries = 20 } in the upstream block`,
	"hedge_policy":         `write hedge { } in the listener block`,
	"adaptive_concurrency": `write adaptive_limit "gradient" { } in the upstream block`,
	"connection_limit":     `write limits { sessions = 10000 } in the listener block`,
	"local_ratelimit":      `write limits { accept_rate = "500/s" } in the listener block`,
	"bandwidth_limit":      `write limits { download_rate = "10MiB/s" } in the listener block`,
}

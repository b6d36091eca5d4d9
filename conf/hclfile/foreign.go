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
	value, _, _ = strings.Cut(strings.TrimSpace(value), " ")
	if normalized(word) == "proxy_responses" && value == "0" {
		// The one word that both have, with opposite meanings.
		return `Write udp { responses = "none" } in the listener block: nginx's 0 is no answer at all, and responses = 0 any number.`, true
	}
	if value != "" {
		text = strings.ReplaceAll(text, `"NAME"`, quote(strings.Trim(value, `"`)))
		if m := exampleSetting.FindAllStringSubmatchIndex(text, -1); len(m) == 1 {
			name := text[m[0][2]:m[0][3]]
			a := anyAttribute(name)
			fits := a != nil && (a.kind == kindDuration || a.kind == kindNumber || name == "listen" || name == "access")
			if fits {
				text = text[:m[0][4]] + asValue(a.kind, value) + text[m[0][5]:]
			}
		}
	}
	return sentence(errors.New(strings.TrimSuffix(text, "."))) + ".", true
}

// exampleSetting is the part of an answer that shows a setting.
var exampleSetting = regexp.MustCompile(`(\w+) = ("[^"]*"|\d+|\[[^\]]*\])`)

// foreign translates words of nginx, HAProxy and Envoy: what to write here, as
// the end of a sentence that names the word. Words that are spelled as ours
// but stand in another block are not listed; words.go finds those by itself.
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
	"maxconn":            `write max_conns = 200 in the server block, or max_sessions = 10000 in the worker block`,
	"maxconns":           `write max_conns = 200 in the server block, or max_sessions = 10000 in the worker block`,
	"hash_type":          `write balance "hash" { } with consistent = true in the upstream block`,
	"max_connections":    `write max_conns = 200 in the server block, or max_sessions = 10000 in the worker block`,
	"nbthread":           `write worker { count = "auto" }`,
	"nbproc":             `write worker { count = "auto" }`,
	"threads":            `write worker { count = "auto" }`,
	"timeout":            `say which one: connect_timeout, idle_timeout, half_close_timeout or dead_peer_timeout in the listener block`,
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

	// Envoy, and plain language
	"cluster":            `write upstream "NAME" { }`,
	"clusters":           `write upstream "NAME" { }`,
	"pool":               `write upstream "NAME" { }`,
	"listeners":          `write one listener "NAME" { } block for each`,
	"upstreams":          `write one upstream "NAME" { } block for each`,
	"servers":            `write one server "HOST:PORT" {} block for each`,
	"endpoint":           `write server "HOST:PORT" {} in the upstream block`,
	"endpoints":          `write one server "HOST:PORT" {} block for each in the upstream block`,
	"peer":               `write server "HOST:PORT" {} in the upstream block`,
	"node":               `write server "HOST:PORT" {} in the upstream block`,
	"host":               `write server "HOST:PORT" {} in the upstream block`,
	"lb_policy":          `a method is written balance "round_robin" {} in the upstream block`,
	"method":             `a method is written balance "round_robin" {} in the upstream block`,
	"algorithm":          `a method is written balance "round_robin" {} in the upstream block`,
	"address":            `write listen = ["0.0.0.0:5432"] in a listener block, or server "10.0.0.11:5432" {} in an upstream block`,
	"port":               `the port stands with the address: listen = ["0.0.0.0:5432"], or server "10.0.0.11:5432" {}`,
	"concurrency":        `write worker { count = "auto" }`,
	"workers":            `write worker { count = "auto" }`,
	"udp_timeout":        `write udp { idle_timeout = "1m" } in the listener block`,
	"tcp":                `TCP is what a listener takes unless protocol says something else; its settings stand in the listener block`,
	"drain_timeout":      `write worker { shutdown_timeout = "30s" }`,
	"drain_time":         `write worker { shutdown_timeout = "30s" }`,
	"keepalive":          `write dead_peer_timeout = "30s" in the listener block`,
	"tcp_keepalive":      `write dead_peer_timeout = "30s" in the listener block`,
	"max_retries":        `write next_upstream { tries = 2 } in the listener block`,
	"congestion_control": `write congestion = "cubic"`,
	"logging":            `write a log { } block`,
	"variable":           `write locals { NAME = VALUE } and use local.NAME, or env.NAME for the environment`,
	"include":            `a configuration is one file`,
}

package integration_test

import (
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// startRedis runs a server that holds one key, "who", and returns its address.
func startRedis(t *testing.T, who string) string {
	t.Helper()
	server, cli := need(t, "redis-server", "redis-server"), need(t, "redis-cli", "redis-tools")
	port := strconv.Itoa(freePorts(t, 1))
	cmd := exec.Command(server, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	cmd.Dir = tempDir(t)
	startProgram(t, cmd)
	waitListening(t, port)
	run(t, 5*time.Second, cli, "-p", port, "set", "who", who)
	return "127.0.0.1:" + port
}

func TestRedis(t *testing.T) {
	benchmark, cli := need(t, "redis-benchmark", "redis-tools"), need(t, "redis-cli", "redis-tools")
	a, b := startRedis(t, "a"), startRedis(t, "b")
	p := start(t, `
		upstream "cache" {
		  server "$a" {}
		  server "$b" {}
		}
		listener "cache" {
		  listen   = ["$listen"]
		  upstream = "cache"
		}`, vars{"a": a, "b": b})
	_, port, _ := net.SplitHostPort(p.addr)

	asked := ""
	for range 8 {
		asked += strings.TrimSpace(run(t, 5*time.Second, cli, "-p", port, "get", "who"))
	}
	if asked != "abababab" {
		t.Errorf("eight sessions went to %s, want abababab", asked)
	}

	requests := "200000"
	if long {
		requests = "10000000"
	}
	out := run(t, load+60*time.Second, benchmark, "-p", port, "-P", "16", "-c", "50", "-n", requests, "-t", "set,get", "-q")
	if strings.Contains(strings.ToLower(out), "error") || strings.Count(out, "requests per second") != 2 {
		t.Errorf("redis-benchmark:\n%s", out)
	}
	p.wantNoSessions(5 * time.Second)
}

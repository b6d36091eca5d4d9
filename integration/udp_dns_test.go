package integration_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// startUnbound runs a DNS server with these records on a loopback port of its
// own and returns its address.
func startUnbound(t *testing.T, records []string) string {
	t.Helper()
	unbound := need(t, "unbound", "unbound")
	dir, port := tempDir(t), freeUDPPort(t)
	var config strings.Builder
	fmt.Fprintf(&config, `server:
  interface: 127.0.0.1
  port: %s
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "%s"
  pidfile: ""
  use-syslog: no
  verbosity: 1
  num-threads: 1
  module-config: "iterator"
  access-control: 127.0.0.0/8 allow
  edns-buffer-size: 4096
  max-udp-size: 4096
  local-zone: "weir.test." static
`, port, dir)
	for _, r := range records {
		fmt.Fprintf(&config, "  local-data: '%s'\n", r)
	}
	config.WriteString("remote-control:\n  control-enable: no\n")
	file := filepath.Join(dir, "unbound.conf")
	if err := os.WriteFile(file, []byte(config.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	startProgram(t, exec.Command(unbound, "-d", "-c", file))
	waitListening(t, port)
	return "127.0.0.1:" + port
}

// One port takes DNS over UDP and TCP, and one upstream answers both.
func TestUDPDNS(t *testing.T) {
	t.Parallel()
	dig := need(t, "dig", "bind9-dnsutils")
	queries := 300
	if long {
		queries = 3000
	}
	records := []string{"a.weir.test. 300 IN A 192.0.2.1"}
	// 3000 bytes of text: too much for a datagram without EDNS.
	large := strings.Repeat(` "`+strings.Repeat("x", 250)+`"`, 12)
	records = append(records, "big.weir.test. 300 IN TXT"+large)
	var file strings.Builder
	for i := range queries {
		records = append(records, fmt.Sprintf("n%d.weir.test. 300 IN A 10.1.%d.%d", i, i/250, i%250))
		fmt.Fprintf(&file, "n%d.weir.test. A\n", i)
	}
	p := startUDP(t, `
		upstream "dns" {
		  server "$server" {}
		}
		listener "udp" {
		  listen   = ["$listen"]
		  protocol = "udp"
		  upstream = "dns"
		  udp {
		    responses = 1
		  }
		}
		listener "tcp" {
		  listen   = ["$listen"]
		  upstream = "dns"
		}`+udpLog, vars{"server": startUnbound(t, records)})
	_, port, _ := net.SplitHostPort(p.addr)
	query := func(args ...string) string {
		t.Helper()
		return run(t, 30*time.Second, dig, append([]string{"@127.0.0.1", "-p", port, "+tries=1", "+time=5"}, args...)...)
	}

	for _, test := range []struct {
		name     string
		args     []string
		want     []string
		udp, tcp int // sessions
	}{
		{"A", []string{"+noedns", "a.weir.test"}, []string{"192.0.2.1", "(UDP)"}, 1, 0},
		{"EDNS", []string{"+bufsize=1232", "a.weir.test"}, []string{"192.0.2.1", "EDNS: version: 0", "(UDP)"}, 1, 0},
		{"TCP", []string{"+tcp", "a.weir.test"}, []string{"192.0.2.1", "(TCP)"}, 0, 1},
		{"truncated", []string{"+noedns", "+ignore", "big.weir.test", "TXT"}, []string{"flags: qr aa tc", "(UDP)"}, 1, 0},
		{"truncated, then TCP", []string{"+noedns", "big.weir.test", "TXT"}, []string{"retrying in TCP mode", strings.TrimSpace(large), "(TCP)"}, 1, 1},
		{"large over UDP", []string{"+bufsize=4096", "big.weir.test", "TXT"}, []string{strings.TrimSpace(large), "(UDP)"}, 1, 0},
		{"no such name", []string{"+noedns", "none.weir.test"}, []string{"NXDOMAIN", "(UDP)"}, 1, 0},
	} {
		before := p.lines()
		out := query(test.args...)
		for _, want := range test.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: dig does not say %q:\n%s", test.name, want, out)
			}
		}
		eventually(t, 5*time.Second, "all sessions have ended", func() bool { return p.lines() >= before+test.udp+test.tcp })
		udp, tcp := 0, 0
		for _, e := range p.udpEntries()[before:] {
			switch {
			case e.Protocol == "tcp" && e.Listener == "tcp":
				tcp++
			case e.Protocol == "udp" && e.Listener == "udp" && e.CloseReason == "answered":
				udp++
			default:
				t.Errorf("%s: session %+v", test.name, e)
			}
		}
		if udp != test.udp || tcp != test.tcp {
			t.Errorf("%s: %d sessions over UDP and %d over TCP, want %d and %d", test.name, udp, tcp, test.udp, test.tcp)
		}
	}

	// Each query of a row gets its own answer, and its session ends with that.
	before := p.lines()
	path := filepath.Join(p.dir, "queries")
	if err := os.WriteFile(path, []byte(file.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	got := strings.Fields(query("+noall", "+answer", "+nocl", "+nottl", "-f", path))
	t.Logf("%d queries in a row took %v", queries, time.Since(begin))
	if len(got) != 3*queries {
		t.Fatalf("%d words of answers, want %d", len(got), 3*queries)
	}
	for i := range queries {
		if name, addr := fmt.Sprintf("n%d.weir.test.", i), fmt.Sprintf("10.1.%d.%d", i/250, i%250); got[3*i] != name || got[3*i+2] != addr {
			t.Fatalf("answer %d is %v, want %s and %s", i, got[3*i:3*i+3], name, addr)
		}
	}
	eventually(t, 5*time.Second, "all sessions have ended", func() bool { return p.lines() >= before+queries })
	all := p.udpEntries()[before:]
	if reasons := reasonsOf(all); reasons["answered"] != queries || len(all) != queries {
		t.Errorf("sessions ended with %v, want %d answered", reasons, queries)
	}
	if n := countFDs(p.pid, "socket:") - p.base; n > p.lines() {
		t.Errorf("%d sockets to the server after %d sessions", n, p.lines())
	}
	if long {
		// Idle sockets are closed when they were not needed for 10 to 20 s.
		p.wantNoSessions(25 * time.Second)
	}
}

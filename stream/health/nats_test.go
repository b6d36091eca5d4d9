package health

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
)

// fakeNATS greets with an INFO and answers each PING with some lines.
func fakeNATS(info, answer string, config *tls.Config) func(net.Conn) {
	return func(c net.Conn) {
		fmt.Fprintf(c, "INFO %s \r\n", info)
		if config != nil {
			c = tls.Server(c, config)
		}
		for r := bufio.NewScanner(c); r.Scan(); {
			switch op, _ := splitNATS(r.Text()); op {
			case "PING":
				io.WriteString(c, answer)
			case "CONNECT", "PONG":
			default:
				io.WriteString(c, "-ERR 'Unknown Protocol Operation'\r\n")
				return
			}
		}
	}
}

func TestNATS(t *testing.T) {
	config, ca := testTLS(t)
	secure := func(h *conf.HealthCheck) { h.TLS = &conf.CheckTLSOptions{CAFile: ca, Verify: true} }
	for _, test := range []struct {
		name         string
		info, answer string
		tls          *tls.Config
		edit         func(*conf.HealthCheck)
		note, want   string
	}{
		{"alive", `{"server_id":"x"}`, "PONG\r\n", nil, nil, "", ""},
		{"the server pings, and has news", `{}`, "PING\r\nINFO {\"connect_urls\":[]}\r\nPONG\r\n", nil, nil, "", ""},
		{"lame duck at once", `{"ldm":true}`, "PONG\r\n", nil, nil, "", "lame duck"},
		{"lame duck later", `{}`, "INFO {\"ldm\":true}\r\nPONG\r\n", nil, nil, "", "lame duck"},
		{"refused", `{}`, "-ERR 'Authorization Violation'\r\n", nil, asWeir, "", "-ERR 'Authorization Violation'"},
		{"login wanted", `{"auth_required":true}`, "-ERR 'Authorization Violation'\r\n", nil, nil, "answers, and wants a login", ""},
		{"login given", `{"auth_required":true}`, "PONG\r\n", nil, asWeir, "", ""},
		{"TLS wanted", `{"tls_required":true}`, "PONG\r\n", config, nil, "", ""},
		{"TLS wanted by both", `{"tls_required":true}`, "PONG\r\n", config, secure, "", ""},
		{"TLS offered", `{"tls_available":true}`, "PONG\r\n", config, secure, "", ""},
		{"TLS not offered", `{}`, "PONG\r\n", nil, secure, "", "the server does not offer TLS"},
		{"not JSON", `hello`, "PONG\r\n", nil, nil, "", "INFO is not JSON"},
		{"bytes before TLS", `{"tls_required":true}` + "\r\nPONG", "PONG\r\n", config, nil, "", "bytes before the TLS handshake"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newProber(t, serve(t, fakeNATS(test.info, test.answer, test.tls)), conf.CheckNATS, test.edit)
			for range 2 {
				if test.want != "" {
					p.wantFailure(test.want)
				} else {
					p.wantOK(test.note)
				}
			}
		})
	}
}

// Where only the greeting is read, every check reads one: a server that has died
// is seen.
func TestNATSWithoutLogin(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target := serveOn(t, ln, func(c net.Conn) { io.WriteString(c, "INFO {\"auth_required\":true}\r\n") })
	p := newProber(t, target, conf.CheckNATS, nil)
	p.wantOK("answers, and wants a login")
	ln.Close()
	p.wantFailure("connecting to " + ln.Addr().String() + ": connection refused")
}

// No line of a server is read as an operation that it is not.
func FuzzNATS(f *testing.F) {
	f.Add("INFO {\"ldm\":true}\r\n")
	f.Add("pong")
	f.Add("-ERR 'x'\r\n")
	f.Add(" \t\r\n")
	f.Fuzz(func(t *testing.T, line string) {
		op, arg := splitNATS(line)
		if strings.ContainsAny(op, " \t") {
			t.Errorf("%q: operation %q", line, op)
		}
		if again, argAgain := splitNATS(op + " " + arg); again != strings.ToUpper(op) || argAgain != strings.TrimSpace(strings.TrimRight(arg, "\r\n")) {
			t.Errorf("%q: %q and %q, and then %q and %q", line, op, arg, again, argAgain)
		}
		if info, err := parseNATSInfo(arg); err == nil && info.LameDuck {
			t.Errorf("%q: a lame duck is no error", line)
		}
	})
}

// A real server: with and without a login, and in lame duck mode.
func TestRealNATS(t *testing.T) {
	path := need(t, "nats-server", "nats-server")
	open, closed := freePort(t), freePort(t)
	cmd := exec.Command(path, "-a", "127.0.0.1", "-p", strconv.Itoa(open))
	log, _ := startProgram(t, cmd)
	lockedLog, _ := startProgram(t, exec.Command(path, "-a", "127.0.0.1", "-p", strconv.Itoa(closed), "--user", "weir", "--pass", "hunter2"))
	waitListening(t, open)
	waitListening(t, closed)
	visitor := newProber(t, loopback(closed), conf.CheckNATS, nil)
	for range 2 {
		visitor.wantOK("answers, and wants a login")
	}
	newProber(t, loopback(closed), conf.CheckNATS, asWeir).wantOK("")
	if text := lockedLog.String(); strings.Contains(text, "[ERR]") {
		t.Errorf("nats-server says:\n%s", text)
	}
	newProber(t, loopback(closed), conf.CheckNATS, func(h *conf.HealthCheck) { asWeir(h); h.Password = "hunter3" }).
		wantFailure("-ERR 'Authorization Violation'")

	p := newProber(t, loopback(open), conf.CheckNATS, nil)
	for range 5 {
		p.wantOK("")
	}
	if text := log.String(); strings.Contains(text, "[ERR]") {
		t.Errorf("nats-server says:\n%s", text)
	}
	defer cmd.Process.Kill() // or it would wait ten seconds for its clients
	cmd.Process.Signal(syscall.SIGUSR2)
	seen := ""
	eventually(t, 10*time.Second, "the server is a lame duck", func() bool { _, seen = p.once(); return seen != "" })
	if seen != "lame duck" {
		t.Errorf("the first failure is %q, want lame duck", seen)
	}
}

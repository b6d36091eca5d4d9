package integration_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
)

// Every variable is in the line, in the order of log.fields, and plausible.
func TestAccessLogFields(t *testing.T) {
	t.Parallel()
	hostname, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	fields, names := "", []string{}
	for _, v := range conf.LogVariables() {
		fields += fmt.Sprintf("%q, ", v)
		names = append(names, string(v))
	}
	for _, format := range []string{"json", "text"} {
		t.Run(format, func(t *testing.T) {
			server := serve(t, func(c net.Conn) {
				time.Sleep(50 * time.Millisecond)
				io.WriteString(c, "hello")
				io.Copy(io.Discard, c)
			})
			// The process log has the same format and is read as JSON, so one
			// start finds the other format by its file.
			p := launch(t, where{}, `
				log {
				  format = "$format"
				  access = "$access"
				  fields = [$fields]
				}`+oneServer, vars{"server": server, "format": format, "fields": fields})
			eventually(t, 5*time.Second, "weir is running", func() bool { return strings.Contains(p.stderr.String(), "weir is running") })
			c := dial(t, p.addr)
			_, clientPort, _ := net.SplitHostPort(c.LocalAddr().String())
			_, listenPort, _ := net.SplitHostPort(p.addr)
			if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
				t.Fatal(err)
			}
			io.WriteString(c, "bye")
			c.Close()
			var line string
			eventually(t, 5*time.Second, "the session's line", func() bool {
				b, _ := os.ReadFile(p.access)
				line = string(b)
				return strings.HasSuffix(line, "\n")
			})

			var got map[string]string
			var order []string
			if format == "json" {
				got, order = parseJSONLine(t, line)
			} else {
				got, order = parseTextLine(line)
			}
			if fmt.Sprint(order) != fmt.Sprint(names) {
				t.Errorf("the line has the fields %v, want %v", order, names)
			}
			// The server speaks after 50 ms; a busy machine takes longer.
			number, some := `\d+`, `(0\.(0[5-9]|[1-9])|[1-9]\.\d)\d+`
			for name, want := range map[string]string{
				"time": `20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d)`, "listener": "l", "protocol": "tcp", "connection": number,
				"remote_addr": `127\.0\.0\.1`, "remote_port": clientPort, "binary_remote_addr": "7f000001",
				"server_addr": `127\.0\.0\.1`, "server_port": listenPort, "hostname": regexp.QuoteMeta(hostname), "pid": strconv.Itoa(p.pid),
				"status": "200", "close_reason": "client_closed", "tries": "1", "bytes_received": "3", "bytes_sent": "5",
				"session_time": some, "upstream": "u", "upstream_addr": regexp.QuoteMeta(server), "upstream_connect_time": `\d\.\d\d\d`,
				"upstream_first_byte_time": some, "upstream_session_time": some, "upstream_bytes_sent": "3", "upstream_bytes_received": "5",
			} {
				if !regexp.MustCompile("^(" + want + ")$").MatchString(got[name]) {
					t.Errorf("%s is %q, want %s", name, got[name], want)
				}
			}
		})
	}
}

// parseJSONLine returns the values of an object as text, and its keys in order.
func parseJSONLine(t *testing.T, line string) (values map[string]string, order []string) {
	t.Helper()
	values = map[string]string{}
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	d.Token() // {
	for d.More() {
		key, err := d.Token()
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		value, err := d.Token()
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		order = append(order, key.(string))
		values[key.(string)] = fmt.Sprint(value)
	}
	return values, order
}

func parseTextLine(line string) (values map[string]string, order []string) {
	values = map[string]string{}
	for _, pair := range strings.Fields(line) {
		name, value, _ := strings.Cut(pair, "=")
		order = append(order, name)
		values[name] = strings.Trim(value, `"`)
	}
	return values, order
}

func TestAccessLogOff(t *testing.T) {
	t.Parallel()
	p := start(t, `
		log {
		  format = "json"
		  access = "off"
		}`+oneServer, vars{"server": serve(t, says("hello"))})
	ask(t, p.addr)
	p.stop()
	if strings.Contains(p.stderr.String(), "close_reason") {
		t.Errorf("weir wrote a line:\n%s", p.stderr)
	}
}

func TestAccessLogOnStandardOutput(t *testing.T) {
	t.Parallel()
	p := start(t, `
		log {
		  format = "json"
		  access = "stdout"
		}`+oneServer, vars{"server": serve(t, says("hello"))})
	ask(t, p.addr)
	p.stop()
	if !strings.Contains(p.stderr.String(), `"close_reason":"peer_closed"`) {
		t.Errorf("weir wrote no line:\n%s", p.stderr)
	}
}

// stalledLog starts weir with a pipe as its access log that nobody reads, and
// lets some sessions pass. The test holds the pipe open.
func stalledLog(t *testing.T, sessions int) (p *proxy, fifo *os.File) {
	t.Helper()
	path := tempDir(t) + "/fifo"
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	fifo, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fifo.Close() })
	p = start(t, `
		worker {
		  count = 1
		}`+oneServer, vars{"server": serve(t, says("hello")), "access": path})
	begin, slowest := time.Now(), time.Duration(0)
	for i := range sessions {
		one := time.Now()
		if got := ask(t, p.addr); got != "hello" {
			t.Fatalf("session %d of %d: got %q, want hello", i, sessions, got)
		}
		slowest = max(slowest, time.Since(one))
	}
	t.Logf("%d sessions took %v, the slowest %v", sessions, time.Since(begin), slowest)
	if slowest > scaled(500*time.Millisecond) {
		t.Errorf("a session took %v, want all as fast as without a stalled log", slowest)
	}
	return p, fifo
}

const (
	linesInPipe = 64 << 10 / 200 // at most; a line is longer than that
	linesInRing = 4096
)

// A disk that stalls costs log lines, never time. The lost lines are counted.
func TestStalledAccessLog(t *testing.T) {
	const sessions = 2*linesInPipe + linesInRing + 1000 // pipe, batch, ring, and what has no room
	p, fifo := stalledLog(t, sessions)
	lines := make(chan int)
	go func() {
		n := 0
		for scan := bufio.NewScanner(fifo); scan.Scan(); {
			n++
		}
		lines <- n
	}()
	eventually(t, 5*time.Second, "a log line about the lost ones", func() bool { return len(p.logged("access log lost lines")) > 0 })
	p.stop()
	fifo.SetReadDeadline(time.Now().Add(200 * time.Millisecond)) // the test holds the pipe open, so it has no end
	written := <-lines
	lost := 0
	for _, line := range p.logged("access log lost lines") {
		lost += int(line["lines"].(float64))
	}
	t.Logf("%d lines written, %d lost", written, lost)
	if lost == 0 || written+lost != sessions {
		t.Errorf("%d lines written and %d lost, want %d in all and some lost", written, lost, sessions)
	}
}

// A log that nobody reads does not keep weir from stopping.
func TestStalledAccessLogAndTerm(t *testing.T) {
	p, _ := stalledLog(t, 4*linesInPipe)
	p.signal(syscall.SIGTERM)
	p.wantExit(10*time.Second, 0)
	if len(p.logged("access log lost lines")) == 0 {
		t.Error("weir does not tell of the lost lines")
	}
}

// An attempt to rotate a log that stalls does not make weir deaf to signals.
func TestStalledAccessLogAndReopen(t *testing.T) {
	p, _ := stalledLog(t, 4*linesInPipe)
	p.signal(syscall.SIGUSR1)
	time.Sleep(100 * time.Millisecond)
	if got := ask(t, p.addr); got != "hello" {
		t.Errorf("got %q, want hello", got)
	}
	p.signal(syscall.SIGTERM)
	p.wantExit(10*time.Second, 0)
}

package integration_test

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// sink takes datagrams and never answers.
type sink struct {
	mu    sync.Mutex
	lines map[string]int // guarded by mu
	bytes int64          // guarded by mu
}

func (s *sink) receive(_ *net.UDPConn, b []byte, _ netip.AddrPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lines == nil {
		s.lines = map[string]int{}
	}
	_, text, _ := strings.Cut(string(b), "line ")
	s.lines[text]++
	s.bytes += int64(len(b))
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lines)
}

// received returns how many bytes there were.
func (s *sink) received() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// A sender of log lines that is never answered makes no sessions pile up:
// logger for each line, and one logger for many.
func TestUDPSyslog(t *testing.T) {
	t.Parallel()
	logger := need(t, "logger", "bsdutils")
	const quarantine = 100 * time.Millisecond
	const none = `responses = "none"
		quarantine = "100ms"`
	during := 2 * time.Second
	if long {
		during = time.Minute
	}
	for _, test := range []struct {
		name     string
		one, udp string // the udp block for one sender, and for many
		reason   string // of all sessions
		perLine  bool   // a session ends at its line, even if one logger sends them all
	}{
		{"no responses", none, none, "answered", true},
		{"idle timeout", `idle_timeout = "3s"
			quarantine = "100ms"`, `idle_timeout = "300ms"
			quarantine = "100ms"`, "idle_timeout", false},
	} {
		for _, alone := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, one sender %v", test.name, alone), func(t *testing.T) {
				t.Parallel()
				var lines sink
				server, _ := serveUDP(t, lines.receive)
				udp := test.udp
				if alone {
					udp = test.one
				}
				p := startUDP(t, oneUDPServer+udpLog, vars{"server": server, "udp": udp})
				_, port, _ := net.SplitHostPort(p.addr)
				args := []string{"--udp", "--rfc3164", "-n", "127.0.0.1", "-P", port, "-t", "weir"}
				sending := exec.Command(logger, args...)
				in, err := sending.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				if alone {
					startProgram(t, sending)
				}
				sent := 0
				send := func() {
					line := fmt.Sprintf("line %d", sent)
					if alone {
						fmt.Fprintln(in, line)
					} else {
						run(t, 5*time.Second, logger, append(args, line)...)
					}
					sent++
				}
				sockets := func() int { return countFDs(p.pid, "socket:") - p.base }
				var all []udpEntry
				settle := func() {
					t.Helper()
					eventually(t, 5*time.Second, "every line has arrived", func() bool { return lines.count() == sent })
					eventually(t, 5*time.Second, "the sessions that ended have had every byte", func() bool {
						all = p.udpEntries()
						var sum int64
						for _, e := range all {
							sum += e.UpstreamSent
						}
						return sum == lines.received()
					})
				}
				peak := 0
				for begin := time.Now(); time.Since(begin) < during; time.Sleep(10 * time.Millisecond) {
					send()
					peak = max(peak, sockets())
				}
				t.Logf("%d lines; at most %d sockets to the server", sent, peak)
				if long && peak > sent/10+10 {
					t.Errorf("%d sockets for %d lines: they pile up", peak, sent)
				}
				if !alone || test.perLine {
					// Now that it rests, each line finds a socket that is free again, but
					// perhaps the first one of a worker.
					settle()
					time.Sleep(2 * quarantine)
					before := sockets()
					for range 8 {
						send()
						settle()
						time.Sleep(2 * quarantine)
					}
					if after := sockets(); after > before+2 {
						t.Errorf("%d sockets, after 8 more lines %d: they pile up", before, after)
					}
				}
				in.Close()
				settle()
				for line, n := range lines.lines {
					if n != 1 {
						t.Errorf("line %s arrived %d times", line, n)
					}
				}
				sessions := len(all)
				fewest, most := sent, sent
				switch {
				case alone && test.perLine:
					// Lines that weir reads together share a session, as some
					// do on a busy machine.
					fewest = sent / 2
				case alone:
					fewest, most = 1, 1
				case !test.perLine:
					// A port that the kernel gives to another logger within
					// idle_timeout goes on with the session it finds.
					fewest = sent * 9 / 10
				}
				if sessions < fewest || sessions > most {
					t.Errorf("%d sessions for %d lines, want %d to %d", sessions, sent, fewest, most)
				}
				if reasonsOf(all)[test.reason] != sessions {
					t.Errorf("sessions ended with %v, want %d with %s", reasonsOf(all), sessions, test.reason)
				}
			})
		}
	}
}

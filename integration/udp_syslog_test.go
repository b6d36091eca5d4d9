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

// A sender of log lines that is never answered makes no sessions pile up:
// logger for each line, and one logger for many.
func TestUDPSyslog(t *testing.T) {
	logger := need(t, "logger", "bsdutils")
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
		{"idle timeout", `idle_timeout = "2s"`, `idle_timeout = "300ms"`, "idle_timeout", false},
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
				sent, open, late := 0, 0, 0
				sending := exec.Command(logger, args...)
				in, err := sending.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				if alone {
					startProgram(t, sending)
				}
				for begin := time.Now(); time.Since(begin) < during; time.Sleep(10 * time.Millisecond) {
					line := fmt.Sprintf("line %d", sent)
					if alone {
						fmt.Fprintln(in, line)
					} else {
						run(t, 5*time.Second, logger, append(args, line)...)
					}
					sent++
					now := countFDs(p.pid, "socket:") - p.base
					if time.Since(begin) < during/2 {
						open = max(open, now)
					} else {
						late = max(late, now)
					}
				}
				in.Close()
				eventually(t, 5*time.Second, "every line has arrived", func() bool { return lines.count() == sent })
				for line, n := range lines.lines {
					if n != 1 {
						t.Errorf("line %s arrived %d times", line, n)
					}
				}
				lines.mu.Lock()
				received := lines.bytes
				lines.mu.Unlock()
				var all []udpEntry
				eventually(t, 5*time.Second, "the sessions that ended have had every byte", func() bool {
					all = p.udpEntries()
					var sum int64
					for _, e := range all {
						sum += e.UpstreamSent
					}
					return sum == received
				})
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
				t.Logf("%d lines, %d sessions; at most %d sockets to the server in the first half of the time, %d in the second", sent, sessions, open, late)
				// How many lines a second there are is up to the machine.
				if limit := open + open/2 + 10; late > limit {
					t.Errorf("%d sockets in the second half, %d in the first: they pile up", late, open)
				}
				if reasonsOf(all)[test.reason] != sessions {
					t.Errorf("sessions ended with %v, want %d with %s", reasonsOf(all), sessions, test.reason)
				}
			})
		}
	}
}

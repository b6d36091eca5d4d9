package integration_test

import (
	"encoding/json"
	"net"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

func TestIperf(t *testing.T) {
	iperf := need(t, "iperf3", "iperf3")
	port := strconv.Itoa(freePorts(t, 1))
	startProgram(t, exec.Command(iperf, "-s", "-B", "127.0.0.1", "-p", port))
	waitListening(t, port)
	p := start(t, `
		upstream "u" {
		  server "127.0.0.1:$port" {}
		}
		listener "l" {
		  listen   = ["$listen"]
		  upstream = "u"
		}`, vars{"port": port})
	_, through, _ := net.SplitHostPort(p.addr)

	for _, direction := range []string{"", "--reverse"} {
		args := []string{"-c", "127.0.0.1", "-p", through, "-P", "8", "-t", seconds(load), "-J"}
		if direction != "" {
			args = append(args, direction)
		}
		var report struct {
			Error string
			End   struct {
				Sum struct {
					Bytes float64
					Rate  float64 `json:"bits_per_second"`
				} `json:"sum_received"`
			}
		}
		out := run(t, load+30*time.Second, iperf, args...)
		if err := json.Unmarshal([]byte(out), &report); err != nil || report.Error != "" || report.End.Sum.Bytes == 0 {
			t.Fatalf("iperf3 %v: %v\n%s", args, err, out)
		}
		t.Logf("8 streams %s: %.1f Gbit/s", direction, report.End.Sum.Rate/1e9)
	}
	p.wantNoSessions(10 * time.Second)
}

package integration_test

import (
	"encoding/json"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// iperf3 talks over TCP and sends over UDP, to one port.
func TestUDPIperf(t *testing.T) {
	iperf := need(t, "iperf3", "iperf3")
	port := freeUDPPort(t)
	startProgram(t, exec.Command(iperf, "-s", "-B", "127.0.0.1", "-p", port))
	waitListening(t, port)
	p := startUDP(t, `
		worker {
		  shutdown_timeout = "100ms"
		}
		upstream "u" {
		  server "127.0.0.1:$port" {}
		}
		listener "control" {
		  listen   = ["$listen"]
		  upstream = "u"
		}
		listener "data" {
		  listen   = ["$listen"]
		  protocol = "udp"
		  upstream = "u"
		}`, vars{"port": port})
	_, through, _ := net.SplitHostPort(p.addr)

	ways := [][]string{
		{"--length", "1200", "--bidir"},
		{"--length", "16000", "--reverse"},
	}
	if long {
		ways = append(ways, []string{"--length", "1200"}, []string{"--length", "1200", "--reverse"})
	}
	for _, args := range ways {
		args = append([]string{"-u", "-c", "127.0.0.1", "-p", through, "-P", "4", "-b", "5M", "-t", seconds(load), "-J"}, args...)
		type sum struct {
			Bytes   float64
			Packets int
			Lost    int `json:"lost_packets"`
		}
		var report struct {
			Error string
			End   struct {
				Streams []struct{ UDP sum }
			}
		}
		var out string
		eventually(t, load+40*time.Second, "the iperf3 server is free", func() bool { // it may still end the last test
			var err error
			out, err = tryRun(load+30*time.Second, iperf, args...)
			if err != nil && !strings.Contains(out, "server is busy") {
				t.Fatalf("iperf3 %v: %v\n%s", args, err, out)
			}
			return err == nil
		})
		out = out[max(0, strings.IndexByte(out, '{')):] // a warning on datagrams' sizes may stand before it
		if err := json.Unmarshal([]byte(out), &report); err != nil || report.Error != "" {
			t.Fatalf("iperf3 %v: %v\n%s", args, err, out)
		}
		var all sum
		for _, s := range report.End.Streams {
			if s.UDP.Bytes == 0 || s.UDP.Packets == 0 {
				t.Errorf("iperf3 %v: a stream without data: %+v", args, s.UDP)
			}
			all.Bytes += s.UDP.Bytes
			all.Packets += s.UDP.Packets
			all.Lost += s.UDP.Lost
		}
		if n := len(report.End.Streams); n != 4 && n != 8 {
			t.Errorf("iperf3 %v: %d streams", args, n)
		}
		t.Logf("%v: %d datagrams, %.1f Mbit/s, %d lost", args[12:], all.Packets, all.Bytes*8/1e6/load.Seconds(), all.Lost)
		// A buffer holds a fifth of a second; a machine may be busier than that,
		// with other packages' tests at work. What is lost then is some per cent.
		if all.Lost > all.Packets/20 {
			t.Errorf("iperf3 %v: %d of %d datagrams were lost", args, all.Lost, all.Packets)
		}
	}
}

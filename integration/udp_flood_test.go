package integration_test

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// New clients without end push out each other, not a client that is in the
// middle of something.
func TestUDPFlood(t *testing.T) {
	t.Parallel()
	const sessions = 100
	for _, answered := range []bool{false, true} {
		t.Run(fmt.Sprintf("flood is answered %v", answered), func(t *testing.T) {
			t.Parallel()
			server, _ := serveUDP(t, func(c *net.UDPConn, b []byte, from netip.AddrPort) {
				if answered || !strings.HasPrefix(string(b), "flood") {
					c.WriteToUDPAddrPort(b, from)
				}
			})
			p := startUDP(t, oneUDPServer+udpLog, vars{"server": server, "udp": fmt.Sprintf("max_sessions = %d", sessions)})
			active := dialUDP(t, p.addr)
			for i := range 2 {
				if got := askUDP(active, "hello", 5*time.Second); got != "hello" {
					t.Fatalf("answer %d is %q", i, got)
				}
			}
			var ended atomic.Bool
			var floods atomic.Int64
			var flooding sync.WaitGroup
			for range 2 {
				flooding.Go(func() {
					for !ended.Load() {
						for range 10 {
							c, err := net.Dial("udp", p.addr)
							if err != nil {
								t.Error(err)
								return
							}
							fmt.Fprint(c, "flood")
							c.Close()
							floods.Add(1)
						}
						time.Sleep(10 * time.Millisecond)
					}
				})
			}
			asked, lost, most := 0, 0, 0
			for begin := time.Now(); time.Since(begin) < load; time.Sleep(10 * time.Millisecond) {
				asked++
				if got := askUDP(active, fmt.Sprint("question ", asked), time.Second); got != fmt.Sprint("question ", asked) {
					lost++
					t.Errorf("answer %d is %q", asked, got)
				}
				most = max(most, countFDs(p.pid, "socket:")-p.base)
			}
			ended.Store(true)
			flooding.Wait()
			p.stop()
			all := p.udpEntries()
			reasons := reasonsOf(all)
			t.Logf("%d new clients; %d questions of the active one, %d lost; at most %d sockets to the server; sessions ended with %v", floods.Load(), asked, lost, most, reasons)
			if reasons["evicted"] == 0 {
				t.Error("nobody was pushed out, so that nothing was tested")
			}
			// Workers have shares, rounded up; as many sockets may rest.
			if workers := int(p.logged("weir is running")[0]["workers"].(float64)); most > 2*(sessions+workers) {
				t.Errorf("%d sockets to the server, max_sessions is %d", most, sessions)
			}
			port := active.LocalAddr().(*net.UDPAddr).Port
			for _, e := range all {
				if e.RemotePort == port && (e.CloseReason != "shutdown" || e.Tries != 1) {
					t.Errorf("the active session ended with %s", e.CloseReason)
				}
			}
		})
	}
}

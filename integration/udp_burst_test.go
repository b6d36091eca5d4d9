package integration_test

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

// burst is datagrams of sizes that can be sent in one piece, and of sizes that
// can't.
func burst(id int) []string {
	var all []string
	for k, n := range []int{100, 100, 50, 100, 100, 100, 50, 300, 300, 20, 1300, 1300, 1300, 7, 9000, 9000, 100, 100, 50, 100, 100, 50} {
		head := fmt.Sprintf("client %d datagram %02d ", id, k)
		all = append(all, head+strings.Repeat(".", max(0, n-len(head))))
	}
	return all
}

// Bursts arrive whole, in order, and from the address that was asked.
func TestUDPBursts(t *testing.T) {
	t.Parallel()
	rounds := 100
	if long {
		rounds = 2000
	}
	server, _ := serveUDP(t, echoUDP)
	for _, listen := range []string{"127.0.0.1:", "0.0.0.0:"} {
		t.Run(listen, func(t *testing.T) {
			t.Parallel()
			port := freeUDPPort(t)
			startUDP(t, oneUDPServer+udpLog, vars{"listen": listen + port, "server": server, "udp": ""})
			var running sync.WaitGroup
			for id := range 4 {
				to := netip.MustParseAddrPort(fmt.Sprintf("127.0.0.1:%s", port))
				if listen == "0.0.0.0:" {
					to = netip.MustParseAddrPort(fmt.Sprintf("127.0.0.%d:%s", 2+id, port))
				}
				c := udpSocket(t, "127.0.0.1:0")
				c.SetReadBuffer(1 << 20)
				running.Go(func() { exchangeBursts(t, c, to, id, rounds) })
			}
			running.Wait()
		})
	}
}

func exchangeBursts(t *testing.T, c *net.UDPConn, to netip.AddrPort, id, rounds int) {
	buf := make([]byte, 1<<16)
	for range rounds {
		sent := burst(id)
		for _, text := range sent {
			if _, err := c.WriteToUDPAddrPort([]byte(text), to); err != nil {
				t.Error(err)
				return
			}
		}
		c.SetReadDeadline(time.Now().Add(scaled(5 * time.Second)))
		for _, want := range sent {
			n, from, err := c.ReadFromUDPAddrPort(buf)
			if err != nil {
				t.Errorf("client %d: %v, waiting for %.24q", id, err, want)
				return
			}
			from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
			if string(buf[:n]) != want || from != to {
				t.Errorf("client %d asked %s and got %.24q (%d bytes) from %s, want %.24q (%d bytes)", id, to, buf[:n], n, from, want, len(want))
				return
			}
		}
	}
}

// A burst to a server that refuses is lost, and nothing else.
func TestUDPBurstsToDeadServer(t *testing.T) {
	t.Parallel()
	living, _ := serveUDP(t, echoUDP)
	p := startUDP(t, `
		worker {
		  shutdown_timeout = "100ms"
		}
		upstream "u" {
		  server "$dead" {
		    max_fails = 0
		  }
		}
		upstream "other" {
		  server "$living" {}
		}
		listener "l" {
		  listen   = ["$listen"]
		  protocol = "udp"
		  upstream = "u"
		}
		listener "other" {
		  listen   = ["$other"]
		  protocol = "udp"
		  upstream = "other"
		}`+udpLog, vars{"dead": "127.0.0.1:" + freeUDPPort(t), "living": living, "other": "127.0.0.1:" + freeUDPPort(t)})
	for id := range 50 {
		c := dialUDP(t, p.addr)
		for _, text := range burst(id) {
			c.Write([]byte(text))
		}
	}
	c := dialUDP(t, p.logged("listening")[1]["address"].(string))
	if got := askUDP(c, "still there?", 5*time.Second); got != "still there?" {
		t.Errorf("the other listener says %q", got)
	}
	if p.exited() {
		t.Fatal("weir has ended")
	}
}

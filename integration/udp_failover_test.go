package integration_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// flows is clients that send a datagram at fixed times and note which of them
// came back.
type flows struct {
	every time.Duration
	begin time.Time
	sent  [][]time.Time // by flow and number
	back  [][]bool
}

// run sends on n flows for some time, and waits for the last answers.
func (f *flows) run(t *testing.T, addr string, n int, during time.Duration) {
	t.Helper()
	f.begin = time.Now()
	f.sent, f.back = make([][]time.Time, n), make([][]bool, n)
	most := int(during/f.every) + 1
	var running sync.WaitGroup
	for i := range n {
		c := dialUDP(t, addr)
		f.back[i] = make([]bool, most)
		running.Go(func() {
			for buf := make([]byte, 64); ; {
				n, err := c.Read(buf)
				if err != nil {
					return
				}
				var id, k int
				if fmt.Sscan(string(buf[:n]), &id, &k); id != i || k >= most {
					t.Errorf("flow %d got %q", i, buf[:n])
					continue
				}
				f.back[i][k] = true
			}
		})
		running.Go(func() {
			time.Sleep(time.Duration(i) * f.every / time.Duration(n)) // not all at once
			for k := 0; k < most && time.Since(f.begin) < during; k++ {
				f.sent[i] = append(f.sent[i], time.Now())
				fmt.Fprint(c, i, " ", k)
				time.Sleep(f.every)
			}
			time.Sleep(scaled(300 * time.Millisecond))
			c.Close()
		})
	}
	running.Wait()
}

// lost returns when the datagrams that did not come back were sent, in order.
func (f *flows) lost() []time.Time {
	var lost []time.Time
	for i := range f.sent {
		for k, at := range f.sent[i] {
			if !f.back[i][k] {
				lost = append(lost, at)
			}
		}
	}
	slices.SortFunc(lost, time.Time.Compare)
	return lost
}

func (f *flows) total() int {
	n := 0
	for _, s := range f.sent {
		n += len(s)
	}
	return n
}

// A peer that dies under load refuses one datagram of each flow; the next one
// of the flow goes to a live peer.
func TestUDPPeerKilledUnderLoad(t *testing.T) {
	const clients = 64
	const every = 20 * time.Millisecond
	dying, kill := serveUDP(t, echoUDP)
	living, _ := serveUDP(t, echoUDP)
	p := startUDP(t, `
		worker {
		  shutdown_timeout = "100ms"
		}
		upstream "u" {
		  server "$dying" {}
		  server "$living" {}
		}
		listener "l" {
		  listen   = ["$listen"]
		  protocol = "udp"
		  upstream = "u"
		}`+udpLog, vars{"dying": dying, "living": living})
	f := flows{every: every}
	var killed time.Time
	var killing sync.WaitGroup
	killing.Go(func() {
		time.Sleep(time.Second)
		killed = time.Now()
		kill()
	})
	f.run(t, p.addr, clients, 2*time.Second)
	killing.Wait()

	lost := f.lost()
	if len(lost) == 0 {
		t.Fatal("no datagram was lost, so that nothing was tested")
	}
	first, last := lost[0].Sub(killed), lost[len(lost)-1].Sub(killed)
	perTenth := map[int]int{}
	for _, at := range lost {
		perTenth[int(at.Sub(killed)/(10*time.Millisecond))]++
	}
	t.Logf("%d flows, a datagram every %v each: %d of %d datagrams lost, sent from %v to %v after the kill; by 10 ms: %v",
		clients, every, len(lost), f.total(), first, last, perTenth)
	if limit := scaled(3 * every); last > limit {
		t.Errorf("a datagram sent %v after the kill was lost, want none after %v", last, limit)
	}
	if first < -scaled(3*every) { // what is on its way when the server dies is lost too
		t.Errorf("a datagram was lost %v before the kill", -first)
	}
	if most := clients/2*2 + 8; len(lost) > most {
		t.Errorf("%d datagrams were lost, want at most %d: two of each flow of the dead peer", len(lost), most)
	}
	p.stop()
	refused, onLiving := 0, map[int]bool{}
	for _, e := range p.udpEntries() {
		if e.CloseReason == "peer_refused" {
			refused++
			if e.UpstreamAddr != dying {
				t.Errorf("%s refused, which lives", e.UpstreamAddr)
			}
		} else if e.UpstreamAddr == living {
			onLiving[e.RemotePort] = true
		}
	}
	if refused != clients/2 || len(onLiving) != clients {
		t.Errorf("%d sessions were refused and %d went to the living peer, want %d and %d", refused, len(onLiving), clients/2, clients)
	}
}

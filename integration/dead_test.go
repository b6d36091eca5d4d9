package integration_test

import (
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/weirlb/weir/integration/netns"
)

func needNamespaces(t *testing.T) {
	t.Helper()
	if err := netns.Check(); err != nil {
		missing(t, err.Error())
	}
}

// A machine that vanishes without a word is noticed within dead_peer_timeout.
//
//	near                        far
//	client - weir - veth0 ===== veth0 - peer
//	                veth0 ===== veth0 - client, when that is the one to vanish
func TestDeadPeer(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	const timeout = 3 * time.Second
	const config = `
		upstream "u" {
		  server "$server" {}
		}
		listener "l" {
		  listen            = ["$listen"]
		  upstream          = "u"
		  dead_peer_timeout = "3s"
		}`
	for _, test := range []struct {
		name      string
		vanish    func(*netns.Link, testing.TB)
		farClient bool
		unacked   bool // bytes are on their way to the dead side
	}{
		{"idle session, link down", (*netns.Link).Cut, false, false},
		{"idle session, silent loss", (*netns.Link).Mute, false, false},
		{"unacknowledged bytes, link down", (*netns.Link).Cut, false, true},
		{"unacknowledged bytes, silent loss", (*netns.Link).Mute, false, true},
		{"dead client, idle session", (*netns.Link).Mute, true, false},
		{"dead client, unacknowledged bytes", (*netns.Link).Mute, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			near, far := netns.New(t), netns.New(t)
			nearEnd, farEnd := netns.Join(t, near, far)
			serverIn, clientIn := far, near
			serverAddr, listen := farEnd.Addr+":7000", "127.0.0.1:7001"
			if test.farClient {
				serverIn, clientIn = near, far
				serverAddr, listen = "127.0.0.1:7000", nearEnd.Addr+":7001"
			}
			var vanished time.Time
			pinged := make(chan struct{})
			cut := make(chan struct{})
			serverIn.Do(t, func() {
				serveOn(t, "tcp", serverAddr, func(c net.Conn) {
					io.CopyN(c, c, 4)
					close(pinged)
					<-cut
					if test.farClient && test.unacked {
						io.WriteString(c, "are you there?")
					}
					waitClosed(c)
				})
			})
			p := startAt(t, where{namespace: near}, config, vars{"server": serverAddr, "listen": listen})
			var c stream
			clientIn.Do(t, func() { c = dial(t, listen) })
			roundTrip(t, c)
			<-pinged

			test.vanish(farEnd, t)
			vanished = time.Now()
			close(cut)
			if !test.farClient && test.unacked {
				io.WriteString(c, "are you there?")
			}
			if !test.farClient {
				wantReset(t, c)
			}
			e := p.waitEntries(3*timeout, 1)[0]
			took := time.Since(vanished)
			if e.CloseReason != "dead_peer" || e.Status != 200 {
				t.Errorf("session ended with %s and status %d, want dead_peer and 200", e.CloseReason, e.Status)
			}
			t.Logf("noticed after %v", took)
			// The kernel looks at TCP_USER_TIMEOUT when it retransmits, which on
			// a link without a carrier was seen to be 1.5 s late.
			if took > timeout+scaled(2*time.Second) {
				t.Errorf("noticed after %v, want about %v", took, timeout)
			}
		})
	}
}

// A connection attempt into silence is given up after connect_timeout, and the
// next peer is tried.
func TestConnectIntoSilence(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	near, far := netns.New(t), netns.New(t)
	nearEnd, _ := netns.Join(t, near, far)
	nearEnd.AddSilent(t, "10.77.0.9")
	near.Do(t, func() { serveOn(t, "tcp", "127.0.0.1:7000", says("b")) })
	p := startAt(t, where{namespace: near}, `
		upstream "u" {
		  server "10.77.0.9:7000" {}
		  server "127.0.0.1:7000" {}
		}
		listener "l" {
		  listen          = ["$listen"]
		  upstream        = "u"
		  connect_timeout = "500ms"
		}`, vars{"listen": "127.0.0.1:7001"})
	begin := time.Now()
	near.Do(t, func() {
		if got := ask(t, p.addr); got != "b" {
			t.Errorf("got %q, want the answer of b", got)
		}
	})
	lasted(t, "the answer came", time.Since(begin), 500*time.Millisecond)
	if e := p.wantEnd(5*time.Second, "peer_closed", 200); e.Tries != 2 || e.UpstreamAddr != "10.77.0.9:7000, 127.0.0.1:7000" {
		t.Errorf("%d tries: %s, want both peers in order", e.Tries, e.UpstreamAddr)
	}
}

// Liveness looks at the machine, not at the program: a reader that does not
// read for longer than dead_peer_timeout is alive as long as its kernel
// acknowledges.
func TestStalledReaderIsNotDead(t *testing.T) {
	t.Parallel()
	const size = 64 << 20
	p := start(t, `
		upstream "u" {
		  server "$server" {}
		}
		listener "l" {
		  listen            = ["$listen"]
		  upstream          = "u"
		  dead_peer_timeout = "1s"
		}`, vars{"server": serve(t, func(c net.Conn) { io.CopyN(c, endless{}, size) })})
	c := dial(t, p.addr)
	time.Sleep(4 * time.Second)
	if n, err := io.Copy(io.Discard, c); err != nil || n != size {
		t.Errorf("read %d bytes and then %v, want %d and a clean end", n, err, size)
	}
	c.Close()
	p.wantEnd(5*time.Second, "peer_closed", 200)
}

// needRTOMax asks for a kernel of 6.15 or newer: older ones probe a shut window
// so rarely that it takes minutes to find its owner dead.
func needRTOMax(t *testing.T) {
	t.Helper()
	const rtoMaxMillis = 44 // TCP_RTO_MAX_MS, linux/tcp.h
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, rtoMaxMillis, 1000); err != nil {
		missing(t, "Linux 6.15 (TCP_RTO_MAX_MS: "+err.Error()+")")
	}
}

// A reader that stalls first and vanishes then is dead all the same.
func TestStalledReaderThatVanishesIsDead(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	needRTOMax(t)
	near, far := netns.New(t), netns.New(t)
	nearEnd, farEnd := netns.Join(t, near, far)
	near.Do(t, func() { serveOn(t, "tcp", "127.0.0.1:7000", func(c net.Conn) { io.Copy(c, endless{}) }) })
	listen := nearEnd.Addr + ":7001"
	p := startAt(t, where{namespace: near}, `
		upstream "u" {
		  server "127.0.0.1:7000" {}
		}
		listener "l" {
		  listen            = ["$listen"]
		  upstream          = "u"
		  dead_peer_timeout = "2s"
		}`, vars{"listen": listen})
	far.Do(t, func() { dial(t, listen) })
	time.Sleep(5 * time.Second)
	if e := p.entries(); len(e) > 0 {
		t.Fatalf("the session ended before its client vanished: %+v", e[0])
	}
	farEnd.Mute(t)
	vanished := time.Now()
	p.wantEnd(15*time.Second, "dead_peer", 200)
	t.Logf("noticed after %v", time.Since(vanished))
}

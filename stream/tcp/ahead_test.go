package tcp

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/stats"
)

// This file is about the calls that a session is spared, and that nothing is
// lost by it.

// eager connects a client that has spoken before anybody accepts it.
func (h *harness) eager(said string) *net.TCPConn {
	h.t.Helper()
	c := h.client()
	if _, err := c.Write([]byte(said)); err != nil {
		h.t.Fatal(err)
	}
	return c
}

// accepted turns the loop until a peer has a connection.
func (h *harness) accepted(ln *net.TCPListener) (peer *net.TCPConn) {
	h.t.Helper()
	h.turnUntil("a peer is connected", func() bool {
		ln.SetDeadline(time.Now().Add(time.Millisecond))
		c, err := ln.AcceptTCP()
		if err == nil {
			peer = c
			h.t.Cleanup(func() { c.Close() })
		}
		return err == nil
	})
	return peer
}

func segmentsIn(t *testing.T, c *net.TCPConn) (all, data uint32) {
	t.Helper()
	info, err := unix.GetsockoptTCPInfo(rawFD(t, c), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		t.Fatal(err)
	}
	return info.Segs_in, info.Data_segs_in
}

// What the client says before it is accepted reaches the peer in the packet
// that completes the connect, and is not lost when attempts fail before.
func TestFirstBytesGoWithTheHandshake(t *testing.T) {
	for _, tt := range []struct {
		name  string
		extra []conf.Server
	}{{"at once", nil}, {"after refusals", []conf.Server{refused(t), refused(t)}}} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHarness(t, setup{extra: tt.extra})
			c := h.eager("hello")
			p := h.accepted(h.peers[0])
			got := make([]byte, 5)
			h.turnUntil("the bytes are there", func() bool {
				p.SetReadDeadline(time.Now().Add(time.Millisecond))
				n, _ := io.ReadFull(p, got)
				return n == len(got)
			})
			if string(got) != "hello" {
				t.Fatalf("got %q", got)
			}
			if all, data := segmentsIn(t, p); all != 2 || data != 1 {
				t.Errorf("the peer got %d segments, %d of them with data, want the SYN and one with data", all, data)
			}
			c.Close()
			p.Close()
			h.wantClosed(stats.ClientClosed)
		})
	}
}

// A client that waits for the peer to speak first costs a look now and then,
// and its handshake is not held back.
func TestServerThatSpeaksFirst(t *testing.T) {
	h := newHarness(t, setup{})
	for range 3 {
		c, p := h.dial()
		p.Write([]byte("220 ready"))
		got := make([]byte, 9)
		h.turnUntil("the greeting is there", func() bool {
			c.SetReadDeadline(time.Now().Add(time.Millisecond))
			n, _ := io.ReadFull(c, got)
			return n == len(got)
		})
		if all, _ := segmentsIn(t, p); all == 0 {
			t.Error("the peer got no ACK for its SYN before it spoke")
		}
	}
	if q := h.w.sockets[0].quiet; q != quietAccepts-2 {
		t.Errorf("%d accepts are taken to be quiet, want %d", q, quietAccepts-2)
	}
}

func TestClientGoneBeforeItsAccept(t *testing.T) {
	h := newHarness(t, setup{})
	reset(h.client())
	h.wantClosed(stats.ClientReset)
	h.peers[0].SetDeadline(time.Now().Add(20 * time.Millisecond))
	if c, err := h.peers[0].AcceptTCP(); err == nil {
		c.Close()
		t.Error("a peer was bothered")
	}
}

// Bytes that no peer will ever see end with a reset, as if they had been left
// unread.
func TestUnheardClientIsReset(t *testing.T) {
	h := newHarness(t, setup{peers: -1, extra: []conf.Server{refused(t)}})
	c := h.eager("hello")
	r := h.wait(readAll(c))
	if !errors.Is(r.err, unix.ECONNRESET) {
		t.Errorf("the client saw %v, want a reset", r.err)
	}
	h.wantClosed(stats.ConnectFailed)
}

// More first bytes than one buffer takes.
func TestManyFirstBytes(t *testing.T) {
	h := newHarness(t, setup{})
	want := payload(200 << 10)
	c := h.client()
	go func() { c.Write(want); c.CloseWrite() }()
	time.Sleep(20 * time.Millisecond) // so that most of it waits; nothing depends on it
	p := h.accepted(h.peers[0])
	if r := h.wait(readAll(p)); r.err != nil || !bytes.Equal(r.bytes, want) {
		t.Fatalf("got %d bytes, %v", len(r.bytes), r.err)
	}
	p.Close()
	h.wantClosed(stats.ClientClosed)
}

// The last bytes and the end of input go in one packet.
func TestEndGoesWithTheLastBytes(t *testing.T) {
	h := newHarness(t, setup{})
	c, p := h.dial()
	before, _ := segmentsIn(t, c)
	p.Write([]byte("bye"))
	p.Close() // before weir has read a byte
	r := h.wait(readAll(c))
	if r.err != nil || string(r.bytes) != "bye" {
		t.Fatalf("got %q, %v", r.bytes, r.err)
	}
	if after, _ := segmentsIn(t, c); after != before+1 {
		t.Errorf("the client got %d segments, want 1", after-before)
	}
	c.Close()
	h.wantClosed(stats.PeerClosed)
}

// Urgent data makes a read stop short of the bytes behind it. They must neither
// be left where they are nor be lost at the end.
func TestBytesBehindUrgentData(t *testing.T) {
	for _, end := range ends {
		for _, relay := range []Relay{Auto, Copy, Splice} {
			t.Run(end.name, func(t *testing.T) {
				h := newHarness(t, setup{relay: relay})
				c, p := h.dial()
				a, b := end.first(c, p), end.second(c, p)
				part := payload(100 << 10)
				send := func() {
					a.Write(part)
					if err := unix.Sendto(rawFD(t, a), []byte("!"), unix.MSG_OOB, nil); err != nil {
						t.Error(err)
					}
					a.Write(part)
				}
				go send()
				got := make([]byte, 2*len(part))
				n := 0
				h.turnUntil("all is there", func() bool {
					b.SetReadDeadline(time.Now().Add(time.Millisecond))
					m, _ := b.Read(got[n:])
					n += m
					return n == len(got)
				})
				b.SetReadDeadline(time.Time{})
				go func() { send(); a.CloseWrite() }()
				r := h.wait(readAll(b))
				if want := append(part, part...); r.err != nil || !bytes.Equal(got, want) || !bytes.Equal(r.bytes, want) {
					t.Errorf("got %d and %d bytes, %v; want all but the urgent one", n, len(r.bytes), r.err)
				}
				b.Close()
				h.wantClosed(end.closed)
			})
		}
	}
}

// TCP_NODELAY is set when the second write makes it matter, and not before.
func TestNoDelayComesWithTheSecondWrite(t *testing.T) {
	h := newHarness(t, setup{})
	c, p := h.dial()
	buf := make([]byte, 1)
	for i, want := range []int{0, 1, 1} {
		c.Write([]byte{byte(i)})
		h.turnUntil("the byte is there", func() bool {
			p.SetReadDeadline(time.Now().Add(time.Millisecond))
			n, _ := p.Read(buf)
			return n == 1
		})
		for _, f := range []struct {
			fd, want int
		}{{int(h.last().half[up].fd), want}, {int(h.last().half[down].fd), 1}} {
			got, err := unix.GetsockoptInt(f.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY)
			if err != nil || got != f.want {
				t.Errorf("after write %d TCP_NODELAY is %d (%v), want %d", i+1, got, err, f.want)
			}
		}
	}
}

// A burst is accepted in a few turns though each begins with asking for little.
func TestBurstOfAccepts(t *testing.T) {
	h := newHarness(t, setup{room: 1000})
	for range 200 {
		h.client()
	}
	turns := 0
	h.turnUntil("all are accepted", func() bool {
		turns++
		return h.counted.Sessions.Load() == 200
	})
	if turns > 12 { // 1+2+4+8+16+32+64+64 and what the peers' answers take
		t.Errorf("that took %d turns", turns)
	}
	h.w.CloseAll(stats.ClosedByOperator)
}

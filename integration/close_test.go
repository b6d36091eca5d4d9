package integration_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"syscall"
	"testing"
	"time"
)

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return b
}

// sum says which bytes came, without keeping them: to let 50 MB grow in a slice
// keeps the race detector busy for a second, and all other tests waiting for the
// collector, which waits for it.
type sum struct {
	bytes int64
	hash  [sha256.Size]byte
}

func sumOf(r io.Reader) (s sum, err error) {
	h := sha256.New()
	s.bytes, err = io.Copy(h, r)
	h.Sum(s.hash[:0])
	return s, err
}

// answerAfterEnd reads the question to its end, waits, and only then answers
// and ends: whoever carries a FIN as a close loses the answer.
func answerAfterEnd(c net.Conn, wait time.Duration, answer []byte) (question sum, err error) {
	if question, err = sumOf(c); err != nil {
		return question, err
	}
	time.Sleep(wait)
	if _, err = c.Write(answer); err != nil {
		return question, err
	}
	return question, c.(stream).CloseWrite()
}

func askAndEnd(c net.Conn, question []byte) (answer sum, err error) {
	if _, err := c.Write(question); err != nil {
		return answer, err
	}
	if err := c.(stream).CloseWrite(); err != nil {
		return answer, err
	}
	return sumOf(c)
}

func wantSame(t *testing.T, what string, got sum, want []byte) {
	t.Helper()
	if hash := sha256.Sum256(want); got.hash != hash {
		t.Errorf("%s: %d bytes with SHA-256 %x, want %d with %x", what, got.bytes, got.hash, len(want), hash)
	}
}

func TestHalfClose(t *testing.T) {
	t.Parallel()
	question, answer := randomBytes(3<<20+1), randomBytes(50<<20+1)
	type result struct {
		sum
		err error
	}
	for _, test := range []struct {
		first  string // to end its output
		server string // network
		reason string
	}{
		{"client", "tcp", "client_closed"},
		{"peer", "tcp", "peer_closed"},
		{"client", "unix", "client_closed"},
		{"peer", "unix", "peer_closed"},
	} {
		t.Run(test.first+" first over "+test.server, func(t *testing.T) {
			fromPeer := make(chan result, 1)
			peer := func(c net.Conn) {
				var r result
				if test.first == "client" {
					r.sum, r.err = answerAfterEnd(c, time.Second, answer)
				} else {
					r.sum, r.err = askAndEnd(c, question)
				}
				fromPeer <- r
			}
			addr := "127.0.0.1:0"
			if test.server == "unix" {
				addr = tempDir(t) + "/s"
			}
			addr = serveOn(t, test.server, addr, peer)
			if test.server == "unix" {
				addr = "unix:" + addr
			}
			p := start(t, oneServer, vars{"server": addr})
			c := dial(t, p.addr)

			var client result
			if test.first == "client" {
				client.sum, client.err = askAndEnd(c, question)
			} else {
				client.sum, client.err = answerAfterEnd(c, time.Second, answer)
			}
			r := <-fromPeer
			if client.err != nil || r.err != nil {
				t.Fatalf("client: %v, peer: %v", client.err, r.err)
			}
			asked, answered := r.sum, client.sum
			if test.first == "peer" {
				asked, answered = client.sum, r.sum
			}
			wantSame(t, "question", asked, question)
			wantSame(t, "answer", answered, answer)
			p.wantNoSessions(5 * time.Second)
			p.wantEnd(5*time.Second, test.reason, 200)
		})
	}
}

// What was sent before a reset arrives, and then the reset, never a clean end.
func TestReset(t *testing.T) {
	t.Parallel()
	text := randomBytes(1 << 20)
	// sendAndReset waits for the acknowledgement first: a kernel drops what it
	// had not sent yet when its own side resets.
	sendAndReset := func(c net.Conn) error {
		if _, err := c.Write(text); err != nil {
			return err
		}
		if err := waitAcknowledged(c.(stream)); err != nil {
			return err
		}
		reset(c)
		return nil
	}
	// readSlowly begins only after the reset has had time to overtake.
	readSlowly := func(c net.Conn) (got []byte, err error) {
		time.Sleep(300 * time.Millisecond)
		buf := make([]byte, 64<<10)
		for {
			n, err := c.Read(buf)
			got = append(got, buf[:n]...)
			if err != nil {
				return got, err
			}
			time.Sleep(time.Millisecond)
		}
	}
	check := func(t *testing.T, got []byte, err error) {
		t.Helper()
		if !errors.Is(err, syscall.ECONNRESET) || !bytes.Equal(got, text) {
			t.Errorf("read %d bytes and then %v, want %d and a reset", len(got), err, len(text))
		}
	}

	t.Run("by the peer", func(t *testing.T) {
		done := make(chan error, 1)
		p := start(t, oneServer, vars{"server": serve(t, func(c net.Conn) { done <- sendAndReset(c) })})
		c := dial(t, p.addr)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		got, err := readSlowly(c)
		check(t, got, err)
		p.wantEnd(5*time.Second, "peer_reset", 200)
		p.wantNoSessions(5 * time.Second)
	})
	t.Run("by the client", func(t *testing.T) {
		type result struct {
			got []byte
			err error
		}
		done := make(chan result, 1)
		p := start(t, oneServer, vars{"server": serve(t, func(c net.Conn) {
			got, err := readSlowly(c)
			done <- result{got, err}
		})})
		if err := sendAndReset(dial(t, p.addr)); err != nil {
			t.Fatal(err)
		}
		r := <-done
		check(t, r.got, r.err)
		p.wantEnd(5*time.Second, "client_reset", 200)
		p.wantNoSessions(5 * time.Second)
	})
	t.Run("by the peer, reader with a small window", func(t *testing.T) {
		done := make(chan error, 1)
		p := start(t, oneServer, vars{"server": serve(t, func(c net.Conn) { done <- sendAndReset(c) })})
		d := net.Dialer{Control: smallReceiveBuffer}
		c, err := d.Dial("tcp", p.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(scaled(30 * time.Second)))
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		got, err := readSlowly(c)
		check(t, got, err)
		p.wantEnd(5*time.Second, "peer_reset", 200)
	})
	t.Run("by the peer after its end", func(t *testing.T) {
		// The client still sends; the peer has ended its output and then goes.
		p := start(t, oneServer, vars{"server": serve(t, func(c net.Conn) {
			c.(stream).CloseWrite()
			io.ReadFull(c, make([]byte, 4))
			reset(c)
		})})
		c := dial(t, p.addr)
		wantEOF(t, c)
		io.WriteString(c, "ping")
		eventually(t, 5*time.Second, "the client's writes fail", func() bool {
			_, err := io.WriteString(c, "more")
			return err != nil
		})
		p.wantEnd(5*time.Second, "peer_reset", 200)
	})
	t.Run("of a stalled reader", func(t *testing.T) {
		// The client does not read, so nobody reads its end either; weir must
		// see its reset all the same.
		p := start(t, oneServer, vars{"server": serve(t, func(c net.Conn) { io.Copy(c, endless{}) })})
		c := dial(t, p.addr)
		time.Sleep(300 * time.Millisecond)
		reset(c)
		p.wantEnd(5*time.Second, "client_reset", 200)
		p.wantNoSessions(5 * time.Second)
	})
}

// A peer that answers and resets at once, before weir has looked at its
// connect, was connected all the same: its answer is passed on, and it is not
// held against the peer, which would be unavailable for fail_timeout.
func TestResetRightAfterTheAnswer(t *testing.T) {
	t.Parallel()
	const answer, sessions = "go away\n", 300
	goAway := func(c net.Conn) {
		io.WriteString(c, answer)
		if waitAcknowledged(c.(stream)) == nil {
			reset(c)
		}
	}
	p := start(t, `
		upstream "u" {
		  server "$a" {}
		  server "$b" {}
		}
		listener "l" {
		  listen   = ["$listen"]
		  upstream = "u"
		}`, vars{"a": serve(t, goAway), "b": serve(t, goAway)})
	for range sessions {
		// A dial can meet the reset too, so the log tells.
		if c, err := tryDial(p.addr); err == nil {
			io.Copy(io.Discard, c)
			c.Close()
		}
	}
	ends := map[string]int{}
	for _, e := range p.waitEntries(5*time.Second, sessions) {
		ends[e.CloseReason]++
		if e.CloseReason == "peer_reset" && e.BytesSent != int64(len(answer)) {
			t.Errorf("%d bytes were passed on, want %d", e.BytesSent, len(answer))
		}
	}
	if ends["peer_reset"] != sessions {
		t.Errorf("sessions ended with %v, want peer_reset for all", ends)
	}
}

// endless reads as zeros for ever.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func smallReceiveBuffer(_, _ string, c syscall.RawConn) error {
	var err error
	if ctl := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 8<<10) }); ctl != nil {
		return ctl
	}
	return err
}

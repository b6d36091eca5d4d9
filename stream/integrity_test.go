package stream_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/tcp"
)

// Streams carry their own check: 8 bytes of length, that many bytes, and their
// SHA-256, so that each side can judge what it got without knowing what the
// other has sent.
func sendStream(c net.Conn, rnd *rand.Rand) error {
	size := rnd.IntN(3 << 20)
	if rnd.IntN(4) == 0 {
		size = rnd.IntN(2000)
	}
	sum := sha256.New()
	noise := rand.NewChaCha8([32]byte{byte(size), byte(size >> 8), byte(size >> 16)})
	head := binary.BigEndian.AppendUint64(nil, uint64(size))
	if _, err := c.Write(head); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	chunk := make([]byte, 1<<20)
	for size > 0 {
		n := min(1+rnd.IntN(1<<rnd.IntN(21)), size) // 1 B to 1 MiB, all scales alike
		noise.Read(chunk[:n])
		sum.Write(chunk[:n])
		if _, err := c.Write(chunk[:n]); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		size -= n
		if rnd.IntN(50) == 0 {
			time.Sleep(time.Duration(rnd.IntN(3)) * time.Millisecond)
		}
	}
	if _, err := c.Write(sum.Sum(nil)); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return c.(*net.TCPConn).CloseWrite()
}

// receiveStream reads a stream to the end of input, stalling now and then.
func receiveStream(c net.Conn, rnd *rand.Rand) error {
	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return fmt.Errorf("read head: %w", err)
	}
	left := int(binary.BigEndian.Uint64(head[:]))
	sum := sha256.New()
	buf := make([]byte, 256<<10)
	for left > 0 {
		n, err := c.Read(buf[:min(1+rnd.IntN(len(buf)), left)])
		sum.Write(buf[:n])
		left -= n
		if err != nil {
			return fmt.Errorf("read with %d bytes to come: %w", left, err)
		}
		if rnd.IntN(200) == 0 {
			time.Sleep(time.Duration(rnd.IntN(50)) * time.Millisecond)
		}
	}
	return checkSum(c, sum)
}

func checkSum(c net.Conn, sum hash.Hash) error {
	var want [sha256.Size]byte
	if _, err := io.ReadFull(c, want[:]); err != nil {
		return fmt.Errorf("read sum: %w", err)
	}
	if [sha256.Size]byte(sum.Sum(nil)) != want {
		return fmt.Errorf("the bytes differ")
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		return fmt.Errorf("after the stream: %d bytes, %v; want the end", n, err)
	}
	return nil
}

// exchange sends a stream and receives one: at the same time, or, which
// needs the half-close to be carried, one after the other.
func exchange(c net.Conn, rnd *rand.Rand, receiveFirst bool) error {
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * time.Minute))
	if receiveFirst {
		if err := receiveStream(c, rnd); err != nil {
			return err
		}
		return sendStream(c, rnd)
	}
	sent := make(chan error, 1)
	out := rand.New(rand.NewPCG(rnd.Uint64(), 1))
	go func() { sent <- sendStream(c, out) }()
	err := receiveStream(c, rnd)
	if e := <-sent; err == nil {
		err = e
	}
	return err
}

func TestIntegrity(t *testing.T) {
	const sessions = 200
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, relay := range []tcp.Relay{tcp.Auto, tcp.Copy, tcp.Splice} {
		t.Run([]string{"auto", "copy", "splice"}[relay], func(t *testing.T) {
			var mu sync.Mutex
			fail := func(side string, err error) {
				mu.Lock()
				defer mu.Unlock()
				t.Errorf("%s: %v", side, err)
			}
			var peerID uint64
			peer := serve(t, func(c net.Conn) {
				mu.Lock()
				peerID++
				rnd := rand.New(rand.NewPCG(seed, 1<<32|peerID))
				mu.Unlock()
				// Every third session the peer speaks only after the client has
				// ended, every third the other way round, else both at once.
				var kind [1]byte
				if _, err := io.ReadFull(c, kind[:]); err != nil {
					fail("peer", err)
					return
				}
				if err := exchange(c, rnd, kind[0] == 1); err != nil {
					fail("peer", err)
				}
			})
			base := openFDs(t)
			s, addr := start(t, relay, func(c *conf.Config) { c.Worker.Count = 2 }, peer)
			baseRunning := openFDs(t)
			var clients sync.WaitGroup
			for i := range sessions {
				clients.Go(func() {
					rnd := rand.New(rand.NewPCG(seed, uint64(i)))
					c, err := net.Dial("tcp", addr)
					if err != nil {
						fail("client", err)
						return
					}
					kind := byte(i % 3)
					if _, err := c.Write([]byte{kind}); err != nil {
						fail("client", err)
						return
					}
					if err := exchange(c, rnd, kind == 2); err != nil {
						fail("client", fmt.Errorf("session %d: %w", i, err))
					}
				})
			}
			clients.Wait()
			eventually(t, "every session ends", func() bool { return s.Sessions() == 0 })
			for _, p := range s.Peers("u") {
				if p.Balance.Conns != 0 {
					t.Errorf("peer %s still has %d connections", p.Addr, p.Balance.Conns)
				}
				if p.Sessions != sessions {
					t.Errorf("peer %s had %d sessions, want %d", p.Addr, p.Sessions, sessions)
				}
			}
			closed, pipes := uint64(0), int64(0)
			for _, n := range s.Read().Closed() {
				closed += n
			}
			for _, c := range s.Counters() {
				pipes += c.Pipes.Load()
			}
			spliced, copied := s.Read().Bytes(stats.Spliced), s.Read().Bytes(stats.Copied)
			if closed != sessions {
				t.Errorf("%d sessions ended, want %d", closed, sessions)
			}
			t.Logf("spliced %d MiB, copied %d MiB, %d pipes in the pools", spliced>>20, copied>>20, pipes)
			eventually(t, "descriptors are back at their base", func() bool { return openFDs(t) <= baseRunning+2*int(pipes) })
			stop(t, s)
			eventually(t, "descriptors are back at their base after the stop", func() bool { return openFDs(t) <= base })
		})
	}
}

func openFDs(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

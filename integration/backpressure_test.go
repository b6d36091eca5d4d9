package integration_test

import (
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A reader that stalls stops its writer: what is under way stays within the
// buffers of four sockets and a pipe, and weir's memory does not grow.
func TestStalledReaderStopsItsWriter(t *testing.T) {
	var written atomic.Int64
	p := start(t, oneServer, vars{"server": serve(t, func(c net.Conn) {
		buf := make([]byte, 64<<10)
		for {
			n, err := c.Write(buf)
			written.Add(int64(n))
			if err != nil {
				return
			}
		}
	})})
	dial(t, p.addr)

	plateau, since := int64(-1), time.Now()
	eventually(t, 20*time.Second, "the writer has stopped for half a second", func() bool {
		if n := written.Load(); n != plateau {
			plateau, since = n, time.Now()
		}
		return time.Since(since) > 500*time.Millisecond
	})
	before := rss(t, p.pid)
	watch := 2 * time.Second
	if long {
		watch = 10 * time.Second
	}
	time.Sleep(watch)
	grown := rss(t, p.pid) - before
	t.Logf("the writer stopped after %d KiB; weir's RSS is %d KiB and grew by %d KiB in %v", plateau>>10, before>>10, grown>>10, watch)
	if n := written.Load(); n != plateau {
		t.Errorf("the writer went on from %d to %d bytes", plateau, n)
	}
	if room := 2*socketBuffer(t, "tcp_wmem") + 2*socketBuffer(t, "tcp_rmem") + 1<<20; plateau > room {
		t.Errorf("the writer was let write %d bytes, the buffers hold %d", plateau, room)
	}
	if grown > 1<<20 {
		t.Errorf("weir's RSS grew by %d bytes", grown)
	}
}

// socketBuffer returns the largest size that the kernel gives to a buffer.
func socketBuffer(t *testing.T, name string) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/net/ipv4/" + name)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(strings.Fields(string(text))[2], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

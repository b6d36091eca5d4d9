package integration_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weirlb/weir/stream/admin"
)

// oneTurn lets one turn be under way at a time.
const oneTurn = `
	admin {
	  listen = "unix:$dir/admin.sock"
	}
	upstream "u" {
	  server "$server" {}
	  queue {
	    timeout = "$timeout"
	  }
	  adaptive_limit "aimd" {
	    min      = 1
	    max      = 1
	    initial  = 1
	    target   = "10s"
	    apply_to = "turn"
	  }
	}
	listener "high" {
	  listen   = ["$listen"]
	  upstream = "u"
	  priority = 0
	}
	listener "low" {
	  listen   = ["$low"]
	  upstream = "u"
	  priority = 5
	}`

// gate is a server that answers each line with the same line when it is let.
type gate struct {
	addr  string
	lines chan string   // as they come
	pass  chan struct{} // lets one answer out; closed, it lets out all
}

func openGate(t *testing.T) *gate {
	t.Helper()
	g := &gate{lines: make(chan string, 100), pass: make(chan struct{}, 100)}
	g.addr = serve(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			g.lines <- line
			<-g.pass
			if _, err := io.WriteString(c, line); err != nil {
				return
			}
		}
	})
	return g
}

// behindGate starts weir before a gate, which lets everybody pass in the end. low
// is the listener of low priority.
func behindGate(t *testing.T, timeout string) (g *gate, p *proxy, low string) {
	t.Helper()
	g, low = openGate(t), freeAddr(t)
	p = start(t, oneTurn, vars{"server": g.addr, "timeout": timeout, "low": low})
	t.Cleanup(func() { close(g.pass) })
	return g, p, low
}

// wantLine waits for the next line.
func (g *gate) wantLine(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-g.lines:
		if got != want {
			t.Fatalf("the server got a line of %d bytes, %.20q, want %d bytes, %.20q", len(got), got, len(want), want)
		}
	case <-time.After(scaled(10 * time.Second)):
		t.Fatalf("the server does not get %.20q", want)
	}
}

// wantNoLine looks whether one has come.
func (g *gate) wantNoLine(t *testing.T) {
	t.Helper()
	select {
	case got := <-g.lines:
		t.Fatalf("the server got %.20q while another turn was under way", got)
	default:
	}
}

// say writes to a server through weir without waiting to be rid of it.
func say(t *testing.T, addr, text string) stream {
	t.Helper()
	c := dial(t, addr)
	said := make(chan struct{})
	go func() {
		io.WriteString(c, text)
		close(said)
	}()
	t.Cleanup(func() {
		c.Close()
		<-said
	})
	return c
}

// wantText reads that, and no more.
func wantText(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("read %d of %d bytes and then %v; as they were sent: %v", n, len(want), err, string(got[:n]) == want[:n])
	}
}

// waitTurns waits until so many turns are under way and wait.
func (p *proxy) waitTurns(inFlight, waiting int) {
	p.t.Helper()
	var l admin.Limit
	eventually(p.t, 10*time.Second, "turns under way and waiting as they should", func() bool {
		l = p.limit("u")
		return l.InFlight == inFlight && l.Waiting == waiting
	})
}

// What a client sends while it waits comes later, whole and in order: also more than
// any buffer holds, and the end of its input.
func TestWaitingTurnLosesNothing(t *testing.T) {
	t.Parallel()
	g, p, _ := behindGate(t, "60s")
	first := say(t, p.addr, "first\n")
	g.wantLine(t, "first\n")
	p.waitTurns(1, 0)

	long := strings.Repeat("0123456789abcdef", 1<<18) + "\n" // 4 MiB
	second := dial(t, p.addr)
	written := make(chan error, 1)
	go func() {
		_, err := io.WriteString(second, "second\n")
		if err == nil {
			_, err = io.WriteString(second, long)
		}
		if err == nil {
			err = second.CloseWrite()
		}
		written <- err
	}()
	p.waitTurns(1, 1)
	g.wantNoLine(t)

	g.pass <- struct{}{}
	wantText(t, first, "first\n")
	g.wantLine(t, "second\n")
	g.pass <- struct{}{}
	wantText(t, second, "second\n")
	g.wantLine(t, long)
	if err := <-written; err != nil {
		t.Errorf("write: %v", err)
	}
	g.pass <- struct{}{}
	wantText(t, second, long)
	wantEOF(t, second)
	p.waitTurns(0, 0)
}

// Who says no more after what waits has not gone away: it is passed on in its turn,
// with the end of his input.
func TestWaitingTurnIsTheLast(t *testing.T) {
	t.Parallel()
	g, p, _ := behindGate(t, "60s")
	first := say(t, p.addr, "first\n")
	g.wantLine(t, "first\n")
	last := dial(t, p.addr)
	io.WriteString(last, "last\n")
	last.CloseWrite()
	p.waitTurns(1, 1)
	g.wantNoLine(t)
	g.pass <- struct{}{}
	wantText(t, first, "first\n")
	g.wantLine(t, "last\n")
	g.pass <- struct{}{}
	wantText(t, last, "last\n")
	wantEOF(t, last)
	p.waitTurns(0, 0)
}

// Who has the higher priority goes first, however late he comes; among equals it is
// who came first.
func TestWaitingTurnsGoByPriority(t *testing.T) {
	t.Parallel()
	g, p, low := behindGate(t, "60s")
	say(t, p.addr, "first\n")
	g.wantLine(t, "first\n")
	for i, one := range []struct{ addr, line string }{{low, "low 1\n"}, {low, "low 2\n"}, {p.addr, "high 1\n"}, {low, "low 3\n"}, {p.addr, "high 2\n"}} {
		say(t, one.addr, one.line)
		p.waitTurns(1, i+1)
	}
	g.wantNoLine(t)
	for _, want := range []string{"high 1\n", "high 2\n", "low 1\n", "low 2\n", "low 3\n"} {
		g.pass <- struct{}{}
		g.wantLine(t, want)
	}
}

// Who has waited for queue.timeout is told so by the end of the session. Nobody else
// notices.
func TestWaitingTurnTimesOut(t *testing.T) {
	t.Parallel()
	g, p, _ := behindGate(t, "500ms")
	first := say(t, p.addr, "first\n")
	g.wantLine(t, "first\n")
	began := time.Now()
	second := say(t, p.addr, "second\n")
	if n, err := io.Copy(io.Discard, second); n != 0 {
		t.Errorf("the client that waited read %d bytes and then %v", n, err)
	}
	if took := time.Since(began); took < 500*time.Millisecond {
		t.Errorf("the client waited for %v, want 500ms", took)
	}
	e := p.waitEntries(5*time.Second, 1)[0]
	if e.CloseReason != "queue_timeout" || e.UpstreamAddr != g.addr {
		t.Errorf("the session ended with %s at %s, want queue_timeout", e.CloseReason, e.UpstreamAddr)
	}
	g.wantNoLine(t)
	p.waitTurns(1, 0)
	g.pass <- struct{}{}
	wantText(t, first, "first\n")
	p.waitTurns(0, 0)
}

// Who goes away while he waits frees his place in line, and so does who goes away
// in the middle of his turn. What one who has given up was waiting to ask is not
// asked.
func TestWaitingTurnLeaves(t *testing.T) {
	t.Parallel()
	g, p, _ := behindGate(t, "60s")
	first := say(t, p.addr, "first\n")
	g.wantLine(t, "first\n")
	second := say(t, p.addr, "second\n")
	p.waitTurns(1, 1)
	third := say(t, p.addr, "third\n")
	p.waitTurns(1, 2)
	reset(second)
	p.waitTurns(1, 1)
	reset(first)
	g.wantLine(t, "third\n")
	p.waitTurns(1, 0)
	for range 2 { // the server answers the one who has gone too
		g.pass <- struct{}{}
	}
	wantText(t, third, "third\n")
}

// A server that never answers makes turns without end. The limit finds out that
// there are none to go by, says so once, and holds back nobody.
func TestLimitWithoutTurns(t *testing.T) {
	t.Parallel()
	lines := make(chan string, 1000)
	server := serve(t, func(c net.Conn) {
		for in := bufio.NewScanner(c); in.Scan(); {
			lines <- in.Text()
		}
	})
	const clients, limit = 40, 20
	p := start(t, `
		admin {
		  listen = "unix:$dir/admin.sock"
		}
		upstream "u" {
		  server "$server" {}
		  queue {
		    timeout = "60s"
		  }
		  adaptive_limit "aimd" {
		    initial = 20
		    target  = "200ms"
		  }
		}
		listener "l" {
		  listen   = ["$listen"]
		  upstream = "u"
		}`, vars{"server": server})
	var loggers []net.Conn
	for range clients {
		loggers = append(loggers, say(t, p.addr, "first\n"))
	}
	arrived := 0
	come := func(n int) func() bool {
		return func() bool {
			for {
				select {
				case <-lines:
					arrived++
				default:
					return arrived >= n
				}
			}
		}
	}
	eventually(t, 10*time.Second, "as many messages as the limit arrive", come(limit))
	p.waitTurns(limit, clients-limit)
	// A turn is given up after ten seconds.
	eventually(t, 30*time.Second, "all messages arrive", come(clients))
	if l := p.limit("u"); l.Enforced || l.Waiting != 0 {
		t.Errorf("the limit is %+v, want it not enforced and nobody waiting", l)
	}
	for range 5 {
		for _, c := range loggers {
			if _, err := io.WriteString(c, "another\n"); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range clients {
		loggers = append(loggers, say(t, p.addr, "late\n"))
	}
	within(t, 5*time.Second, "messages to a limit that is not enforced", func() {
		eventually(t, 5*time.Second, "all messages arrive at once", come(7*clients))
	})
	if n := len(p.logged("the adaptive limit is not enforced: what clients send is mostly not answered, so that turns are not seen")); n != 1 {
		t.Errorf("%d log lines say that the limit is not enforced, want one:\n%s", n, p.stderr)
	}
	for _, c := range loggers {
		c.Close()
	}
	for _, e := range p.waitEntries(10*time.Second, 2*clients) {
		if e.CloseReason != "client_closed" {
			t.Errorf("a session ended with %s", e.CloseReason)
		}
	}
}

package integration_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// crowdFrom has n clients connect at the same time, the i-th from an address of
// its own ("" = any), and returns those that the server has greeted. The others
// must have been reset.
func crowdFrom(t *testing.T, n int, addr string, from func(i int) string) (served []stream) {
	t.Helper()
	type result struct {
		c   stream
		err error
	}
	results := make(chan result)
	for i := range n {
		go func() {
			c, err := dialFrom(from(i), addr)
			if err == nil {
				_, err = c.Read(make([]byte, 1))
			}
			results <- result{c, err}
		}()
	}
	for range n {
		r := <-results
		if r.c != nil {
			t.Cleanup(func() { r.c.Close() })
		}
		switch {
		case r.err == nil:
			served = append(served, r.c)
		case !refusedByReset(r.err):
			t.Errorf("a client says %v, want to be served or reset", r.err)
		}
	}
	return served
}

func anywhere(int) string { return "" }

// dialFrom connects from one of the loopback addresses, "" = any.
func dialFrom(from, to string) (stream, error) {
	d := net.Dialer{Timeout: scaled(5 * time.Second)}
	if from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	c, err := d.Dial("tcp", to)
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(scaled(30 * time.Second)))
	return c.(stream), nil
}

// limitedListener is one server behind a listener with limits.
const limitedListener = `
	worker { count = 4 }
	upstream "u" {
	  server "$server" {}
	}
	listener "l" {
	  listen            = ["$listen"]
	  upstream          = "u"
	  dead_peer_timeout = "off" # the keepalive of thousands of sockets is seen in weir's CPU time
	  limits {
	    $limits
	  }
	}`

func TestListenerSessions(t *testing.T) {
	t.Parallel()
	const clients, most = 40, 7
	var h host
	p := start(t, limitedListener, vars{"server": serve(t, h.serve), "limits": "sessions = 7"})
	for round := range 3 { // places are given back, and no more than there were
		served := crowdFrom(t, clients, p.addr, anywhere)
		if len(served) != most || h.most.Load() != most {
			t.Errorf("%d were served, the server had up to %d, want %d", len(served), h.most.Load(), most)
		}
		for _, c := range served {
			c.Close()
		}
		p.waitEntries(5*time.Second, (round+1)*clients)
	}
	reasons := map[string]int{}
	for _, e := range p.entries() {
		reasons[fmt.Sprint(e.CloseReason, " ", e.Status)]++
	}
	if reasons["limit 503"] != 3*(clients-most) || reasons["client_closed 200"] != 3*most {
		t.Errorf("they ended with %v", reasons)
	}
}

func TestSessionsPerClient(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, limits string
		other        string // address of half of the clients; the others have 127.0.0.2
		want         int    // who are served, of both together
	}{
		{"each address", "sessions_per_client = 3", "127.0.0.3", 6},
		{"a network", "sessions_per_client = 3\nipv4_prefix = 24", "127.0.0.3", 3},
		{"two networks", "sessions_per_client = 3\nipv4_prefix = 24", "127.0.1.2", 6},
		{"and sessions", "sessions_per_client = 3\nsessions = 4", "127.0.0.3", 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			const clients = 40
			var h host
			p := start(t, limitedListener, vars{"server": serve(t, h.serve), "limits": test.limits})
			for round := range 2 {
				served := crowdFrom(t, clients, p.addr, func(i int) string {
					if i%2 == 0 {
						return "127.0.0.2"
					}
					return test.other
				})
				of := map[string]int{}
				for _, c := range served {
					of[c.LocalAddr().(*net.TCPAddr).IP.String()]++
				}
				if of["127.0.0.2"] > 3 || of[test.other] > 3 || len(served) != test.want || int(h.most.Load()) != test.want {
					t.Errorf("%v were served, the server had up to %d, want %d and at most 3 of each", of, h.most.Load(), test.want)
				}
				for _, c := range served {
					c.Close()
				}
				p.waitEntries(5*time.Second, (round+1)*clients)
			}
			for _, e := range p.entries() {
				switch e.CloseReason {
				case "client_closed":
				case "client_limit", "limit":
					if e.Status != 503 || e.Tries != 0 {
						t.Errorf("a refused session has status %d after %d tries", e.Status, e.Tries)
					}
				default:
					t.Errorf("a session ended with %s", e.CloseReason)
				}
			}
			if n := len(endedWith(p.endings(), "client_limit")); n != 2*(clients-test.want) && !strings.Contains(test.limits, "sessions =") {
				t.Errorf("%d were refused with client_limit, want %d", n, 2*(clients-test.want))
			}
		})
	}
}

// Clients are refused in the words of their protocol, and are told why.
func TestRefusedInTheirProtocol(t *testing.T) {
	t.Parallel()
	const why = "weir: too many sessions (limit)"
	for _, test := range []struct {
		profile string
		refused func(addr string) error // returns nil if it was as it should
	}{
		{"postgres", func(addr string) error {
			c, err := pgx.Connect(t.Context(), "postgres://weir@"+addr+"/u?sslmode=prefer")
			if err == nil {
				c.Close(t.Context())
			}
			var e *pgconn.PgError
			if errors.As(err, &e) && e.Code == "53300" && e.Message == why {
				return nil
			}
			return fmt.Errorf("pgx says %v", err)
		}},
		{"mysql", func(addr string) error {
			db := openMySQL("weir", "tcp", addr)
			defer db.Close()
			err := db.Ping()
			var e *mysql.MySQLError
			if errors.As(err, &e) && e.Number == 1040 && e.Message == why {
				return nil
			}
			return fmt.Errorf("go-sql-driver says %v", err)
		}},
		{"redis", func(addr string) error {
			if got := ask(t, addr); got != "-ERR "+why+"\r\n" {
				return fmt.Errorf("got %q", got)
			}
			return nil
		}},
		{"http", func(addr string) error {
			status, body, err := askMetrics(addr, "/")
			if err == nil && status == 503 && body == why+"\n" {
				return nil
			}
			return fmt.Errorf("net/http says %d %q %v", status, body, err)
		}},
		{"generic", func(addr string) error {
			if got := ask(t, addr); !strings.Contains(got, "connection reset by peer") {
				return fmt.Errorf("got %q", got)
			}
			return nil
		}},
	} {
		t.Run(test.profile, func(t *testing.T) {
			const clients = 20
			var h host
			p := start(t, `
				upstream "u" {
				  server "$server" {}
				  health_check "tcp" { # instead of that which comes with the profile
				    initial = "up"
				  }
				}
				listener "l" {
				  listen   = ["$listen"]
				  upstream = "u"
				  profile  = "$profile"
				  limits {
				    sessions = 1
				  }
				}`, vars{"server": serve(t, h.serve), "profile": test.profile})
			holder := dial(t, p.addr)
			if _, err := holder.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			for i := range clients {
				if err := test.refused(p.addr); err != nil {
					t.Fatalf("client %d: %v", i, err)
				}
			}
			eventually(t, 5*time.Second, "their lines", func() bool { return p.lines() >= clients })
			for _, e := range p.entries() {
				if e.CloseReason != "limit" || e.Status != 503 {
					t.Errorf("a session ended with %s and status %d", e.CloseReason, e.Status)
				}
			}
			holder.Close()
			eventually(t, 5*time.Second, "the place is free", func() bool {
				c, err := tryDial(p.addr)
				if err != nil {
					return false
				}
				defer c.Close()
				first := make([]byte, 1)
				_, err = c.Read(first)
				return err == nil && first[0] == 'x'
			})
		})
	}
}

// Clients that come faster than the rate wait, and nobody is refused.
func TestAcceptRate(t *testing.T) {
	t.Parallel()
	const clients, rate = 100, 50
	const burst = rate / 10
	p := start(t, limitedListener, vars{"server": serve(t, greeter("a")), "limits": `accept_rate = "50/s"`})
	served := make([]time.Duration, clients)
	done := make(chan bool)
	begin := time.Now()
	for i := range clients {
		go func() {
			defer func() { done <- true }()
			c, err := tryDial(p.addr)
			if err == nil {
				defer c.Close()
				_, err = io.ReadFull(c, make([]byte, 2))
			}
			served[i] = time.Since(begin)
			if err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		}()
	}
	for range clients {
		<-done
	}
	slices.Sort(served)
	t.Logf("of %d clients the first was served after %v, half of them after %v, all after %v", clients, served[0], served[clients/2], served[clients-1])
	for n, took := range served { // n others were served before this one
		if least := time.Duration(n+1-burst) * time.Second / rate; took < least-scaled(50*time.Millisecond) {
			t.Errorf("%d clients were served after %v, want at least %v", n+1, took, least)
			break
		}
	}
	if most := time.Duration(clients) * time.Second / rate; served[clients-1] > most+scaled(time.Second) {
		t.Errorf("all were served after %v, want at most about %v", served[clients-1], most)
	}
	for _, e := range p.waitEntries(5*time.Second, clients) {
		if e.Status != 200 {
			t.Errorf("a session ended with %s and status %d", e.CloseReason, e.Status)
		}
	}
}

// A session has the rates that are configured, each direction its own, and every
// byte arrives.
func TestByteRates(t *testing.T) {
	t.Parallel()
	const up, down = 1 << 20, 3 << 20 // bytes in a second
	last, tolerance := 3*time.Second, 0.15
	if long {
		last, tolerance = 10*time.Second, 0.05
	}
	upBytes, downBytes := up*int(last.Seconds()), down*int(last.Seconds())
	type arrival struct {
		sum  string
		took time.Duration // from the first byte on
	}
	receive := func(c net.Conn) arrival {
		sum := sha256.New()
		first := make([]byte, 1)
		n, err := c.Read(first)
		begin := time.Now()
		sum.Write(first[:n])
		if err == nil {
			_, err = io.Copy(sum, c)
		}
		if err != nil {
			t.Errorf("receive: %v", err)
		}
		return arrival{hex.EncodeToString(sum.Sum(nil)), time.Since(begin)}
	}
	send := func(c net.Conn, size int) error {
		if _, err := io.Copy(struct{ io.Writer }{c}, random(size)); err != nil {
			return err
		}
		return c.(stream).CloseWrite()
	}
	uploaded := make(chan arrival, 1)
	server := serve(t, func(c net.Conn) {
		sent := make(chan bool)
		go func() {
			defer close(sent)
			send(c, downBytes)
		}()
		uploaded <- receive(c)
		<-sent
	})
	p := start(t, limitedListener, vars{"server": server, "limits": "upload_rate = \"1MiB/s\"\n download_rate = \"3MiB/s\""})
	c := dial(t, p.addr)
	c.SetDeadline(time.Now().Add(scaled(30*time.Second) + 2*last))
	sent := make(chan error, 1)
	go func() { sent <- send(c, upBytes) }()
	downloaded := receive(c)
	if err := <-sent; err != nil {
		t.Errorf("send: %v", err)
	}
	for _, x := range []struct {
		name  string
		got   arrival
		bytes int
		rate  int
	}{{"upload", <-uploaded, upBytes, up}, {"download", downloaded, downBytes, down}} {
		want := sha256.New()
		io.Copy(want, random(x.bytes))
		if x.got.sum != hex.EncodeToString(want.Sum(nil)) {
			t.Errorf("%s: the bytes are others", x.name)
		}
		rate := float64(x.bytes) / x.got.took.Seconds()
		off := rate/float64(x.rate) - 1
		t.Logf("%s: %d bytes in %v, %.0f/s, %+.1f %% of %d/s", x.name, x.bytes, x.got.took, rate, 100*off, x.rate)
		if off < -tolerance || off > tolerance {
			t.Errorf("%s: the rate is %+.1f %% off, want at most %.0f %%", x.name, 100*off, 100*tolerance)
		}
	}
	// Both sides end at about the same time.
	e := p.waitEntries(5*time.Second, 1)[0]
	if e.Status != 200 || e.BytesReceived != int64(upBytes) || e.BytesSent != int64(downBytes) {
		t.Errorf("the line is %+v, want %d and %d bytes", e, upBytes, downBytes)
	}
}

// random returns size bytes, always the same.
func random(size int) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{byte(size >> 20)}), int64(size))
}

// Thousands of sessions that are idle cost nothing, whatever limits they have.
func TestIdleSessionsWithLimits(t *testing.T) {
	const sessions = 9000
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur < 2*sessions+1000 {
		missing(t, "RLIMIT_NOFILE of 19000 (ulimit -n)")
	}
	watch := 3 * time.Second
	if long {
		watch = 20 * time.Second
	}
	// idle returns what weir uses in that time with all sessions idle.
	idle := func(t *testing.T, limits string) time.Duration {
		var h host // an echo is spliced by Go, through a pipe for each
		p := start(t, limitedListener, vars{"server": serve(t, h.serve), "limits": limits})
		all := make([]net.Conn, 0, sessions)
		defer func() {
			for _, c := range all {
				reset(c) // so that they do not linger on for a minute
			}
		}()
		for range sessions {
			c, err := tryDial(p.addr)
			if err != nil {
				t.Fatalf("client %d: %v", len(all), err)
			}
			all = append(all, c)
			if _, err := io.WriteString(c, "x"); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Read(make([]byte, 1)); err != nil {
				t.Fatalf("client %d: %v", len(all), err)
			}
		}
		eventually(t, 30*time.Second, "weir has nothing left to do", func() bool {
			before := cpuTime(t, p.pid)
			time.Sleep(time.Second)
			return cpuTime(t, p.pid)-before < 50*time.Millisecond
		})
		before := cpuTime(t, p.pid)
		time.Sleep(watch)
		return cpuTime(t, p.pid) - before
	}
	var without, with time.Duration
	t.Run("without", func(t *testing.T) { without = idle(t, "") })
	t.Run("with", func(t *testing.T) {
		with = idle(t, `sessions = 20000
			sessions_per_client = 20000
			accept_rate   = "100000/s"
			upload_rate   = "1MiB/s"
			download_rate = "1MiB/s"`)
	})
	t.Logf("%d idle sessions: %v of CPU in %v without limits, %v with", sessions, without, watch, with)
	if with > without+50*time.Millisecond {
		t.Errorf("limits cost %v of CPU in %v", with-without, watch)
	}
}

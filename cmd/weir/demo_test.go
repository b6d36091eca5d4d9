package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/stream/stats"
)

// runDemo runs a demo for some time, with a check after it that no goroutine
// is left.
func runDemo(t *testing.T, length time.Duration, size func() (cols, rows int)) (*demo, string) {
	t.Helper()
	before := runtime.NumGoroutine()
	var out bytes.Buffer
	d := &demo{out: &out, size: size, plan: planDemo(length)}
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	start := time.Now()
	if err := d.run(ctx); err != nil {
		t.Fatal(err)
	}
	if late := time.Since(start) - length; late > 500*time.Millisecond {
		t.Errorf("the end took %v", late)
	}
	for deadline := time.Now().Add(2 * time.Second); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
		}
	}
	return d, out.String()
}

func TestDemoPlain(t *testing.T) {
	d, out := runDemo(t, 6*time.Second, nil)
	t.Log(out)
	last := -1
	for _, event := range []string{
		"b was taken away",
		"weir was refused by b and took another peer",
		"b is unavailable (max_fails = 1)",
		"b is back",
		"b gets its share again",
	} {
		at := strings.Index(out, event)
		if at <= last {
			t.Errorf("%q is not in the output, or too early", event)
		}
		last = at
	}
	for _, s := range d.servers {
		if !regexp.MustCompile(fmt.Sprintf(`(?m)^  %s +%s +%d/%d up `, s.name, s.addr(), s.weight, s.weight)).MatchString(out) {
			t.Errorf("no line shows peer %s up", s.name)
		}
	}
	// The first block precedes the absence: weights 3, 1, 1.
	row := regexp.MustCompile(`(?m)^  a .* (\d+) +([0-9.]+)% +60.0% `).FindStringSubmatch(out)
	if row == nil {
		t.Fatal("no line of a with its share")
	}
	picked, _ := strconv.Atoi(row[1])
	share, _ := strconv.ParseFloat(row[2], 64)
	if picked == 0 || share < 55 || share > 65 {
		t.Errorf("a was picked %d times, %v%%; want about 60%%", picked, share)
	}
	seen, queries := d.traffic.sums()
	if seen.answered == 0 || seen.failed > 0 {
		t.Errorf("%d sessions answered, %d failed: %v", seen.answered, seen.failed, seen.err)
	}
	for _, event := range []string{"dns: a query to b was lost", "dns: b has answered the query that tried it"} {
		if !strings.Contains(out, event) {
			t.Errorf("%q is not in the output", event)
		}
	}
	// Each query that a client has lost is one that weir knows of.
	closed := d.closed()
	refused, unanswered := closed[stats.PeerRefused], closed[stats.NoAnswer]
	if queries.answered == 0 || queries.failed > 0 || refused == 0 || uint64(queries.cut) > refused+unanswered {
		t.Errorf("%d queries answered, %d lost with b, %d failed: %v; weir counts %d refused, %d unanswered",
			queries.answered, queries.cut, queries.failed, queries.err, refused, unanswered)
	}
	if !regexp.MustCompile(`; no other session failed\.\n\d+ DNS queries answered, \d+ unanswered \(.*\); no other was lost\.\n$`).MatchString(out) {
		t.Error("no summary at the end")
	}
}

func TestDemoPage(t *testing.T) {
	// On a wide terminal nothing is cut, so that shows what 80 columns are for.
	for _, c := range []struct{ cols, rows, longest int }{{200, 24, 79}, {40, 10, 39}} {
		_, out := runDemo(t, 1500*time.Millisecond, func() (int, int) { return c.cols, c.rows })
		if !strings.HasPrefix(out, hideCursor) || strings.LastIndex(out, showCursor) < strings.LastIndex(out, hideCursor) {
			t.Error("the cursor is not hidden and shown again")
		}
		pages := strings.Split(out[:strings.LastIndex(out, showCursor)], hideCursor)
		for _, page := range pages {
			plain := regexp.MustCompile("\x1b\\[[0-9]*[A-Z]|\r").ReplaceAllString(page, "")
			lines := strings.Split(plain, "\n")
			if len(lines) > c.rows {
				t.Errorf("%d lines on %d rows", len(lines), c.rows)
			}
			for _, line := range lines {
				if len(line) > c.longest {
					t.Errorf("%d columns, want at most %d: %q", len(line), c.longest, line)
				}
			}
		}
	}
}

// What the page suggests for a try by hand works, before and after an absence.
func TestDemoServer(t *testing.T) {
	s, err := startDemoServer("a", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for range 3 {
		resp, err := http.Get("http://" + s.addr().String() + "/")
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "hello from a\n" {
			t.Errorf("body %q, %v", body, err)
		}
		resp.Body.Close()

		c, err := net.Dial("tcp", s.addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(c, "hi")
		if answer, err := io.ReadAll(c); err != nil || string(answer) != "a: hi\n" {
			t.Errorf("answer %q, %v", answer, err)
		}
		c.Close()

		if err := askServer(t, s); err != nil {
			t.Errorf("dns: %v", err)
		}

		s.takeAway()
		if err := askServer(t, s); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("dns of a server that was taken away: %v, want a refusal", err)
		}
		if c, err := net.Dial("tcp", s.addr().String()); err == nil {
			c.Close()
			t.Error("a server that was taken away accepts")
		}
		if err := s.comeBack(); err != nil {
			t.Fatal(err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// askServer asks the server itself over UDP.
func askServer(t *testing.T, s *demoServer) error {
	t.Helper()
	c, err := net.Dial("udp", s.addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return askDNS(t.Context(), c, nil)
}

func TestDemoDNSAnswers(t *testing.T) {
	s := &demoServer{name: "a"}
	for kind, want := range map[dnsmessage.Type]string{
		dnsmessage.TypeTXT:  "hello from a",
		dnsmessage.TypeA:    "127.0.0.1",
		dnsmessage.TypeAAAA: "",
	} {
		q := dnsmessage.Message{
			Header:    dnsmessage.Header{ID: 7, RecursionDesired: true},
			Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("any.name."), Type: kind, Class: dnsmessage.ClassINET}},
		}
		query, err := q.Pack()
		if err != nil {
			t.Fatal(err)
		}
		var a dnsmessage.Message
		if err := a.Unpack(s.answerTo(query)); err != nil {
			t.Fatal(err)
		}
		if a.ID != 7 || !a.Response || a.RCode != dnsmessage.RCodeSuccess || len(a.Questions) != 1 || a.Questions[0] != q.Questions[0] {
			t.Errorf("%v: answer %v", kind, a.GoString())
		}
		got := ""
		for _, r := range a.Answers {
			switch body := r.Body.(type) {
			case *dnsmessage.TXTResource:
				got += strings.Join(body.TXT, "")
			case *dnsmessage.AResource:
				got += netip.AddrFrom4(body.A).String()
			}
		}
		if got != want {
			t.Errorf("%v: got %q, want %q", kind, got, want)
		}
	}
	if got := string(s.answerTo([]byte("hi\n"))); got != "a: hi\n" {
		t.Errorf("answer to no query: %q", got)
	}
}

// Where the usual port is taken for UDP the demo has another one.
func TestDemoDNSPort(t *testing.T) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: demoPort})
	if err == nil { // else it is taken anyway
		defer c.Close()
	}
	d, out := runDemo(t, time.Second, nil)
	at := netip.MustParseAddrPort(d.dnsAddr)
	if at.Port() == demoPort || !strings.Contains(out, fmt.Sprintf("dig @127.0.0.1 -p %d TXT demo\n", at.Port())) {
		t.Errorf("UDP at %s, and the output is\n%s", at, out)
	}
	if _, queries := d.traffic.sums(); queries.answered == 0 || queries.failed > 0 {
		t.Errorf("%d queries answered, %d failed: %v", queries.answered, queries.failed, queries.err)
	}
}

func TestHumanBytes(t *testing.T) {
	for n, want := range map[float64]string{
		0: "0 B", 999: "999 B", 999.7: "1.0 kB", 9940: "9.9 kB", 9960: "10 kB", 999_499: "999 kB", 999_600: "1.0 MB", 12e9: "12 GB", 3e12: "3.0 TB",
	} {
		if got := humanBytes(n); got != want {
			t.Errorf("humanBytes(%v) = %q, want %q", n, got, want)
		}
	}
}

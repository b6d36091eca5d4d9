package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
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
	seen := d.traffic.sums()
	if seen.answered == 0 || seen.failed > 0 {
		t.Errorf("%d sessions answered, %d failed: %v", seen.answered, seen.failed, seen.err)
	}
	if !strings.HasSuffix(out, "; no other session failed.\n") {
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

		s.takeAway()
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

func TestHumanBytes(t *testing.T) {
	for n, want := range map[float64]string{
		0: "0 B", 999: "999 B", 999.7: "1.0 kB", 9940: "9.9 kB", 9960: "10 kB", 999_499: "999 kB", 999_600: "1.0 MB", 12e9: "12 GB", 3e12: "3.0 TB",
	} {
		if got := humanBytes(n); got != want {
			t.Errorf("humanBytes(%v) = %q, want %q", n, got, want)
		}
	}
}

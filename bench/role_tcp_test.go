package main

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// startLoad returns a load generator and the address it serves on.
func startLoad(t *testing.T) (*tcpLoad, netip.AddrPort) {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.9.20:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	l, err := newTCPLoad(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return l, netip.MustParseAddrPort(addr)
}

func TestTrips(t *testing.T) {
	for _, sleep := range []bool{false, true} {
		l, addr := startLoad(t)
		r, err := runTrips(l, addr, 4, pingBytes, 100*time.Millisecond, sleep)
		if err != nil {
			t.Fatal(err)
		}
		if r.Trips < 40 || l.accepted != 4 || !(0 < r.P50 && r.P50 <= r.P99 && r.P99 <= r.P999) {
			t.Errorf("sleep %v: %d connections, %+v", sleep, l.accepted, r)
		}
		if got, err := parseTrips(r.String()); err != nil || got.Trips != r.Trips {
			t.Errorf("its line is read as %+v, %v, want %+v", got, err, r)
		}
	}
}

// A target that does not answer with what it was asked. The load generator does
// not sleep here: a raw system call that waits would hold up the target, which is
// in the same process, when that collects garbage.
func TestTripsSeeWrongAnswers(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.9.21:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		b := make([]byte, pingBytes)
		for n := 0; ; n++ {
			if _, err := c.Read(b); err != nil {
				return
			}
			if n == 1 {
				b[pingBytes-1]++
			}
			_, _ = c.Write(b)
		}
	}()
	l, _ := startLoad(t)
	_, err = runTrips(l, netip.MustParseAddrPort(ln.Addr().String()), 1, pingBytes, 5*time.Second, false)
	if err == nil || !strings.Contains(err.Error(), "message") {
		t.Errorf("a byte of an answer was changed: got %v, want an error", err)
	}
}

func TestBursts(t *testing.T) {
	l, addr := startLoad(t)
	r, err := runBursts(l, addr, 50, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if r.Served < 50 || r.Errors != 0 || r.Took <= 0 || l.open != 0 || float64(l.accepted) != r.Served {
		t.Errorf("%d accepted, %d still open: %+v", l.accepted, l.open, r)
	}
	if got, err := parseBurst(r.String()); err != nil || got.Served != r.Served {
		t.Errorf("its line is read as %+v, %v, want %+v", got, err, r)
	}
}

func TestBurstsCountErrors(t *testing.T) {
	l, _ := startLoad(t)
	other, nobody := startLoad(t)
	other.close()
	other.epoll, other.listener = -1, -1
	r, err := runBursts(l, nobody, 10, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if r.Served != 0 || r.Errors < 10 {
		t.Errorf("nobody listens: %+v", r)
	}
}

func TestQuantile(t *testing.T) {
	var l latencies
	for _, us := range []int{1, 2, 3, 4, 1000} {
		l.add(time.Duration(us) * time.Microsecond)
	}
	if got := []float64{l.quantile(0), l.quantile(0.5), l.quantile(1)}; got[0] != 1 || got[1] != 3 || got[2] != 1000 {
		t.Errorf("got %v us, want 1, 3 and 1000", got)
	}
	if got := latencies(nil).quantile(0.5); got != 0 {
		t.Errorf("of nothing: got %v", got)
	}
}

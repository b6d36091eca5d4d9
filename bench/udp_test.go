package main

import (
	"net"
	"net/netip"
	"testing"
	"time"
)

func TestStamp(t *testing.T) {
	d := make([]byte, 64)
	putStamp(d, 7, 1<<40)
	if flow, seq, ok := stamp(d, 64); !ok || flow != 7 || seq != 1<<40 {
		t.Errorf("got flow %d, sequence %d, %v", flow, seq, ok)
	}
	other := make([]byte, 64)
	putStamp(other, 7, 1<<40+1)
	for name, d := range map[string][]byte{
		"short":              d[:63],
		"empty":              nil,
		"another's":          make([]byte, 64),
		"two halves":         append(append([]byte{}, d[:32]...), other[32:]...),
		"begins too late":    append(append([]byte{}, d[1:]...), 0),
		"longer than it was": append(append([]byte{}, d...), 0),
	} {
		if _, _, ok := stamp(d, 64); ok {
			t.Errorf("%s: taken for whole", name)
		}
	}
}

func TestFlowAddress(t *testing.T) {
	if got, want := flowAddress(1<<22|3<<16|2<<8|1), [4]byte{127, 67, 2, 1}; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestUDPPlaces(t *testing.T) {
	for _, tt := range []struct {
		cores int
		want  places
	}{
		{1, places{noCore, noCore, noCore, noCore}},
		{2, places{load: 0, proxy: 1, server: 0, directServer: 1}},
		{8, places{load: 0, proxy: 7, server: 1, directServer: 1}},
	} {
		if got := udpPlaces(tt.cores); got != tt.want {
			t.Errorf("%d cores: got %+v, want %+v", tt.cores, got, tt.want)
		}
	}
}

func TestSocketDrops(t *testing.T) {
	table := "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n" +
		" 1234: 0108007F:1F40 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 23456 2 0000000000000000 613350\n"
	if got, err := socketDrops(table, "127.0.8.1:8000"); err != nil || got != 613350 {
		t.Errorf("got %d, %v", got, err)
	}
	if got, err := socketDrops(table, "127.0.8.1:8001"); err == nil {
		t.Errorf("no such socket: got %d, want an error", got)
	}
}

// freeUDP returns a loopback address that nothing was bound to a moment ago.
func freeUDP(t *testing.T) netip.AddrPort {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 9, 9)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort()
}

func directLoad(t *testing.T) udpLoadArgs {
	addr := freeUDP(t)
	return udpLoadArgs{target: addr, server: addr, time: 100 * time.Millisecond}
}

func TestClosedLoop(t *testing.T) {
	for _, sessions := range []bool{false, true} {
		r, err := runClosedLoop(directLoad(t), 64, 8, 4, sessions)
		if err != nil {
			t.Fatal(err)
		}
		if r.Answers < 32 || r.Lost+r.Late+r.Wrong > 0 {
			t.Errorf("sessions %v: %+v", sessions, r)
		}
	}
}

// A target that answers by itself, and not with what it was asked.
func TestClosedLoopSeesWrongAnswers(t *testing.T) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 9, 10)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go func() {
		b := make([]byte, 2048)
		var first netip.AddrPort
		for n := 0; ; n++ {
			size, from, err := c.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			switch n {
			case 0:
				first = from
			case 1: // to another client
				from = first
			case 2: // a byte of another datagram
				b[size-1]++
			case 3: // cut off
				size--
			case 4: // twice
				_, _ = c.WriteToUDPAddrPort(b[:size], from)
			}
			_, _ = c.WriteToUDPAddrPort(b[:size], from)
		}
	}()
	a := udpLoadArgs{target: c.LocalAddr().(*net.UDPAddr).AddrPort(), server: freeUDP(t), time: 100 * time.Millisecond}
	r, err := runClosedLoop(a, 64, 8, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	if r.Wrong != 3 || r.Lost != 3 || r.Late != 1 || r.Answers == 0 {
		t.Errorf("got %+v, want 3 wrong ones, which are lost to those who waited, and 1 double one", r)
	}
}

func TestFlood(t *testing.T) {
	for _, segments := range []int{1, udpFloodSegments} {
		r, err := runFlood(directLoad(t), udpFloodLarge, 4, segments)
		if err != nil {
			t.Fatal(err)
		}
		if r.Sent == 0 || r.Came != r.Sent || r.Wrong+r.Backwards+r.Dropped > 0 {
			t.Errorf("%d segments: %+v", segments, r)
		}
	}
}

func TestFloodSeesWrongDatagrams(t *testing.T) {
	f := &flood{size: 64, segments: 1, fds: make([]int, 2), in: newUDPBatch(5, plainRoom)}
	for i, d := range []struct {
		flow uint32
		seq  uint64
		size int
	}{{0, 5, 64}, {1, 6, 64}, {2, 7, 64}, {0, 5, 64}, {0, 8, 60}} {
		m := f.in.outgoing(i, d.size)
		putStamp(m, d.flow, d.seq)
		f.in.msgs[i].size = uint32(d.size)
		f.take(i)
	}
	if want := (floodResult{Came: 5, Wrong: 2, Backwards: 1}); f.result != want {
		t.Errorf("got %+v, want %+v", f.result, want)
	}
}

func TestParseIperf3UDP(t *testing.T) {
	for file, want := range map[string]iperf3UDP{
		"iperf3-udp.json":         {sent: 10414, came: 10414, seconds: 1.000256, jitter: 26.11407791607254},
		"iperf3-udp-reverse.json": {sent: 10409, came: 10387, seconds: 1.000132, jitter: 13.177069175655028},
	} {
		if got, err := parseIperf3UDP(mustRead(t, file)); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", file, got, err, want)
		}
	}
	for name, text := range map[string]string{"refused": mustRead(t, "iperf3-refused.json"), "empty": "", "nothing came": "{}"} {
		if got, err := parseIperf3UDP(text); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
}

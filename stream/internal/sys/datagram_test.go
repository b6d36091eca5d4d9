package sys

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// udpSocket opens a UDP socket that is bound to that address and returns it
// with where it is.
func udpSocket(t *testing.T, addr string) (int32, Endpoint) {
	t.Helper()
	var sa Sockaddr
	sa.SetInet(netip.MustParseAddrPort(addr))
	if sa.Family() == unix.AF_INET6 {
		if c, err := net.ListenPacket("udp", "[::1]:0"); err != nil {
			t.Skipf("needs IPv6 on the loopback interface: %v", err)
		} else {
			c.Close()
		}
	}
	fd, errno := DatagramSocket(sa.Family())
	if errno != 0 {
		t.Fatal(errno)
	}
	t.Cleanup(func() { Close(fd) })
	if errno := Bind(fd, &sa); errno != 0 {
		t.Fatalf("bind to %s: %v", addr, errno)
	}
	if errno := LocalAddr(fd, &sa); errno != 0 {
		t.Fatal(errno)
	}
	return fd, sa.Endpoint()
}

// at returns e with another address.
func at(e Endpoint, ip string) Endpoint {
	var sa Sockaddr
	sa.SetInet(netip.AddrPortFrom(netip.MustParseAddr(ip), e.Port))
	return sa.Endpoint()
}

func connected(t *testing.T, fd int32, to Endpoint) {
	t.Helper()
	var sa Sockaddr
	sa.SetInet(to.AddrPort())
	if errno := Connect(fd, &sa); errno != 0 {
		t.Fatal(errno)
	}
}

// receive waits for the next messages on fd. It returns how many came.
func receive(t *testing.T, b *ReceiveBatch, fd int32) int {
	t.Helper()
	p := []unix.PollFd{{Fd: fd, Events: unix.POLLIN}}
	if n, err := unix.Poll(p, 5000); n != 1 {
		t.Fatalf("nothing came: %v", err)
	}
	n, errno := b.Receive(fd, 0, b.Len())
	if errno != 0 {
		t.Fatal(errno)
	}
	return n
}

// sizes receives until want bytes have come and returns the datagrams' sizes.
func sizes(t *testing.T, fd int32, want int) []int {
	t.Helper()
	b := NewReceiveBatch(8)
	var all []int
	for got := 0; got < want; {
		n := receive(t, b, fd)
		for i := range n {
			if _, segment := b.Control(i); segment != 0 {
				t.Fatal("datagrams came put together, without UDP_GRO")
			}
			got += len(b.Payload(i))
			all = append(all, len(b.Payload(i)))
		}
	}
	return all
}

func mustSend(t *testing.T, b *SendBatch, fd int32) {
	t.Helper()
	if n, errno := b.Send(fd, 0); n != b.Len() || errno != 0 {
		t.Fatalf("sent %d of %d messages: %v", n, b.Len(), errno)
	}
}

// A datagram's packet info is the address it was sent to, and what leaves with
// it as local leaves from there.
func TestPacketInfoBothWays(t *testing.T) {
	for _, test := range []struct {
		family               int
		wildcard, own, asked string
	}{
		{unix.AF_INET, "0.0.0.0:0", "127.0.0.1:0", "127.0.0.1"},
		{unix.AF_INET, "0.0.0.0:0", "127.0.0.1:0", "127.1.2.3"},
		{unix.AF_INET6, "[::]:0", "[::1]:0", "::1"},
	} {
		t.Run(test.asked, func(t *testing.T) {
			server, bound := udpSocket(t, test.wildcard)
			client, _ := udpSocket(t, test.own)
			if errno := WantPacketInfo(server, test.family); errno != 0 {
				t.Fatal(errno)
			}
			out, in := NewSendBatch(2, 2), NewReceiveBatch(2)
			to := at(bound, test.asked)
			out.Add([]byte("?"), 0, &to, nil)
			mustSend(t, out, client)
			receive(t, in, server)
			info, segment := in.Control(0)
			if info.IsZero() || info.Addr().String() != test.asked || segment != 0 {
				t.Fatalf("packet info %v, segment %d; want %s and 0", info.Addr(), segment, test.asked)
			}
			if e := info.Endpoint(bound); e != to {
				t.Errorf("the endpoint asked is %v, want %v", e.AddrPort(), to.AddrPort())
			}

			from := in.From(0).Endpoint()
			out.Reset()
			out.Add([]byte("!"), 0, &from, &info)
			mustSend(t, out, server)
			receive(t, in, client)
			if got := in.From(0).Endpoint(); got != to {
				t.Errorf("the answer came from %v, want %v", got.AddrPort(), to.AddrPort())
			}
			if info, _ := in.Control(0); !info.IsZero() {
				t.Error("packet info without being asked for")
			}
		})
	}
}

// What was sent to a broadcast address is answered from the interface's own:
// nothing can leave from the other one.
func TestPacketInfoOfBroadcast(t *testing.T) {
	server, bound := udpSocket(t, "0.0.0.0:0")
	client, _ := udpSocket(t, "127.0.0.1:0")
	if errno := WantPacketInfo(server, unix.AF_INET); errno != 0 {
		t.Fatal(errno)
	}
	if errno := SetOption(client, unix.SOL_SOCKET, unix.SO_BROADCAST, 1); errno != 0 {
		t.Fatal(errno)
	}
	out, in := NewSendBatch(2, 2), NewReceiveBatch(2)
	to := at(bound, "127.255.255.255")
	out.Add([]byte("?"), 0, &to, nil)
	mustSend(t, out, client)
	receive(t, in, server)
	info, _ := in.Control(0)
	from := in.From(0).Endpoint()
	out.Reset()
	out.Add([]byte("!"), 0, &from, &info)
	if n, errno := out.Send(server, 0); n != 1 || errno != 0 {
		t.Fatalf("no answer can leave from %v: %v", info.Addr(), errno)
	}
	receive(t, in, client)
	e := in.From(0).Endpoint()
	if got := e.Addr().String(); got != "127.0.0.1" {
		t.Errorf("the answer came from %s, want 127.0.0.1", got)
	}
}

// What is sent in one piece comes as so many datagrams, or in one piece to a
// socket that wants it so.
func TestSegmentsRoundTrip(t *testing.T) {
	for _, ip := range []string{"127.0.0.1", "::1"} {
		for _, coalesced := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s coalesced %v", ip, coalesced), func(t *testing.T) {
				server, to := udpSocket(t, netip.AddrPortFrom(netip.MustParseAddr(ip), 0).String())
				client, _ := udpSocket(t, netip.AddrPortFrom(netip.MustParseAddr(ip), 0).String())
				if coalesced {
					if errno := WantCoalesced(server); errno != 0 {
						t.Skipf("needs Linux 5.0 (UDP_GRO: %v)", errno)
					}
				}
				var want []byte
				out, in := NewSendBatch(2, 16), NewReceiveBatch(16)
				for k, n := range []int{1000, 1000, 1000, 1000, 10} {
					payload := bytes.Repeat([]byte{byte('a' + k)}, n)
					want = append(want, payload...)
					if k == 0 {
						out.Add(payload, 0, &to, nil)
					} else if !out.Append(payload) {
						t.Fatalf("datagram %d was not taken", k)
					}
				}
				if !out.Segmented(0) || out.Datagrams(0) != 5 || out.Bytes(0) != 4010 {
					t.Fatalf("%d datagrams, %d bytes, segmented %v", out.Datagrams(0), out.Bytes(0), out.Segmented(0))
				}
				mustSend(t, out, client)
				var got []byte
				messages := 0
				for len(got) < len(want) {
					for i := range receive(t, in, server) {
						messages++
						got = append(got, in.Payload(i)...)
						if _, segment := in.Control(i); coalesced && segment != 1000 || !coalesced && segment != 0 {
							t.Errorf("segment size %d", segment)
						}
					}
				}
				if !bytes.Equal(got, want) {
					t.Error("what came is not what was sent")
				}
				if wantMessages := map[bool]int{false: 5, true: 1}[coalesced]; messages != wantMessages {
					t.Errorf("%d messages came, want %d", messages, wantMessages)
				}
			})
		}
	}
}

// A piece that came as one goes on as one: Add takes its segment size.
func TestSegmentedPieceGoesOn(t *testing.T) {
	server, to := udpSocket(t, "127.0.0.1:0")
	client, _ := udpSocket(t, "127.0.0.1:0")
	for _, test := range []struct {
		total, segment int
		more           bool // it takes another one of that size
		want           []int
	}{
		{300, 100, true, []int{100, 100, 100}},
		{250, 100, false, []int{100, 100, 50}},
		{64 * 1000, 1000, false, slices.Repeat([]int{1000}, 64)}, // as many as UDP_GRO puts together
		{60 * 10, 10, false, slices.Repeat([]int{10}, 60)},
	} {
		out := NewSendBatch(1, 4)
		out.Add(make([]byte, test.total), test.segment, &to, nil)
		if out.Datagrams(0) != len(test.want) {
			t.Errorf("%d bytes in %ds are %d datagrams", test.total, test.segment, out.Datagrams(0))
		}
		mustSend(t, out, client)
		if got := sizes(t, server, test.total); !slices.Equal(got, test.want) {
			t.Errorf("%d bytes in %ds came as %v", test.total, test.segment, got)
		}
		if got := out.Append(make([]byte, test.segment)); got != test.more {
			t.Errorf("%d bytes in %ds: another one was taken: %v", test.total, test.segment, got)
		}
	}
}

func TestAppendRules(t *testing.T) {
	to := Endpoint{}
	for _, test := range []struct {
		name  string
		first int
		then  []int
		want  []bool
	}{
		{"equal sizes", 100, []int{100, 100}, []bool{true, true}},
		{"nothing after a shorter one", 100, []int{100, 50, 50, 100}, []bool{true, true, false, false}},
		{"never a longer one", 100, []int{101, 100}, []bool{false, true}},
		{"an empty datagram", 0, []int{0, 1}, []bool{false, false}},
		{"an empty one after others", 100, []int{0, 100}, []bool{false, true}},
		{"60 segments", 1, slices.Repeat([]int{1}, 60), append(slices.Repeat([]bool{true}, 59), false)},
		{"65000 bytes", 13000, []int{13000, 13000, 13000, 13000, 1}, []bool{true, true, true, true, false}},
		{"one byte more", 13001, []int{13001, 13001, 13001, 13001}, []bool{true, true, true, false}},
		{"the largest alone", 65507, []int{1}, []bool{false}},
	} {
		b := NewSendBatch(2, 100)
		if b.Append([]byte("x")) {
			t.Error("something was added to no message")
		}
		b.Add(make([]byte, test.first), 0, &to, nil)
		count, bytes := 1, test.first
		for k, n := range test.then {
			got := b.Append(make([]byte, n))
			if got != test.want[k] {
				t.Errorf("%s: datagram %d of %d bytes was taken: %v", test.name, k+1, n, got)
			}
			if got {
				count++
				bytes += n
			}
		}
		if b.Len() != 1 || b.Datagrams(0) != count || b.Bytes(0) != bytes || b.Segmented(0) != (count > 1) {
			t.Errorf("%s: %d messages, %d datagrams, %d bytes, segmented %v; want 1, %d, %d, %v",
				test.name, b.Len(), b.Datagrams(0), b.Bytes(0), b.Segmented(0), count, bytes, count > 1)
		}
	}
}

func TestSendBatchIsBounded(t *testing.T) {
	b := NewSendBatch(2, 4)
	add := func(want bool) {
		t.Helper()
		if got := b.Add([]byte("x"), 0, nil, nil); got != want {
			t.Errorf("message %d was taken: %v", b.Len(), got)
		}
	}
	add(true)
	add(true)
	add(false) // no message left
	b.Append([]byte("x"))
	b.Append([]byte("x"))
	if b.Append([]byte("x")) {
		t.Error("a fifth piece was taken")
	}
	b.Reset()
	add(true)
	b.Append([]byte("x"))
	b.Append([]byte("x"))
	b.Append([]byte("x"))
	add(false) // no piece left
}

// Whatever Append takes, the kernel cuts into the very same datagrams; and
// Split sends the same, with the same source.
func TestSplitSendsTheSame(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	server, to := udpSocket(t, "127.0.0.1:0")
	SetOption(server, unix.SOL_SOCKET, unix.SO_RCVBUF, 1<<20)
	client, _ := udpSocket(t, "0.0.0.0:0")
	info := PacketInfo{family: unix.AF_INET, ip: [16]byte{127, 7, 7, 7}}
	in := NewReceiveBatch(32)
	for range 200 {
		var want []int
		total := 0
		out := NewSendBatch(1, 64)
		size := 1 + r.IntN(1200) // a path may be narrow, even on loopback (ip route get)
		for range 1 + r.IntN(20) {
			n := size
			if r.IntN(10) == 0 {
				n = 1 + r.IntN(size)
			}
			payload := make([]byte, n)
			if out.Len() == 0 {
				out.Add(payload, 0, &to, &info)
				size = n
			} else if !out.Append(payload) {
				continue
			}
			want = append(want, n)
			total += n
		}
		check := func(how string) {
			t.Helper()
			var got []int
			for sum := 0; sum < total; {
				n := receive(t, in, server)
				for i := range n {
					from := in.From(i).Endpoint()
					if from.Addr().String() != "127.7.7.7" {
						t.Fatalf("%s came from %v", how, from.Addr())
					}
					sum += len(in.Payload(i))
					got = append(got, len(in.Payload(i)))
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s: datagrams of %v bytes came, want %v", how, got, want)
			}
		}
		mustSend(t, out, client)
		check("one piece")
		if !out.Segmented(0) {
			continue
		}
		if n, errno := out.Split(client, 0); n != len(want) || errno != 0 {
			t.Fatalf("split sent %d of %d: %v", n, len(want), errno)
		}
		check("split")
	}
}

// After an error the rest of a batch is sent by another call, as often as it
// takes.
func TestSendGoesOnAfterErrors(t *testing.T) {
	for _, local := range []PacketInfo{
		{},
		{family: unix.AF_INET, ip: [16]byte{127, 0, 0, 1}},
	} {
		t.Run(local.Addr().String(), func(t *testing.T) {
			server, to := udpSocket(t, "127.0.0.1:0")
			client, _ := udpSocket(t, "127.0.0.1:0")
			nowhere := at(to, "255.255.255.255") // EACCES without SO_BROADCAST
			out := NewSendBatch(8, 32)
			for i := range 8 {
				e := &nowhere
				if i%2 == 1 {
					e = &to
				}
				out.Add(make([]byte, 100), 0, e, &local)
				out.Append(make([]byte, 100))
				out.Append(make([]byte, 50))
			}
			sent := 0
			for i := 0; i < out.Len(); {
				n, errno := out.Send(client, i)
				sent += n
				i += n
				if errno != 0 {
					if errno != unix.EACCES || i%2 != 0 {
						t.Fatalf("message %d: %v", i, errno)
					}
					i++
				}
			}
			if sent != 4 {
				t.Errorf("%d messages were sent, want 4", sent)
			}
			want := slices.Repeat([]int{100, 100, 50}, 4)
			if got := sizes(t, server, 4*250); !slices.Equal(got, want) {
				t.Errorf("datagrams of %v bytes came", got)
			}
			// Split still sends what it shall.
			if n, errno := out.Split(client, 7); n != 3 || errno != 0 {
				t.Errorf("split sent %d of 3: %v", n, errno)
			}
			if got := sizes(t, server, 250); !slices.Equal(got, []int{100, 100, 50}) {
				t.Errorf("split sent %v bytes", got)
			}
		})
	}
}

// Only messages larger than MaxDatagram lose something, which UDP has none of.
func TestTruncated(t *testing.T) {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	in := NewReceiveBatch(3)
	for _, n := range []int{1, MaxDatagram, MaxDatagram + 1} {
		if err := unix.Send(p[0], make([]byte, n), 0); err != nil {
			t.Fatal(err)
		}
	}
	if n := receive(t, in, int32(p[1])); n != 3 {
		t.Fatalf("%d messages, want 3", n)
	}
	for i, want := range []bool{false, false, true} {
		if in.Truncated(i) != want {
			t.Errorf("message of %d bytes: truncated %v", len(in.Payload(i)), in.Truncated(i))
		}
	}
	// The next message in its place is whole again.
	unix.Send(p[0], []byte("x"), 0)
	if n, errno := in.Receive(int32(p[1]), 2, 3); n != 1 || errno != 0 || in.Truncated(2) || len(in.Payload(2)) != 1 {
		t.Errorf("%d messages, %v, truncated %v", n, errno, in.Truncated(2))
	}
}

func TestReceiveIntoPlaces(t *testing.T) {
	server, to := udpSocket(t, "127.0.0.1:0")
	client, own := udpSocket(t, "127.0.0.1:0")
	out, in := NewSendBatch(8, 8), NewReceiveBatch(6)
	for _, text := range []string{"a", "", "ccc", "dddd"} {
		out.Add([]byte(text), 0, &to, nil)
	}
	mustSend(t, out, client)
	for _, part := range []struct{ from, to, n int }{{2, 4, 2}, {4, 6, 2}} {
		if n, errno := in.Receive(server, part.from, part.to); n != part.n || errno != 0 {
			t.Fatalf("%d messages, %v", n, errno)
		}
	}
	for i, want := range []string{"a", "", "ccc", "dddd"} {
		if got := string(in.Payload(2 + i)); got != want || in.From(2+i).Endpoint() != own {
			t.Errorf("message %d is %q, want %q", i, got, want)
		}
	}
}

func TestDatagramErrors(t *testing.T) {
	in, out := NewReceiveBatch(1), NewSendBatch(1, 1)
	out.Add([]byte("x"), 0, nil, nil)
	if _, errno := in.Receive(-1, 0, 1); errno != unix.EBADF {
		t.Errorf("receive: %v, want EBADF", errno)
	}
	if _, errno := out.Send(-1, 0); errno != unix.EBADF {
		t.Errorf("send: %v, want EBADF", errno)
	}
	fd, _ := udpSocket(t, "127.0.0.1:0")
	if _, errno := in.Receive(fd, 0, 1); errno != unix.EAGAIN {
		t.Errorf("receive from an empty socket: %v, want EAGAIN", errno)
	}
	if _, errno := out.Send(fd, 0); errno != unix.EDESTADDRREQ {
		t.Errorf("send to nobody: %v, want EDESTADDRREQ", errno)
	}

	// A closed port refuses, once for each datagram, where the next call finds it.
	gone, dead := udpSocket(t, "127.0.0.1:0")
	Close(gone)
	connected(t, fd, dead)
	mustSend(t, out, fd)
	if _, errno := in.Receive(fd, 0, 1); errno != unix.ECONNREFUSED {
		t.Errorf("receive from a closed port: %v, want ECONNREFUSED", errno)
	}
	if _, errno := in.Receive(fd, 0, 1); errno != unix.EAGAIN {
		t.Errorf("receive after that: %v, want EAGAIN", errno)
	}
	mustSend(t, out, fd)
	if _, errno := out.Send(fd, 0); errno != unix.ECONNREFUSED {
		t.Errorf("send to a closed port: %v, want ECONNREFUSED", errno)
	}
	mustSend(t, out, fd) // and again, for the error has been told
	SocketError(fd)

	out.Reset()
	out.Add(make([]byte, 65508), 0, nil, nil)
	if _, errno := out.Send(fd, 0); errno != unix.EMSGSIZE {
		t.Errorf("send of 65508 bytes: %v, want EMSGSIZE", errno)
	}
	if _, errno := DatagramSocket(unix.AF_UNSPEC); errno == 0 {
		t.Error("a socket of no family was opened")
	}
}

func TestDatagramSocketIsNonBlockingAndPrivate(t *testing.T) {
	fd, _ := udpSocket(t, "127.0.0.1:0")
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK == 0 {
		t.Errorf("flags %#x, %v: the socket blocks", flags, err)
	}
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags %#x, %v: children inherit the socket", flags, err)
	}
}

// The kernel writes control data; whatever it is, reading it ends and does not
// panic.
func TestControlOfGarbage(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	b := NewReceiveBatch(1)
	headers := [][2]int32{
		{unix.IPPROTO_IP, unix.IP_PKTINFO},
		{unix.IPPROTO_IPV6, unix.IPV6_PKTINFO},
		{unix.SOL_UDP, unix.UDP_GRO},
		{unix.SOL_SOCKET, unix.SCM_TIMESTAMP},
	}
	lengths := []uint64{0, 1, 15, 16, 17, 20, 28, 36, 64, 65, 1 << 31, 1<<63 - 1, 1 << 63, 1<<64 - 1, 1<<64 - 8}
	for range 200_000 {
		for i := range b.control[0] {
			b.control[0][i] = byte(r.Uint32())
		}
		for at := 0; at+unix.SizeofCmsghdr <= controlBytes; at += 8 {
			if r.IntN(2) == 0 {
				continue
			}
			c := b.control[0][at:]
			h := headers[r.IntN(len(headers))]
			binary.NativeEndian.PutUint64(c, lengths[r.IntN(len(lengths))])
			binary.NativeEndian.PutUint32(c[8:], uint32(h[0]))
			binary.NativeEndian.PutUint32(c[12:], uint32(h[1]))
		}
		b.msgs[0].hdr.SetControllen(r.IntN(controlBytes + 1))
		b.msgs[0].len = uint32(r.IntN(MaxDatagram + 1))
		info, _ := b.Control(0)
		if addr := info.Addr(); info.IsZero() == addr.IsValid() {
			t.Fatalf("zero %v, address %v", info.IsZero(), addr)
		}
	}
}

func TestPacketInfoOfNothing(t *testing.T) {
	var p PacketInfo
	_, e := udpSocket(t, "127.0.0.1:0")
	if !p.IsZero() || p.Addr().IsValid() || p.Endpoint(e) != e {
		t.Error("a zero packet info says something")
	}
}

// Receiving and sending allocate nothing.
func TestBatchesAllocateNothing(t *testing.T) {
	server, to := udpSocket(t, "0.0.0.0:0")
	to = at(to, "127.0.0.1")
	client, _ := udpSocket(t, "127.0.0.1:0")
	WantPacketInfo(server, unix.AF_INET)
	out, in := NewSendBatch(4, 8), NewReceiveBatch(8)
	payload := make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() {
		out.Reset()
		out.Add(payload, 0, &to, nil)
		out.Append(payload)
		out.Add(payload[:10], 0, &to, nil)
		out.Send(client, 0)
		n, _ := in.Receive(server, 0, 8)
		for i := range n {
			in.Control(i)
			in.From(i)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

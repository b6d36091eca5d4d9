package sys

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSockaddrKeepsAddresses(t *testing.T) {
	for _, want := range []string{"127.0.0.1:5432", "255.255.255.255:65535", "[::1]:1", "[2001:db8::1]:5432", "[fe80::1%3]:22"} {
		var sa Sockaddr
		sa.SetInet(netip.MustParseAddrPort(want))
		e := sa.Endpoint()
		if got := netip.AddrPortFrom(e.Addr(), e.Port).String(); got != want {
			t.Errorf("%s came back as %s", want, got)
		}
	}
	var sa Sockaddr
	sa.SetInet(netip.MustParseAddrPort("[::ffff:192.0.2.1]:80"))
	if e := sa.Endpoint(); sa.Family() != unix.AF_INET || e.Addr().String() != "192.0.2.1" {
		t.Errorf("a mapped address became family %d, %v", sa.Family(), e.Addr())
	}
	sa.SetUnix("/run/x")
	if e := sa.Endpoint(); !e.IsUnix() || e.Addr().IsValid() {
		t.Error("a unix address is not told from others")
	}
}

func TestUnixPathOfFullLength(t *testing.T) {
	dir := t.TempDir()
	path := dir + "/" + strings.Repeat("x", 107-len(dir)-1)
	fd, errno := StreamSocket(unix.AF_UNIX)
	if errno != 0 {
		t.Fatal(errno)
	}
	defer Close(fd)
	var sa Sockaddr
	sa.SetUnix(path)
	if errno := Bind(fd, &sa); errno != 0 {
		t.Fatalf("bind to %d bytes: %v", len(path), errno)
	}
	if errno := Listen(fd, 1); errno != 0 {
		t.Fatal(errno)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got, errno := Accept(fd, &sa)
	if errno != 0 {
		t.Fatal(errno)
	}
	Close(got)
	if e := sa.Endpoint(); !e.IsUnix() {
		t.Error("an unnamed unix client is not told from others")
	}
}

func TestErrnosComeBackAsTheyAre(t *testing.T) {
	var b [1]byte
	if _, errno := Recv(-1, b[:]); errno != unix.EBADF {
		t.Errorf("recv: %v", errno)
	}
	if _, errno := Send(-1, b[:], false); errno != unix.EBADF {
		t.Errorf("send: %v", errno)
	}
	if _, errno := Splice(-1, -1, 1); errno != unix.EBADF {
		t.Errorf("splice: %v", errno)
	}
	r, w, errno := Pipe()
	if errno != 0 {
		t.Fatal(errno)
	}
	defer Close(r)
	defer Close(w)
	if _, errno := Splice(r, w, 1); errno != unix.EINVAL {
		t.Errorf("splice a pipe to itself: %v", errno)
	}
	if size, errno := SetPipeSize(w, 128<<10); errno != 0 || size < 128<<10 {
		t.Errorf("pipe size: %d, %v", size, errno)
	}
}

func TestSendToClosedSocketIsNoSignal(t *testing.T) {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(p[1])
	defer unix.Close(p[0])
	if _, errno := Send(int32(p[0]), []byte("x"), false); errno != unix.EPIPE {
		t.Errorf("send: %v, want EPIPE", errno)
	}
}

func TestEpollKeepsItsData(t *testing.T) {
	ep, errno := EpollCreate()
	if errno != 0 {
		t.Fatal(errno)
	}
	defer Close(ep)
	fd, errno := EventFD()
	if errno != 0 {
		t.Fatal(errno)
	}
	defer Close(fd)
	const data = 0xfedcba9876543210
	if errno := EpollAdd(ep, fd, unix.EPOLLIN, data); errno != 0 {
		t.Fatal(errno)
	}
	events := make([]Event, 4)
	if n, errno := EpollWait(ep, events, 0, false); n != 0 || errno != 0 {
		t.Fatalf("an idle eventfd: %d events, %v", n, errno)
	}
	EventSignal(fd)
	for _, idle := range []bool{false, true} {
		n, errno := EpollWait(ep, events, 1000, idle)
		for errno == unix.EINTR {
			n, errno = EpollWait(ep, events, 1000, idle)
		}
		if n != 1 || errno != 0 || events[0].Data() != data {
			t.Fatalf("idle %v: %d events, %v, data %#x", idle, n, errno, events[0].Data())
		}
	}
	EventClear(fd)
	if n, _ := EpollWait(ep, events, 0, false); n != 0 {
		t.Fatal("a cleared eventfd is ready")
	}
}

func TestEndpointAsText(t *testing.T) {
	inet := EndpointOf(netip.MustParseAddrPort("[2001:db8::1]:53"))
	unix := EndpointOf(netip.AddrPort{})
	if inet.String() != "[2001:db8::1]:53" || unix.String() != "unix:" {
		t.Errorf("they are %q and %q", inet.String(), unix.String())
	}
}

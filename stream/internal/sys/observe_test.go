package sys

import (
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestThreadTimes(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := int32(unix.Gettid())
	before, err := ThreadCPU(thread)
	if err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < 20*time.Millisecond; {
		if now, _ := ThreadCPU(thread); now-before > 5*time.Millisecond {
			break
		}
	}
	other := make(chan time.Duration, 1)
	go func() { // a scrape reads it on another thread
		d, _ := ThreadCPU(thread)
		other <- d
	}()
	if after := <-other; after <= before || after > before+10*time.Second {
		t.Errorf("the thread has run for %v, and before that for %v", after, before)
	}
	if _, err := ThreadCPU(1 << 22); err == nil {
		t.Error("a thread that is not there has run")
	}
	if waited, err := ThreadWaited(thread); err != nil {
		t.Logf("this kernel does not know how long a thread waited for a CPU: %v", err)
	} else if waited < 0 {
		t.Errorf("it waited for %v", waited)
	}
}

func TestQueues(t *testing.T) {
	fd, errno := StreamSocket(unix.AF_INET)
	if errno != 0 {
		t.Fatal(errno)
	}
	defer Close(fd)
	if errno := Listen(fd, 5); errno != 0 {
		t.Fatal(errno)
	}
	var sa Sockaddr
	if errno := LocalAddr(fd, &sa); errno != 0 {
		t.Fatal(errno)
	}
	e := sa.Endpoint()
	for range 3 {
		c, err := net.DialTCP("tcp4", nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(e.Port)})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if waiting, limit, errno := AcceptQueue(fd); errno != 0 || waiting != 3 || limit != 5 {
		t.Errorf("%d of %d connections wait (%v), want 3 of 5", waiting, limit, errno)
	}
}

func TestDatagramQueue(t *testing.T) {
	fd, errno := DatagramSocket(unix.AF_INET)
	if errno != 0 {
		t.Fatal(errno)
	}
	defer Close(fd)
	if errno := SetOption(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4096); errno != 0 {
		t.Fatal(errno)
	}
	var sa Sockaddr
	sa.SetInet(netip.MustParseAddrPort("127.0.0.1:0"))
	if errno := Bind(fd, &sa); errno != 0 {
		t.Fatal(errno)
	}
	if errno := LocalAddr(fd, &sa); errno != 0 {
		t.Fatal(errno)
	}
	e := sa.Endpoint()
	c, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(e.Port)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 100 {
		c.Write(make([]byte, 500))
	}
	q, errno := ReceiveQueue(fd)
	if errno != 0 || q.Bytes == 0 || q.Limit < 4096 || q.Dropped == 0 || q.Dropped >= 100 {
		t.Errorf("after 100 datagrams: %+v, %v", q, errno)
	}
}

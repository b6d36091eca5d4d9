package integration_test

import (
	"net"
	"syscall"
	"testing"
	"time"
)

// crowd connects n clients at once, without waiting to be served.
func crowd(t *testing.T, addr string, n int) (leave func()) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur < uint64(n)+1000 {
		missing(t, "RLIMIT_NOFILE of 3000 (ulimit -n)")
	}
	clients := make([]net.Conn, 0, n)
	leave = func() {
		for _, c := range clients {
			c.Close()
		}
		clients = nil
	}
	t.Cleanup(leave)
	for range n {
		c, err := tryDial(addr)
		if err != nil {
			t.Fatalf("client %d: %v", len(clients), err)
		}
		clients = append(clients, c)
	}
	return leave
}

// More clients than there is room for wait in the accept queue. They cost
// nothing there, and are served as soon as others leave.
func TestMoreClientsThanRoom(t *testing.T) {
	for _, test := range []struct {
		name       string
		nofile     int
		maxSession string
		clients    int
	}{
		{"RLIMIT_NOFILE 256", 256, `"auto"`, 2000},
		{"max_sessions 10", 0, "10", 500},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := startAt(t, where{nofile: test.nofile}, `
				worker {
				  max_sessions = $max
				}
				upstream "u" {
				  server "$server" {}
				}
				listener "l" {
				  listen   = ["$listen"]
				  upstream = "u"
				}`, vars{"server": serve(t, echo), "max": test.maxSession})
			roundTrip(t, dial(t, p.addr)) // so that what is opened on first use is open
			base := countFDs(p.pid)
			room := int(p.logged("weir is running")[0]["max_sessions"].(float64))

			leave := crowd(t, p.addr, test.clients)
			eventually(t, 5*time.Second, "every place is taken", func() bool { return countFDs(p.pid, "socket:") >= p.base+2*room })
			before := cpuTime(t, p.pid)
			time.Sleep(time.Second)
			used := cpuTime(t, p.pid) - before
			t.Logf("%d clients for %d places: %v of CPU in 1 s", test.clients, room, used)
			if used > 200*time.Millisecond {
				t.Errorf("weir used %v of CPU in 1 s while full, want less than 20 %%", used)
			}
			if n := len(p.logged("not accepting until there is room: max_sessions reached")); n < 1 || n > 2 {
				t.Errorf("%d log lines say that there is no room, want one for each worker that noticed:\n%s", n, p.stderr)
			}

			leave()
			took := within(t, time.Second, "being served again", func() { roundTrip(t, dial(t, p.addr)) })
			t.Logf("served again %v after the crowd left", took)
			eventually(t, 10*time.Second, "descriptors are back at their number before", func() bool {
				return countFDs(p.pid, "socket:") <= p.base+2*2 && countFDs(p.pid) <= base+2+p.pooledPipes()
			})
		})
	}
}

func TestMaxSessionsBeyondTheLimitOfDescriptors(t *testing.T) {
	p := launch(t, where{nofile: 256}, `
		worker {
		  max_sessions = 5000
		}`+oneServer, vars{"server": "127.0.0.1:9"})
	p.wantStartFailure("max_sessions = 5000 needs RLIMIT_NOFILE")
}

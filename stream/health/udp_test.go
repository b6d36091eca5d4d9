package health

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
)

// serveUDP answers each datagram with what f returns, if that is not "", until
// the test ends.
func serveUDP(t *testing.T, f func(string) string) Target {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 64<<10)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			if answer := f(string(b[:n])); answer != "" {
				c.WriteTo([]byte(answer), from)
			}
		}
	}()
	t.Cleanup(func() {
		c.Close()
		<-done
	})
	return Target{Addr: mustAddr(c.LocalAddr().String()), Host: "127.0.0.1"}
}

func TestUDP(t *testing.T) {
	echo := serveUDP(t, strings.ToUpper)
	got := make(chan string, 10)
	mute := serveUDP(t, func(text string) string { got <- text; return "" })
	refuses := nobody(t)
	short := func(steps ...conf.Step) func(h *conf.HealthCheck) {
		return func(h *conf.HealthCheck) { h.Steps, h.Timeout = steps, scaled(300*time.Millisecond) }
	}
	long := func(steps ...conf.Step) func(h *conf.HealthCheck) {
		return func(h *conf.HealthCheck) { h.Steps, h.Timeout = steps, scaled(20*time.Second) }
	}
	newProber(t, echo, conf.CheckUDP, long(send("ping"), expect("PING"), send("pong"), matches("^P.NG$"))).wantOK("")
	newProber(t, echo, conf.CheckUDP, long(send(strings.Repeat(".", 20000)+"ping"), matches("PING$"))).wantOK("")
	newProber(t, echo, conf.CheckUDP, long(send("ping"))).wantOK("answered")
	newProber(t, mute, conf.CheckUDP, short(send("ping"))).wantOK("not refused")
	newProber(t, mute, conf.CheckUDP, short()).wantOK("not refused")
	newProber(t, mute, conf.CheckUDP, short(send("ping"), expect("PING"))).wantFailure(`timed out after LIMIT waiting for "PING"`)
	newProber(t, echo, conf.CheckUDP, short(send("ping"), expect("ping"))).wantFailure(`timed out after LIMIT waiting for "ping" after "PING"`)
	newProber(t, refuses, conf.CheckUDP, long(send("ping"))).wantFailure("after the datagram: connection refused")
	newProber(t, refuses, conf.CheckUDP, long()).wantFailure("after the datagram: connection refused")
	newProber(t, refuses, conf.CheckUDP, long(send("ping"), expect("PING"))).wantFailure(`waiting for "PING": connection refused`)
	for _, want := range []string{"ping", "", "ping"} {
		if text := <-got; text != want {
			t.Errorf("the server got %q, want %q", text, want)
		}
	}
}

package integration_test

import (
	"syscall"
	"testing"
	"time"
)

// A process that stands still in the middle of a bulk transfer delays it and
// damages nothing.
func TestPausedProcess(t *testing.T) {
	t.Parallel()
	const size = 200 << 20
	pause := time.Second
	if long {
		pause = 5 * time.Second
	}
	for _, test := range []struct{ name, peer, client, paused string }{
		{"peer receives and pauses", "receive-on", "send-to", "peer"},
		{"client receives and pauses", "send-on", "receive-from", "client"},
		{"peer sends and pauses", "send-on", "receive-from", "peer"},
		{"client sends and pauses", "receive-on", "send-to", "client"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			peer := startRole(t, test.peer, "127.0.0.1:0", size)
			p := start(t, oneServer, vars{"server": peer.wait("ready")})
			client := startRole(t, test.client, p.addr, size)
			sender, paused := peer, peer
			if test.client == "send-to" {
				sender = client
			}
			if test.paused == "client" {
				paused = client
			}

			sender.wait("half")
			paused.signal(syscall.SIGSTOP)
			time.Sleep(pause)
			paused.signal(syscall.SIGCONT)

			if sent, got := client.wait("sum"), peer.wait("sum"); sent != got {
				t.Errorf("SHA-256 of the client's bytes is %s, of the peer's %s", sent, got)
			}
			if e := p.waitEntries(5*time.Second, 1)[0]; e.BytesReceived+e.BytesSent != size {
				t.Errorf("the access log counts %d and %d bytes, want %d", e.BytesReceived, e.BytesSent, size)
			}
		})
	}
}

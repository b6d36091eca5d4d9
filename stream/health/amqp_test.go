package health

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/weirlb/weir/conf"
)

// A fakeAMQP is a broker that refuses what it is told to, and counts methods by
// class and id, as "20.10" for channel.open.
type fakeAMQP struct {
	refuse string // a method that is answered with connection.close 403
	drop   string // a method after whose answer the connection is closed
	got    chan string
}

func (b *fakeAMQP) serve(c net.Conn) {
	head := make([]byte, 8)
	if _, err := io.ReadFull(c, head); err != nil || !bytes.Equal(head, []byte("AMQP\x00\x00\x09\x01")) {
		return
	}
	send := func(channel, class, id uint16, args ...byte) {
		payload := append(binary.BigEndian.AppendUint32(nil, uint32(class)<<16|uint32(id)), args...)
		frame := binary.BigEndian.AppendUint16([]byte{1}, channel)
		frame = binary.BigEndian.AppendUint32(frame, uint32(len(payload)))
		c.Write(append(append(frame, payload...), 0xCE))
	}
	send(0, 10, 10, append([]byte{0, 9, 0, 0, 0, 0, 0, 0, 0, 5}, "PLAIN\x00\x00\x00\x05en_US"...)...)
	for {
		head := make([]byte, 7)
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		payload := make([]byte, binary.BigEndian.Uint32(head[3:])+1)
		if _, err := io.ReadFull(c, payload); err != nil {
			return
		}
		if head[0] != 1 { // a heartbeat
			continue
		}
		channel := binary.BigEndian.Uint16(head[1:])
		method := fmt.Sprintf("%d.%d", binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:]))
		b.got <- method
		if method == b.refuse {
			send(0, 10, 50, append([]byte{1, 0x93, 7}, "REFUSED\x00\x0a\x00\x28"...)...)
			continue
		}
		switch method {
		case "10.11": // start-ok
			send(0, 10, 30, 0, 0, 0, 2, 0, 0, 0, 10) // tune: frames of 128 KiB, a heartbeat each 10 s
		case "10.40": // open
			send(0, 10, 41, 0)
		case "20.10": // channel.open
			send(channel, 20, 11, 0, 0, 0, 0)
		case "20.40": // channel.close
			send(channel, 20, 41)
		case "10.50": // close
			send(0, 10, 51)
			return
		}
		if method == b.drop {
			return
		}
	}
}

// wantMethods fails the test unless the broker was sent these.
func (b *fakeAMQP) wantMethods(t *testing.T, list ...string) {
	t.Helper()
	for _, want := range list {
		if got := <-b.got; got != want {
			t.Errorf("method %s, want %s", got, want)
		}
	}
}

func TestAMQP(t *testing.T) {
	login := []string{"10.11", "10.31", "10.40"}
	ask := []string{"20.10", "20.40"}
	b := &fakeAMQP{got: make(chan string, 100)}
	p := newProber(t, serve(t, b.serve), conf.CheckAMQP, nil)
	p.wantOK("")
	b.wantMethods(t, append(login, ask...)...)
	for range 3 {
		p.wantOK("")
		b.wantMethods(t, ask...) // on the same connection
	}
	p.end(true)
	b.wantMethods(t, "10.50")

	b = &fakeAMQP{got: make(chan string, 100), drop: "20.40"}
	p = newProber(t, serve(t, b.serve), conf.CheckAMQP, nil)
	for range 3 {
		p.wantOK("")
		b.wantMethods(t, append(login, ask...)...) // a fresh one each time
	}

	b = &fakeAMQP{got: make(chan string, 100), refuse: "10.40"}
	newProber(t, serve(t, b.serve), conf.CheckAMQP, nil).wantFailure("logging in: 403 REFUSED")
	b = &fakeAMQP{got: make(chan string, 100), refuse: "20.10"}
	newProber(t, serve(t, b.serve), conf.CheckAMQP, nil).wantFailure("opening a channel: 403 REFUSED")
}

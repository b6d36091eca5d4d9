package health

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"github.com/weirlb/weir/conf"
)

// newMQTT returns a probe that connects as a client of MQTT 3.1.1 with a clean
// session, pings, and disconnects. Its client id is another one each time, so
// that it takes over nobody's session. Without a user, being refused for that is
// a success: the broker works, and wants a login. It may log each refusal.
func newMQTT(h *conf.HealthCheck, at *endpoint) (probe, error) {
	return &visit{at: at, talk: func(_ context.Context, c net.Conn) (reading, error) { return askMQTT(h, c) }}, nil
}

func askMQTT(h *conf.HealthCheck, c net.Conn) (reading, error) {
	hello := packets.NewControlPacket(packets.Connect).(*packets.ConnectPacket)
	hello.ProtocolName, hello.ProtocolVersion = "MQTT", 4
	hello.CleanSession = true
	hello.Keepalive = 60                                           // seconds
	hello.ClientIdentifier = "weir" + rand.Text()[:23-len("weir")] // 23 letters and digits are what every server takes
	hello.Username, hello.UsernameFlag = h.User, h.User != ""
	hello.Password, hello.PasswordFlag = []byte(h.Password), h.Password != ""
	if err := hello.Write(c); err != nil {
		return reading{}, doing("sending CONNECT", err)
	}
	p, err := readMQTT(c, packets.Connack, 2)
	if err != nil {
		return reading{}, err
	}
	code := p.(*packets.ConnackPacket).ReturnCode
	if h.User == "" && (code == packets.ErrRefusedBadUsernameOrPassword || code == packets.ErrRefusedNotAuthorised) {
		return alive("answers, and wants a login"), nil
	}
	if code != packets.Accepted {
		meaning := strings.ToLower(strings.TrimPrefix(packets.ConnackReturnCodes[code], "Connection Refused: "))
		if meaning == "" {
			meaning = "unknown"
		}
		return reading{}, fmt.Errorf("refused with code %d: %s", code, meaning)
	}
	if err := packets.NewControlPacket(packets.Pingreq).Write(c); err != nil {
		return reading{}, doing("sending PINGREQ", err)
	}
	if _, err := readMQTT(c, packets.Pingresp, 0); err != nil {
		return reading{}, err
	}
	if err := packets.NewControlPacket(packets.Disconnect).Write(c); err != nil {
		return reading{}, doing("sending DISCONNECT", err)
	}
	return alive(""), nil
}

// readMQTT reads a packet that must be of that kind and length. It looks at the
// length itself: packets.ReadPacket would allocate up to 256 MiB at a server's
// word.
func readMQTT(c net.Conn, kind byte, length byte) (packets.ControlPacket, error) {
	b := make([]byte, 2+length)
	if _, err := io.ReadFull(c, b); err != nil {
		return nil, doing("waiting for "+packets.PacketNames[kind], err)
	}
	if b[0]>>4 != kind || b[1] != length {
		return nil, fmt.Errorf("the server says %x, which is no %s", b, packets.PacketNames[kind])
	}
	p, err := packets.ReadPacket(bytes.NewReader(b))
	if err != nil {
		return nil, errors.New("a malformed " + packets.PacketNames[kind])
	}
	return p, nil
}

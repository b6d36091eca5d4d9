package health

import (
	"context"
	"errors"
	"net"
	"syscall"

	"github.com/weirlb/weir/conf"
)

// newUDP returns a probe that sends datagrams and waits for answers. Its socket
// is connected, so that it learns of a host that refuses them (ICMP port
// unreachable). A check that expects no answer is a success unless that comes
// before its timeout, which it always takes unless something is answered; one
// without steps sends an empty datagram.
func newUDP(h *conf.HealthCheck, at *endpoint) (probe, error) {
	if at.tls != nil {
		return nil, errors.New("no DTLS")
	}
	steps := h.Steps
	if len(steps) == 0 {
		steps = []conf.Step{{Send: []byte{}}}
	}
	expects := false
	for _, s := range steps {
		expects = expects || s.Expect != nil || s.Match != nil
	}
	return &visit{at: at, talk: func(ctx context.Context, c net.Conn) (reading, error) {
		if err := takeSteps(steps, c, maxBytes); err != nil || expects {
			return alive(""), err
		}
		_, err := c.Read(make([]byte, 1))
		if errors.Is(err, syscall.ECONNREFUSED) {
			return reading{}, doing("after the datagram", err)
		}
		if err != nil {
			return alive("not refused"), nil
		}
		return alive("answered"), nil
	}}, nil
}

package health

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"

	"github.com/weirlb/weir/conf"
)

// newTLS returns a probe that does a handshake. A server of TLS 1.3 that refuses
// the client's certificate says so after the handshake, which this does not see.
func newTLS(h *conf.HealthCheck, at *endpoint) (probe, error) {
	if at.tls == nil {
		return nil, fmt.Errorf("no tls options")
	}
	return &visit{at: at, talk: func(_ context.Context, c net.Conn) (reading, error) {
		state := c.(*tls.Conn).ConnectionState()
		if len(h.TLS.ALPN) > 0 && state.NegotiatedProtocol == "" {
			return reading{}, fmt.Errorf("the server speaks none of ALPN %s", strings.Join(h.TLS.ALPN, ", "))
		}
		return alive(strings.TrimSpace(tls.VersionName(state.Version) + " " + state.NegotiatedProtocol)), nil
	}}, nil
}

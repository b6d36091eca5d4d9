package health

import (
	"context"
	"net"

	"github.com/weirlb/weir/conf"
)

// newTCP returns a probe that connects, or speaks TLS if it is told to, and
// leaves. It is the one for servers that do not mind: MySQL counts such visits
// until it blocks the host, and the others have checks of their own.
func newTCP(_ *conf.HealthCheck, at *endpoint) (probe, error) {
	return &visit{at: at, talk: func(context.Context, net.Conn) (reading, error) { return alive(""), nil }}, nil
}

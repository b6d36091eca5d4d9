// Package port opens the TCP ports of weir's own HTTP servers, the control API and
// the metrics.
//
// Errors are those of package net. Ownership: it keeps nothing.
package port

import (
	"context"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/stream/internal/sys"
)

// Listen opens a listener on an address of its family alone: to package
// net, 0.0.0.0 is every address of both. Others of this process, and of the one
// that takes over from it, can have the port beside it (SO_REUSEPORT). Unless
// shared says that one has, a first socket without that option finds out whether
// the port is somebody else's.
func Listen(addr netip.AddrPort, shared bool) (net.Listener, error) {
	network := "tcp6"
	if addr.Addr().Unmap().Is4() {
		network = "tcp4"
	}
	if !shared {
		probe, err := net.Listen(network, addr.String())
		if err != nil {
			return nil, err
		}
		_ = probe.Close() // nobody can have connected to it
	}
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		controlErr := c.Control(func(fd uintptr) {
			if errno := sys.SetOption(int32(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); errno != 0 {
				err = errno
			}
		})
		if controlErr != nil {
			return controlErr
		}
		return err
	}}
	return config.Listen(context.Background(), network, addr.String())
}

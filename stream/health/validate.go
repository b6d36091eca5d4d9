package health

import (
	"fmt"
	"net/netip"

	"github.com/weirlb/weir/conf"
)

// Validate reports the mistakes of a configuration that Start would report: it
// makes the checks and runs none.
func Validate(checks []conf.HealthCheck) error {
	for i := range checks {
		h := &checks[i]
		at, err := newEndpoint(h, Target{Addr: netip.AddrPortFrom(netip.IPv6Loopback(), 1), Host: "localhost"})
		if err == nil {
			_, err = newProbe(h, at)
			at.close()
		}
		if err != nil {
			return fmt.Errorf("health_check %q: %w", h.Kind, err)
		}
	}
	return nil
}

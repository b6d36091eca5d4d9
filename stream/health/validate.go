package health

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"os"

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

// Digest returns a text that is another one when the files that the checks name
// hold something else. Start reads them, and a Checker goes by what they held.
func Digest(checks []conf.HealthCheck) (string, error) {
	sum := sha256.New()
	for i := range checks {
		o := checks[i].TLS
		if o == nil {
			continue
		}
		for _, path := range []string{o.CAFile, o.CertFile, o.KeyFile} {
			if path == "" {
				continue
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return "", fmt.Errorf("health_check %q: %w", checks[i].Kind, err)
			}
			fmt.Fprintf(sum, "%d %s", len(content), content)
		}
	}
	return string(sum.Sum(nil)), nil
}

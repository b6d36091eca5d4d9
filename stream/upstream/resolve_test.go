package upstream

import (
	"net/netip"
	"testing"
)

func TestNumericZone(t *testing.T) {
	for in, want := range map[string]string{
		"fe80::1%lo": "fe80::1%1", // loopback is interface 1 on every Linux
		"fe80::1%7":  "fe80::1%7",
		"fe80::1":    "fe80::1",
		"127.0.0.1":  "127.0.0.1",
	} {
		if got, err := NumericZone(netip.MustParseAddr(in)); err != nil || got.String() != want {
			t.Errorf("%s became %v, %v; want %s", in, got, err, want)
		}
	}
	if _, err := NumericZone(netip.MustParseAddr("fe80::1%nonesuch0")); err == nil {
		t.Error("an unknown interface was taken")
	}
}

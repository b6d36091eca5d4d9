package stream_test

import (
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/tcp"
	"github.com/weirlb/weir/stream/upstream"
)

// A server given by number is verified by its address, and asked for by it.
func TestChecksOfNumericServers(t *testing.T) {
	asked := make(chan string, 100)
	web := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case asked <- r.Host:
		default:
		}
	}))
	defer web.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}) // for 127.0.0.1, too
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	addr := web.Listener.Addr().(*net.TCPAddr)
	s, _ := start(t, tcp.Auto, func(c *conf.Config) {
		for _, kind := range []conf.CheckKind{conf.CheckTLS, conf.CheckHTTP} {
			h := conf.NewHealthCheck(kind)
			h.TLS = &conf.CheckTLSOptions{CAFile: ca, Verify: true}
			c.Upstreams[0].Checks = append(c.Upstreams[0].Checks, h)
		}
	}, conf.Address{Host: "127.0.0.1", Port: uint16(addr.Port)})
	eventually(t, "the peer is healthy", func() bool { return s.Peers("u")[0].Axes[upstream.AxisActive].Value == upstream.Healthy })
	if host := <-asked; host != addr.String() {
		t.Errorf("the server was asked for %q, want %q", host, addr)
	}
}

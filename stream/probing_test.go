package stream_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/health"
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
	mustWriteCertificate(t, ca, web.Certificate().Raw) // for 127.0.0.1, too
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

func mustWriteCertificate(t *testing.T, path string, der []byte) {
	t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// selfSigned makes a certificate for 127.0.0.1 that vouches for itself.
func selfSigned(t *testing.T) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	plan := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, plan, plan, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// A reload of the same configuration has checks go by what their files hold now,
// and those whose files have not changed run on.
func TestReloadReadsFilesOfChecks(t *testing.T) {
	var current atomic.Pointer[tls.Certificate]
	config := &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return current.Load(), nil }}
	server := serve(t, func(c net.Conn) {
		defer c.Close()
		io.Copy(io.Discard, tls.Server(c, config))
	})
	ca := filepath.Join(t.TempDir(), "ca.pem")
	renew := func() {
		is := selfSigned(t)
		current.Store(is)
		mustWriteCertificate(t, ca, is.Certificate[0])
	}
	renew()
	h := conf.NewHealthCheck(conf.CheckTLS)
	h.Interval, h.TLS.CAFile = 20*time.Millisecond, ca
	cfg := reloadConfig(freePort(t), server)
	cfg.Upstreams[0].Checks = []conf.HealthCheck{h}
	s := mustStart(t, cfg)
	is := func(value string) func() bool {
		return func() bool { return s.Peers("u")[0].Axes[upstream.AxisActive].Value == value }
	}
	state := func() health.CheckState {
		all, err := s.UpstreamStates("u")
		if err != nil {
			t.Fatal(err)
		}
		return all[0].Checks[0][0]
	}
	eventually(t, "the peer is healthy", is(upstream.Healthy))
	passed := state().Passed
	if change := mustReload(t, s, cfg); !change.Empty() || state().Passed < passed {
		t.Errorf("the checks began anew: %+v, and the reload changed %+v", state(), change)
	}

	renew()
	eventually(t, "the peer is unhealthy", is(upstream.Unhealthy))
	if change := mustReload(t, s, cfg); !slices.Equal(change.Altered, []string{"upstream u"}) {
		t.Errorf("the reload changed %+v", change)
	}
	if h := state().Health; h == health.Unknown {
		t.Error("the verdict is forgotten")
	}
	eventually(t, "the peer is healthy again", is(upstream.Healthy))
}

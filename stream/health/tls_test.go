package health

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirlb/weir/conf"
)

// caFile writes a file that vouches for a server of httptest.
func caFile(t *testing.T, s *httptest.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// testTLS returns a server's configuration, for 127.0.0.1 and example.com, and
// the file that vouches for it.
func testTLS(t *testing.T) (*tls.Config, string) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return &tls.Config{Certificates: s.TLS.Certificates}, caFile(t, s)
}

func TestTLS(t *testing.T) {
	config, ca := testTLS(t)
	config.NextProtos = []string{"postgresql", "http/1.1"}
	ends := make(chan error, 100)
	names := make(chan string, 100)
	target := serve(t, func(c net.Conn) {
		s := tls.Server(c, config)
		if err := s.Handshake(); err != nil {
			return
		}
		names <- s.ConnectionState().ServerName
		io.WriteString(s, "a greeting")
		_, err := io.Copy(io.Discard, s) // nil after close_notify, else an unexpected EOF or a reset
		ends <- err
	})
	type options = conf.CheckTLSOptions
	for _, test := range []struct {
		options
		note, want string
	}{
		{options{CAFile: ca, Verify: true}, "TLS 1.3", ""},
		{options{CAFile: ca, Verify: true, ServerName: "example.com"}, "TLS 1.3", ""},
		{options{CAFile: ca, Verify: true, ServerName: "example.org"}, "", "in the TLS handshake: x509: certificate is valid for example.com, *.example.com, not example.org"},
		{options{Verify: true}, "", "in the TLS handshake: x509: certificate signed by unknown authority"},
		{options{Verify: false}, "TLS 1.3", ""},
		{options{Verify: false, ALPN: []string{"imap", "http/1.1"}}, "TLS 1.3 http/1.1", ""},
		{options{Verify: false, ALPN: []string{"imap"}}, "", "in the TLS handshake: tls: no application protocol"},
	} {
		p := newProber(t, target, conf.CheckTLS, func(h *conf.HealthCheck) { h.TLS = &test.options })
		if test.want != "" {
			p.wantFailure(test.want)
			continue
		}
		p.wantOK(test.note)
		if name := <-names; name != test.ServerName {
			t.Errorf("SNI is %q, want %q", name, test.ServerName)
		}
		if err := <-ends; err != nil {
			t.Errorf("the server's connection ends with %v, want a close_notify", err)
		}
	}
}

// A server that ignores ALPN is not the one that was meant.
func TestTLSWithoutALPN(t *testing.T) {
	config, _ := testTLS(t)
	target := serve(t, func(c net.Conn) { tls.Server(c, config).Handshake(); silent(c) })
	p := newProber(t, target, conf.CheckTLS, func(h *conf.HealthCheck) {
		h.TLS = &conf.CheckTLSOptions{ALPN: []string{"h2", "imap"}}
	})
	p.wantFailure("the server speaks none of ALPN h2, imap")
}

// The server sees the client's certificate.
func TestTLSClientCertificate(t *testing.T) {
	config, ca := testTLS(t)
	config.ClientAuth = tls.RequireAnyClientCert
	config.MaxVersion = tls.VersionTLS12 // where a missing one fails the handshake
	target := serve(t, func(c net.Conn) { tls.Server(c, config).Handshake(); silent(c) })
	keyFile := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(keyFile, keyPEM(t, config.Certificates[0].PrivateKey), 0o600); err != nil {
		t.Fatal(err)
	}
	p := newProber(t, target, conf.CheckTLS, func(h *conf.HealthCheck) {
		h.TLS = &conf.CheckTLSOptions{CertFile: ca, KeyFile: keyFile}
	})
	p.wantOK("TLS 1.2")
	p = newProber(t, target, conf.CheckTLS, func(h *conf.HealthCheck) { h.TLS = &conf.CheckTLSOptions{} })
	p.wantFailure("in the TLS handshake: tls: handshake failure")
}

func keyPEM(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

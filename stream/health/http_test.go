package health

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
)

func targetOf(s *httptest.Server) Target {
	return Target{Addr: mustAddr(s.Listener.Addr().String()), Host: "127.0.0.1"}
}

func TestHTTP(t *testing.T) {
	var connections atomic.Int32
	var last atomic.Value // string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last.Store(fmt.Sprintf("%s %s host=%s agent=%s close=%v", r.Method, r.URL, r.Host, r.UserAgent(), r.Close))
		switch r.URL.Path {
		case "/early":
			w.WriteHeader(http.StatusEarlyHints)
		case "/moved":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/sick":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/big":
			io.WriteString(w, strings.Repeat(" ", maxBytes)+"well")
		default:
			io.WriteString(w, "all is well\n")
		}
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	target := targetOf(server)
	for _, test := range []struct {
		path       string
		edit       func(h *conf.HealthCheck)
		note, want string // want = the cause of a failure
	}{
		{"/", nil, "status 200", ""},
		{"/early", nil, "status 200", ""},
		{"/moved", nil, "status 302", ""},
		{"/sick", nil, "", "status 503"},
		{"/sick", func(h *conf.HealthCheck) { h.Status = []conf.StatusRange{{From: 200, To: 299}, {From: 503, To: 503}} }, "status 503", ""},
		{"/moved", func(h *conf.HealthCheck) { h.Status = []conf.StatusRange{{From: 200, To: 299}} }, "", "status 302"},
		{"/", func(h *conf.HealthCheck) { h.Body = regexp.MustCompile("w[aeiou]ll") }, "status 200", ""},
		{"/", func(h *conf.HealthCheck) { h.Body = regexp.MustCompile("^well") }, "", `status 200, but the body does not match "^well"`},
		{"/big", func(h *conf.HealthCheck) { h.Body = regexp.MustCompile("well") }, "", `status 200, but the body does not match "well"`},
		{"/", func(h *conf.HealthCheck) { h.Method = "HEAD" }, "status 200", ""},
	} {
		p := newProber(t, target, conf.CheckHTTP, func(h *conf.HealthCheck) {
			h.Path = test.path
			if test.edit != nil {
				test.edit(h)
			}
		})
		if test.want != "" {
			p.wantFailure(test.want)
		} else {
			p.wantOK(test.note)
		}
	}
	p := newProber(t, target, conf.CheckHTTP, func(h *conf.HealthCheck) { h.Path = "/a?b=c" })
	p.wantOK("status 200")
	if want := "GET /a?b=c host=" + target.Addr.String() + " agent=weir close=true"; last.Load() != want {
		t.Errorf("the server was asked for %q, want %q", last.Load(), want)
	}
	p = newProber(t, target, conf.CheckHTTP, func(h *conf.HealthCheck) { h.Host, h.Method = "shop.example", "OPTIONS" })
	connections.Store(0)
	for range 3 {
		p.wantOK("status 200")
	}
	if want := "OPTIONS / host=shop.example agent=weir close=true"; last.Load() != want {
		t.Errorf("the server was asked for %q, want %q", last.Load(), want)
	}
	if n := connections.Load(); n != 3 {
		t.Errorf("three checks made %d connections", n)
	}
}

func TestHostHeader(t *testing.T) {
	for want, at := range map[string]*endpoint{
		"www.example":      {host: "www.example", port: 80},
		"www.example:8080": {host: "www.example", port: 8080},
		"192.0.2.1":        {host: "192.0.2.1", port: 80},
		"[2001:db8::1]":    {host: "2001:db8::1", port: 443, tls: &tls.Config{}},
		"[2001:db8::1]:80": {host: "2001:db8::1", port: 80, tls: &tls.Config{}},
		"localhost":        {},
	} {
		if got := hostHeader(at); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A body that never ends, and a status whose body never comes.
func TestHTTPSlowBody(t *testing.T) {
	target := serve(t, func(c net.Conn) {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nwell, ")
		silent(c)
	})
	newProber(t, target, conf.CheckHTTP, nil).wantOK("status 200")
	newProber(t, target, conf.CheckHTTP, func(h *conf.HealthCheck) {
		h.Body, h.Timeout = regexp.MustCompile("x"), 50*time.Millisecond
	}).wantFailure("timed out after 50ms reading the body")
}

func TestHTTPS(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", r.Host, r.TLS.ServerName)
	}))
	defer server.Close()
	target := targetOf(server)
	target.Host = "example.com" // httptest's certificate is for that
	p := newProber(t, target, conf.CheckHTTP, func(h *conf.HealthCheck) {
		h.TLS = conf.NewCheckTLS()
		h.TLS.CAFile = caFile(t, server)
		h.Body = regexp.MustCompile(`^example\.com:\d+ example\.com$`)
	})
	p.wantOK("status 200")
}

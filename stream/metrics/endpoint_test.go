package metrics

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
)

func get(t testing.TB, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// fetch asks over the network, with a connection of its own.
func fetch(t testing.TB, addr conf.Address, path string) (status int, body string, err error) {
	t.Helper()
	c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get("http://" + addr.String() + path)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return r.StatusCode, string(text), err
}

func mustFetch(t testing.TB, addr conf.Address, path string, want int) string {
	t.Helper()
	status, body, err := fetch(t, addr, path)
	if err != nil || status != want {
		t.Fatalf("%s%s says %d (%v), want %d", addr, path, status, err, want)
	}
	return body
}

func mustOpen(t testing.TB, addr conf.Address) *Endpoint {
	t.Helper()
	e, err := Open(addr, Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func TestReadiness(t *testing.T) {
	addr := nobody(t)
	e := mustOpen(t, addr)
	if body := mustFetch(t, addr, "/readyz", http.StatusServiceUnavailable); !strings.Contains(body, "starting") {
		t.Errorf("before the start it says %q", body)
	}
	mustFetch(t, addr, "/healthz", http.StatusOK)
	mustFetch(t, addr, "/metrics", http.StatusOK)

	s := run(t, everything(t))
	e.Watch(s)
	mustFetch(t, addr, "/readyz", http.StatusOK)
	if body := mustFetch(t, addr, "/metrics", http.StatusOK); !strings.Contains(body, "\nweir_ready 1\n") {
		t.Error("the metrics do not say that it is ready")
	}

	s.Drain()
	if body := mustFetch(t, addr, "/readyz", http.StatusServiceUnavailable); !strings.Contains(body, "draining") {
		t.Errorf("draining it says %q", body)
	}
	mustFetch(t, addr, "/healthz", http.StatusOK)
	if body := mustFetch(t, addr, "/metrics", http.StatusOK); !strings.Contains(body, "\nweir_ready 0\n") {
		t.Error("the metrics do not say that it is draining")
	}
	mustFetch(t, addr, "/", http.StatusOK)
	mustFetch(t, addr, "/other", http.StatusNotFound)
	r, err := http.Post("http://"+addr.String()+"/metrics", "text/plain", nil)
	if err != nil || r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %v, %v", r, err)
	}
	r.Body.Close()
}

func TestAddressTaken(t *testing.T) {
	taken := echoTCP(t)
	base := openFDs(t)
	_, err := Open(taken, Options{Logger: quiet})
	if err == nil || !strings.Contains(err.Error(), "metrics: listen tcp4 "+taken.String()) || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("it said %v", err)
	}
	// An endpoint of another weir shares its port as little.
	other := nobody(t)
	mustOpen(t, other)
	if _, err := Open(other, Options{Logger: quiet}); err == nil {
		t.Error("two endpoints share an address")
	}
	if n := openFDs(t); n > base+1 {
		t.Errorf("%d descriptors, %d before", n, base)
	}
}

func TestMove(t *testing.T) {
	a, b := nobody(t), nobody(t)
	sameport := conf.Address{Host: "0.0.0.0", Port: b.Port}
	e := mustOpen(t, a)
	e.Watch(run(t, everything(t)))
	move := func(to conf.Address, ok bool) {
		t.Helper()
		m, err := e.Prepare(to)
		if err != nil {
			t.Fatal(err)
		}
		m.Finish(ok)
	}
	silent := func(addr conf.Address) {
		t.Helper()
		if _, _, err := fetch(t, addr, "/healthz"); err == nil {
			t.Errorf("%s still answers", addr)
		}
	}

	move(a, true) // nothing to do
	mustFetch(t, a, "/healthz", http.StatusOK)
	move(b, true)
	mustFetch(t, b, "/healthz", http.StatusOK)
	silent(a)
	move(a, false) // the reload failed after all
	mustFetch(t, b, "/healthz", http.StatusOK)
	silent(a)
	move(sameport, true) // its own port, at all addresses
	mustFetch(t, b, "/healthz", http.StatusOK)
	if _, err := e.Prepare(echoTCP(t)); err == nil {
		t.Error("it moved to a port that is taken")
	}
	mustFetch(t, b, "/healthz", http.StatusOK)
	gather(t, e.registry).want(t, map[string]float64{
		`weir_config_reloads_total{result="ok"}`:     3,
		`weir_config_reloads_total{result="failed"}`: 2,
	})
	move(conf.Address{}, true)
	silent(b)
	move(a, true)
	mustFetch(t, a, "/healthz", http.StatusOK)
}

func TestNoEndpoint(t *testing.T) {
	base := openFDs(t)
	e := mustOpen(t, conf.Address{})
	e.Failed()
	e.Close()
	if n := openFDs(t); n > base {
		t.Errorf("%d descriptors, %d before", n, base)
	}
}

// Connections beyond the bound wait until others have gone, and none is left
// when the endpoint closes.
func TestConnectionsAreBounded(t *testing.T) {
	goroutines, addr := runtime.NumGoroutine(), nobody(t)
	base := openFDs(t)
	e := mustOpen(t, addr)
	var idle []net.Conn
	for range maxConns {
		c := dial(t, "tcp", addr.String())
		fmt.Fprintf(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatalf("%q, %v", line, err)
		}
		idle = append(idle, c)
	}
	late := dial(t, "tcp", addr.String())
	fmt.Fprintf(late, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	late.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := late.Read(make([]byte, 1)); err == nil {
		t.Errorf("connection %d was answered: %d bytes", maxConns+1, n)
	}
	idle[0].Close()
	late.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := late.Read(make([]byte, 1)); err != nil {
		t.Errorf("it is not answered when there is room: %v", err)
	}
	e.Close()
	for _, c := range append(idle, late) {
		c.Close()
	}
	eventually(t, "descriptors are back at their base", func() bool { return openFDs(t) <= base })
	eventually(t, "goroutines are back at their base", func() bool { return runtime.NumGoroutine() <= goroutines })
}

// Who says nothing is sent away.
func TestSilenceEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("takes headerTimeout")
	}
	addr := nobody(t)
	mustOpen(t, addr)
	c := dial(t, "tcp", addr.String())
	defer c.Close()
	fmt.Fprintf(c, "GET /metrics HTTP/1.1\r\n")
	c.SetReadDeadline(time.Now().Add(2*headerTimeout + time.Second))
	if _, err := io.ReadAll(c); err != nil {
		t.Errorf("it is still waited for: %v", err)
	}
}

package integration_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const withMetrics = `
	admin {
	  metrics = "$metrics"
	}` + oneServer

// askMetrics returns what a page of weir's metrics address says.
func askMetrics(addr, page string) (status int, body string, err error) {
	c := http.Client{Timeout: scaled(5 * time.Second), Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get("http://" + addr + page)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return r.StatusCode, string(text), err
}

// wantSample waits for a line of /metrics.
func wantSample(t *testing.T, addr, line string) {
	t.Helper()
	eventually(t, 5*time.Second, line, func() bool {
		_, body, err := askMetrics(addr, "/metrics")
		return err == nil && strings.Contains(body, "\n"+line+"\n")
	})
}

// rewrite changes the configuration file and has weir read it.
func (p *proxy) rewrite(old, new, wantLog string) {
	p.t.Helper()
	file := filepath.Join(p.dir, "weir.hcl")
	text, err := os.ReadFile(file)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), old, new)), 0o644); err != nil {
		p.t.Fatal(err)
	}
	before := len(p.logged(wantLog))
	p.signal(syscall.SIGHUP)
	eventually(p.t, 5*time.Second, wantLog, func() bool { return len(p.logged(wantLog)) > before })
}

func TestMetricsFromStartToStop(t *testing.T) {
	t.Parallel()
	first, second := freeAddr(t), freeAddr(t)
	p := start(t, withMetrics, vars{"server": serve(t, echo), "metrics": first})
	c := dial(t, p.addr)
	roundTrip(t, c)
	// A moment after it says that it runs, and has served a client.
	eventually(t, 5*time.Second, "it is ready", func() bool {
		status, _, err := askMetrics(first, "/readyz")
		return err == nil && status == http.StatusOK
	})
	wantSample(t, first, `weir_sessions 1`)

	p.rewrite(first, second, "reloaded")
	wantSample(t, second, `weir_config_reloads_total{result="ok"} 1`)
	if _, _, err := askMetrics(first, "/healthz"); err == nil {
		t.Error("the old address still answers")
	}
	p.rewrite("upstream", "upsteam", "not reloaded")
	wantSample(t, second, `weir_config_reloads_total{result="failed"} 1`)
	p.rewrite("upsteam", "upstream", "reloaded")
	taken, err := net.Listen("tcp", first)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	p.rewrite(second, first, "not reloaded")
	wantSample(t, second, `weir_config_reloads_total{result="failed"} 2`)
	roundTrip(t, c)

	p.signal(syscall.SIGTERM)
	eventually(t, 5*time.Second, "it says that it drains", func() bool {
		status, body, err := askMetrics(second, "/readyz")
		return err == nil && status == http.StatusServiceUnavailable && strings.Contains(body, "draining")
	})
	wantSample(t, second, `weir_sessions 1`)
	c.Close()
	p.wantExit(2*time.Second, 0)
	if _, _, err := askMetrics(second, "/healthz"); err == nil {
		t.Error("it answers though it has ended")
	}
}

func TestMetricsAddressTaken(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	p := launch(t, where{}, withMetrics, vars{"server": serve(t, echo), "metrics": taken.Addr().String()})
	p.wantExit(5*time.Second, 1)
	if said := p.stderr.String(); !strings.Contains(said, "metrics: listen tcp4 "+taken.Addr().String()+": bind: address already in use") {
		t.Errorf("it said %q", said)
	}
}

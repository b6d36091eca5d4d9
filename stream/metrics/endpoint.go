package metrics

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream"
)

const (
	headerTimeout = 5 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = 2 * time.Minute // Prometheus keeps its connection from one scrape to the next
	closeTimeout  = time.Second
	headerBytes   = 16 << 10
	// requests are scrapes at the same time; more are refused with a 503.
	requests = 4
)

// Options say what the endpoint tells of the program.
type Options struct {
	Logger            *slog.Logger
	Version, Revision string
	TakenOver         bool // another process, which ends soon, has the port as yet
}

// Endpoint answers Prometheus and whoever asks whether weir is well. Any
// goroutine may call its methods.
type Endpoint struct {
	// immutable
	logger   *slog.Logger
	handler  http.Handler
	registry *prometheus.Registry
	reloads  *prometheus.CounterVec
	reloaded prometheus.Gauge

	server atomic.Pointer[stream.Server] // nil until Watch

	mu   sync.Mutex
	door *door // guarded by mu; nil = nobody can ask
}

// door is where the endpoint listens.
type door struct {
	addr conf.Address
	http *http.Server
}

// Open returns an endpoint that answers at that address, or nowhere if it is
// zero. It is not ready before Watch.
func Open(addr conf.Address, opt Options) (*Endpoint, error) {
	e := newEndpoint(opt)
	m, err := e.prepare(addr, opt.TakenOver)
	if err != nil {
		return nil, err
	}
	m.commit()
	return e, nil
}

func newEndpoint(opt Options) *Endpoint {
	e := &Endpoint{
		logger:   opt.Logger,
		registry: prometheus.NewRegistry(),
		reloads:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_config_reloads_total", Help: "Reloads of the configuration: result is ok or failed."}, []string{"result"}),
		reloaded: prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_config_last_reload_success_timestamp_seconds", Help: "When the configuration in use was loaded, at start or by a reload."}),
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weir_build_info", Help: "1, with what is known of the program."}, []string{"version", "revision", "goversion"})
	build.WithLabelValues(opt.Version, opt.Revision, runtime.Version()).Set(1)
	e.registry.MustRegister(build, e.reloads, e.reloaded,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	e.reloads.WithLabelValues("ok")
	e.reloads.WithLabelValues("failed")

	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(e.registry, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(e.logger.Handler(), slog.LevelWarn),
		ErrorHandling:       promhttp.ContinueOnError, // one wrong sample must not hide the others
		MaxRequestsInFlight: requests,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", e.serveReady)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "weir: /metrics /healthz /readyz\n") })
	e.handler = mux
	return e
}

// Watch has the endpoint tell of a server.
func (e *Endpoint) Watch(s *stream.Server) {
	e.registry.MustRegister(NewCollector(s))
	e.reloaded.SetToCurrentTime()
	e.server.Store(s)
}

func (e *Endpoint) serveReady(w http.ResponseWriter, _ *http.Request) {
	why := fmt.Errorf("starting")
	if s := e.server.Load(); s != nil {
		why = s.NotReady()
	}
	if why != nil {
		http.Error(w, why.Error(), http.StatusServiceUnavailable)
		return
	}
	io.WriteString(w, "ready\n")
}

// Move is a prepared change of the address.
type Move struct {
	endpoint *Endpoint
	from, to *door
}

// Prepare begins a reload: it opens the address, if it is another one, which
// answers already. Finish must follow, unless it returns an error; the reload has
// failed then.
func (e *Endpoint) Prepare(addr conf.Address) (*Move, error) { return e.prepare(addr, false) }

func (e *Endpoint) prepare(addr conf.Address, takenOver bool) (*Move, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := &Move{e, e.door, e.door}
	if e.door != nil && e.door.addr == addr {
		return m, nil
	}
	m.to = nil
	if addr.IsZero() {
		return m, nil
	}
	ln, err := listen(addr, takenOver || e.door != nil && e.door.addr.Overlaps(addr))
	if err != nil {
		e.Failed()
		return nil, err
	}
	m.to = &door{addr, &http.Server{
		Handler:           e.handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       headerTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          slog.NewLogLogger(e.logger.Handler(), slog.LevelDebug),
	}}
	e.logger.Info("listening for scrapes", "address", ln.Addr().String())
	go m.to.http.Serve(ln)
	return m, nil
}

// Finish counts a reload that was tried, and makes the move or takes it back.
func (m *Move) Finish(ok bool) {
	if !ok {
		m.endpoint.Failed()
		if m.to != m.from {
			m.to.close()
		}
		return
	}
	m.commit()
	m.endpoint.reloads.WithLabelValues("ok").Inc()
	m.endpoint.reloaded.SetToCurrentTime()
}

func (m *Move) commit() {
	m.endpoint.mu.Lock()
	m.endpoint.door = m.to
	m.endpoint.mu.Unlock()
	if m.from != m.to {
		m.from.close()
	}
}

// Failed counts a reload that failed before there was anything to prepare.
func (e *Endpoint) Failed() { e.reloads.WithLabelValues("failed").Inc() }

// Close stops answering.
func (e *Endpoint) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.door.close()
	e.door = nil
}

// close lets answers that are under way go out, for a moment.
func (d *door) close() {
	if d == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if d.http.Shutdown(ctx) != nil {
		d.http.Close()
	}
}

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream"
	"github.com/weirlb/weir/stream/admin"
	"github.com/weirlb/weir/stream/metrics"
)

// startTimeout bounds what a start may wait for: the resolution of names.
const startTimeout = 30 * time.Second

func newRunCmd() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "run [-c FILE]",
		Short: "run the balancer",
		Long: `run reads the configuration and balances until it is told to stop.

Signals:
  SIGTERM   stop accepting, let sessions end for up to worker.shutdown_timeout, then cut them
  SIGINT    the same at once; so does a second SIGTERM
  SIGHUP    read the configuration again and change to it in place; a bad one changes nothing
  SIGUSR1   open the access log anew, for log rotation

Exit codes: 0 stopped as asked; 1 cannot start; 2 bad command line;
3 stopped at once while sessions still ran, which were cut.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runFile(cmd, path) },
	}
	cmd.Flags().StringVarP(&path, "config", "c", defaultConfig, "configuration `FILE`")
	return cmd
}

func runFile(cmd *cobra.Command, path string) error {
	d := &daemon{path: path, stderr: cmd.ErrOrStderr(), orders: make(chan func()), ended: make(chan struct{})}
	cfg := loadConfig(d.stderr, path).Config
	if cfg == nil {
		return &exitError{code: exitFailed}
	}

	// A broken connection is an error of the call that meets it. Ignoring the
	// signal saves its delivery, and leaves EPIPE for standard output too.
	signal.Ignore(unix.SIGPIPE)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGUSR1, unix.SIGHUP)
	defer signal.Stop(signals)

	d.logs.set(&cfg.Log)
	d.logger = slog.New(&d.logs)
	d.shutdownTimeout = cfg.Worker.ShutdownTimeout
	var err error
	v := buildVersion()
	if d.metrics, err = metrics.Open(cfg.Admin.Metrics, metrics.Options{Logger: d.logger, Version: v.Version, Revision: v.Revision}); err != nil {
		return failed(err)
	}
	defer d.metrics.Close()
	control, err := admin.Listen(&cfg.Admin)
	if err != nil {
		return failed(err)
	}
	if d.server, err = startServer(cmd.Context(), cfg, d.logger, signals); err != nil {
		if control != nil {
			control.Close()
		}
		return failed(err)
	}
	d.metrics.Watch(d.server)
	d.admin = admin.NewServer(admin.Options{Server: d.server, Daemon: d, Logger: d.logger, Version: v.Version, Config: path})
	d.admin.Serve(control)
	defer d.admin.Close()
	for _, b := range d.server.Bound() {
		d.logger.Info("listening", "listener", b.Listener, "protocol", b.Protocol.String(), "address", b.Addr.String())
	}
	return d.serve(signals)
}

// daemon is one run of `weir run`. Only the goroutine of serve touches it, but for
// the channels that bring it orders.
type daemon struct {
	orders chan func()   // from the control API
	ended  chan struct{} // closed when nobody takes orders any more

	path            string // of the configuration
	stderr          io.Writer
	logs            logHandler
	logger          *slog.Logger
	server          *stream.Server
	metrics         *metrics.Endpoint
	admin           *admin.Server
	shutdownTimeout time.Duration
}

// startServer starts the server, or returns an error when it can't or when a
// signal calls the start off. One that comes when the server is up already goes
// back into signals.
func startServer(ctx context.Context, cfg *conf.Config, logger *slog.Logger, signals chan os.Signal) (*stream.Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	done := make(chan struct{})
	var watcher sync.WaitGroup
	var calledOff os.Signal // owned by the watcher until it has ended
	watcher.Go(func() {
		for {
			select {
			case sig := <-signals:
				if sig != unix.SIGUSR1 && sig != unix.SIGHUP {
					calledOff = sig
					cancel()
				}
			case <-done:
				return
			}
		}
	})
	server, err := stream.Start(ctx, cfg, stream.Options{Logger: logger, Steering: newSteerer})
	close(done)
	watcher.Wait()
	switch {
	case calledOff == nil:
		return server, err
	case err == nil:
		select {
		case signals <- calledOff:
		default: // others like it wait there
		}
		return server, nil
	}
	return nil, fmt.Errorf("start called off by signal: %v", calledOff)
}

// serve carries out signals, and the control API's orders between them, until the
// server has stopped.
func (d *daemon) serve(signals <-chan os.Signal) error {
	defer close(d.ended)
	ctx, hurry := context.WithCancel(context.Background()) // done = no more waiting for sessions
	defer hurry()
	stopped := make(chan int, 1) // sessions cut
	draining, hurried := false, false
	for {
		select {
		case sig := <-signals:
			switch sig {
			case unix.SIGUSR1:
				d.reopen()
				continue
			case unix.SIGHUP:
				_, _ = d.reload(context.Background(), admin.ReloadOrder{}) // the log tells
				continue
			}
			if sig == unix.SIGINT || draining {
				hurried = true
				hurry()
			}
			if draining {
				continue
			}
			draining = true
			if hurried {
				d.logger.Info("stopping at once", "signal", sig.String(), "sessions", d.server.Sessions())
			} else {
				d.logger.Info("draining", "signal", sig.String(), "sessions", d.server.Sessions(), "shutdown_timeout", conf.FormatDuration(d.shutdownTimeout))
			}
			if d.shutdownTimeout != conf.Off {
				deadline := time.AfterFunc(d.shutdownTimeout, hurry)
				defer deadline.Stop()
			}
			go func() { stopped <- d.server.Stop(ctx) }()
		case order := <-d.orders:
			order()
		case cut := <-stopped:
			d.logger.Info("stopped", "sessions_cut", cut)
			if hurried && cut > 0 {
				return &exitError{code: exitCut}
			}
			return nil
		}
	}
}

func (d *daemon) reopen() {
	if err := d.server.ReopenLogs(); err != nil {
		d.logger.Error("reopen access log", "error", err)
		return
	}
	d.logger.Info("reopened access log")
}

// logHandler is the process's log on standard error, whose level and format can
// change.
type logHandler struct{ current atomic.Pointer[slog.Handler] }

// set changes to other settings and returns what was before.
func (h *logHandler) set(c *conf.Log) *slog.Handler {
	opt := &slog.HandlerOptions{Level: c.Level}
	var next slog.Handler = slog.NewTextHandler(os.Stderr, opt)
	if c.Format == conf.JSON {
		next = slog.NewJSONHandler(os.Stderr, opt)
	}
	return h.current.Swap(&next)
}

func (h *logHandler) restore(before *slog.Handler) { h.current.Store(before) }

// Enabled implements slog.Handler.
func (h *logHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return (*h.current.Load()).Enabled(ctx, l)
}

// Handle implements slog.Handler.
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	return (*h.current.Load()).Handle(ctx, r)
}

// WithAttrs implements slog.Handler. What it returns keeps the present settings.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return (*h.current.Load()).WithAttrs(attrs)
}

// WithGroup implements slog.Handler, as WithAttrs does.
func (h *logHandler) WithGroup(name string) slog.Handler {
	return (*h.current.Load()).WithGroup(name)
}

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream"
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
	d := &daemon{path: path, stderr: cmd.ErrOrStderr()}
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
	if d.server, err = startServer(cmd.Context(), cfg, d.logger, signals); err != nil {
		return failed(err)
	}
	for _, b := range d.server.Bound() {
		d.logger.Info("listening", "listener", b.Listener, "protocol", b.Protocol.String(), "address", b.Addr.String())
	}
	return d.serve(signals)
}

// daemon is one run of `weir run`. Only the goroutine of serve touches it.
type daemon struct {
	path            string // of the configuration
	stderr          io.Writer
	logs            logHandler
	logger          *slog.Logger
	server          *stream.Server
	shutdownTimeout time.Duration
}

// startServer starts the server, or returns an error when it can't or when a
// signal calls the start off.
func startServer(ctx context.Context, cfg *conf.Config, logger *slog.Logger, signals <-chan os.Signal) (*stream.Server, error) {
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
	if calledOff == nil {
		return server, err
	}
	if err == nil {
		server.Stop(ctx) // ctx is done: at once
	}
	return nil, fmt.Errorf("start called off by signal: %v", calledOff)
}

// serve carries out signals until the server has stopped.
func (d *daemon) serve(signals <-chan os.Signal) error {
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
				d.reload()
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

// reload changes to what the configuration file holds now. On any mistake in it
// everything stays as it is.
func (d *daemon) reload() {
	cfg := loadConfig(d.stderr, d.path).Config
	if cfg == nil {
		d.logger.Error("not reloaded: the configuration has mistakes, and the old one stays", "file", d.path)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	before := d.logs.set(&cfg.Log)
	change, err := d.server.Reload(ctx, cfg)
	if err != nil {
		d.logs.restore(before)
		d.logger.Error("not reloaded: the old configuration stays", "error", err)
		return
	}
	d.shutdownTimeout = cfg.Worker.ShutdownTimeout
	d.logger.Info("reloaded", changeAttrs(change)...)
}

// changeAttrs tells of a change in the log.
func changeAttrs(c *stream.Change) []any {
	var out []any
	for _, part := range []struct {
		name  string
		items []string
	}{
		{"opened", c.Opened}, {"closed", c.Closed}, {"changed", c.Changed},
		{"added", c.Added}, {"removed", c.Removed}, {"altered", c.Altered}, {"settings", c.Settings},
	} {
		if len(part.items) > 0 {
			out = append(out, part.name, strings.Join(part.items, ", "))
		}
	}
	if c.Workers[0] != c.Workers[1] {
		out = append(out, "workers", fmt.Sprintf("%d -> %d", c.Workers[0], c.Workers[1]))
	}
	if c.Empty() {
		out = append(out, "changes", "none")
	}
	return out
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

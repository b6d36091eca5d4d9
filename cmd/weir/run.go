package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/conf/hclfile"
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
  SIGUSR1   open the access log anew, for log rotation

Exit codes: 0 stopped as asked; 1 cannot start; 2 bad command line;
3 stopped at once while sessions still ran, which were cut.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runFile(cmd, path) },
	}
	cmd.Flags().StringVarP(&path, "config", "c", "weir.hcl", "configuration file")
	return cmd
}

func runFile(cmd *cobra.Command, path string) error {
	result := hclfile.Load(path, hclfile.Options{Env: os.LookupEnv, Limits: readLimits()})
	if err := result.WriteDiagnostics(cmd.ErrOrStderr(), isTerminal(os.Stderr)); err != nil {
		return failed(err)
	}
	if result.Config == nil {
		return &exitError{code: exitFailed}
	}
	cfg := result.Config

	// A broken connection is an error of the call that meets it. Ignoring the
	// signal saves its delivery, and leaves EPIPE for standard output too.
	signal.Ignore(unix.SIGPIPE)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGUSR1)
	defer signal.Stop(signals)

	logger := newLogger(&cfg.Log)
	server, err := startServer(cmd.Context(), cfg, logger)
	if err != nil {
		return failed(err)
	}
	for _, b := range server.Bound() {
		logger.Info("listening", "listener", b.Listener, "address", b.Addr.String())
	}
	return serve(server, cfg, logger, signals)
}

func startServer(ctx context.Context, cfg *conf.Config, logger *slog.Logger) (*stream.Server, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return stream.Start(ctx, cfg, stream.Options{Logger: logger})
}

// serve waits for the signals that end a run and carries them out.
func serve(server *stream.Server, cfg *conf.Config, logger *slog.Logger, signals <-chan os.Signal) error {
	for sig := range signals {
		switch sig {
		case unix.SIGUSR1:
			if err := server.ReopenLogs(); err != nil {
				logger.Error("reopen access log", "error", err)
			} else {
				logger.Info("reopened access log")
			}
		case unix.SIGINT:
			return stopNow(server, logger, sig)
		case unix.SIGTERM:
			return drain(server, cfg.Worker.ShutdownTimeout, logger, signals)
		}
	}
	return errors.New("signal channel closed") // it never is
}

// drain stops when the sessions have ended, at the deadline, or at once upon
// another signal.
func drain(server *stream.Server, timeout time.Duration, logger *slog.Logger, signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(context.Background())
	if timeout != conf.Off {
		ctx, cancel = context.WithTimeout(context.Background(), timeout)
	}
	defer cancel()
	hurried := make(chan struct{})
	finished := make(chan struct{})
	defer close(finished)
	go func() {
		for {
			select {
			case sig := <-signals:
				if sig == unix.SIGTERM || sig == unix.SIGINT {
					close(hurried)
					cancel()
					return
				}
			case <-finished:
				return
			}
		}
	}()
	logger.Info("draining", "sessions", server.Sessions(), "shutdown_timeout", conf.FormatDuration(timeout))
	cut := server.Stop(ctx)
	logger.Info("stopped", "sessions_cut", cut)
	select {
	case <-hurried:
		if cut > 0 {
			return &exitError{code: exitCut}
		}
	default:
	}
	return nil
}

// stopNow cuts what is running.
func stopNow(server *stream.Server, logger *slog.Logger, sig os.Signal) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	cut := server.Stop(ctx)
	logger.Info("stopped", "signal", sig.String(), "sessions_cut", cut)
	if cut > 0 {
		return &exitError{code: exitCut}
	}
	return nil
}

// newLogger returns the process's log on standard error.
func newLogger(c *conf.Log) *slog.Logger {
	opt := &slog.HandlerOptions{Level: c.Level}
	if c.Format == conf.JSON {
		return slog.New(slog.NewJSONHandler(os.Stderr, opt))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, opt))
}

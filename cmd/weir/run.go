package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
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
	cfg := loadConfig(cmd.ErrOrStderr(), path).Config
	if cfg == nil {
		return &exitError{code: exitFailed}
	}

	// A broken connection is an error of the call that meets it. Ignoring the
	// signal saves its delivery, and leaves EPIPE for standard output too.
	signal.Ignore(unix.SIGPIPE)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGUSR1)
	defer signal.Stop(signals)

	logger := newLogger(&cfg.Log)
	server, err := startServer(cmd.Context(), cfg, logger, signals)
	if err != nil {
		return failed(err)
	}
	for _, b := range server.Bound() {
		logger.Info("listening", "listener", b.Listener, "protocol", b.Protocol.String(), "address", b.Addr.String())
	}
	return serve(server, cfg.Worker.ShutdownTimeout, logger, signals)
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
				if sig != unix.SIGUSR1 {
					calledOff = sig
					cancel()
				}
			case <-done:
				return
			}
		}
	})
	server, err := stream.Start(ctx, cfg, stream.Options{Logger: logger})
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
func serve(server *stream.Server, timeout time.Duration, logger *slog.Logger, signals <-chan os.Signal) error {
	ctx, hurry := context.WithCancel(context.Background()) // done = no more waiting for sessions
	defer hurry()
	stopped := make(chan int, 1) // sessions cut
	draining, hurried := false, false
	for {
		select {
		case sig := <-signals:
			if sig == unix.SIGUSR1 {
				reopen(server, logger)
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
				logger.Info("stopping at once", "signal", sig.String(), "sessions", server.Sessions())
			} else {
				logger.Info("draining", "signal", sig.String(), "sessions", server.Sessions(), "shutdown_timeout", conf.FormatDuration(timeout))
			}
			if timeout != conf.Off {
				deadline := time.AfterFunc(timeout, hurry)
				defer deadline.Stop()
			}
			go func() { stopped <- server.Stop(ctx) }()
		case cut := <-stopped:
			logger.Info("stopped", "sessions_cut", cut)
			if hurried && cut > 0 {
				return &exitError{code: exitCut}
			}
			return nil
		}
	}
}

func reopen(server *stream.Server, logger *slog.Logger) {
	if err := server.ReopenLogs(); err != nil {
		logger.Error("reopen access log", "error", err)
		return
	}
	logger.Info("reopened access log")
}

// newLogger returns the process's log on standard error.
func newLogger(c *conf.Log) *slog.Logger {
	opt := &slog.HandlerOptions{Level: c.Level}
	if c.Format == conf.JSON {
		return slog.New(slog.NewJSONHandler(os.Stderr, opt))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, opt))
}

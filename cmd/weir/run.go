package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream"
	"github.com/weirlb/weir/stream/admin"
	"github.com/weirlb/weir/stream/handover"
	"github.com/weirlb/weir/stream/metrics"
)

// startTimeout bounds what a start or a reload may wait for: the resolution of names.
const startTimeout = 30 * time.Second

func newRunCmd() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "run [-c FILE]",
		Short: "run the balancer",
		Long: `run reads the configuration and balances until it is told to stop.

Signals:
  SIGTERM   stop accepting, let sessions end for up to worker.shutdown_timeout, then cut them;
            a reload under way is called off
  SIGINT    the same at once; so does a second SIGTERM
  SIGHUP    read the configuration again and change to it in place; a bad one changes nothing
  SIGUSR1   open the access log anew, for log rotation
  SIGUSR2   start a new process of the program file as it is now, hand everything over to it,
            sessions too, and end; see weir upgrade

Exit codes: 0 stopped as asked; 1 cannot start; 2 bad command line;
3 stopped at once while sessions still ran, which were cut.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runFile(cmd, path) },
	}
	cmd.Flags().StringVarP(&path, "config", "c", defaultConfig, "configuration `FILE`")
	return cmd
}

func runFile(cmd *cobra.Command, path string) error {
	predecessor, err := inherited()
	if err != nil {
		return failed(err)
	}
	d := &daemon{
		path:     path,
		signals:  make(chan os.Signal, 8),
		stderr:   cmd.ErrOrStderr(),
		orders:   make(chan func()),
		ended:    make(chan struct{}),
		upgraded: make(chan upgraded, 1),
	}
	if d.binary, err = program(); err != nil {
		return refuse(predecessor, err)
	}
	read := loadConfig(d.stderr, path)
	cfg := read.Config
	if cfg == nil {
		_ = refuse(predecessor, mistakes(path, read))
		return &exitError{code: exitFailed}
	}

	// A broken connection is an error of the call that meets it. Ignoring the
	// signal saves its delivery, and leaves EPIPE for standard output too.
	signal.Ignore(unix.SIGPIPE)
	signal.Notify(d.signals, unix.SIGTERM, unix.SIGINT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGHUP)
	defer signal.Stop(d.signals)

	d.logs.set(&cfg.Log)
	d.logger = slog.New(&d.logs)
	d.shutdownTimeout = cfg.Worker.ShutdownTimeout
	if predecessor == nil {
		err = d.start(cmd.Context(), cfg)
	} else {
		err = d.succeed(cmd.Context(), cfg, predecessor)
	}
	if err != nil {
		return refuse(predecessor, err)
	}
	if predecessor != nil {
		_ = predecessor.Close()
	}
	defer d.metrics.Close()
	defer d.admin.Close()
	for _, b := range d.server.Bound() {
		d.logger.Info("listening", "listener", b.Listener, "protocol", b.Protocol.String(), "address", b.Addr.String())
	}
	d.notify(systemd.SdNotifyReady)
	// What it took to read the configuration is given back now, and not by a
	// collection in the middle of the load; nor is one started by the slabs that grow
	// in a burst of connections: 4.3 MB for as many as 20,000 descriptors allow, beside
	// the 3 that are in use from the start. Go would begin at 6 MB, and so at 12.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300)
	}
	debug.FreeOSMemory()
	go d.watchdog()
	return d.serve()
}

// start opens everything and starts the server.
func (d *daemon) start(ctx context.Context, cfg *conf.Config) (err error) {
	if err := d.openMetrics(cfg, false); err != nil {
		return err
	}
	control, err := admin.Listen(&cfg.Admin)
	if err != nil {
		return err
	}
	if d.server, err = startServer(ctx, cfg, stream.Options{Logger: d.logger, Steering: newSteerer, Sockets: activated()}, d.signals); err != nil {
		if control != nil {
			control.Close()
		}
		return err
	}
	d.attach(control)
	return nil
}

// succeed starts the server with what another process hands over, which still
// has the places of the control API and the metrics until the work is taken over.
// From then on there is no way back, so that what fails is only told.
func (d *daemon) succeed(ctx context.Context, cfg *conf.Config, from *handover.Conn) (err error) {
	control, err := admin.TakeOver(&cfg.Admin)
	if err != nil {
		return err
	}
	opt := stream.Options{Logger: d.logger, Steering: newSteerer, Inherit: from}
	opt.TakenOver = func() {
		if err := control.Publish(); err != nil {
			d.logger.Error("no control API", "error", err)
			control.Close()
			control = nil
		}
		if err := d.openMetrics(cfg, true); err != nil {
			d.logger.Error("no metrics", "error", err)
			_ = d.openMetrics(&conf.Config{}, true) // nowhere: that can't fail
		}
	}
	if d.server, err = startServer(ctx, cfg, opt, d.signals); err != nil {
		if control != nil {
			control.Close()
		}
		return err
	}
	d.attach(control)
	return nil
}

func (d *daemon) openMetrics(cfg *conf.Config, takenOver bool) (err error) {
	v := buildVersion()
	d.metrics, err = metrics.Open(cfg.Admin.Metrics, metrics.Options{Logger: d.logger, Version: v.Version, Revision: v.Revision, TakenOver: takenOver})
	return err
}

// attach has the control API and the metrics speak of the server.
func (d *daemon) attach(control *admin.Listener) {
	d.metrics.Watch(d.server)
	d.admin = admin.NewServer(admin.Options{Server: d.server, Daemon: d, Logger: d.logger, Version: buildVersion().Version, Config: d.path})
	d.admin.Serve(control)
}

// daemon is one run of `weir run`. Only the goroutine of serve touches it, but for
// the channels that bring it orders.
type daemon struct {
	signals chan os.Signal // that are not acted on yet
	orders  chan func()    // from the control API
	ended   chan struct{}  // closed when nobody takes orders any more

	upgraded  chan upgraded              // what has come of an upgrade
	successor atomic.Pointer[os.Process] // that has not taken over yet; nil = none

	path            string // of the configuration
	binary          string // of the program
	stderr          io.Writer
	logs            logHandler
	logger          *slog.Logger
	server          *stream.Server
	metrics         *metrics.Endpoint
	admin           *admin.Server
	shutdownTimeout time.Duration
	draining        bool
	upgrading       bool
}

// startServer starts the server, or returns an error when it can't or when a
// signal calls the start off.
func startServer(ctx context.Context, cfg *conf.Config, opt stream.Options, signals chan os.Signal) (server *stream.Server, err error) {
	calledOff := untilCalledOff(ctx, signals, func(ctx context.Context) {
		server, err = stream.Start(ctx, cfg, opt)
	})
	if err != nil && calledOff != nil {
		err = fmt.Errorf("start called off by signal: %v", calledOff)
	}
	return server, err
}

// untilCalledOff does something that waits for names, for up to startTimeout. A
// signal to stop ends its context and is returned. It and those that ask for
// something else go back into signals: a reload asked for meanwhile is of a file
// that may have been read before.
func untilCalledOff(ctx context.Context, signals chan os.Signal, f func(context.Context)) (by os.Signal) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	done := make(chan struct{})
	var watcher sync.WaitGroup
	var came []os.Signal // owned by the watcher until it has ended, as is by
	watcher.Go(func() {
		for {
			select {
			case sig := <-signals:
				switch sig {
				case unix.SIGUSR1, unix.SIGUSR2, unix.SIGHUP:
					if slices.Contains(came, sig) {
						continue
					}
				default:
					by = sig
					cancel()
				}
				came = append(came, sig)
			case <-done:
				return
			}
		}
	})
	f(ctx)
	close(done)
	watcher.Wait()
	for _, sig := range came {
		select {
		case signals <- sig:
		default: // others like it wait there
		}
	}
	return by
}

// serve carries out signals, and the control API's orders between them, until the
// server has stopped.
func (d *daemon) serve() error {
	defer close(d.ended)
	ctx, hurry := context.WithCancel(context.Background()) // done = no more waiting for sessions
	defer hurry()
	stopped := make(chan int, 1) // sessions cut
	hurried := false
	stop := func(why ...any) {
		d.draining = true
		d.endSuccessor(hurried)
		if hurried {
			d.logger.Info("stopping at once", append(why, "sessions", d.server.Sessions())...)
		} else {
			d.logger.Info("draining", append(why, "sessions", d.server.Sessions(), "shutdown_timeout", conf.FormatDuration(d.shutdownTimeout))...)
		}
		if d.shutdownTimeout != conf.Off {
			time.AfterFunc(d.shutdownTimeout, hurry)
		}
		go func() { stopped <- d.server.Stop(ctx) }()
	}
	for {
		select {
		case sig := <-d.signals:
			switch sig {
			case unix.SIGUSR1:
				d.reopen()
				continue
			case unix.SIGUSR2:
				d.upgrade(admin.UpgradeOrder{}, nil) // the log tells
				continue
			case unix.SIGHUP:
				_, _ = d.reload(context.Background(), admin.ReloadOrder{}) // the log tells
				continue
			}
			if sig == unix.SIGINT || d.draining {
				if d.draining {
					d.endSuccessor(true)
				}
				hurried = true
				hurry()
			}
			if !d.draining {
				d.notify(systemd.SdNotifyStopping)
				stop("signal", sig.String())
			}
		case order := <-d.orders:
			order()
		case u := <-d.upgraded:
			d.upgrading = false
			if u.err == nil && !d.draining {
				stop("successor", u.Pid, "sessions_moved", u.Moved)
			}
		case cut := <-stopped:
			if d.upgrading {
				<-d.upgraded // which tells systemd before this process ends
			}
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

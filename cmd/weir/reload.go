package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream"
	"github.com/weirlb/weir/stream/admin"
)

// Reload implements admin.Daemon: the goroutine of serve does it, as it does on
// SIGHUP.
func (d *daemon) Reload(ctx context.Context, order admin.ReloadOrder) (*admin.Reload, error) {
	type result struct {
		out *admin.Reload
		err error
	}
	done := make(chan result, 1)
	work := func() {
		out, err := d.reload(ctx, order)
		done <- result{out, err}
	}
	select {
	case d.orders <- work:
		r := <-done
		return r.out, r.err
	case <-d.ended:
		return nil, &admin.Error{Status: http.StatusServiceUnavailable, Message: "weir has stopped"}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// errUnsafe calls a reload off.
type errUnsafe struct{ sessions int }

func (e errUnsafe) Error() string {
	return fmt.Sprintf("it would end %s (UDP clients of peers or workers that go would go on in new ones; TCP sessions end where on_state says so)", count(e.sessions, "session"))
}

// reload changes to what the configuration file holds now, or only tells what
// that would change. On any mistake in it everything stays as it is.
func (d *daemon) reload(ctx context.Context, order admin.ReloadOrder) (*admin.Reload, error) {
	if d.upgrading {
		return nil, d.notReloaded(order, &admin.Error{Status: http.StatusConflict, Message: "an upgrade is under way: the new process reads the configuration anyway"})
	}
	r := readConfig(d.path)
	var said strings.Builder
	_ = r.WriteDiagnostics(&said, false) // a builder takes everything
	if !order.DryRun {
		reportConfig(d.stderr, d.path, r)
	}
	if r.Config == nil {
		if !order.DryRun {
			d.metrics.Failed() // else whatever fails counts
		}
		return nil, d.notReloaded(order, &admin.Error{
			Status:  http.StatusUnprocessableEntity,
			Message: fmt.Sprintf("%s has mistakes: the old configuration stays", d.path), Diagnostics: said.String(),
		})
	}
	agree := func(c *stream.Change) error {
		if order.RequireSafe && c.Ended > 0 {
			return errUnsafe{c.Ended}
		}
		return nil
	}
	var change *stream.Change
	var err error
	calledOff := untilCalledOff(ctx, d.signals, func(ctx context.Context) {
		if order.DryRun {
			if change, err = d.server.Diff(ctx, r.Config); err == nil {
				err = agree(change)
			}
		} else {
			change, err = d.changeTo(ctx, r.Config, agree)
		}
	})
	if err != nil && calledOff != nil {
		err = fmt.Errorf("%w: called off by signal: %v", stream.ErrStopping, calledOff)
	}
	if err != nil {
		return nil, d.notReloaded(order, asAnswer(err, said.String()))
	}
	if !order.DryRun {
		d.logger.Info("reloaded", changeAttrs(change)...)
		d.admin.Reloaded()
	}
	return admin.NewReload(change, order.DryRun, said.String()), nil
}

// notReloaded tells the operator that a reload has failed.
func (d *daemon) notReloaded(order admin.ReloadOrder, e *admin.Error) error {
	if !order.DryRun {
		d.logger.Error("not reloaded", "error", e.Message, "file", d.path)
	}
	return e
}

// asAnswer gives an error of a reload its status.
func asAnswer(err error, said string) *admin.Error {
	status := http.StatusUnprocessableEntity
	var unsafe errUnsafe
	switch {
	case errors.As(err, &unsafe):
		status = http.StatusConflict
	case errors.Is(err, stream.ErrStopping):
		status = http.StatusServiceUnavailable
	}
	return &admin.Error{Status: status, Message: fmt.Sprintf("the old configuration stays: %v", err), Diagnostics: said}
}

// changeTo changes the server, the log, and where the control API and the metrics
// are served: all of it, or nothing.
func (d *daemon) changeTo(ctx context.Context, cfg *conf.Config, agree func(*stream.Change) error) (*stream.Change, error) {
	move, err := d.metrics.Prepare(cfg.Admin.Metrics)
	if err != nil {
		return nil, err
	}
	control, err := d.admin.Prepare(&cfg.Admin)
	if err != nil {
		move.Finish(false)
		return nil, err
	}
	d.notifyReloading()
	defer d.notify(systemd.SdNotifyReady)
	before := d.logs.set(&cfg.Log)
	change, err := d.server.ReloadIf(ctx, cfg, agree)
	move.Finish(err == nil)
	if err != nil {
		d.logs.restore(before)
		control.Abandon()
		return nil, err
	}
	control.Commit()
	d.shutdownTimeout = cfg.Worker.ShutdownTimeout
	return change, nil
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
	if c.Affected > 0 {
		out = append(out, "sessions_affected", c.Affected, "sessions_ended", c.Ended)
	}
	if c.Workers[0] != c.Workers[1] {
		out = append(out, "workers", fmt.Sprintf("%d -> %d", c.Workers[0], c.Workers[1]))
	}
	if c.Empty() {
		out = append(out, "changes", "none")
	}
	return out
}

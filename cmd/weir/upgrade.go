package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf/hclfile"
	"github.com/weirlb/weir/stream/admin"
	"github.com/weirlb/weir/stream/handover"
)

// This file replaces a running weir by another process. The old one starts the
// new one with one end of a socket pair, over which it hands everything over
// (package handover), and then ends.

const (
	// inheritEnv tells a new process which descriptor the handover comes by.
	inheritEnv = "WEIR_INHERIT"
	inheritFD  = 3 // the first of exec.Cmd's ExtraFiles

	// connectPatience bounds the wait for sessions that are still connecting;
	// those that are not done by then end in the old process.
	connectPatience = 10 * time.Second
)

func newUpgradeCmd() *cobra.Command {
	var r remote
	var order admin.UpgradeOrder
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "have the weir that runs be replaced by a new process",
		Long: `Upgrade has weir start a new process, of its own program file as it is now or of
another one, and hand everything over to it: listening sockets with the
connections that wait in them, the state of servers, and the sessions, which go on
there. The old process ends when it has no session left. A new one that fails to
start changes nothing. SIGUSR2 does the same.

The new process reads the configuration anew. Sessions of a listener's last
upstream that is no longer in it, and of a weir that speaks another version of the
handover, end in the old process, which drains. Where weir is the first process of a
container, whose end is the container's, it refuses.` + whereHelp,
		Example: "  weir upgrade\n  weir upgrade --binary /usr/local/bin/weir.new\n  weir upgrade --no-handover",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(cmd, &r, func(ctx context.Context, c *admin.Client) (*admin.Upgrade, error) { return c.Upgrade(ctx, order) }, writeUpgrade)
		},
	}
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		if order.Binary != "" { // a path here means nothing to a process that runs elsewhere
			order.Binary, err = filepath.Abs(order.Binary)
		}
		return err
	}
	cmd.Flags().StringVar(&order.Binary, "binary", "", "program `FILE` of the new process; default: the running one's")
	cmd.Flags().BoolVar(&order.Drain, "no-handover", false, "leave the sessions to the old process, which drains")
	r.flags(cmd)
	return cmd
}

func writeUpgrade(w io.Writer, u *admin.Upgrade) {
	fmt.Fprintf(w, "process %d has taken over, with %s", u.Pid, count(u.Moved, "session"))
	if u.Left > 0 {
		fmt.Fprintf(w, "; %s left in process %d, which drains", count(u.Left, "session"), u.From)
	}
	fmt.Fprintln(w)
}

// Upgrade implements admin.Daemon.
func (d *daemon) Upgrade(ctx context.Context, order admin.UpgradeOrder) (*admin.Upgrade, error) {
	done := make(chan upgraded, 1)
	select {
	case d.orders <- func() { d.upgrade(order, done) }:
	case <-d.ended:
		return nil, &admin.Error{Status: http.StatusServiceUnavailable, Message: "weir has stopped"}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	u := <-done
	if u.err != nil {
		return nil, &admin.Error{Status: http.StatusConflict, Message: "not upgraded, and everything goes on here: " + u.err.Error()}
	}
	return &u.Upgrade, nil
}

// upgraded is how an upgrade has ended.
type upgraded struct {
	admin.Upgrade
	err error
}

// upgrade begins an upgrade, if none is under way. What comes of it goes to done,
// unless that is nil, and to d.upgraded.
func (d *daemon) upgrade(order admin.UpgradeOrder, done chan<- upgraded) {
	finish := func(u upgraded) {
		if u.err != nil {
			d.logger.Error("not upgraded: everything goes on here", "error", u.err)
		}
		if done != nil {
			done <- u
		}
	}
	switch {
	case d.upgrading:
		finish(upgraded{err: errors.New("an upgrade is under way")})
		return
	case d.draining:
		finish(upgraded{err: errors.New("weir is stopping")})
		return
	case os.Getpid() == 1: // pid_namespaces(7): all others are killed when it ends
		finish(upgraded{err: errors.New("this process is the first of its container, which would end with it: start another container with the new program")})
		return
	}
	d.upgrading = true
	binary := order.Binary
	if binary == "" {
		binary = d.binary
	}
	d.logger.Info("upgrading", "binary", binary, "sessions", d.server.Sessions(), "handover", !order.Drain)
	go func() {
		u := d.replace(binary, !order.Drain)
		if u.err == nil {
			// It is the one to be told of from now on, also to whoever asks: it listens too.
			// What it has told the watchdog so far may have been too early to be taken.
			d.notify(fmt.Sprintf("MAINPID=%d", u.Pid), systemd.SdNotifyWatchdog)
			d.admin.Withdraw() // but answers what has asked for this
			d.metrics.Close()
		}
		finish(u)
		d.upgraded <- u
	}()
}

// replace starts the new process and hands over to it.
func (d *daemon) replace(binary string, sessions bool) (u upgraded) {
	ours, theirs, err := handover.Pair()
	if err != nil {
		return upgraded{err: err}
	}
	defer ours.Close()
	child := exec.Command(binary, os.Args[1:]...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.Env = append(withoutWatchdogPid(), inheritEnv+"="+strconv.Itoa(inheritFD))
	child.ExtraFiles = []*os.File{theirs}
	err = child.Start()
	_ = theirs.Close() // the child has its own
	if err != nil {
		return upgraded{err: fmt.Errorf("start %s: %w", binary, err)}
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	d.successor.Store(child.Process)
	defer d.successor.Store(nil)

	ctx, cancel := context.WithTimeout(context.Background(), connectPatience)
	defer cancel()
	moved, err := d.server.HandOver(ctx, ours, sessions)
	if err != nil {
		// It must not serve beside this one. If it has ended by itself without a
		// word, how it did is the reason.
		patience := time.NewTimer(0)
		if errors.Is(err, handover.ErrEnded) {
			patience.Reset(time.Second)
		}
		select {
		case why := <-ended:
			if errors.Is(err, handover.ErrEnded) {
				err = fmt.Errorf("the new process ended: %w (its log says why)", orExit(why))
			}
		case <-patience.C:
			_ = child.Process.Kill()
			<-ended
		}
		return upgraded{err: err}
	}
	return upgraded{Upgrade: admin.Upgrade{Pid: child.Process.Pid, From: os.Getpid(), Moved: moved, Left: d.server.Sessions()}}
}

// endSuccessor has a process that is about to take over stop as this one does.
func (d *daemon) endSuccessor(now bool) {
	p := d.successor.Load()
	switch {
	case p == nil:
	case now:
		_ = p.Kill()
	default:
		_ = p.Signal(unix.SIGTERM)
	}
}

// refuse tells the process that started this one why it can't take over, and
// returns the error.
func refuse(predecessor *handover.Conn, err error) error {
	if predecessor != nil {
		_ = predecessor.Send(&handover.Message{Kind: handover.Failed, Error: err.Error()}) // else it sees the end
		_ = predecessor.Close()
	}
	return failed(err)
}

// mistakes is the first error of a configuration, in one line.
func mistakes(path string, r *hclfile.Result) error {
	for _, d := range r.Diagnostics {
		if d.Severity != hcl.DiagError {
			continue
		}
		if d.Subject == nil { // of no line: the file can't be read
			return fmt.Errorf("%s: %s: %s", path, d.Summary, d.Detail)
		}
		return fmt.Errorf("%s has mistakes: line %d: %s", path, d.Subject.Start.Line, d.Summary)
	}
	return fmt.Errorf("%s has mistakes", path)
}

// program returns the path of the program's file as it was called, and not what it
// is a link to: an upgrade is for the file that is there then.
func program() (string, error) {
	if path, err := exec.LookPath(os.Args[0]); err == nil {
		return filepath.Abs(path)
	}
	return os.Executable()
}

func orExit(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// inherited returns the handover that this process was started for, or nil.
func inherited() (*handover.Conn, error) {
	text, ok := os.LookupEnv(inheritEnv)
	if !ok {
		return nil, nil
	}
	_ = os.Unsetenv(inheritEnv) // it is not for a child of this one
	fd, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("read %s=%q: it is no descriptor", inheritEnv, text)
	}
	return handover.FromFD(fd)
}

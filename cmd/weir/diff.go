package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirlb/weir/stream/admin"
)

func newReloadCmd() *cobra.Command {
	var r remote
	var order admin.ReloadOrder
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "have the weir that runs read its configuration again",
		Long: `Reload does what SIGHUP does, and says what has changed, or why nothing has. It is
weir's own file that is read, the one it was started with.

TCP sessions are left alone by a reload, but for those of servers that are removed
or set down, if on_state says so. UDP clients of such a server go on in a new
session, and so do those of workers that go. --require-safe refuses both.` + whereHelp,
		Example: "  weir reload\n  weir reload --dry-run\n  weir reload --require-safe",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(cmd, &r, func(ctx context.Context, c *admin.Client) (*admin.Reload, error) { return c.Reload(ctx, order) }, writeReload)
		},
	}
	cmd.Flags().BoolVar(&order.RequireSafe, "require-safe", false, "refuse a change that would end a session")
	cmd.Flags().BoolVar(&order.DryRun, "dry-run", false, "only say what would change")
	r.flags(cmd)
	return cmd
}

func newDiffCmd() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:   "diff [-c NEW]",
		Short: "say what a configuration would change in the weir that runs",
		Long: `Diff reads a configuration here, with this shell's environment, and asks the weir
that runs what a reload with it would change. Nothing changes.` + whereHelp + `
If NEW moves the control API, name the present address with --admin.`,
		Example: "  weir diff -c weir.hcl.new",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg := loadConfig(cmd.ErrOrStderr(), r.config).Config
			if cfg == nil {
				return &exitError{code: exitFailed}
			}
			return show(cmd, &r, func(ctx context.Context, c *admin.Client) (*admin.Reload, error) { return c.Diff(ctx, cfg) }, writeReload)
		},
	}
	r.flags(cmd)
	cmd.Flags().Lookup("config").Usage = "the new configuration `FILE`"
	return cmd
}

func writeReload(w io.Writer, r *admin.Reload) {
	if r.Diagnostics != "" {
		fmt.Fprintf(w, "%s\n\n", r.Diagnostics)
	}
	c := &r.Changes
	switch {
	case c.None() && r.DryRun:
		fmt.Fprintln(w, "nothing would change")
		return
	case c.None():
		fmt.Fprintln(w, "reloaded: nothing has changed")
		return
	case r.DryRun:
		fmt.Fprintln(w, "a reload would change:")
	default:
		fmt.Fprintln(w, "reloaded:")
	}
	workers := ""
	if c.Workers[0] != c.Workers[1] {
		workers = fmt.Sprintf("%d -> %d", c.Workers[0], c.Workers[1])
	}
	fields(w,
		"opened", list(c.Opened), "closed", list(c.Closed), "changed", list(c.Changed),
		"added", list(c.Added), "removed", list(c.Removed), "altered", list(c.Altered),
		"settings", list(c.Settings), "workers", workers,
		"sessions", sessionsText(r),
	)
}

// list writes one item a line, as many as can be read.
func list(items []string) string {
	const shown = 20
	if more := len(items) - shown; more > 1 {
		items = append(items[:shown:shown], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(items, "\n")
}

func sessionsText(r *admin.Reload) string {
	on := r.SessionsAffected - r.SessionsEnded
	var out []string
	if on > 0 {
		out = append(out, count(on, "session")+" of what is removed; they run on")
	}
	if r.SessionsEnded > 0 {
		out = append(out, count(r.SessionsEnded, "session")+" to be ended: UDP clients go on in new ones, TCP clients have to come back")
	}
	return strings.Join(out, "\n")
}

package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirlb/weir/stream/admin"
)

func newSessionsCmd() *cobra.Command {
	var r remote
	var q admin.SessionQuery
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "list the sessions that run, or that have ended lately",
		Long: `Sessions lists the sessions that run, the oldest first, or with --ended those
that ended last.

  ID        for weir explain and weir close; connection in the access log
  IDLE      since bytes moved last
  FROM, TO  bytes from the client and to it` + whereHelp,
		Example: "  weir sessions --peer orders/a --older 1h\n  weir sessions --ended --limit 20",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(cmd, &r, func(ctx context.Context, c *admin.Client) (*admin.Sessions, error) { return c.Sessions(ctx, q) }, writeSessions)
		},
	}
	f := cmd.Flags()
	f.StringVar(&q.Listener, "listener", "", "only those of a listener, by `NAME`")
	f.StringVar(&q.Peer, "peer", "", "only those with a peer: `[UPSTREAM/]PEER`, name or address")
	f.StringVar(&q.Older, "older", "", "only those that began longer than `TIME` ago, such as 10m")
	f.IntVar(&q.Limit, "limit", 100, "at most `N`; 0 = all")
	f.BoolVar(&q.Ended, "ended", false, "those that ended last instead")
	r.flags(cmd)
	r.watchFlag(cmd)
	return cmd
}

func writeSessions(w io.Writer, s *admin.Sessions) {
	if len(s.Sessions) == 0 {
		fmt.Fprintln(w, "no such sessions")
		return
	}
	ended := s.Sessions[0].Ended != nil
	t := table{headings: []string{">ID", "CLIENT", "LISTENER", "PEER", "PHASE", ">AGE", ">IDLE", ">FROM", ">TO"}}
	if ended {
		t.headings = []string{">ID", "CLIENT", "LISTENER", "PEER", "ENDED", ">AFTER", ">AT", ">FROM", ">TO"}
	}
	for i := range s.Sessions {
		t.session(&s.Sessions[i])
	}
	t.write(w, "")
	if more := s.Total - len(s.Sessions); more > 0 {
		fmt.Fprintf(w, "and %s more; --limit 0 lists all\n", number(more))
	}
}

func (t *table) session(s *admin.Session) {
	id := strconv.FormatUint(s.ID, 10)
	if s.Ended != nil {
		t.add(id, s.Client, s.Listener, lastOf(s.PeerAddress), s.CloseReason, ago(s.AgeSeconds), s.Ended.Local().Format("15:04:05"), amount(s.BytesReceived), amount(s.BytesSent))
		return
	}
	t.add(id, s.Client, s.Listener, s.Peer, s.Phase, ago(s.AgeSeconds), ago(s.IdleSeconds), amount(s.BytesReceived), amount(s.BytesSent))
}

// lastOf returns the last of several attempted peers.
func lastOf(tried string) string {
	return tried[strings.LastIndex(tried, " ")+1:]
}

func newCloseCmd() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:     "close SESSION...",
		Short:   "end single sessions at once",
		Long:    "Close resets both sides of sessions. Their close_reason is closed_by_operator." + whereHelp,
		Example: "  weir close 4711",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var ids []uint64
			for _, a := range args {
				id, err := strconv.ParseUint(a, 10, 64)
				if err != nil {
					return fmt.Errorf("%q is not the number of a session: weir sessions lists them", a)
				}
				ids = append(ids, id)
			}
			return r.closeSessions(cmd, ids)
		},
	}
	r.flags(cmd)
	return cmd
}

// closed is what `weir close --json` prints.
type closed struct {
	Closed []uint64 `json:"closed"`
	Failed []string `json:"failed"` // why
}

// closeSessions closes as many of the sessions as there still are.
func (r *remote) closeSessions(cmd *cobra.Command, ids []uint64) error {
	out := closed{[]uint64{}, []string{}}
	ask := func(ctx context.Context, c *admin.Client) (*closed, error) {
		for _, id := range ids {
			err := c.CloseSession(ctx, id)
			if _, answered := err.(*admin.Error); err != nil && (!answered || len(ids) == 1) {
				return nil, err
			}
			if err != nil {
				out.Failed = append(out.Failed, err.Error())
				continue
			}
			out.Closed = append(out.Closed, id)
		}
		return &out, nil
	}
	if err := show(cmd, r, ask, writeClosed); err != nil {
		return err
	}
	if len(out.Failed) > 0 {
		return &exitError{code: exitFailed}
	}
	return nil
}

func writeClosed(w io.Writer, c *closed) {
	for _, id := range c.Closed {
		fmt.Fprintf(w, "session %d is closed\n", id)
	}
	for _, why := range c.Failed {
		fmt.Fprintln(w, why)
	}
}

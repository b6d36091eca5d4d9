package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirlb/weir/stream/admin"
)

func newExplainCmd() *cobra.Command {
	var r remote
	var client, listener, record string
	cmd := &cobra.Command{
		Use:   "explain UPSTREAM | SESSION",
		Short: "say which server the next session would get, or why a session got its own",
		Long: `Explain UPSTREAM tells which peer the next session would get if it came now, and
why; nothing changes by that. A method that hashes something of the client
wants to know which (--client).

Explain SESSION, with a number that weir sessions or the access log shows, tells
of a session that runs, or is among the last 4096 that ended on its worker: how
it went, and why it got its peers. The whys are known if log { decisions } was
"all" then, or if recording was on, which costs a little memory and time:

  weir explain --record 10m      from now on, for that long
  weir explain --record on       until --record off` + whereHelp,
		Example: "  weir explain orders\n  weir explain orders --client 10.0.0.7\n  weir explain 4711",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case record != "" && len(args) > 0:
				return errors.New("--record is for all sessions to come, and takes no name")
			case record != "":
				return show(cmd, &r, func(ctx context.Context, c *admin.Client) (*admin.Recording, error) { return c.Record(ctx, record) }, writeRecording)
			case len(args) == 0:
				return errors.New("explain what? Name an upstream, or the number of a session")
			}
			if id, err := strconv.ParseUint(args[0], 10, 64); err == nil {
				return show(cmd, &r, func(ctx context.Context, c *admin.Client) (*admin.SessionExplanation, error) {
					return c.ExplainSession(ctx, id)
				}, writeSession)
			}
			return show(cmd, &r, func(ctx context.Context, c *admin.Client) (*admin.Forecast, error) {
				return c.Forecast(ctx, args[0], client, listener)
			}, writeForecast)
		},
	}
	f := cmd.Flags()
	f.StringVar(&client, "client", "", "where the session comes from: `ADDR`, or ADDR:PORT")
	f.StringVar(&listener, "listener", "", "which one it comes to, by `NAME`; the first one of the upstream")
	f.StringVar(&record, "record", "", "`on, off or a time`: have decisions remembered from now on")
	r.flags(cmd)
	r.watchFlag(cmd)
	return cmd
}

func writeRecording(w io.Writer, r *admin.Recording) {
	if !r.On {
		fmt.Fprintln(w, "decisions are remembered only if log { decisions } has them")
		return
	}
	fmt.Fprintln(w, recordingText(r))
}

func writeForecast(w io.Writer, f *admin.Forecast) {
	from := ""
	if f.Client != "" {
		from = " from " + f.Client
	}
	got := "no peer"
	if f.Peer != "" {
		got = f.Peer
		if f.Address != f.Peer {
			got += " (" + f.Address + ")"
		}
	}
	fmt.Fprintf(w, "upstream %s: the next session%s would get %s\n", f.Upstream, from, got)
	for _, line := range wrap(f.Sentence, textWidth-2) {
		fmt.Fprintln(w, "  "+line)
	}
	fmt.Fprintln(w)
	t := table{headings: []string{"PEER", "ADDRESS", ">WEIGHT", ">CURRENT", ">NOW", ">FAILS", ">SCORE", "LEFT OUT"}}
	for _, c := range f.Candidates() {
		t.candidate(&c)
	}
	t.write(w, "  ")
}

func (t *table) candidate(c *admin.Candidate) {
	address := c.Address
	if c.Peer == c.Address {
		address = ""
	}
	weight, now, fails, score, left := fmt.Sprint(c.Weight), fmt.Sprint(c.Conns), "", "", c.LeftOut
	if c.Effective != c.Weight {
		weight = fmt.Sprintf("%d/%d", c.Effective, c.Weight)
	}
	if c.MaxConns > 0 {
		now += fmt.Sprintf("/%d", c.MaxConns)
	}
	if c.Fails > 0 {
		fails = fmt.Sprintf("%d/%d", c.Fails, c.MaxFails)
	}
	if c.Score != nil {
		score = strconv.FormatFloat(*c.Score, 'g', 6, 64)
	}
	if c.Backup {
		left = strings.TrimPrefix(left+", backup", ", ")
	}
	t.add(c.Peer, address, weight, fmt.Sprint(c.CurrentBefore), now, fails, score, left)
}

func writeSession(w io.Writer, e *admin.SessionExplanation) {
	s := &e.Session
	to := s.Peer
	switch {
	case to == "":
		to = lastOf(s.PeerAddress)
	case s.PeerAddress != to && lastOf(s.PeerAddress) != "":
		to += " (" + lastOf(s.PeerAddress) + ")"
	}
	if to == "" {
		to = "no peer"
	}
	fmt.Fprintf(w, "session %d: %s %s -> %s of upstream %s\n", s.ID, s.Protocol, s.Client, to, s.Upstream)
	began := s.Started.Local().Format("2006-01-02 15:04:05.000")
	state, ended := fmt.Sprintf("%s, for %s; no byte for %s", s.Phase, ago(s.AgeSeconds), ago(s.IdleSeconds)), ""
	if s.Ended != nil {
		state = ""
		ended = fmt.Sprintf("%s after %s: %s (status %d)", s.Ended.Local().Format("15:04:05.000"), ago(s.AgeSeconds), s.CloseReason, s.Status)
	}
	tries := ""
	if s.Tries > 1 {
		tries = fmt.Sprint(s.Tries)
		if s.Ended != nil {
			tries += ": " + s.PeerAddress
		}
	}
	fields(w,
		"listener", s.Listener,
		"began", began,
		"state", state,
		"ended", ended,
		"tries", tries,
		"connect", milliseconds(s.ConnectSeconds),
		"first byte", milliseconds(s.FirstByteSeconds),
		"bytes", fmt.Sprintf("%s from the client, %s to it", amount(s.BytesReceived), amount(s.BytesSent)),
		"why", why(e),
	)
}

func why(e *admin.SessionExplanation) string {
	var out []string
	for _, d := range e.Decisions {
		out = append(out, d.At.Local().Format("15:04:05.000")+" "+d.Sentence)
	}
	if e.Missing != "" {
		out = append(out, e.Missing)
	}
	return strings.Join(out, "\n")
}

// milliseconds writes a measured time, or nothing for what did not come to pass.
func milliseconds(seconds *float64) string {
	if seconds == nil {
		return ""
	}
	return strconv.FormatFloat(*seconds*1000, 'f', 1, 64) + " ms after the last pick"
}

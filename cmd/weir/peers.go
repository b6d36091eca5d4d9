package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirlb/weir/stream/admin"
)

func newPeersCmd() *cobra.Command {
	var r remote
	history := ""
	cmd := &cobra.Command{
		Use:   "peers [UPSTREAM]",
		Short: "show the servers of the upstreams, and their state",
		Long: `Peers shows every address of every upstream, or of one.

  STATE     up; draining and down by the operator; unavailable after max_fails;
            on trial when fail_timeout is over; full at max_conns; unchecked,
            unhealthy, standby, lagging and conflict by health checks; ejected by
            outlier detection; slow start with the share that it leaves
  WEIGHT    effective/configured, where failures have taken some off
  NOW       sessions, and max_conns behind a slash; TOTAL since the server came
  FAILED    attempts
  SENT      bytes to the server; RECV from it

Where there are health checks, or something speaks against a peer, a second table
shows each axis and for how long it has been so: a peer is eligible if all of them
allow it. Below it stands why.

--history shows the latest changes on the axes of one peer.` + whereHelp,
		Example: "  weir peers\n  weir peers orders --watch=1s\n  weir peers --history orders/a",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if history != "" {
				return showHistory(cmd, &r, history, args)
			}
			upstream := strings.Join(args, "")
			return show(cmd, &r, func(ctx context.Context, c *admin.Client) (*admin.Peers, error) { return c.Peers(ctx, upstream) }, writePeers)
		},
	}
	r.flags(cmd)
	r.watchFlag(cmd)
	cmd.Flags().StringVar(&history, "history", "", "show the latest changes of `UPSTREAM/PEER`")
	return cmd
}

func showHistory(cmd *cobra.Command, r *remote, name string, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("--history names the peer: leave out %q", args[0])
	}
	upstream, peer, err := peerArgs(name)
	if err != nil {
		return err
	}
	return show(cmd, r, func(ctx context.Context, c *admin.Client) (*admin.PeerHistory, error) {
		return c.PeerHistory(ctx, upstream, peer)
	}, writeHistory)
}

func writeHistory(w io.Writer, h *admin.PeerHistory) {
	name := h.Upstream + "/" + h.Peer
	if h.Peer != h.Address {
		name += " (" + h.Address + ")"
	}
	fmt.Fprintf(w, "%s: %s", name, count(h.Total, "change"))
	if more := h.Total - len(h.Transitions); more > 0 {
		fmt.Fprintf(w, ", the last %d", len(h.Transitions))
	}
	fmt.Fprintln(w)
	t := table{headings: []string{"AT", "AXIS", "FROM", "TO", "CAUSE"}}
	for _, x := range h.Transitions {
		t.add(x.At.Local().Format("2006-01-02 15:04:05.000"), x.Axis, x.From, x.To, x.Cause)
	}
	if len(h.Transitions) > 0 {
		t.write(w, "  ")
	}
}

func writePeers(w io.Writer, p *admin.Peers) {
	for i := 0; i < len(p.Peers); {
		upstream := p.Peers[i].Upstream
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "upstream %s\n", upstream)
		t := table{headings: []string{"PEER", "ADDRESS", "STATE", ">WEIGHT", ">NOW", ">TOTAL", ">FAILED", ">SENT", ">RECV"}}
		from := i
		for ; i < len(p.Peers) && p.Peers[i].Upstream == upstream; i++ {
			t.peer(&p.Peers[i])
		}
		t.write(w, "  ")
		writeAxes(w, p.Peers[from:i])
		writeGroup(w, p.Groups[upstream])
		writeSources(w, p.Sources[upstream])
	}
}

// axes are the columns of the second table.
var axes = []string{"admin", "discovery", "passive", "active", "role", "capacity"}

// plain are the values that nobody needs to be told of; well are those of a peer
// against which nothing speaks.
var (
	plain = map[string]bool{"up": true, "present": true, "available": true, "none": true, "any": true, "free": true}
	well  = map[string]bool{"healthy": true, "primary": true, "replica": true}
)

// writeAxes shows where peers stand on each axis, if there is something to be
// seen.
func writeAxes(w io.Writer, peers []admin.Peer) {
	t := table{headings: []string{"PEER", "ADMIN", "DISCOVERY", "PASSIVE", "ACTIVE", "ROLE", "CAPACITY"}}
	var why []string
	telling := false
	for i := range peers {
		p := &peers[i]
		line := []string{p.Name}
		for _, axis := range axes {
			a := p.Axes[axis]
			if plain[a.Value] {
				line = append(line, a.Value)
				continue
			}
			telling = true
			line = append(line, a.Value+" "+ago(time.Since(a.Since).Seconds()))
			if a.Cause != "" && !well[a.Value] {
				why = append(why, fmt.Sprintf("%s is %s since %s: %s", p.Name, a.Value, a.Since.Local().Format("15:04:05.000"), a.Cause))
			}
		}
		t.add(line...)
	}
	if !telling {
		return
	}
	fmt.Fprintln(w)
	t.write(w, "  ")
	for _, text := range why {
		writeNote(w, text)
	}
}

// writeNote writes a sentence below a table.
func writeNote(w io.Writer, text string) {
	indent := "  "
	for _, line := range wrap(text, textWidth-len(indent)-2) {
		fmt.Fprintln(w, indent+line)
		indent = "    "
	}
}

// writeSources tells of names and files that servers are discovered from and
// that can't be asked.
func writeSources(w io.Writer, sources []admin.Source) {
	for _, s := range sources {
		if s.StaleSince == nil {
			continue
		}
		what := "what is known of it is kept, " + count(s.Servers, "server")
		if s.Servers == 0 {
			what = "no server is known of it"
		}
		writeNote(w, fmt.Sprintf("%s is not up to date since %s: %s; %s", s.Name, s.StaleSince.Local().Format("15:04:05.000"), s.Error, what))
	}
}

func writeGroup(w io.Writer, g admin.Group) {
	if g.ExactlyOne && g.Incumbent != "" {
		writeNote(w, fmt.Sprintf("exactly one: %s has it, the %s so far", g.Incumbent, ordinal(g.Epoch)))
	}
	if g.Conflict {
		writeNote(w, fmt.Sprintf("CONFLICT: several servers claim what only one may have; %s keeps it", g.Incumbent))
	}
	if g.Panic {
		writeNote(w, "PANIC: too few servers are healthy, so the sick are used too")
	}
}

// ordinal writes 1 as 1st.
func ordinal(n int) string {
	suffix := "th"
	if n/10%10 != 1 {
		suffix = map[int]string{1: "st", 2: "nd", 3: "rd"}[n%10]
		if suffix == "" {
			suffix = "th"
		}
	}
	return fmt.Sprint(n) + suffix
}

func (t *table) peer(p *admin.Peer) {
	address := p.Address
	if p.Name == p.Address {
		address = "" // said once
	}
	now := number(p.Conns)
	if p.MaxConns > 0 {
		now += "/" + number(p.MaxConns)
	}
	weight := fmt.Sprint(p.Weight)
	if p.Effective != p.Weight {
		weight = fmt.Sprintf("%d/%d", p.Effective, p.Weight)
	}
	failures := ""
	if p.Failures > 0 {
		failures = number(p.Failures)
	}
	t.add(p.Name, address, stateText(p), weight, now, number(p.Sessions), failures, amount(p.BytesSent), amount(p.BytesReceived))
}

func stateText(p *admin.Peer) string {
	state := p.State
	if p.RetryInSeconds > 0 {
		state += fmt.Sprintf(" (%.0fs)", p.RetryInSeconds+0.5)
	}
	if p.EjectedForSeconds > 0 {
		state += fmt.Sprintf(" (%.0fs)", p.EjectedForSeconds+0.5)
	}
	if p.State == "slow start" {
		state += fmt.Sprintf(" %.0f%%", 100*p.SlowStart)
	}
	if p.Backup {
		state += ", backup"
	}
	return state
}

// peerArgs takes UPSTREAM/PEER apart.
func peerArgs(text string) (upstream, peer string, err error) {
	upstream, peer, ok := strings.Cut(text, "/")
	if !ok || upstream == "" || peer == "" {
		return "", "", fmt.Errorf("%q names no peer: write UPSTREAM/PEER, with the name or address that weir peers shows", text)
	}
	return upstream, peer, nil
}

// newPeerCmds returns the commands that say what an operator wants of a peer.
func newPeerCmds() []*cobra.Command {
	return []*cobra.Command{
		newPeerCmd("drain", "give servers no new sessions; those that run go on",
			"Drain gives peers no new sessions, and leaves those that run to end by themselves,\nunless on_state { drained } says otherwise. weir peers --watch shows them end. A\nreload leaves a drained peer drained."),
		newPeerCmd("up", "put servers back that were drained or set down",
			"Up takes back what drain and down have said."),
		newPeerCmd("down", "set servers down, as with down = true",
			"Down gives peers no new sessions and does not count them in a session's tries, as\ndown = true does. TCP sessions run on, unless on_state { drained } says otherwise;\na client over UDP goes elsewhere with its next datagram."),
	}
}

func newPeerCmd(word, short, long string) *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:     word + " UPSTREAM/PEER...",
		Short:   short,
		Long:    long + whereHelp,
		Example: "  weir " + word + " orders/a\n  weir " + word + " orders/10.0.0.11:5432",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.setPeers(cmd, args, admin.PeerOrder{Admin: word})
		},
	}
	r.flags(cmd)
	return cmd
}

func newWeightCmd() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:     "weight UPSTREAM/PEER N",
		Short:   "change the weight of a server until the configuration does",
		Long:    "Weight changes a peer's weight at once. It stays until a reload changes the weight\nin the configuration, through upgrades too, or until weir ends." + whereHelp,
		Example: "  weir weight orders/a 5",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[1])
			if err != nil {
				return fmt.Errorf("%q is not a weight: write a number", args[1])
			}
			return r.setPeers(cmd, args[:1], admin.PeerOrder{Weight: &n})
		},
	}
	r.flags(cmd)
	return cmd
}

// setPeers gives the same order for several peers, and tells of each.
func (r *remote) setPeers(cmd *cobra.Command, names []string, order admin.PeerOrder) error {
	for _, name := range names {
		if _, _, err := peerArgs(name); err != nil {
			return err
		}
	}
	ask := func(ctx context.Context, c *admin.Client) (*admin.Peers, error) {
		out := new(admin.Peers)
		for _, name := range names {
			upstream, peer, _ := peerArgs(name)
			p, err := c.SetPeer(ctx, upstream, peer, order)
			if err != nil {
				return nil, partly(err, len(out.Peers), len(names))
			}
			out.Peers = append(out.Peers, *p)
		}
		return out, nil
	}
	return show(cmd, r, ask, writeOrders)
}

// partly adds to an error that some of several orders were carried out before.
func partly(err error, done, all int) error {
	if all == 1 || done == 0 {
		return err
	}
	return errors.Join(err, fmt.Errorf("the first %d of %d were carried out", done, all))
}

func writeOrders(w io.Writer, p *admin.Peers) {
	for i := range p.Peers {
		p := &p.Peers[i]
		name := p.Upstream + "/" + p.Name
		if p.Name != p.Address {
			name += " (" + p.Address + ")"
		}
		running := count(p.Conns, "session") + " on it"
		switch p.Admin {
		case "drain":
			fmt.Fprintf(w, "%s is drained: no new sessions, %s\n", name, running)
		case "down":
			fmt.Fprintf(w, "%s is down: no new sessions, %s\n", name, running)
		default:
			fmt.Fprintf(w, "%s is %s, weight %d, %s\n", name, p.State, p.Weight, running)
		}
	}
}

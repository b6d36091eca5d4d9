package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirlb/weir/stream/admin"
)

func newStatusCmd() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "show how the weir that runs is doing",
		Long:    "Status shows the listeners, the upstreams, and how sessions have ended." + whereHelp,
		Example: "  weir status\n  weir status --watch\n  weir status --admin unix:/run/weir/admin.sock --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(cmd, &r, func(ctx context.Context, c *admin.Client) (*admin.Status, error) { return c.Status(ctx) }, writeStatus)
		},
	}
	r.flags(cmd)
	r.watchFlag(cmd)
	return cmd
}

func writeStatus(w io.Writer, s *admin.Status) {
	fmt.Fprintf(w, "weir %s, pid %d, up %s\n", s.Version, s.PID, ago(s.UptimeSeconds))
	workers := fmt.Sprint(s.Workers)
	if s.Leaving > 0 {
		workers += fmt.Sprintf(" (and %d that only finish their sessions)", s.Leaving)
	}
	config := s.Config
	if s.Reloaded != nil {
		config += ", reloaded at " + s.Reloaded.Local().Format("2006-01-02 15:04:05")
	}
	fields(w,
		"config", config,
		"not ready", s.NotReady,
		"workers", workers,
		"sessions", fmt.Sprintf("%s now, %s since the start, room for %s", number(s.Sessions.Now), number(s.Sessions.Total), number(s.Sessions.Max)),
		"bytes", fmt.Sprintf("%s to servers, %s to clients", amount(s.Bytes.ToPeers), amount(s.Bytes.ToClients)),
		"ended", endings(s.Ended),
		"recording", recordingText(&s.Recording),
		"runtime", fmt.Sprintf("%s garbage collections, %s objects of %s allocated", number(s.Runtime.GCCycles), number(s.Runtime.AllocatedObjects), amount(s.Runtime.AllocatedBytes)),
	)
	fmt.Fprintln(w)
	listeners := table{headings: []string{"LISTENER", "ADDRESS", "UPSTREAM", ">NOW", ">TOTAL"}}
	for _, l := range s.Listeners {
		listeners.add(l.Name, l.Protocol+" "+shortList(l.Addresses), l.Upstream, number(l.Sessions), number(l.Total))
	}
	listeners.write(w, "  ")
	fmt.Fprintln(w)
	upstreams := table{headings: []string{"UPSTREAM", "METHOD", ">PEERS", ">USABLE", ">NOW"}}
	loads := table{headings: []string{"UPSTREAM", "LIMIT", "IN FLIGHT", "LATENCY", "QUEUE", "CIRCUIT"}}
	for _, u := range s.Upstreams {
		upstreams.add(u.Name, u.Method, number(u.Peers), number(u.Usable), number(u.Conns))
		if u.Load.Queue != nil || u.Load.Circuit != nil || u.Load.Limit != nil {
			loads.add(append([]string{u.Name}, loadCells(&u.Load)...)...)
		}
	}
	upstreams.write(w, "  ")
	if len(loads.lines) > 0 {
		fmt.Fprintln(w)
		loads.write(w, "  ")
	}
}

// loadCells tells what bounds an upstream: its limit, what is in flight, the
// latency that the limit follows, its queue and its circuit breaker.
func loadCells(l *admin.Load) []string {
	limit, inFlight, latency, queue, circuit := "", fmt.Sprintf("%s sessions", number(l.Sessions)), "", "", ""
	if a := l.Limit; a != nil {
		limit = fmt.Sprintf("%s (%s)", number(a.Limit), a.Algorithm)
		if !a.Enforced {
			limit += " not enforced: no turns are seen"
		}
		inFlight = fmt.Sprintf("%s %ss", number(a.InFlight), a.ApplyTo)
		if a.Waiting > 0 {
			inFlight += fmt.Sprintf(", %s wait", number(a.Waiting))
		}
		latency = seconds(a.LatencySeconds)
	}
	if q := l.Queue; q != nil {
		queue = fmt.Sprintf("%s of %s", number(q.Waiting), number(q.Max))
	}
	if c := l.Circuit; c != nil {
		circuit = strings.ReplaceAll(c.State, "_", " ")
		if c.ForSeconds > 0 {
			circuit += " for " + seconds(c.ForSeconds)
		}
		if c.Opened > 0 {
			circuit += fmt.Sprintf(" (opened %s)", count(int(c.Opened), "time"))
		}
	}
	return []string{limit, inFlight, latency, queue, circuit}
}

// seconds writes a time as people read it.
func seconds(s float64) string {
	if s == 0 {
		return ""
	}
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}

// endings lists close reasons, the most frequent first.
func endings(ended map[string]int64) string {
	reasons := slices.SortedFunc(maps.Keys(ended), func(a, b string) int {
		return cmp.Or(cmp.Compare(ended[b], ended[a]), cmp.Compare(a, b))
	})
	var out []string
	for _, r := range reasons {
		out = append(out, r+" "+number(ended[r]))
	}
	return strings.Join(out, ", ")
}

func recordingText(r *admin.Recording) string {
	switch {
	case !r.On:
		return ""
	case r.Until == nil:
		return "decisions are remembered, until weir explain --record off"
	}
	return "decisions are remembered until " + r.Until.Local().Format("15:04:05")
}

// shortList names the first few of a list.
func shortList(list []string) string {
	const shown = 2
	if len(list) > shown+1 {
		return strings.Join(list[:shown], " ") + fmt.Sprintf(" and %d more", len(list)-shown)
	}
	return strings.Join(list, " ")
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weirlb/weir/bench/overload"
)

// overloadFormat is the version of the saved report.
const overloadFormat = 1

// overloadReport is what the command found; it is saved as it is.
type overloadReport struct {
	Format    int               `json:"overload_format"` // of another name than a comparison's, which this is not
	Quick     bool              `json:"quick"`
	Started   time.Time         `json:"started"`
	Commit    string            `json:"weir_commit"`
	Machine   machine           `json:"machine"`
	Versions  map[string]string `json:"versions"`
	Processes int               `json:"processes"`
	Best      float64           `json:"best_answers_per_second"` // by the server's model
	TargetMs  float64           `json:"target_ms"`
	Limit     string            `json:"limit"` // as the configuration has it
	Runs      []*overloadRun    `json:"runs"`
}

// overloadRun is one load, with or without the limit. Its figures are of the time
// after convergence.
type overloadRun struct {
	Name     string           `json:"name"`
	Clients  int              `json:"clients"`
	Limited  bool             `json:"limited"`
	Seconds  float64          `json:"seconds"`
	Settled  float64          `json:"measured_from_seconds"`
	Rate     float64          `json:"answers_per_second"`
	P50      float64          `json:"server_p50_ms"`
	P95      float64          `json:"server_p95_ms"`
	High     float64          `json:"high_p95_ms"`
	Low      float64          `json:"low_p95_ms"`
	HighRate float64          `json:"high_answers_per_second"`
	LowRate  float64          `json:"low_answers_per_second"`
	Refused  int              `json:"refused"` // in the whole run
	CPU      float64          `json:"weir_cpu_seconds"`
	Series   []overload.Point `json:"series"`
}

// sum fills in the figures of what was seen. The first half of a run is for
// convergence.
func (r *overloadRun) sum(seen overload.Seen, end time.Time) {
	settled := seen.Began.Add(end.Sub(seen.Began) / 2)
	r.Seconds, r.Settled = end.Sub(seen.Began).Seconds(), settled.Sub(seen.Began).Seconds()
	rate := func(t overload.Turns) float64 { return float64(len(t)) / end.Sub(settled).Seconds() }
	server, high, low := seen.Server.Between(settled, end), seen.High.Between(settled, end), seen.Low.Between(settled, end)
	r.Rate, r.HighRate, r.LowRate = rate(server), rate(high), rate(low)
	r.P50, r.P95 = overload.Milliseconds(server.Percentile(0.5)), overload.Milliseconds(server.Percentile(overloadP))
	r.High, r.Low = overload.Milliseconds(high.Percentile(overloadP)), overload.Milliseconds(low.Percentile(overloadP))
	r.Series = seen.Series()
}

// overloadCheck is something that the limit is for, and whether it was seen.
type overloadCheck struct {
	what, want, found string
	reached           bool
}

// checks judge the runs, which are x 1 and x 3 without the limit, and x 3 with it.
func (r *overloadReport) checks() []overloadCheck {
	one, three, limited := r.Runs[0], r.Runs[1], r.Runs[2]
	best := max(one.Rate, three.Rate)
	within := func(found, want, share float64) bool { return math.Abs(found-want) <= share*want }
	return []overloadCheck{
		{"without the limit the server's p95 triples", "x 3 ± 10 %", fmt.Sprintf("x %.2f", ratio(three.P95, one.P95)), within(ratio(three.P95, one.P95), 3, 0.1)},
		{"with it the server's p95 stays at the target", fmt.Sprintf("%.0f ms ± 10 %%", r.TargetMs), fmt.Sprintf("%.1f ms", limited.P95), within(limited.P95, r.TargetMs, 0.1)},
		{"throughput stays at the server's best", fmt.Sprintf("%.0f/s (by its model %.0f/s) - 10 %%", best, r.Best), fmt.Sprintf("%.0f/s", limited.Rate), limited.Rate >= 0.9*best && limited.Rate >= 0.9*r.Best},
		{"clients of high priority stay below the target", fmt.Sprintf("p95 < %.0f ms, waits included", r.TargetMs), fmt.Sprintf("%.1f ms", limited.High), limited.High < r.TargetMs && limited.HighRate > 0},
		{"those of low priority wait, or are refused", "p95 at least 1.5 times that of high priority", fmt.Sprintf("%.1f ms, %d refused", limited.Low, limited.Refused), limited.Low >= 1.5*limited.High || limited.Refused > 0},
	}
}

// print writes the report as Markdown. The plot stands beside it under the name of
// base, if there is one.
func (r *overloadReport) print(w io.Writer, base string) {
	fmt.Fprintf(w, "# An adaptive limit while the load triples\n\n")
	if r.Quick {
		fmt.Fprintf(w, "**QUICK run: it shows that everything works. It is too short to converge for sure.**\n\n")
	}
	fmt.Fprintf(w, "- %s, %s\n- commit %s\n", r.Started.Format(time.RFC3339), r.Machine.describe(), r.Commit)
	for _, name := range []string{"go", weir} {
		fmt.Fprintf(w, "- %s: %s\n", name, r.Versions[name])
	}
	fmt.Fprintf(w, "- the server: a line takes %v on average, evenly spread within ± %.0f %%, with up to %d at once; more share that evenly, so that its best is %.0f answers/s\n",
		overloadModel.Work, 100*overloadModel.Spread, overloadModel.Capacity, r.Best)
	fmt.Fprintf(w, "- the load: %d clients, then %d, on connections that they keep, each with its next line when it has its answer; one of %d by a listener of priority 0, the others by one of priority 5\n",
		overloadClients, 3*overloadClients, overloadHigh)
	fmt.Fprintf(w, "- weir: %d %s, with the default number of workers\n\n```hcl\n%s```\n\n", r.Processes, plural(r.Processes, "process", "processes that share the server and the clients, and do not know of each other"), r.Limit)
	if base != "" {
		fmt.Fprintf(w, "![latency and limit over time](%s.svg)\n\n", base)
	}
	fmt.Fprintf(w, "Figures are of the second half of each run. Latencies of the server are from a line read to its answer written, those\nof clients from a line written to its answer read, with what they wait in weir.\n\n")
	rows := [][]string{{"run", "clients", "answers/s", "x best", "server p50 ms", "server p95 ms", "x target", "high p95 ms", "low p95 ms", "high/s", "low/s", "refused", "weir's CPU %"}}
	for _, run := range r.Runs {
		rows = append(rows, []string{run.Name, strconv.Itoa(run.Clients), formatFigure(run.Rate), formatRatio(run.Rate / r.Best), formatFigure(run.P50), formatFigure(run.P95),
			formatRatio(run.P95 / r.TargetMs), formatFigure(run.High), formatFigure(run.Low), formatFigure(run.HighRate), formatFigure(run.LowRate),
			strconv.Itoa(run.Refused), formatFigure(100 * ratio(run.CPU, run.Seconds))})
	}
	printTable(w, rows)
	fmt.Fprintln(w)
	rows = [][]string{{"what it is for", "wanted", "found", "reached"}}
	for _, c := range r.checks() {
		answer := missed
		if c.reached {
			answer = reached
		}
		rows = append(rows, []string{c.what, c.want, c.found, string(answer)})
	}
	printTable(w, rows)
	fmt.Fprintf(w, "\nWith the limit, each second:\n\n")
	printTable(w, r.seconds(r.Runs[len(r.Runs)-1]))
}

func plural(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

// seconds is a table of every tenth point of a run.
func (r *overloadReport) seconds(run *overloadRun) [][]string {
	rows := [][]string{{"s", "limit", "in flight", "waiting", "answers/s", "server p95 ms", "high p95 ms", "low p95 ms"}}
	step := int(time.Second / overload.WatchEvery)
	for i := step - 1; i < len(run.Series); i += step {
		p := run.Series[i]
		limit := strconv.Itoa(p.Limit())
		if len(p.Limits) > 1 {
			limit += " = " + strings.Trim(strings.ReplaceAll(fmt.Sprint(p.Limits), " ", " + "), "[]")
		}
		rows = append(rows, []string{fmt.Sprintf("%.0f", p.Seconds), limit, strconv.Itoa(p.InFlight), strconv.Itoa(p.Waiting), formatFigure(p.Rate),
			formatFigure(p.P95), formatFigure(p.High), formatFigure(p.Low)})
	}
	return rows
}

// save writes the report as base.json, base.md and base.svg.
func (r *overloadReport) save(base string) error {
	b, err := json.Marshal(r) // one line: the series are long
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(base+".json", append(b, '\n'), 0o644),
		writeFile(base+".md", func(w io.Writer) error {
			r.print(w, filepath.Base(base))
			return nil
		}),
		writeFile(base+".svg", r.plot),
	)
}

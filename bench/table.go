package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

func printHeader(w io.Writer, r *report) {
	fmt.Fprintf(w, "# weir against nginx, HAProxy and a direct connection\n\n")
	if r.Quick {
		fmt.Fprintf(w, "**QUICK run: it shows that everything works. The figures are too few and too short to compare.**\n\n")
	}
	if r.Patience != "0s" {
		fmt.Fprintf(w, "- runs during which something else used more than %.2f cores were repeated, each for up to %s\n", busyCores, r.Patience)
	}
	m := r.Machine
	fmt.Fprintf(w, "- %s, medians of %d rounds of %d s\n", r.Started.Format(time.RFC3339), r.Rounds, r.Seconds)
	fmt.Fprintf(w, "- %s, %d cores, %s memory, Linux %s, load %s at the start\n", m.CPU, m.Cores, m.Memory, m.Kernel, m.Load)
	if load, err := strconv.ParseFloat(m.Load, 64); err == nil && load > 0.25*float64(m.Cores) {
		fmt.Fprintf(w, "- **the machine was busy with something else at the start: expect wide ranges**\n")
	}
	fmt.Fprintf(w, "- network: %s; congestion control of every socket: %s; somaxconn %s, ports %s, tcp_rmem %s, tcp_wmem %s\n",
		m.Network.Where, m.Network.Congestion, m.Somaxconn, m.Ports, m.Rmem, m.Wmem)
	fmt.Fprintf(w, "- CPU vulnerabilities: %s\n", m.Vulnerabilities)
	fmt.Fprintf(w, "- commit %s\n", r.Commit)
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		fmt.Fprintf(w, "- %s: %s\n", name, r.Versions[name])
	}
	for _, name := range slices.Sorted(maps.Keys(r.Tuning)) {
		fmt.Fprintf(w, "- settings of %s: %s\n", name, r.Tuning[name])
	}
	if r.Ended != "" {
		fmt.Fprintf(w, "- **this comparison ended early: %s**\n", r.Ended)
	}
	fmt.Fprintf(w, "\nCells are `median (min..max)`. `x direct` and `x best` are medians over the median of the direct connection\n"+
		"and of the better of nginx and HAProxy, each in the setting that is best in the scenario's first figure: above 1 is\n"+
		"better for rates, below 1 for everything else. `!` marks errors. A name that ends in -2 has two workers.\n")
}

// printScenario writes one table: the figures of every contestant, then the
// ratios of the first figure and of the proxy's CPU or memory.
func printScenario(w io.Writer, r *result) {
	fmt.Fprintf(w, "\n## %s: %s\n\n%s; %d rounds.\n\n", r.Name, r.Title, r.Setup, r.Rounds)
	main := r.Metrics[0]
	head := []string{""}
	for _, m := range r.Metrics {
		head = append(head, m.Name+" "+m.Unit)
	}
	if !main.ProxyOnly {
		head = append(head, main.Name+" x direct")
	}
	ratios := ratioMetrics(r.Metrics)
	for _, m := range ratios {
		head = append(head, m.Name+" x best")
	}
	rows := [][]string{head}
	for _, s := range r.Contestants {
		row := []string{s.Name}
		for i, m := range r.Metrics {
			cell := formatSpread(r.spread(s.Name, m))
			if i == 0 && s.flawed() {
				cell += " !"
			}
			row = append(row, cell)
		}
		if !main.ProxyOnly {
			row = append(row, formatRatio(ratio(r.spread(s.Name, main).median, r.spread(direct, main).median)))
		}
		for _, m := range ratios {
			row = append(row, formatRatio(ratio(r.spread(s.Name, m).median, r.bestRival(m).median)))
		}
		rows = append(rows, row)
	}
	printTable(w, rows)
	printBefore(w, r)
	printSyscalls(w, r)
	printRuntime(w, r)
	printOthers(w, r)
	printErrors(w, r)
}

// printBefore tells what weir does differently from the other weir that took part.
func printBefore(w io.Writer, r *result) {
	if r.series(weir) == nil || r.series(before) == nil {
		return
	}
	var parts []string
	for _, m := range r.Metrics {
		if own, other := r.spread(weir, m), r.spread(before, m); own.ok() && other.ok() {
			parts = append(parts, m.Name+" "+formatVersus(own, other))
		}
	}
	fmt.Fprintf(w, "\nweir with one worker x %s (`~`: not told apart): %s.\n", before, strings.Join(parts, ", "))
}

// busyCores is how much of something else on the machine is worth a warning.
// The kernel's own threads and the tick's rounding stay below.
const busyCores = 0.25

// printOthers warns when the runs did not have the machine to themselves.
func printOthers(w io.Writer, r *result) {
	runs, disturbed, repeats, most := 0, 0, 0, 0.0
	for _, s := range r.Contestants {
		for _, sm := range s.Samples {
			runs++
			repeats += sm.Repeats
			if sm.Others > busyCores {
				disturbed++
			}
			most = max(most, sm.Others)
		}
	}
	if repeats > 0 {
		fmt.Fprintf(w, "\n%d more runs were disturbed and repeated.\n", repeats)
	}
	if disturbed > 0 {
		fmt.Fprintf(w, "\n**Something else kept the machine busy in %d of %d runs, up to %.1f cores: do not compare these.**\n", disturbed, runs, most)
	}
}

// ratioMetrics are the first figure and those that only a proxy has and that
// stand for a cost.
func ratioMetrics(ms []metric) []metric {
	var out []metric
	for i, m := range ms {
		if i == 0 || m.ProxyOnly {
			out = append(out, m)
		}
	}
	return out
}

func printErrors(w io.Writer, r *result) {
	first := true
	for _, s := range r.Contestants {
		for _, sm := range s.Samples {
			text := sm.Flaw
			if sm.Failed != "" {
				text = "FAILED: " + sm.Failed
			}
			if text == "" {
				continue
			}
			if first {
				fmt.Fprintln(w)
				first = false
			}
			fmt.Fprintf(w, "- ! %s, round %d: %s\n", s.Name, sm.Round, text)
		}
	}
}

// printTable writes a markdown table whose columns also line up as plain text.
func printTable(w io.Writer, rows [][]string) {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], len(cell), 3)
		}
	}
	for n, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			fmt.Fprintf(&b, "| %-*s ", width[i], cell)
		}
		fmt.Fprintln(w, b.String()+"|")
		if n > 0 {
			continue
		}
		for _, wd := range width {
			fmt.Fprint(w, "|", strings.Repeat("-", wd+2))
		}
		fmt.Fprintln(w, "|")
	}
}

func formatSpread(s spread) string {
	if !s.ok() {
		return "-"
	}
	return fmt.Sprintf("%s (%s..%s)", formatFigure(s.median), formatFigure(s.min), formatFigure(s.max))
}

// formatFigure keeps three significant digits, and whole numbers above 100.
func formatFigure(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "-"
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

func formatRatio(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

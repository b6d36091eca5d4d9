package main

import (
	"fmt"
	"io"
	"strings"
)

// printReport writes the whole report, the summary first. The plots stand
// beside it under the name of base.
func printReport(w io.Writer, r *report, base string) {
	printHeader(w, r)
	fmt.Fprintf(w, "\n![weir against the better of nginx and HAProxy](%s.svg)\n\n![each against a direct connection](%s-direct.svg)\n", base, base)
	printSummary(w, r)
	for _, sc := range r.Scenarios {
		printScenario(w, sc)
	}
}

// printSummary writes every figure of every scenario on a line of its own, with
// one column per product.
func printSummary(w io.Writer, r *report) {
	fmt.Fprintf(w, "\n## Summary\n\n")
	if r.Quick {
		fmt.Fprintf(w, "**QUICK run, not for comparison.** ")
	}
	if r.Rounds < 4 {
		fmt.Fprintf(w, "**Fewer than four rounds tell nothing apart.** ")
	}
	fmt.Fprintf(w, "Every product in the setting that is best in the scenario's first figure, which is in brackets unless it is\n"+
		"one worker and nothing special. `~`: the run does not tell weir and the better rival apart (Mann-Whitney U test, 5 %%).\n"+
		"Reached is by the medians: `yes` when told apart from the rival, else `not told apart`.\n\n")
	head := append([]string{"scenario", "figure"}, products...)
	rows := [][]string{append(head, "weir x direct", "weir x best", "target", "reached")}
	count := map[verdict]int{}
	for _, sc := range r.Scenarios {
		for i, m := range sc.Metrics {
			row := []string{sc.Name, m.Name + " " + m.Unit}
			for _, p := range products {
				cell := formatFigure(sc.figure(p, m).median)
				if s := sc.chosen(p); i == 0 && s != nil && settingOf(s.Name) != "" {
					cell += " [" + settingOf(s.Name) + "]"
				}
				row = append(row, cell)
			}
			own := sc.figure(weir, m)
			row = append(row, formatRatio(ratio(own.median, sc.figure(direct, m).median)), formatVersus(own, sc.bestRival(m)))
			goal, judged := "", verdict("")
			if t, ok := targetOf(sc.Name, m.Name); ok {
				goal, judged = t.format(m), t.judge(sc, m)
				count[judged]++
			}
			rows = append(rows, append(row, goal, string(judged)))
		}
	}
	printTable(w, rows)
	fmt.Fprintf(w, "\nTargets: %d reached, %d missed, %d not told apart, %d without figures.\n\n%s\n\nTook %s.\n",
		count[reached], count[missed], count[notApart], count[noFigures], r.describeSlowest(), r.Took)
}

// describeSlowest names the scenarios in which weir is the last of all.
func (r *report) describeSlowest() string {
	var clear, perhaps []string
	for _, sc := range r.Scenarios {
		switch last, apart := sc.slowest(); {
		case last && apart:
			clear = append(clear, sc.Name)
		case last:
			perhaps = append(perhaps, sc.Name)
		}
	}
	list := func(names []string) string {
		if len(names) == 0 {
			return "none"
		}
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("First figures in which weir is the last of all, told apart from the next: %s; by its median only: %s.", list(clear), list(perhaps))
}

// formatVersus is a ratio of medians, marked when the runs do not tell the two apart.
func formatVersus(own, other spread) string {
	cell := formatRatio(ratio(own.median, other.median))
	if own.ok() && other.ok() && !own.apart(other) {
		cell += " ~"
	}
	return cell
}

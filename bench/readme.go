package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// reportCommand renders a saved report again, beside it, and with -readme also
// puts its essence into a README.
func reportCommand(args []string) error {
	fs := flag.NewFlagSet("bench report", flag.ContinueOnError)
	readme := fs.String("readme", "", "also put the plot and the table of first figures into this Markdown `file`, between its two bench marks")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() != 1 {
		return errors.New("report: want one file: bench report [-readme README.md] FILE.json")
	}
	r, err := loadReport(fs.Arg(0))
	if err != nil {
		return err
	}
	base := strings.TrimSuffix(fs.Arg(0), ".json")
	if err := r.render(base); err != nil || *readme == "" {
		return err
	}
	from, err := filepath.Rel(filepath.Dir(*readme), base)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(*readme)
	if err != nil {
		return err
	}
	filled, err := fillMarks(string(text), readmeText(r, filepath.ToSlash(from)))
	if err != nil {
		return fmt.Errorf("fill %s: %w", *readme, err)
	}
	return os.WriteFile(*readme, []byte(filled), 0o644)
}

const (
	markBegin = "<!-- bench: begin -->\n"
	markEnd   = "<!-- bench: end -->\n"
)

// fillMarks puts text between the two marks, in place of what is there.
func fillMarks(file, text string) (string, error) {
	before, rest, ok := strings.Cut(file, markBegin)
	_, after, ended := strings.Cut(rest, markEnd)
	if !ok || !ended {
		return "", fmt.Errorf("it lacks the lines %q and %q", strings.TrimSpace(markBegin), strings.TrimSpace(markEnd))
	}
	return before + markBegin + text + markEnd + after, nil
}

// readmeText is a report in a few lines: a line for each scenario. The whole of
// it is in base.md.
func readmeText(r *report, base string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "![weir against the better of nginx and HAProxy](%s.svg)\n\n", base)
	rows := [][]string{{"scenario", "figure", "nginx", "haproxy", weir, "weir x best", "CPU x best"}}
	for _, sc := range r.Scenarios {
		m, cpu := sc.Metrics[0], sc.metric("cpu")
		rows = append(rows, []string{sc.Name, m.Name + " " + m.Unit,
			formatFigure(sc.figure("nginx", m).median), formatFigure(sc.figure("haproxy", m).median), formatFigure(sc.figure(weir, m).median),
			formatVersus(sc.figure(weir, m), sc.bestRival(m)), formatVersus(sc.figure(weir, cpu), sc.bestRival(cpu))})
	}
	printTable(&b, rows)
	quick := ""
	if r.Quick {
		quick = "**From a QUICK run, not for comparison.** "
	}
	fmt.Fprintf(&b, "\n%sEach in its better setting; `best` is the better of nginx and HAProxy; `~`: not told apart. Taken from commit\n"+
		"%s on %s. All figures, the targets, and what was missed: [%s.md](%s.md).\n", quick, r.Commit, r.Machine.describe(), filepath.Base(base), base)
	return b.String()
}

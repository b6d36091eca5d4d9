package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// compareCommand prints what changed between two reports. With -fail-above it
// returns an error when any figure got worse by more than that.
func compareCommand(args []string) error {
	fs := flag.NewFlagSet("bench compare", flag.ContinueOnError)
	product := fs.String("product", weir, "`product` to compare: "+strings.Join(products, ", "))
	limit := fs.Float64("fail-above", -1, "fail when a figure is worse by more than this `percent` and told apart")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() != 2 {
		return errors.New("compare: want two files: bench compare [-product NAME] [-fail-above PERCENT] OLD.json NEW.json")
	}
	if !slices.Contains(products, *product) {
		return fmt.Errorf("compare: no product %q; valid: %s", *product, strings.Join(products, ", "))
	}
	before, err := loadReport(fs.Arg(0))
	if err != nil {
		return err
	}
	after, err := loadReport(fs.Arg(1))
	if err != nil {
		return err
	}
	changes := compareReports(before, after, *product)
	if len(changes) == 0 {
		return fmt.Errorf("compare: the files share no figure of %s", *product)
	}
	printChanges(os.Stdout, before, after, *product, changes)
	if *limit < 0 {
		return nil
	}
	if missing := missingIn(after, before); after.Ended != "" && len(missing) > 0 {
		return fmt.Errorf("compare: the new run ended early and has no %s", strings.Join(missing, ", "))
	}
	worse := slices.DeleteFunc(changes, func(c change) bool { return !c.worseBy(*limit) })
	if len(worse) > 0 {
		return fmt.Errorf("compare: %d figures are worse by more than %g %%, the first is %s of %s", len(worse), *limit, worse[0].metric.Name, worse[0].scenario)
	}
	return nil
}

// change is one figure in both reports; either may be without a value.
type change struct {
	scenario      string
	setting       string // contestant, of old and new if they differ
	metric        metric
	before, after spread
}

// compareReports pairs the figures that a product has in at least one of the
// reports, in the scenarios that are in both. Its setting is the one that was best in
// the old report, if the new one has it: like is compared with like.
func compareReports(before, after *report, product string) []change {
	var changes []change
	for _, sc := range after.Scenarios {
		old := before.scenario(sc.Name)
		if old == nil {
			continue
		}
		was, is := old.chosen(product), sc.chosen(product)
		setting := nameOf(was)
		if s := sc.series(setting); s != nil && sc.spread(setting, sc.Metrics[0]).ok() {
			is = s
		}
		if is != nil && was != nil && is.Name != was.Name {
			setting += ", " + is.Name
		}
		for _, m := range old.Metrics {
			c := change{sc.Name, setting, m, old.spread(nameOf(was), m), sc.spread(nameOf(is), m)}
			if c.before.ok() || c.after.ok() {
				changes = append(changes, c)
			}
		}
	}
	return changes
}

// nameOf is a contestant's name, "" for none.
func nameOf(s *series) string {
	if s == nil {
		return ""
	}
	return s.Name
}

// worseBy tells that the new median is worse by more than percent of the old
// one and told apart from it, or that the figure is gone.
func (c change) worseBy(percent float64) bool {
	if !c.before.ok() || !c.after.ok() {
		return c.before.ok()
	}
	allowed := c.before.median * (1 - percent/100)
	if c.metric.Lower {
		allowed = c.before.median * (1 + percent/100)
	}
	return c.metric.better(allowed, c.after.median) && c.after.apart(c.before)
}

func printChanges(w io.Writer, before, after *report, product string, changes []change) {
	fmt.Fprintf(w, "%s, old: %s; new: %s.\n", product, before.describe(), after.describe())
	if before.Quick || after.Quick {
		fmt.Fprintf(w, "**At least one is a QUICK run, not for comparison.**\n")
	}
	if a, b := before.Machine.describe(), after.Machine.describe(); a != b {
		fmt.Fprintf(w, "**The machines differ: %s; now %s.**\n", a, b)
	}
	for _, r := range []*report{before, after} {
		if r.Ended != "" {
			fmt.Fprintf(w, "**The run of %s ended early: %s.**\n", r.Started.Format("2006-01-02 15:04"), r.Ended)
		}
	}
	if before.Seconds != after.Seconds {
		fmt.Fprintf(w, "**The runs were not equally long: %d s, now %d s.**\n", before.Seconds, after.Seconds)
	}
	fmt.Fprintf(w, "`~`: the runs do not tell the two apart (Mann-Whitney U test, 5 %%).\n\n")
	rows := [][]string{{"scenario", "setting", "figure", "old", "new", "new x old"}}
	for _, c := range changes {
		rows = append(rows, []string{c.scenario, c.setting, c.metric.Name + " " + c.metric.Unit, formatSpread(c.before), formatSpread(c.after), formatVersus(c.after, c.before)})
	}
	printTable(w, rows)
	printOnlyIn(w, "old", before, after)
	printOnlyIn(w, "new", after, before)
}

func printOnlyIn(w io.Writer, name string, r, other *report) {
	for _, sc := range missingIn(other, r) {
		fmt.Fprintf(w, "\nOnly in the %s file: %s\n", name, sc)
	}
}

// missingIn returns the scenarios of other that the report has not got.
func missingIn(r, other *report) (names []string) {
	for _, sc := range other.Scenarios {
		if r.scenario(sc.Name) == nil {
			names = append(names, sc.Name)
		}
	}
	return names
}

func (r *report) describe() string {
	return fmt.Sprintf("%s, commit %s, %d rounds of %d s", r.Started.Format("2006-01-02 15:04"), r.Commit, r.Rounds, r.Seconds)
}

func (m machine) describe() string {
	return fmt.Sprintf("%s, %d cores, %s memory, Linux %s", m.CPU, m.Cores, m.Memory, m.Kernel)
}

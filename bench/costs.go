package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// fewSyscalls per unit of work are not worth a line.
const fewSyscalls = 0.05

// syscallTotal is the name that holds the sum of all calls.
const syscallTotal = "total"

// printSyscalls writes which system calls each contestant made for one unit of
// work, the most frequent first, if anybody counted them.
func printSyscalls(w io.Writer, r *result) {
	var counted []*series
	most := map[string]float64{}
	for _, s := range r.Contestants {
		if s.Syscalls == nil {
			continue
		}
		counted = append(counted, s)
		for call, n := range s.Syscalls {
			most[call] = max(most[call], n)
		}
	}
	if len(counted) == 0 {
		return
	}
	calls := slices.DeleteFunc(slices.Collect(maps.Keys(most)), func(call string) bool {
		return call == syscallTotal || most[call] <= fewSyscalls
	})
	slices.SortFunc(calls, func(a, b string) int { return cmp.Or(cmp.Compare(most[b], most[a]), cmp.Compare(a, b)) })

	rows := [][]string{{"system calls per " + workUnit(r.Metrics)}}
	for _, s := range counted {
		rows[0] = append(rows[0], s.Name)
	}
	for _, call := range append(calls, syscallTotal) {
		row := []string{call}
		for _, s := range counted {
			cell := "-"
			if n, ok := s.Syscalls[call]; ok {
				cell = formatFigure(n)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	fmt.Fprintln(w)
	printTable(w, rows)
}

// printRuntime writes what weir's Go runtime did while it was measured: on the
// data path nothing should be allocated, and so nothing collected.
func printRuntime(w io.Writer, r *result) {
	unit := workUnit(r.Metrics)
	rows := [][]string{{"Go runtime", "GC cycles", "objects", "objects per " + unit, "bytes per " + unit}}
	for _, s := range r.Contestants {
		if g := s.Runtime; g != nil {
			rows = append(rows, []string{s.Name, strconv.FormatFloat(g.GCCycles, 'f', -1, 64), strconv.FormatFloat(g.Objects, 'f', -1, 64),
				formatSmall(ratio(g.Objects, g.Work)), formatSmall(ratio(g.Bytes, g.Work))})
		}
	}
	if len(rows) == 1 {
		return
	}
	fmt.Fprintln(w)
	printTable(w, rows)
}

// workUnit is what a scenario counts its costs by: the part of the CPU's unit
// after the slash.
func workUnit(ms []metric) string {
	for _, m := range ms {
		if _, unit, ok := strings.Cut(m.Unit, "/"); ok && m.Name == "cpu" {
			return unit
		}
	}
	return "unit of work"
}

// formatSmall keeps the first digit that is not zero, which formatFigure
// would round away.
func formatSmall(v float64) string {
	if v > 0 && v < 0.1 {
		return strconv.FormatFloat(v, 'g', 1, 64)
	}
	return formatFigure(v)
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFillMarks(t *testing.T) {
	got, err := fillMarks("a\n"+markBegin+"old\n"+markEnd+"b\n", "new\n")
	if want := "a\n" + markBegin + "new\n" + markEnd + "b\n"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for _, file := range []string{"", markBegin, markEnd, markEnd + markBegin} {
		if got, err := fillMarks(file, "new\n"); err == nil {
			t.Errorf("%q: got %q, want an error", file, got)
		}
	}
}

func TestReportCommand(t *testing.T) {
	dir := t.TempDir()
	readme, base := filepath.Join(dir, "README.md"), filepath.Join(dir, "results", "2026")
	if err := os.Mkdir(filepath.Dir(base), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := madeUp().save(base); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(base + ".svg"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(readme, []byte("# x\n"+markBegin+markEnd), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := reportCommand([]string{"-readme", readme, base + ".json"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(base + ".svg"); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"(results/2026.svg)", "[2026.md](results/2026.md)",
		"| bulk-1 | throughput Gbit/s | 20.0 | 23.0 | 30.0 | 1.30 | 0.48 |",
		"| idle | used KB/session | 9.00 | 4.00 | 0.50 | 0.12 | - |",
	} {
		if !strings.Contains(squeeze(string(text)), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, args := range [][]string{{}, {"a", "b"}, {filepath.Join(dir, "none.json")}, {"-readme", base + ".md", base + ".json"}} {
		if err := reportCommand(args); err == nil {
			t.Errorf("%q: want an error", args)
		}
	}
}

// The README of this repository must have the place that -readme fills.
func TestReadmeHasItsPlace(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fillMarks(string(text), ""); err != nil {
		t.Error(err)
	}
}

package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDescribeVulnerabilities(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"meltdown": "Not affected\n", "spectre_v1": "Mitigation: usercopy barriers\n", "mds": "Vulnerable; SMT off\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := "3 known, 1 mitigated: spectre_v1 (usercopy barriers), 1 open: mds (Vulnerable; SMT off)"
	if got := describeVulnerabilities(dir); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := describeVulnerabilities(filepath.Join(dir, "none")); got != "unknown" {
		t.Errorf("no such directory: got %q", got)
	}
}

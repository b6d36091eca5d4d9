package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// The file that root formats is still weir's to read.
func TestFormattingKeepsTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("missing: root, to give files to others")
		}
		t.Skip("missing: root, to give files to others")
	}
	dir := t.TempDir()
	os.Chown(dir, 0, 65534)
	os.Chmod(dir, 0o755|os.ModeSetgid) // new files are the group's
	path := filepath.Join(dir, "weir.hcl")
	for _, want := range [][2]int{{1, 65534}, {0, 0}} {
		os.WriteFile(path, []byte("a=1\n"), 0o600)
		if err := os.Chown(path, want[0], want[1]); err != nil {
			t.Fatal(err)
		}
		os.Chmod(path, 0o640)
		f := formatter{write: true, out: io.Discard, err: io.Discard}
		if err := f.run([]string{path}); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || owner(info) != want || info.Mode() != 0o640 {
			t.Errorf("it belongs to %v, mode %v, %v, want %v, 0640", owner(info), info.Mode(), err, want)
		}
		if text, _ := os.ReadFile(path); string(text) != "a = 1\n" {
			t.Errorf("it has %q", text)
		}
	}
}

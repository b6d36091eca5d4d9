package integration_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// The file that root formats is still weir's to read, and the other way round.
func TestFormattingKeepsTheOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		missing(t, "root, to give files to others")
	}
	dir := tempDir(t)
	os.Chown(dir, 0, 65534)
	os.Chmod(dir, 0o755|os.ModeSetgid) // new files are the group's
	path := dir + "/weir.hcl"
	for owner, want := range map[[2]int]string{{1, 65534}: "1 65534 640", {0, 0}: "0 0 640"} {
		os.WriteFile(path, []byte("a=1\n"), 0o600)
		if err := os.Chown(path, owner[0], owner[1]); err != nil {
			t.Fatal(err)
		}
		os.Chmod(path, 0o640)
		if out, err := tryRun(5*time.Second, binary, "fmt", "-w", path); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		got, err := exec.Command("stat", "-c", "%u %g %a", path).Output()
		if strings.TrimSpace(string(got)) != want || err != nil {
			t.Errorf("owner and mode are %q, %v, want %q", got, err, want)
		}
		if text, _ := os.ReadFile(path); string(text) != "a = 1\n" {
			t.Errorf("it has %q", text)
		}
	}
}

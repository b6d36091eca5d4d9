package integration_test

import (
	"path/filepath"
	"testing"
	"time"
)

func TestExamplesPassCheck(t *testing.T) {
	t.Parallel()
	files, _ := filepath.Glob("../examples/*.hcl")
	if len(files) == 0 {
		t.Fatal("no examples")
	}
	for _, file := range files {
		if out, err := tryRun(10*time.Second, binary, "check", file); err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}

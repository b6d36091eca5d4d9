package integration_test

import (
	"strings"
	"testing"
	"time"
)

// At log level "error" too, the operator who asks for decisions gets them.
func TestFailureIsExplained(t *testing.T) {
	t.Parallel()
	a, b := freeAddr(t), serve(t, says("b"))
	p := launch(t, where{}, `
		log {
		  level     = "error"
		  access    = "$access"
		  decisions = "failures"
		}
		upstream "u" {
		  server "$a" { name = "a" }
		  server "$b" { name = "b" }
		}
		listener "l" {
		  listen   = ["$listen"]
		  upstream = "u"
		}`, vars{"a": a, "b": b})
	eventually(t, 10*time.Second, "weir answers", func() bool {
		c, err := tryDial(p.addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	want := []string{
		`level=WARN msg="connecting to a (` + a + `) failed: connection refused; after failure 1 of 1 it is unavailable until `,
		`level=INFO msg="picked b by current weight: b 2; left out: a (already tried in this session)" listener=l upstream=u session=`,
	}
	eventually(t, 10*time.Second, "both lines", func() bool {
		lines := strings.Split(p.stderr.String(), "\n")
		return len(lines) >= len(want) && strings.Contains(lines[0], want[0]) && strings.Contains(lines[1], want[1])
	})
	p.stop()
	if lines := strings.Count(p.stderr.String(), "\n"); lines != len(want) {
		t.Errorf("weir wrote %d lines, want %d", lines, len(want))
	}
}

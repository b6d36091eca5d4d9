package conf_test

import (
	"strings"
	"testing"

	"github.com/weirlb/weir/conf"
)

func TestShareDescriptors(t *testing.T) {
	for _, c := range []struct {
		name                       string
		limit                      uint64
		workers, listening, wanted int
		sessions                   int
		err                        string
	}{
		{"auto", 20_000, 1, 1, 0, 9483, ""},
		{"auto, small", 256, 2, 2, 0, 100, ""},
		{"wanted", 20_000, 1, 1, 500, 500, ""},
		{"too many wanted", 1024, 1, 1, 5000, 0, "max_sessions = 5000 needs RLIMIT_NOFILE 10084"},
		{"no room at all", 40, 1, 1, 0, 0, "before the first session"},
		{"unlimited", 1 << 63, 1, 1, 0, (1<<30 - 36 - 2048) / 2, ""},
	} {
		d, err := conf.ShareDescriptors(c.limit, c.workers, c.listening)
		sessions := 0
		if err == nil {
			sessions, err = d.For(c.wanted)
		}
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", c.name, err, c.err)
			}
			continue
		}
		if err != nil || sessions != c.sessions {
			t.Errorf("%s: %d sessions, %v, want %d", c.name, sessions, err, c.sessions)
		}
		if used := d.Need(sessions); uint64(used) > c.limit || used < 3*c.workers+c.listening+2*sessions+2*d.Pipes*c.workers {
			t.Errorf("%s: plans for %d descriptors", c.name, used)
		}
	}
}

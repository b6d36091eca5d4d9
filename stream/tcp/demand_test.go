package tcp

import (
	"testing"

	"github.com/weirlb/weir/stream/stats"
)

// A pool keeps what the last while has used and lets go of it after a while
// without use.
func TestPoolKeepsWhatIsUsed(t *testing.T) {
	bp := bufferPool{size: smallBytes, stats: new(stats.Worker)}
	use := func(n int) {
		var lent [][]byte
		for range n {
			lent = append(lent, bp.get())
		}
		for _, b := range lent {
			bp.put(b)
		}
	}
	for i, step := range []struct{ use, want int }{{40, 40}, {40, 40}, {30, 30}, {3, 16}, {0, 16}} {
		use(step.use)
		bp.trim(bp.spare(poolKeep))
		if got := len(bp.free); got != step.want {
			t.Errorf("step %d: %d free buffers after a use of %d, want %d", i, got, step.use, step.want)
		}
	}
	held := bp.get()
	use(20)
	bp.trim(bp.spare(poolKeep))
	if got := len(bp.free); got != 20 || bp.lent != 1 {
		t.Errorf("%d free and %d lent, want 20 and 1", got, bp.lent)
	}
	bp.put(held)
}

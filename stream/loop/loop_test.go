package loop

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/stream/internal/clock"
)

// recorder is a handler that notes what it is told.
type recorder struct {
	events []uint32
	tokens []Token
	timers []int32
	turns  int
	on     func(Token, uint32)
}

func (r *recorder) OnEvent(t Token, events uint32) {
	r.tokens, r.events = append(r.tokens, t), append(r.events, events)
	if r.on != nil {
		r.on(t, events)
	}
}
func (r *recorder) OnTimer(id int32) { r.timers = append(r.timers, id) }
func (r *recorder) EndTurn()         { r.turns++ }

func newLoop(t *testing.T, h Handler, source clock.Source) *Loop {
	t.Helper()
	l, err := New(h, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func socketPair(t *testing.T) (a, b int) {
	t.Helper()
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(p[0]); unix.Close(p[1]) })
	return p[0], p[1]
}

func TestEventCarriesToken(t *testing.T) {
	r := &recorder{}
	l := newLoop(t, r, clock.Now)
	a, b := socketPair(t)
	want := MakeToken(KindSession, 77, 1234, 1)
	if errno := l.Add(int32(a), unix.EPOLLIN, want); errno != 0 {
		t.Fatal(errno)
	}
	unix.Write(b, []byte("x"))
	l.Turn(5 * time.Second)
	if len(r.tokens) != 1 || r.tokens[0] != want || r.events[0]&unix.EPOLLIN == 0 {
		t.Fatalf("got tokens %#x events %#x, want %#x readable", r.tokens, r.events, uint64(want))
	}
	l.Remove(int32(a))
	l.Turn(0)
	if len(r.tokens) != 1 {
		t.Fatal("an event after Remove")
	}
}

func TestLaterComesInTheNextTurnWithoutWaiting(t *testing.T) {
	r := &recorder{}
	l := newLoop(t, r, clock.Now)
	tok := MakeToken(KindSession, 1, 1, 0)
	again := 3
	r.on = func(tok Token, _ uint32) {
		if again--; again > 0 {
			l.Later(tok)
		}
	}
	l.Later(tok)
	for i := 1; i <= 3; i++ {
		l.Turn(time.Minute)
		if len(r.tokens) != i {
			t.Fatalf("after turn %d: called %d times", i, len(r.tokens))
		}
	}
	l.Turn(0)
	if len(r.tokens) != 3 {
		t.Fatal("called again without being asked to")
	}
}

func TestTimersFollowTheLoopsClock(t *testing.T) {
	var fake clock.Fake
	r := &recorder{}
	l := newLoop(t, r, fake.Now)
	l.Timers.Set(9, fake.Now().Add(10*time.Second).Millis())
	l.Turn(0)
	fake.Advance(9999 * time.Millisecond)
	l.Turn(0)
	if len(r.timers) != 0 {
		t.Fatal("fired early")
	}
	fake.Advance(time.Millisecond)
	l.Turn(time.Minute) // must not wait
	if len(r.timers) != 1 || r.timers[0] != 9 {
		t.Fatalf("fired %v, want [9]", r.timers)
	}
}

func TestTimerWakesTheLoop(t *testing.T) {
	r := &recorder{}
	l := newLoop(t, r, clock.Now)
	begin := time.Now()
	l.Timers.Set(1, clock.Now().Add(30*time.Millisecond).Millis())
	for len(r.timers) == 0 {
		if time.Since(begin) > 10*time.Second {
			t.Fatal("the timer never fired")
		}
		l.Turn(-1)
	}
	if d := time.Since(begin); d < 29*time.Millisecond {
		t.Fatalf("fired after %v, want 30ms", d)
	}
}

func TestMailboxRunsInOrderAndRefusesAfterClose(t *testing.T) {
	r := &recorder{}
	l, err := New(r, clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 100 {
			l.Mailbox.Post(func() { got = append(got, i) })
		}
		l.Mailbox.Post(l.Stop)
	})
	l.Run()
	wg.Wait()
	if len(got) != 100 || got[0] != 0 || got[99] != 99 {
		t.Fatalf("ran %v", got)
	}
	l.Close()
	if l.Mailbox.Post(func() {}) {
		t.Fatal("a closed mailbox took a message")
	}
}

// Loops that wait without telling the scheduler must still let the world be
// stopped, whether GOMAXPROCS leaves one P to others or not; and an event must
// still reach them at once.
func TestWaitUnderGarbageCollection(t *testing.T) {
	const workers = 2
	for _, procs := range []int{workers, workers + 1} {
		old := runtime.GOMAXPROCS(procs)
		var loops []*Loop
		var turns atomic.Int64
		var wg sync.WaitGroup
		for range workers {
			r := &recorder{}
			l, err := New(r, clock.Now)
			if err != nil {
				t.Fatal(err)
			}
			r.on = func(Token, uint32) {}
			loops = append(loops, l)
			wg.Go(func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				l.Run()
			})
		}
		stop := make(chan struct{})
		var garbage sync.WaitGroup
		garbage.Go(func() {
			var keep [64][]byte
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					keep[i%len(keep)] = make([]byte, 32<<10)
				}
			}
		})
		var before debug.GCStats
		debug.ReadGCStats(&before)
		slowest := time.Duration(0)
		for range 300 { // ping every loop through its mailbox
			for _, l := range loops {
				begin, done := time.Now(), make(chan struct{})
				l.Mailbox.Post(func() { turns.Add(1); close(done) })
				select {
				case <-done:
				case <-time.After(20 * time.Second):
					t.Fatalf("GOMAXPROCS %d: a loop did not wake up", procs)
				}
				slowest = max(slowest, time.Since(begin))
			}
		}
		for range 5 {
			begin := time.Now()
			runtime.GC() // stops the world twice
			slowest = max(slowest, time.Since(begin))
		}
		var after debug.GCStats
		debug.ReadGCStats(&after)
		close(stop)
		garbage.Wait()
		for _, l := range loops {
			l.Mailbox.Post(l.Stop)
		}
		wg.Wait()
		worst := time.Duration(0)
		for _, p := range after.Pause[:min(len(after.Pause), int(after.NumGC-before.NumGC))] {
			worst = max(worst, p)
		}
		t.Logf("GOMAXPROCS %d: %d collections, worst stop-the-world pause %v, slowest wake-up %v", procs, after.NumGC-before.NumGC, worst, slowest)
		if after.NumGC == before.NumGC {
			t.Fatal("nothing was collected")
		}
		for _, l := range loops {
			l.Close()
		}
		runtime.GOMAXPROCS(old)
	}
}

// TestIdleLoopSleeps says that a loop without work is left alone: while it waits
// in the way of one that has work, the runtime wakes it every 10 to 20 ms.
func TestIdleLoopSleeps(t *testing.T) {
	r := &recorder{}
	l := newLoop(t, r, clock.Now)
	a, b := socketPair(t)
	if errno := l.Add(int32(a), unix.EPOLLIN|unix.EPOLLET, MakeToken(KindSession, 0, 0, 0)); errno != 0 {
		t.Fatal(errno)
	}
	unix.Write(b, []byte("x")) // so that the loop was busy once
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		l.Run()
	}()
	const watched = 300 * time.Millisecond
	deadline := time.Now().Add(20 * time.Second)
	for turns := uint64(3); turns > 2; {
		if time.Now().After(deadline) {
			t.Fatalf("an idle loop still made %d turns in %v", turns, watched)
		}
		before := l.Stats.Turns.Load()
		time.Sleep(watched)
		turns = l.Stats.Turns.Load() - before
	}
	l.Mailbox.Post(l.Stop)
	<-done
	if len(r.tokens) == 0 {
		t.Fatal("the event was not delivered")
	}
}

func TestLoopLeavesNoDescriptors(t *testing.T) {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	base := count()
	for range 10 {
		l, err := New(&recorder{}, clock.Now)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
	if n := count(); n > base {
		t.Fatalf("%d descriptors, %d before", n, base)
	}
}

// lastWord posts once more in its last turn.
type lastWord struct {
	recorder
	loop *Loop
	ran  bool
}

func (h *lastWord) EndTurn() {
	if h.loop.stopped {
		h.loop.Mailbox.Post(func() { h.ran = true })
	}
}

// Whoever has posted waits for what was posted, so a loop that stops runs it.
func TestStoppingLoopRunsWhatWasPosted(t *testing.T) {
	h := &lastWord{}
	h.loop = newLoop(t, h, clock.Now)
	h.loop.Mailbox.Post(h.loop.Stop)
	runtime.LockOSThread()
	h.loop.Run()
	runtime.UnlockOSThread()
	if !h.ran {
		t.Error("what was posted in the last turn did not run")
	}
	if h.loop.Mailbox.Post(func() {}) {
		t.Error("a loop that has ended takes more")
	}
}

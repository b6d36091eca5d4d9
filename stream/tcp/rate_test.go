package tcp

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/stats"
)

// Whatever the rate and however often it is asked, a bucket gives the rate and what
// it held at first.
func TestBucket(t *testing.T) {
	for _, rate := range []conf.ByteRate{1, 10, 1000, 64 << 10, 10 << 20, 5 << 30} {
		for _, step := range []time.Duration{time.Millisecond, 7 * time.Millisecond, 300 * time.Millisecond} {
			var now clock.Fake
			var b bucket
			b.start(rate, now.Now())
			moved, asked := 0, 0
			const length = 20 * time.Second
			for end := now.Now().Add(length); now.Now() < end; now.Advance(step) {
				for {
					n := b.allow(now.Now())
					if n == 0 {
						if b.resume <= now.Now() {
							t.Fatalf("%d/s: nothing at %d, and again at %d", rate, now.Now(), b.resume)
						}
						break
					}
					b.spend(n)
					moved += n
					asked++
				}
			}
			want, slack := float64(rate)*length.Seconds(), b.most()+1
			if each := float64(rate) * step.Seconds(); each > b.most() { // what comes while nobody asks is lost
				want *= b.most() / each
			}
			if math.Abs(float64(moved)-want) > slack {
				t.Errorf("%d/s asked every %v: %d bytes, want %.0f within %.0f", rate, step, moved, want, slack)
			}
		}
	}
}

func TestRates(t *testing.T) {
	for _, d := range []side{down, up} {
		for _, relay := range []Relay{Auto, Copy, Splice} {
			t.Run(d.to().String(), func(t *testing.T) {
				const rate = 1 << 20
				h := newHarness(t, setup{relay: relay, edit: func(l *conf.Listener, _ *conf.Upstream) {
					if d == down {
						l.Limits.UploadRate = rate
					} else {
						l.Limits.DownloadRate = rate
					}
				}})
				client, peer := h.dial()
				from, to := client, peer
				if d == up {
					from, to = peer, client
				}
				want := payload(rate)
				got := readAll(to)
				go func() {
					from.Write(want)
					from.Close()
				}()
				begin := h.clock.Now()
				var r result
				h.turnUntil("all has come", func() bool {
					select {
					case r = <-got:
						return true
					default:
						h.clock.Advance(time.Millisecond) // no less is slept
						return false
					}
				})
				if !bytes.Equal(r.bytes, want) || r.err != nil {
					t.Fatalf("%d bytes came, %v", len(r.bytes), r.err)
				}
				if took := h.clock.Now().Sub(begin); took < 850*time.Millisecond || took > 1300*time.Millisecond {
					t.Errorf("1 s worth of bytes took %v", took)
				}
				if n := h.counted.Slowed[d.to()].Load(); n < 10 {
					t.Errorf("it was slowed %d times", n)
				}
				if n := h.counted.Slowed[d.other().to()].Load(); n != 0 {
					t.Errorf("the other direction was slowed %d times", n)
				}
				to.Close()
				h.turnUntil("it ends", func() bool { return h.ended() == 1 })
			})
		}
	}
}

// What was sent before a reset comes at the rate, and nobody spins until it has.
func TestRateOfBrokenHalf(t *testing.T) {
	h := newHarness(t, setup{edit: func(l *conf.Listener, _ *conf.Upstream) { l.Limits.DownloadRate = 10_000 }})
	c, p := h.dial()
	want := payload(50_000)
	p.Write(want)
	h.turnUntil("all has reached weir", func() bool { return outQueue(t, p) == 0 })
	reset(p)
	got := readAll(c)
	h.turnUntil("the reset is seen", func() bool { return h.last().half[up].broken() })
	h.settle()
	if h.last().putOff {
		t.Error("it is put off, and not until there is credit")
	}
	r := h.waitAdvancing(got)
	if !bytes.Equal(r.bytes, want) {
		t.Errorf("%d bytes came, want %d", len(r.bytes), len(want))
	}
	h.wantClosed(stats.PeerReset)
}

// A session that has nothing to move is not looked at for its rates.
func TestRateOfIdleSession(t *testing.T) {
	h := newHarness(t, setup{edit: func(l *conf.Listener, _ *conf.Upstream) {
		l.Limits.UploadRate, l.Limits.DownloadRate = 1000, 1000
		l.IdleTimeout = time.Hour
	}})
	client, peer := h.dial()
	client.Write(make([]byte, 150))
	go func() {
		var b [150]byte
		for n := 0; n < len(b); {
			m, err := peer.Read(b[n:])
			if n += m; err != nil {
				return
			}
		}
	}()
	h.turnUntil("it is slowed", func() bool { return h.counted.Slowed[stats.ToPeer].Load() > 0 })
	h.clock.Advance(time.Second)
	h.turnUntil("all has come", func() bool { return h.last().flow[down].sent == 150 })
	h.clock.Advance(time.Second)
	h.settle()
	for range 3 { // the looks for dead peers end
		h.clock.Advance(20 * time.Second)
		h.settle()
	}
	at, _ := h.w.Loop.Timers.Armed(h.last().slot + timerSession)
	if in := clock.AtMillis(at).Sub(h.clock.Now()); in < 10*time.Minute {
		t.Errorf("an idle session is looked at in %v", in)
	}
}

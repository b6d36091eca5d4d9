package discovery

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlb/weir/conf"
)

// scripted is a source whose answers a test chooses.
type scripted struct {
	next  atomic.Pointer[answer]
	at    chan time.Time                // of each question
	until atomic.Pointer[chan struct{}] // nil, or what an answer waits for
}

func (s *scripted) ask(ctx context.Context) answer {
	s.at <- time.Now()
	if until := s.until.Load(); until != nil {
		select {
		case <-*until:
		case <-ctx.Done():
			return answer{err: ctx.Err()}
		}
	}
	return *s.next.Load()
}

// block has questions wait until the returned function is called.
func (s *scripted) block() (unblock func()) {
	until := make(chan struct{})
	s.until.Store(&until)
	return func() { close(until) }
}

func (s *scripted) say(a answer) { s.next.Store(&a) }

// good is an answer that holds for some time.
func good(again time.Duration, ips ...string) answer {
	a := answer{learned: true, again: again}
	for _, ip := range ips {
		a.set = append(a.set, conf.Server{Address: conf.Address{Host: ip}})
	}
	return a
}

func bad() answer { return answer{err: errors.New("SERVFAIL")} }

// scriptedDirectory returns a Directory in whose every name one script answers.
func scriptedDirectory(t *testing.T, opt Options) (*Directory, *record, *scripted) {
	s := &scripted{at: make(chan time.Time, 1000)}
	opt.asker = func(key) asker { return s }
	d, r := start(t, opt)
	return d, r, s
}

// gaps returns the times between n questions.
func (s *scripted) gaps(n int) []time.Duration {
	var out []time.Duration
	last := <-s.at
	for range n {
		at := <-s.at
		out = append(out, at.Sub(last))
		last = at
	}
	return out
}

func wantGaps(t *testing.T, got []time.Duration, want ...time.Duration) {
	t.Helper()
	for i := range want {
		if got[i] < want[i] || got[i] > want[i]*11/10+time.Millisecond {
			t.Fatalf("asked after %v, want %v and up to 10 %% more", got, want)
		}
	}
}

func TestAskedAgainAfterTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _, s := scriptedDirectory(t, Options{})
		s.say(good(10*time.Second, "10.0.0.1"))
		adopt(t, d, config(conf.Resolver{}, resolved("db.example:5432")))
		got := s.gaps(20)
		wantGaps(t, got, slices.Repeat([]time.Duration{10 * time.Second}, 20)...)
		if slices.Max(got) == slices.Min(got) {
			t.Error("there is no jitter")
		}
	})
}

func TestAskedAgainAfterFailure(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		normal time.Duration
		want   []time.Duration
	}{
		"no answer yet": {0, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s}},
		"long TTL":      {300 * s, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s}},
		"short TTL":     {5 * s, []time.Duration{s, 2 * s, 4 * s, 5 * s, 5 * s}},
		"shortest TTL":  {s, []time.Duration{s, s, s}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, _, script := scriptedDirectory(t, Options{})
				if c.normal > 0 {
					script.say(good(c.normal, "10.0.0.1"))
					adopt(t, d, config(conf.Resolver{}, resolved("db.example:5432")))
					<-script.at
				}
				script.say(bad())
				d.Follow(config(conf.Resolver{}, resolved("db.example:5432")))
				wantGaps(t, script.gaps(len(c.want)), c.want...)
				script.say(good(7*s, "10.0.0.1"))
				answered := <-script.at
				synctest.Wait()
				script.say(bad())
				failed := <-script.at
				wantGaps(t, []time.Duration{failed.Sub(answered), (<-script.at).Sub(failed)}, 7*s, s) // it starts anew
			})
		})
	}
}

func TestStaleIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, r, s := scriptedDirectory(t, Options{})
		c := config(conf.Resolver{}, resolved("db.example:5432"))
		s.say(good(5*time.Second, "10.0.0.1"))
		wantServers(t, adopt(t, d, c), "10.0.0.1:5432=db.example:5432")
		s.say(answer{err: errors.New("no answer")})
		time.Sleep(time.Minute)
		s.say(bad())
		time.Sleep(time.Minute)
		wantServers(t, expand(t, d, c), "10.0.0.1:5432=db.example:5432")
		got := sourceOf(t, d)
		if got.StaleSince.IsZero() || got.Age < 2*time.Minute-time.Second || got.Failures < 20 || got.Error != "SERVFAIL" || got.Answers != 1 {
			t.Errorf("after two minutes of failures: %+v", got)
		}
		s.say(good(5*time.Second, "10.0.0.1"))
		time.Sleep(10 * time.Second)
		got = sourceOf(t, d)
		if !got.StaleSince.IsZero() || got.Changes != 1 || got.Error != "SERVFAIL" || got.Age > 6*time.Second {
			t.Errorf("after an answer: %+v", got)
		}
		if n := len(r.lines("")); n != 3 {
			t.Errorf("logged %d lines, want one each for the change, stale and fresh: %q", n, r.lines(""))
		}
	})
}

func TestNoAnswerYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, r, s := scriptedDirectory(t, Options{})
		c := config(conf.Resolver{}, resolved("db.example:5432"), server("10.9.9.9:1"))
		s.say(bad())
		wantServers(t, adopt(t, d, c), "10.9.9.9:1")
		time.Sleep(5 * time.Second)
		if got := sourceOf(t, d); got.Age != 0 || !got.AnsweredAt.IsZero() || got.StaleSince.IsZero() || r.calls("db") != 0 {
			t.Errorf("without an answer: %+v, %d calls", got, r.calls("db"))
		}
		s.say(good(5*time.Second, "10.0.0.1"))
		time.Sleep(5 * time.Second)
		wantServers(t, expand(t, d, c), "10.0.0.1:5432=db.example:5432", "10.9.9.9:1")
		if r.calls("db") != 1 {
			t.Errorf("told of it %d times", r.calls("db"))
		}
		if len(r.lines("not known yet")) != 1 {
			t.Errorf("logged %q", r.lines(""))
		}
	})
}

// An answer that a reload gave no time for is none, and the source is asked at
// once when it is followed.
func TestNoTimeToAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, r, s := scriptedDirectory(t, Options{})
		unblock := s.block()
		s.say(good(5*time.Second, "10.0.0.1"))
		c := config(conf.Resolver{}, resolved("db.example:5432"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := d.Expand(ctx, &c.Resolver, &c.Upstreams[0]); len(got) != 0 {
			t.Errorf("got %v", got)
		}
		d.Follow(c)
		unblock()
		synctest.Wait()
		if r.calls("db") != 1 {
			t.Errorf("told %d times", r.calls("db"))
		}
		wantServers(t, expand(t, d, c), "10.0.0.1:5432=db.example:5432")
		if got := sourceOf(t, d); got.Failures != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// A reload that keeps a name does not ask again, and does not move its schedule.
func TestReloadKeepsSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _, s := scriptedDirectory(t, Options{})
		s.say(good(10*time.Second, "10.0.0.1"))
		c := config(conf.Resolver{}, resolved("db.example:5432"))
		adopt(t, d, c)
		for range 9 {
			time.Sleep(time.Second)
			changed := config(conf.Resolver{}, resolved("db.example:6432"))
			wantServers(t, adopt(t, d, changed), "10.0.0.1:6432=db.example:6432")
		}
		if n := len(s.at); n != 1 {
			t.Errorf("asked %d times in 9 s", n)
		}
		wantGaps(t, s.gaps(1), 10*time.Second)
	})
}

func TestUnusedSourceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _, s := scriptedDirectory(t, Options{})
		s.say(good(time.Second, "10.0.0.1"))
		adopt(t, d, config(conf.Resolver{}, resolved("db.example:5432")))
		d.Follow(config(conf.Resolver{}, server("10.0.0.1:5432")))
		synctest.Wait()
		asked := len(s.at)
		time.Sleep(time.Minute)
		if len(s.at) != asked || len(d.Sources()) != 0 || len(d.sources) != 0 {
			t.Errorf("asked %d times after the end, %d sources are left", len(s.at)-asked, len(d.sources))
		}
	})
}

// A configuration that was expanded and then refused leaves nothing running, and
// what is known of it is not trusted for ever.
func TestRefusedConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _, s := scriptedDirectory(t, Options{})
		s.say(good(10*time.Second, "10.0.0.1"))
		c := config(conf.Resolver{}, resolved("db.example:5432"))
		expand(t, d, c)
		expand(t, d, c)
		time.Sleep(time.Minute)
		if n := len(s.at); n != 1 {
			t.Errorf("asked %d times, want once", n)
		}
		s.say(good(10*time.Second, "10.0.0.2"))
		wantServers(t, expand(t, d, c), "10.0.0.2:5432=db.example:5432")
		d.Follow(config(conf.Resolver{}))
		if len(d.sources) != 0 {
			t.Error("the source is still there")
		}
	})
}

// What changes after a configuration was expanded, and before it is followed,
// must be told.
func TestChangeBeforeFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, r, s := scriptedDirectory(t, Options{})
		s.say(good(time.Second, "10.0.0.1"))
		both := config(conf.Resolver{}, resolved("db.example:5432"))
		more := conf.NewUpstream("more")
		more.Servers = []conf.Server{resolved("db.example:1")}
		both.Upstreams = append(both.Upstreams, more)

		adopt(t, d, config(conf.Resolver{}, resolved("db.example:5432")))
		expand(t, d, both)
		d.Expand(t.Context(), &both.Resolver, &both.Upstreams[1])
		s.say(good(time.Second, "10.0.0.2"))
		time.Sleep(3 * time.Second)
		if r.calls("db") != 1 || r.calls("more") != 0 {
			t.Errorf("told of db %d times and of more %d times, want 1 and 0", r.calls("db"), r.calls("more"))
		}
		d.Follow(both)
		synctest.Wait()
		if r.calls("more") != 1 {
			t.Errorf("told of more %d times, want once", r.calls("more"))
		}
	})
}

// Who expands an upstream gets what is known, also while the source is asked.
func TestExpandDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _, s := scriptedDirectory(t, Options{})
		s.say(good(time.Second, "10.0.0.1"))
		c := config(conf.Resolver{}, resolved("db.example:5432"))
		adopt(t, d, c)
		<-s.at
		s.block() // the next question, which comes in a second
		<-s.at
		before := time.Now()
		wantServers(t, expand(t, d, c), "10.0.0.1:5432=db.example:5432")
		if waited := time.Since(before); waited != 0 {
			t.Errorf("waited %v", waited)
		}
	})
}

// Calls of Changed come one after the other, and may expand.
func TestChangedMayExpand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d *Directory
		c := config(conf.Resolver{}, resolved("db.example:5432"))
		var running, calls atomic.Int32
		var last atomic.Pointer[[]conf.Server]
		d, _, s := scriptedDirectory(t, Options{Changed: func(upstream string) {
			if running.Add(1) != 1 {
				t.Error("called twice at once")
			}
			time.Sleep(3 * time.Second) // while more changes come
			list := d.Expand(context.Background(), &c.Resolver, c.Upstream(upstream))
			last.Store(&list)
			calls.Add(1)
			running.Add(-1)
		}})
		s.say(good(time.Second, "10.0.0.0"))
		adopt(t, d, c)
		for i := range 10 {
			s.say(good(time.Second, "10.0.0."+string(rune('1'+i%5))))
			time.Sleep(1100 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		if n := calls.Load(); n < 2 || n > 5 {
			t.Errorf("called %d times for ten changes in 11 s, of which one takes 3 s", n)
		}
		if list := *last.Load(); len(list) != 1 || list[0].Address.Host != "10.0.0.5" {
			t.Errorf("the last call has seen %v", list)
		}
	})
}

func TestStopWhileAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _, s := scriptedDirectory(t, Options{})
		s.say(good(time.Second, "10.0.0.1"))
		c := config(conf.Resolver{}, resolved("db.example:5432"))
		adopt(t, d, c)
		<-s.at
		s.block()
		<-s.at
		d.Stop() // a goroutine that is left makes synctest fail
		wantServers(t, expand(t, d, c), "10.0.0.1:5432=db.example:5432")
		d.Follow(c)
		d.Stop()
	})
}

func TestSharedByUpstreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, r, s := scriptedDirectory(t, Options{})
		s.say(good(time.Second, "10.0.0.1"))
		c := config(conf.Resolver{}, resolved("db.example:1"), resolved("db.example:2"))
		other := conf.NewUpstream("other")
		other.Servers = []conf.Server{resolved("db.example:3")}
		c.Upstreams = append(c.Upstreams, other)
		d.Expand(t.Context(), &c.Resolver, &other)
		wantServers(t, adopt(t, d, c), "10.0.0.1:1=db.example:1", "10.0.0.1:2=db.example:2")
		if n := len(s.at); n != 1 {
			t.Errorf("asked %d times for one name", n)
		}
		s.say(good(time.Second, "10.0.0.2"))
		time.Sleep(2 * time.Second)
		if r.calls("db") != 1 || r.calls("other") != 1 {
			t.Errorf("told of db %d times and of other %d times", r.calls("db"), r.calls("other"))
		}
		if got := d.Sources(); len(got) != 2 || got[0].Upstream != "db" || got[1].Upstream != "other" || got[0].Name != "db.example" || got[0].Kind != KindResolve {
			t.Errorf("sources are %+v", got)
		}
	})
}

package discovery

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weirlb/weir/conf"
)

// Kind is what a source asks: the word that the configuration has for it.
type Kind string

// The kinds of sources.
const (
	KindResolve Kind = "resolve"     // A and AAAA
	KindService Kind = "service"     // SRV
	KindFile    Kind = "server_file" // JSON
)

const (
	firstBackoff = time.Second      // after a failure, doubled by each further one
	maxBackoff   = 30 * time.Second // and so never above this
	maxServers   = 1000             // of a name or service
	shownServers = 20               // in a log line
)

// key is what two sources must share to be one.
type key struct {
	kind     Kind
	name     string
	resolver string // its settings; "" for a file
}

// asker asks for the servers of a source. It is called by one goroutine at a
// time.
type asker interface {
	ask(ctx context.Context) answer
}

// answer is what came of asking once.
type answer struct {
	// set is what is known now, if something was learned. Of a name only
	// Address.Host counts; of a service Address, Name, Weight and Backup; of a
	// file everything. Two answers that mean the same are equal.
	set     []conf.Server
	learned bool
	old     bool          // part of the set is from an earlier answer, since its question failed
	again   time.Duration // after which to ask again, if the source says so; 0 = nothing was said
	err     error         // of what has failed; nil = nothing
	leftOut int           // servers over the limit
}

// source is one thing that is asked again and again.
type source struct {
	// immutable
	key   key
	asker asker
	turn  chan struct{} // capacity 1: held while it is asked
	awake chan struct{} // capacity 1: ask now

	// guarded by Directory.mu
	cancel  context.CancelFunc // ends its goroutine; nil = it is not followed
	set     []conf.Server
	version uint64 // counts the sets; 0 = the empty one at first
	due     time.Time
	normal  time.Duration // between two questions, as the last answer said; 0 = there was none yet
	backoff time.Duration // the last one; 0 = the last answer was good
	asked   uint64

	answers, failures    uint64
	answeredAt, failedAt time.Time
	staleSince           time.Time
	err                  error
	overLimit            bool // was logged
}

func newSource(k key, a asker) *source {
	return &source{key: k, asker: a, turn: make(chan struct{}, 1), awake: make(chan struct{}, 1)}
}

// run asks a source whenever it is due, until ctx ends.
func (d *Directory) run(ctx context.Context, s *source) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		d.mu.Lock()
		timer.Reset(time.Until(s.due))
		d.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			// Somebody else may have asked meanwhile.
			d.ask(ctx, s, func() bool { return !time.Now().Before(s.due) })
		case <-s.awake:
			d.ask(ctx, s, func() bool { return true })
		}
	}
}

// ask asks a source if it is still needed once its turn has come. needed is
// called with mu held.
func (d *Directory) ask(ctx context.Context, s *source, needed func() bool) {
	stillNeeded := func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return needed()
	}
	if !stillNeeded() { // without waiting for an answer that is under way
		return
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return
	}
	if !stillNeeded() {
		return
	}
	a := s.asker.ask(ctx)
	if a.err != nil && ctx.Err() != nil {
		return // it was not given the time to answer
	}
	d.settle(s, a)
}

// settle notes an answer and says when to ask again.
func (d *Directory) settle(s *source, a answer) {
	d.mu.Lock()
	now := time.Now()
	s.asked++
	before, changed := s.set, a.learned && !slices.Equal(s.set, a.set)
	if changed {
		s.set = a.set
		s.version++
		for _, upstream := range d.users[s] {
			d.soilLocked(upstream)
		}
	}
	wasStale, lastErr := s.staleSince, s.err
	if a.learned && !a.old {
		s.answers++
		s.answeredAt, s.staleSince = now, time.Time{}
	} else if s.staleSince.IsZero() {
		s.staleSince = now
	}
	if a.err != nil {
		s.failures++
		s.failedAt, s.err = now, a.err
	}
	if a.again > 0 {
		s.normal = a.again
	}
	s.due = now.Add(jittered(s.delay(a.err != nil)))
	overLimit := a.leftOut > 0 && !s.overLimit
	s.overLimit = s.overLimit || overLimit
	isStale, unanswered := s.staleSince, s.answeredAt.IsZero()
	d.mu.Unlock()

	log := d.opt.Logger.With("source", s.key.name, "kind", s.key.kind)
	if changed {
		c := compare(s.key.kind, before, a.set)
		log.Info("servers have changed", c.args(len(a.set))...)
	}
	if overLimit {
		log.Warn("too many servers: the first ones are used", "used", maxServers, "left_out", a.leftOut)
	}
	// Why a name can't be asked for changes with every question. What is wrong
	// with a file changes only with the file.
	news := s.key.kind == KindFile && lastErr != nil && a.err != nil && lastErr.Error() != a.err.Error()
	switch {
	case !isStale.IsZero() && (wasStale.IsZero() || news):
		text := "servers are not up to date: the last ones known stay"
		if unanswered {
			text = "servers are not known yet: they are asked for on and on"
		}
		log.Warn(text, "servers", len(before), "error", a.err)
	case isStale.IsZero() && !wasStale.IsZero():
		log.Info("servers are up to date again", "servers", len(a.set), "after", now.Sub(wasStale).Round(time.Millisecond))
	}
}

// delay returns when to ask again after an answer or a failure.
func (s *source) delay(failed bool) time.Duration {
	if !failed {
		s.backoff = 0
		return s.normal
	}
	s.backoff = min(max(2*s.backoff, firstBackoff), maxBackoff)
	if s.normal > 0 {
		return min(s.backoff, s.normal)
	}
	return s.backoff
}

// jittered adds up to 10 %.
func jittered(d time.Duration) time.Duration { return d + rand.N(d/10+1) }

// reportLocked tells how the source does for one of its upstreams.
func (s *source) reportLocked(upstream string, now time.Time) Source {
	r := Source{
		Upstream: upstream, Kind: s.key.kind, Name: s.key.name,
		Servers: len(s.set), AnsweredAt: s.answeredAt, StaleSince: s.staleSince, Next: s.due, FailedAt: s.failedAt,
		Answers: s.answers, Failures: s.failures, Changes: s.version,
	}
	if !s.answeredAt.IsZero() {
		r.Age = now.Sub(s.answeredAt)
	}
	if s.err != nil {
		r.Error = s.err.Error()
	}
	return r
}

// change is what differs between two sets, in words.
type change struct{ added, removed, altered []string }

func compare(kind Kind, was, is []conf.Server) change {
	var c change
	old := map[string]conf.Server{}
	for _, s := range was {
		old[label(kind, &s)] = s
	}
	for _, s := range is {
		name := label(kind, &s)
		switch before, known := old[name]; {
		case !known:
			c.added = append(c.added, name)
		case before != s:
			c.altered = append(c.altered, name)
		}
		delete(old, name)
	}
	for _, s := range was {
		if name := label(kind, &s); old[name] == s {
			c.removed = append(c.removed, name)
		}
	}
	return c
}

// label names a server of a set.
func label(kind Kind, s *conf.Server) string {
	switch {
	case kind == KindResolve:
		return s.Address.Host
	case s.Name == s.Address.String():
		return s.Name
	}
	return s.Name + " (" + s.Address.String() + ")"
}

// args returns the change as arguments of a log line.
func (c *change) args(now int) []any {
	args := []any{"servers", now}
	if len(c.added)+len(c.removed)+len(c.altered) == 0 {
		return append(args, "altered", "order") // of a file
	}
	for _, part := range []struct {
		key  string
		list []string
	}{{"added", c.added}, {"removed", c.removed}, {"altered", c.altered}} {
		if len(part.list) > 0 {
			args = append(args, part.key, part.list[:min(len(part.list), shownServers)])
		}
		if more := len(part.list) - shownServers; more > 0 {
			args = append(args, "more_"+part.key, more)
		}
	}
	return args
}

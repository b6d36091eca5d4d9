package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/accesslog"
	"github.com/weirlb/weir/stream/decisions"
	"github.com/weirlb/weir/stream/health"
	"github.com/weirlb/weir/stream/tcp"
	"github.com/weirlb/weir/stream/udp"
	"github.com/weirlb/weir/stream/upstream"
)

// A change from one configuration to another is made in two steps. prepare does
// everything that can fail, aside: it resolves names, opens sockets and logs,
// makes workers. commit cannot fail: it has every worker take over, and nothing
// that stays is closed, moved or forgotten.

// ErrStopping says that there is no reload any more.
var ErrStopping = errors.New("reload: the server is stopping")

// Change is what a reload has done, or would do.
type Change struct {
	Opened   []string // listening addresses
	Closed   []string
	Changed  []string // listeners whose settings differ; new sessions get them
	Added    []string // peers, and whole upstreams
	Removed  []string
	Altered  []string // peers and upstreams whose settings differ, or what files of their checks hold
	Workers  [2]int   // before and after
	Settings []string // of worker, log and admin

	// Affected are the sessions of peers and listeners that go. Ended are those of
	// TCP that on_state has closed, at once or when their time to drain is over,
	// and of UDP those of workers that go and, if their listener stays, of peers that
	// are set down or, unless on_state keeps them, removed: the client's next datagram
	// begins another session. Others run on. A listener that loses some of its addresses and not all is not counted.
	Affected, Ended int
}

// Empty reports whether nothing differs.
func (c *Change) Empty() bool {
	return len(c.Opened)+len(c.Closed)+len(c.Changed)+len(c.Added)+len(c.Removed)+len(c.Altered)+len(c.Settings) == 0 && c.Workers[0] == c.Workers[1]
}

// transition is a prepared change.
type transition struct {
	change Change
	agree  func(*Change) error // may call the change off; nil = nobody objects
	cfg    *conf.Config
	lim    limits

	groups   []*upstream.Group // in order; those that are new and those that stay
	updates  []update
	resolved map[string]answers // by upstream
	digests  map[string]string  // of what the files of checks hold, by upstream

	listeners counters // of the listeners in the new configuration

	stay   map[*binding]*binding // bindings that stay, and what they become
	opened []*binding
	closed []*binding

	workers []*worker // from now on
	started []*worker // of these, the new ones
	retired []*worker

	steerer   Steerer // from now on; nil = none
	resteered bool    // it is another one

	newLog    bool
	log       *accesslog.Writer
	decisions *decisions.Writer
}

// update is a change of a group that stays.
type update struct {
	group *upstream.Group
	plan  *upstream.Plan
}

// Diff tells what Reload would do with that configuration, and changes nothing.
// Names are resolved.
func (s *Server) Diff(ctx context.Context, cfg *conf.Config) (*Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &transition{cfg: cfg}
	defer s.directory.Follow(s.cfg)
	if err := s.compare(ctx, t); err != nil {
		return nil, err
	}
	s.countAffected(ctx, t)
	return &t.change, nil
}

// Reload changes to another configuration in place. Listening sockets that stay
// are not touched, peers that stay keep all their state, and sessions of a
// listener or peer that goes run on, unless on_state says otherwise. On error
// nothing has changed.
func (s *Server) Reload(ctx context.Context, cfg *conf.Config) (*Change, error) {
	return s.ReloadIf(ctx, cfg, nil)
}

// ReloadIf is Reload, unless agree, which is shown the change before anything is
// opened, returns an error.
func (s *Server) ReloadIf(ctx context.Context, cfg *conf.Config, agree func(*Change) error) (*Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return nil, ErrStopping
	}
	t := &transition{cfg: cfg, agree: agree}
	if err := s.prepare(ctx, t); err != nil {
		s.directory.Follow(s.cfg)
		return nil, err
	}
	s.commit(t)
	return &t.change, nil
}

// prepare does all of a change that can fail. On error nothing of it is left.
func (s *Server) prepare(ctx context.Context, t *transition) (err error) {
	if err := s.compare(ctx, t); err != nil {
		return err
	}
	s.countAffected(ctx, t)
	if t.agree != nil {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("reload: %w", err) // what was counted may be a part
		}
		if err := t.agree(&t.change); err != nil {
			return err
		}
	}
	defer func() {
		if err != nil {
			t.abandon(s)
		}
	}()
	if err := s.prepareWorkers(t); err != nil {
		return err
	}
	if err := s.prepareLogs(t); err != nil {
		return err
	}
	t.steerer = s.steerer
	if s.cfg == nil || s.cfg.Worker.Steering != t.cfg.Worker.Steering {
		t.resteered = true
		if t.steerer, err = s.openSteerer(t.cfg.Worker.Steering); err != nil {
			return err
		}
	}
	if err := s.openBindings(t); err != nil {
		return err
	}
	for _, b := range t.stay {
		if err := b.openFor(t.started); err != nil {
			return err
		}
	}
	return nil
}

// openBindings opens the addresses that are new. One that overlaps another of
// ours, which stays or goes, is opened beside it: clients of 127.0.0.1 come to its
// own listener and all others to that of 0.0.0.0.
func (s *Server) openBindings(t *transition) error {
	type port struct {
		protocol conf.Protocol
		number   uint16
	}
	ours := map[port][]conf.Address{}
	note := func(protocol conf.Protocol, a conf.Address) {
		if !a.IsUnix() {
			ours[port{protocol, a.Port}] = append(ours[port{protocol, a.Port}], a)
		}
	}
	for _, b := range s.bindings {
		note(b.place.protocol, b.bound)
	}
	if s.estate != nil {
		for p, l := range s.estate.sockets {
			note(p.protocol, l.bound)
		}
	}
	for _, b := range t.opened {
		if len(b.inherited) > 0 {
			note(b.place.protocol, b.bound)
		}
	}
	for _, b := range t.opened {
		b.ours = slices.ContainsFunc(ours[port{b.place.protocol, b.place.addr.Port}], b.place.addr.Overlaps)
		if b.ours && b.udp != nil {
			s.recall(b.place.addr)
		}
		err := b.open(t.workers)
		if b.udp != nil && errors.Is(err, unix.EADDRINUSE) && s.left(b.place.addr) {
			b.closeUnserved(t.workers)
			s.recall(b.place.addr)
			b.ours = true
			err = b.open(t.workers)
		}
		if err != nil {
			return err
		}
		note(b.place.protocol, b.bound)
	}
	return nil
}

// recall has the sockets that workers still have on a UDP address, or on a part of
// it, for sessions that have outlived their listener get no more datagrams. Those of
// a wildcard of which the address is a part do: from clients of the other addresses.
func (s *Server) recall(a conf.Address) {
	s.each(append(slices.Clone(s.workers), s.leaving...), func(w *worker) { w.udp.Recall(a) })
}

// left reports whether workers have such sockets.
func (s *Server) left(a conf.Address) bool {
	var yes atomic.Bool
	s.each(append(slices.Clone(s.workers), s.leaving...), func(w *worker) {
		if w.udp.Leaving(a) {
			yes.Store(true)
		}
	})
	return yes.Load()
}

// abandon closes what a failed prepare has opened.
func (t *transition) abandon(s *Server) {
	for _, b := range t.opened {
		b.closeUnserved(t.workers)
		b.closeInherited()
	}
	for _, b := range t.stay {
		b.closeUnserved(t.started)
	}
	for _, w := range t.started {
		w.close()
	}
	if t.newLog {
		if err := t.log.Close(); err != nil {
			s.logger.Warn("close access log", "error", err)
		}
		t.decisions.Close()
	}
	if t.resteered && t.steerer != nil {
		_ = t.steerer.Close()
	}
}

// compare finds out what differs: it resolves names and makes run-time objects,
// but opens nothing.
func (s *Server) compare(ctx context.Context, t *transition) error {
	cfg := t.cfg
	n := cfg.Worker.Count
	if n == 0 {
		n = CPUs(os.DirFS("/"))
	}
	t.change.Workers = [2]int{len(s.workers), n}
	lim, err := plan(cfg, n)
	if err != nil {
		return err
	}
	t.lim = lim
	if s.cfg != nil {
		t.change.Settings = changedSettings(s.cfg, cfg)
	}
	// Workers that leave still count, also on what is new: a session of theirs
	// may try another peer.
	counting := max(n, len(s.counters))
	if err := s.compareUpstreams(ctx, t, counting); err != nil {
		return err
	}
	// A name that is followed may be without an answer, but not because nobody waited
	// for one: its servers would be taken for gone.
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return fmt.Errorf("resolve names: %w", err)
	}
	t.listeners = s.listeners.extended(cfg.Listeners, counting)
	return s.compareListeners(t, n)
}

func changedSettings(was, is *conf.Config) []string {
	var out []string
	a, b := was.Worker, is.Worker
	a.Count, b.Count = 0, 0
	if a != b {
		out = append(out, "worker")
	}
	if !reflect.DeepEqual(was.Log, is.Log) {
		out = append(out, "log")
	}
	if was.Admin != is.Admin {
		out = append(out, "admin")
	}
	if !reflect.DeepEqual(was.Resolver, is.Resolver) {
		out = append(out, "resolver")
	}
	return out
}

func (s *Server) compareUpstreams(ctx context.Context, t *transition, workers int) error {
	t.resolved, t.digests = map[string]answers{}, map[string]string{}
	for i := range t.cfg.Upstreams {
		u := &t.cfg.Upstreams[i]
		t.resolved[u.Name] = answers{}
		peers, err := s.peersOf(ctx, t.cfg, u, workers, t.resolved[u.Name])
		if err != nil {
			return err
		}
		if err := health.Validate(u.Checks); err != nil {
			return fmt.Errorf("upstream %q: %w", u.Name, err)
		}
		if t.digests[u.Name], err = health.Digest(u.Checks); err != nil {
			return fmt.Errorf("upstream %q: %w", u.Name, err)
		}
		if _, err := checkCongestion(u.Congestion); err != nil {
			return fmt.Errorf("upstream %q: %w", u.Name, err)
		}
		g := s.group(u.Name)
		if g == nil {
			if g, err = upstream.NewGroup(u, peers, workers, rand.Uint64()); err != nil {
				return err
			}
			g.Watch(s.events.put)
			t.change.Added = append(t.change.Added, "upstream "+u.Name)
		} else {
			plan, err := g.Plan(u, peers, workers)
			if err != nil {
				return err
			}
			t.updates = append(t.updates, update{g, plan})
			was := s.cfg.Upstream(u.Name)
			t.change.note(u, plan, was != nil && sameUpstream(was, u) && s.digests[u.Name] == t.digests[u.Name])
		}
		t.groups = append(t.groups, g)
	}
	for _, g := range s.groups {
		if !slices.Contains(t.groups, g) {
			t.change.Removed = append(t.change.Removed, "upstream "+g.Name)
		}
	}
	return nil
}

// note tells what a plan does to the peers of an upstream, which may itself be
// the same as before.
func (c *Change) note(u *conf.Upstream, plan *upstream.Plan, same bool) {
	name := func(p *upstream.Peer) string {
		if p.Name == p.String() {
			return u.Name + "/" + p.Name
		}
		return fmt.Sprintf("%s/%s (%s)", u.Name, p.Name, p)
	}
	for _, p := range plan.Added {
		c.Added = append(c.Added, name(p))
	}
	for _, p := range plan.Removed {
		c.Removed = append(c.Removed, name(p))
	}
	for _, p := range plan.Changed {
		c.Altered = append(c.Altered, name(p))
	}
	if !same {
		c.Altered = append(c.Altered, "upstream "+u.Name)
	}
}

// sameUpstream reports whether two upstreams differ in nothing but their servers.
func sameUpstream(a, b *conf.Upstream) bool {
	x, y := *a, *b
	x.Servers, y.Servers = nil, nil
	return reflect.DeepEqual(x, y)
}

func (s *Server) compareListeners(t *transition, workers int) error {
	congestion := make([]string, len(t.cfg.Listeners))
	for i := range t.cfg.Listeners {
		c := &t.cfg.Listeners[i]
		if c.Protocol == conf.UDP {
			continue
		}
		var err error
		if congestion[i], err = checkCongestion(c.Congestion); err != nil {
			return fmt.Errorf("listener %q: %w", c.Name, err)
		}
	}
	t.stay = map[*binding]*binding{}
	old := map[place]*binding{}
	for _, b := range s.bindings {
		old[b.place] = b
	}
	for i := range t.cfg.Listeners {
		c := &t.cfg.Listeners[i]
		g := t.group(c.Upstream)
		next := binding{name: c.Name, shared: -1}
		if c.Protocol == conf.UDP {
			next.udp = udp.NewListener(c, g, workers, t.listeners.of(c).workers)
		} else {
			next.tcp = tcp.NewListener(c, g, t.listeners.of(c).workers, t.listeners.of(c).clients)
		}
		for _, a := range c.Listen {
			b := next
			b.steered = -1
			b.place, b.order = place{c.Protocol, a}, len(t.opened)+len(t.stay)
			was := old[b.place]
			if was == nil {
				if in := s.estate.take(b.place); in != nil {
					b.bound, b.inherited, b.steered, b.kept = in.bound, in.fds, in.steered, in.kept
					if b.activated = s.estate.conn == nil; !b.activated || c.Congestion != "" {
						b.congestion = congestion[i]
					}
					b.lent = !b.activated
				}
				t.opened = append(t.opened, &b)
				t.change.Opened = append(t.change.Opened, b.place.String())
				continue
			}
			delete(old, b.place)
			b.bound, b.fds, b.shared, b.group, b.kept = was.bound, maps.Clone(was.fds), was.shared, was.group, was.kept
			if b.tcp != nil && b.tcp.Congestion != was.tcp.Congestion {
				b.congestion = congestion[i]
			}
			t.stay[was] = &b
			if before := s.cfg.Listener(was.name); was.name != c.Name || before == nil || !sameListener(before, c) {
				t.change.Changed = append(t.change.Changed, fmt.Sprintf("listener %s (%s)", c.Name, b.place))
			}
		}
	}
	for _, b := range s.bindings {
		if old[b.place] == b {
			t.closed = append(t.closed, b)
			t.change.Closed = append(t.change.Closed, b.place.String())
		}
	}
	return nil
}

// sameListener reports whether two listeners differ in nothing but where they
// listen.
func sameListener(a, b *conf.Listener) bool {
	x, y := *a, *b
	x.Listen, y.Listen = nil, nil
	return reflect.DeepEqual(x, y)
}

func (t *transition) group(name string) *upstream.Group {
	for _, g := range t.groups {
		if g.Name == name {
			return g
		}
	}
	return nil
}

// prepareWorkers makes the workers that are wanted and not there, and chooses
// those that go.
func (s *Server) prepareWorkers(t *transition) error {
	n := t.change.Workers[1]
	keep := min(n, len(s.workers))
	t.workers = slices.Clone(s.workers[:keep])
	t.retired = s.workers[keep:]
	for id := keep; id < n; id++ {
		w, err := newWorker(id, &s.serials)
		if err != nil {
			return err
		}
		for id >= len(s.counters) {
			s.addCounters()
		}
		t.started = append(t.started, w)
		t.workers = append(t.workers, w)
		w.build(s, t.lim)
	}
	return nil
}

// prepareLogs opens the logs if their settings or the workers have changed.
func (s *Server) prepareLogs(t *transition) error {
	if s.cfg != nil && reflect.DeepEqual(s.cfg.Log, t.cfg.Log) && len(t.started)+len(t.retired) == 0 {
		t.log, t.decisions = s.log, s.decisions
		return nil
	}
	// A worker that leaves and the one that came with its number have one each.
	rings := len(t.workers) + len(t.retired) + len(s.leaving)
	log, err := accesslog.Open(&t.cfg.Log, rings, s.logger)
	if err != nil {
		return err
	}
	t.newLog, t.log, t.decisions = true, log, decisions.Open(&t.cfg.Log, s.logger)
	return nil
}

// commit makes the change. Preconditions: mu is held.
func (s *Server) commit(t *transition) {
	s.reading.Lock()
	defer s.reading.Unlock()
	for _, b := range t.opened {
		b.lent = false
	}
	for _, u := range t.updates {
		u.group.Update(u.plan)
		s.removed(u.group, u.plan.Removed)
	}
	s.room.SetMax(t.lim.sessions)
	for _, b := range t.serving() {
		s.complain(b.setCongestion())
	}
	oldLog, oldDecisions := s.log, s.decisions

	for _, w := range t.started {
		w.setLogs(t.log, t.decisions, slices.Index(t.workers, w))
		w.setSteerer(t.steerer)
		for _, b := range t.serving() {
			s.complain(b.serve(w))
		}
		s.run(w)
	}
	kept := t.workers[:len(t.workers)-len(t.started)]
	s.each(kept, func(w *worker) {
		for _, b := range t.opened {
			s.complain(b.serve(w))
		}
		for _, b := range t.stay {
			b.swap(w)
		}
		for _, b := range t.closed {
			b.unserve(w, t.covers(b))
		}
	})
	if len(t.updates) > 0 {
		s.eachRunning(t, func(w *worker) { w.tcp.Reconsider() })
	}
	old := s.steerer
	s.steer(t)
	s.each(t.retired, (*worker).retire)
	for _, g := range s.groups {
		if !slices.Contains(t.groups, g) { // no session begins with it any more
			s.removed(g, g.Disband())
		}
	}
	if t.newLog {
		all := s.having(t)
		s.each(all, func(w *worker) { w.setLogs(t.log, t.decisions, slices.Index(all, w)) })
	}
	for _, b := range t.closed {
		b.unsteer(false)
		b.closeShared()
	}
	s.leaving = append(slices.DeleteFunc(s.leaving, (*worker).hasEnded), t.retired...)
	for _, b := range t.stay {
		for _, w := range t.retired {
			delete(b.fds, w)
		}
	}
	if t.resteered && t.steerer == nil && old != nil { // now that nobody's connections move
		for _, b := range t.stay {
			b.unsteer(true)
		}
		_ = old.Close()
	}
	s.listeners = t.listeners.withActive(s.listeners)
	s.cfg, s.groups, s.bindings, s.workers, s.log, s.decisions = t.cfg, t.groups, t.serving(), t.workers, t.log, t.decisions
	if t.newLog {
		if err := oldLog.Close(); err != nil {
			s.logger.Warn("close access log", "error", err)
		}
		oldDecisions.Close()
		s.lost.add(oldLog, oldDecisions)
	}
	s.resolved, s.digests = t.resolved, t.digests
	s.directory.Follow(s.cfg)
	s.probe()
	s.pacing.keep(s.groups)
	s.events.nudge() // a group may need ticks now
	if n := len(s.workers) + len(s.leaving) + 1; runtime.GOMAXPROCS(0) < n {
		runtime.GOMAXPROCS(n)
	}
}

// steer has the new configuration's clients steered to its workers, before the
// sockets of others are closed: what these have not accepted then moves over.
func (s *Server) steer(t *transition) {
	old := s.steerer
	if t.resteered {
		for _, b := range t.stay {
			if t.steerer != nil {
				b.resteer()
			} else if b.group != nil && len(t.retired) > 0 {
				// What those who go have not accepted still moves over; commit unsteers afterwards.
				s.complain(b.steer(old, t.workers))
			}
		}
		s.eachRunning(t, func(w *worker) { w.setSteerer(t.steerer) })
		s.steerer = t.steerer
	}
	for _, b := range t.serving() {
		if t.steerer == nil {
			break
		}
		if b.group != nil && len(t.started)+len(t.retired) == 0 {
			continue // nothing has changed for it
		}
		err := b.steer(t.steerer, t.workers)
		if err != nil {
			b.unsteer(true) // it may have no room for so many workers: with another one
			err = b.steer(t.steerer, t.workers)
		}
		if err != nil {
			s.logger.Warn("the kernel chooses the workers instead", "error", err)
			b.unsteer(true)
		}
	}
	if t.resteered && old != nil && t.steerer != nil {
		_ = old.Close()
	}
}

// eachRunning has all workers that have sessions do something.
func (s *Server) eachRunning(t *transition, f func(*worker)) {
	s.each(s.having(t), f)
}

// having returns all workers that have sessions: those from now on come first.
func (s *Server) having(t *transition) []*worker {
	return append(append(slices.Clone(t.workers), t.retired...), s.leaving...)
}

// serving returns the bindings of the new configuration.
func (t *transition) serving() []*binding {
	out := slices.Clone(t.opened)
	for _, b := range t.stay {
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b *binding) int { return a.order - b.order })
	return out
}

// covers reports whether clients of a binding that goes find another one.
func (t *transition) covers(gone *binding) bool {
	covering := func(b *binding) bool {
		a := b.bound
		if a.IsZero() { // not open yet
			a = b.place.addr
		}
		return b.place.protocol == gone.place.protocol && a.Covers(gone.bound)
	}
	for _, b := range t.stay {
		if covering(b) {
			return true
		}
	}
	return slices.ContainsFunc(t.opened, covering)
}

// complain logs an error that nothing else can be done about.
func (s *Server) complain(err error) {
	if err != nil {
		s.logger.Error("accept", "error", err)
	}
}

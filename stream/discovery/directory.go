package discovery

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/weirlb/weir/conf"
)

// defaultPoll is how often a server_file is looked at beside its events: they
// get lost where a file lies behind a link into another directory, or on a
// network.
const defaultPoll = 2 * time.Second

// Options say how a Directory works. None is needed.
type Options struct {
	Logger *slog.Logger // nil = nothing is logged

	// Changed tells that a source of a followed upstream has other servers than
	// Expand has last shown for it. It is called on a goroutine of the
	// Directory, never twice at once. A call may come late: for servers that an
	// Expand has shown meanwhile, or for an upstream that has just gone.
	Changed func(upstream string) // nil = nobody is told

	Hosts      string        // "" = /etc/hosts
	ResolvConf string        // "" = /etc/resolv.conf
	Poll       time.Duration // between two looks at a server_file, beside its events; 0 = 2 s

	// for tests
	port  string          // of the servers in resolv.conf; "" = 53
	asker func(key) asker // nil = the true ones
}

// Directory follows every dynamic source of a configuration.
type Directory struct {
	// immutable
	opt   Options
	dns   *network
	ctx   context.Context // ends with Stop
	end   context.CancelFunc
	bell  chan struct{} // capacity 1: an upstream has become dirty
	tasks sync.WaitGroup

	mu      sync.Mutex
	sources map[key]*source      // guarded by mu
	users   map[*source][]string // guarded by mu: the followed upstreams of each source
	shown   map[string]view      // guarded by mu: what an upstream's last Expand has seen
	dirty   map[string]bool      // guarded by mu: upstreams that Changed is to be called for
}

// view is what was known of the sources of an upstream.
type view struct {
	versions map[*source]uint64
	complete bool // each had answered
}

// New returns a Directory that follows nothing yet.
func New(opt Options) *Directory {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	opt.Poll = cmp.Or(opt.Poll, defaultPoll)
	d := &Directory{
		opt:     opt,
		dns:     newNetwork(&opt),
		bell:    make(chan struct{}, 1),
		sources: map[key]*source{},
		users:   map[*source][]string{},
		shown:   map[string]view{},
		dirty:   map[string]bool{},
	}
	d.ctx, d.end = context.WithCancel(context.Background())
	d.tasks.Go(d.notify)
	return d
}

// Stop ends all goroutines and waits for them. What is known can still be read.
// The caller must not hold what a call of Changed waits for.
func (d *Directory) Stop() {
	d.mu.Lock() // so that no Follow is half-way through
	d.end()
	d.mu.Unlock()
	d.tasks.Wait()
}

// Expand returns the servers of an upstream with every dynamic one replaced by
// those known of it, whose addresses are numeric. A source that is not followed
// yet is asked now, which takes as long as the resolver's servers may take, or
// until ctx ends. One that still has no answer has no servers: that is no error,
// and once it is followed it is asked on.
func (d *Directory) Expand(ctx context.Context, r *conf.Resolver, u *conf.Upstream) []conf.Server {
	used := d.use(r, u)
	d.askNew(ctx, used)

	d.mu.Lock()
	defer d.mu.Unlock()
	v := view{map[*source]uint64{}, true}
	out := make([]conf.Server, 0, len(u.Servers))
	for i, s := range used {
		if s != nil {
			v.versions[s] = s.version
			v.complete = v.complete && !s.answeredAt.IsZero()
		}
		switch {
		case i == len(u.Servers):
			if s != nil {
				for _, found := range s.set {
					found.Origin = "listed in " + s.key.name
					out = append(out, found)
				}
			}
		case s == nil:
			out = append(out, static(u.Servers[i]))
		default:
			for j := range s.set {
				out = append(out, expanded(&u.Servers[i], &s.set[j]))
			}
		}
	}
	d.shown[u.Name] = v
	return out
}

// Complete reports whether each source of an upstream had answered, ever, when it was
// last expanded. One without sources is complete.
func (d *Directory) Complete(upstream string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, ok := d.shown[upstream]
	return v.complete || !ok
}

// static returns a server that names no source. An address that is numeric
// already, or a socket's path, has nothing to be followed.
func static(s conf.Server) conf.Server {
	if _, numeric := s.Address.IP(); numeric || s.Address.IsUnix() {
		s.Resolve, s.Service = false, false
	}
	return s
}

// expanded returns the settings of a server block for one server that its
// source has found.
func expanded(block, found *conf.Server) conf.Server {
	s := *block
	s.Resolve, s.Service = false, false
	s.Host, s.Origin = block.Address.Host, "an address of "+block.Address.Host
	s.Address.Host = found.Address.Host
	if !block.Service {
		return s
	}
	s.Host, s.Origin = found.Name, "a target of "+block.Address.Host
	if host, _, err := net.SplitHostPort(found.Name); err == nil {
		s.Host = host
	}
	s.Address.Port = found.Address.Port
	s.Weight = found.Weight
	s.Backup = block.Backup || found.Backup
	if block.Name == "" || block.Name == block.Address.String() || block.Name == block.Address.Host {
		s.Name = found.Name // the file gives none
	}
	return s
}

// use returns the source of each server of the upstream, nil for a static one,
// and behind them that of its file.
func (d *Directory) use(r *conf.Resolver, u *conf.Upstream) []*source {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.useLocked(r, u)
}

func (d *Directory) useLocked(r *conf.Resolver, u *conf.Upstream) []*source {
	used := make([]*source, len(u.Servers)+1)
	for i := range u.Servers {
		if k, ok := keyOf(r, &u.Servers[i]); ok {
			used[i] = d.sourceLocked(k, r)
		}
	}
	if u.ServerFile != "" {
		used[len(u.Servers)] = d.sourceLocked(key{kind: KindFile, name: u.ServerFile}, r)
	}
	return used
}

func (d *Directory) sourceLocked(k key, r *conf.Resolver) *source {
	s := d.sources[k]
	if s == nil {
		s = newSource(k, d.asker(k, r))
		d.sources[k] = s
	}
	return s
}

func (d *Directory) asker(k key, r *conf.Resolver) asker {
	if d.opt.asker != nil {
		return d.opt.asker(k)
	}
	switch k.kind {
	case KindFile:
		return &file{path: k.name, poll: d.opt.Poll}
	case KindService:
		return &service{name: k.name, resolver: newResolver(d.dns, r)}
	}
	return &host{name: k.name, resolver: newResolver(d.dns, r)}
}

// askNew asks those of the sources that nobody follows and whose answer is not
// good any more, or that have none yet.
func (d *Directory) askNew(ctx context.Context, used []*source) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	var asked sync.WaitGroup
	seen := map[*source]bool{nil: true}
	for _, s := range used {
		if seen[s] {
			continue
		}
		seen[s] = true
		asked.Go(func() {
			d.ask(ctx, s, func() bool {
				return s.asked == 0 || s.cancel == nil && !time.Now().Before(s.due)
			})
		})
	}
	asked.Wait()
}

// Follow makes this the configuration whose sources are kept up to date. Those
// that it does not use end, and what is known of them is forgotten.
func (d *Directory) Follow(cfg *conf.Config) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		return
	}
	users := map[*source][]string{}
	names := map[string]bool{}
	for i := range cfg.Upstreams {
		u := &cfg.Upstreams[i]
		names[u.Name] = true
		for _, s := range d.useLocked(&cfg.Resolver, u) {
			if s != nil && !slices.Contains(users[s], u.Name) {
				users[s] = append(users[s], u.Name)
			}
		}
	}
	d.users = users
	for k, s := range d.sources {
		if users[s] == nil {
			if s.cancel != nil {
				s.cancel()
			}
			delete(d.sources, k)
		} else if s.cancel == nil {
			d.startLocked(s)
		}
	}
	for name := range d.shown {
		if !names[name] {
			delete(d.shown, name)
			delete(d.dirty, name)
		}
	}
	// What has changed since the new configuration was expanded.
	for s, names := range users {
		for _, name := range names {
			if s.version != d.shown[name].versions[s] {
				d.soilLocked(name)
			}
		}
	}
}

// startLocked follows a source from now on.
func (d *Directory) startLocked(s *source) {
	ctx, cancel := context.WithCancel(d.ctx)
	s.cancel = cancel
	d.tasks.Go(func() { d.run(ctx, s) })
	if f, ok := s.asker.(*file); ok {
		d.tasks.Go(func() { f.watch(ctx, s.awake) })
	}
}

// soilLocked has Changed called for an upstream.
func (d *Directory) soilLocked(upstream string) {
	d.dirty[upstream] = true
	select {
	case d.bell <- struct{}{}:
	default:
	}
}

// notify calls Changed, for one upstream after another.
func (d *Directory) notify() {
	for {
		select {
		case <-d.ctx.Done():
			return
		case <-d.bell:
		}
		for {
			name, ok := d.nextDirty()
			if !ok || d.ctx.Err() != nil {
				break
			}
			if d.opt.Changed != nil {
				d.opt.Changed(name)
			}
		}
	}
}

func (d *Directory) nextDirty() (name string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name = range d.dirty {
		delete(d.dirty, name)
		return name, true
	}
	return "", false
}

// Source tells how a source of an upstream does.
type Source struct {
	Upstream string
	Kind     Kind
	Name     string // the host's or service's name as written, or the path of the file

	Servers    int           // known of it now
	AnsweredAt time.Time     // of the last good answer; zero = there was none yet
	Age        time.Duration // of that answer; 0 = there was none yet
	StaleSince time.Time     // since when servers of older answers are used, or there is no answer at all; zero = fresh
	Next       time.Time     // when it is asked again
	Error      string        // of the last failure; "" = there was none
	FailedAt   time.Time     // zero = never

	Answers, Failures, Changes uint64 // since the source is known; upstreams that share one share the numbers
}

// Sources returns the sources of the followed configuration, sorted by upstream,
// kind and name: one for each upstream that uses it.
func (d *Directory) Sources() []Source {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	var out []Source
	for s, names := range d.users {
		for _, name := range names {
			out = append(out, s.reportLocked(name, now))
		}
	}
	slices.SortFunc(out, func(a, b Source) int {
		return cmp.Or(cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// keyOf returns the key of a server's source, and false if it has none.
func keyOf(r *conf.Resolver, s *conf.Server) (key, bool) {
	if _, numeric := s.Address.IP(); numeric || s.Address.IsUnix() {
		return key{}, false
	}
	k := key{name: s.Address.Host, resolver: settings(r)}
	switch {
	case s.Service:
		k.kind = KindService
	case s.Resolve:
		k.kind = KindResolve
	default:
		return key{}, false
	}
	return k, true
}

// settings writes what makes two resolvers the same.
func settings(r *conf.Resolver) string {
	if r == nil {
		d := conf.DefaultResolver()
		r = &d
	}
	return fmt.Sprint(r.Servers, r.Timeout, r.Valid)
}

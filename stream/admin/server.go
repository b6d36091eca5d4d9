package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream"
)

const (
	// maxConnections bounds the descriptors that clients take from the sessions.
	maxConnections = 16
	maxBody        = 64 << 10
	maxConfig      = 32 << 20
	maxHeader      = 16 << 10

	readTimeout  = 10 * time.Second
	writeTimeout = 30 * time.Second // from the end of the request's header on
	idleTimeout  = 30 * time.Second
	// reloadTimeout is how long an answer to a reload may take: names are
	// resolved first.
	reloadTimeout = 2 * time.Minute
	// closePatience is how long answers may take once the server is closed.
	closePatience = time.Second
)

// Daemon is the process around the server.
type Daemon interface {
	// Reload reads the configuration file and changes to it. Its errors are
	// *Error.
	Reload(ctx context.Context, order ReloadOrder) (*Reload, error)
	// Upgrade has another process take over. Its errors are *Error.
	Upgrade(ctx context.Context, order UpgradeOrder) (*Upgrade, error)
}

// Options are what a Server is made of.
type Options struct {
	Server  *stream.Server
	Daemon  Daemon
	Logger  *slog.Logger
	Version string
	Config  string // path of the configuration, for people
}

// Server answers requests.
type Server struct {
	// immutable
	opt     Options
	started time.Time
	mux     *http.ServeMux

	reloaded atomic.Pointer[time.Time]

	mu   sync.Mutex
	here *endpoint // guarded by mu; nil = it listens nowhere
}

// endpoint is a listener that is served.
type endpoint struct {
	*Listener
	http  *http.Server
	token atomic.Pointer[token]
	ended chan struct{} // closed when it is served no more
}

// NewServer returns a server that listens nowhere yet.
func NewServer(opt Options) *Server {
	s := &Server{opt: opt, started: time.Now(), mux: http.NewServeMux()}
	s.routes()
	return s
}

// ServeHTTP answers a request of somebody who may ask.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Serve answers on a listener, which may be nil, instead of the one before.
func (s *Server) Serve(l *Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.here
	s.here = nil
	if l != nil {
		s.here = s.serve(l)
	}
	if before != nil {
		go before.end() // the request that has brought this about is answered there
	}
}

func (s *Server) serve(l *Listener) *endpoint {
	e := &endpoint{Listener: l, ended: make(chan struct{})}
	e.token.Store(l.token)
	e.http = &http.Server{
		Handler:           e.guard(s),
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.opt.Logger.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(e.ended)
		if err := e.http.Serve(limit(l.socket, maxConnections)); !errors.Is(err, http.ErrServerClosed) {
			s.opt.Logger.Error("control API ended", "address", l.Addr().String(), "error", err)
		}
	}()
	s.opt.Logger.Info("control API", "address", l.Addr().String())
	return e
}

// end closes the listener at once, and connections when they are answered.
func (e *endpoint) end() {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	e.remove()
	if e.http.Shutdown(ctx) != nil {
		_ = e.http.Close() // who has not taken his answer by now will not
	}
	<-e.ended
}

// Withdraw stops listening at once, for another process does instead. Whoever
// waits for an answer gets it; Close is still to be called.
func (s *Server) Withdraw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.here == nil {
		return
	}
	nobody, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.here.http.Shutdown(nobody) // with a context that is done it waits for no answer
}

// Close ends the server.
func (s *Server) Close() {
	s.mu.Lock()
	here := s.here
	s.here = nil
	s.mu.Unlock()
	if here != nil {
		here.end()
	}
}

// Change is a prepared change of where the server listens.
type Change struct {
	server *Server
	next   conf.Admin
	stays  *endpoint // nil = it is another place
	opened *Listener
	token  *token
	undo   func()
}

// Prepare does what can fail of a change to other settings. The change is either
// committed or abandoned.
func (s *Server) Prepare(c *conf.Admin) (*Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change := &Change{server: s, next: *c, undo: func() {}}
	if s.here == nil || s.here.conf.Listen != c.Listen {
		var err error
		ownPort := s.here != nil && s.here.conf.Listen.Overlaps(c.Listen)
		if change.opened, err = open(c, Listener{ownPort: ownPort}); err != nil {
			return nil, err
		}
		return change, nil
	}
	change.stays = s.here
	var err error
	if change.token, err = readToken(c); err != nil {
		return nil, err
	}
	if before := s.here.conf.Group; before != c.Group {
		if err := regroup(c.Listen.Path, c.Group); err != nil {
			return nil, err
		}
		change.undo = func() { _ = regroup(c.Listen.Path, before) } // it could be done before
	}
	return change, nil
}

func regroup(path, group string) error {
	gid, err := groupID(group)
	if err != nil {
		return err
	}
	return setGroup(path, gid)
}

// Commit makes the change.
func (c *Change) Commit() {
	if c.stays == nil {
		c.server.Serve(c.opened)
		return
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.stays.token.Store(c.token)
	c.stays.conf = c.next
}

// Abandon undoes what was prepared.
func (c *Change) Abandon() {
	c.undo()
	if c.opened != nil {
		c.opened.Close()
	}
}

// guard lets only those in who may come in, and bounds what they can send.
func (e *endpoint) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := e.admit(r); err != nil {
			writeError(w, err)
			return
		}
		most := int64(maxBody)
		if r.URL.Path == "/v1/diff" {
			most = maxConfig
		}
		r.Body = http.MaxBytesReader(w, r.Body, most)
		next.ServeHTTP(w, r)
	})
}

func (e *endpoint) admit(r *http.Request) error {
	if e.file != nil {
		return nil // the kernel has asked
	}
	want := e.token.Load()
	if want == nil {
		return origin(r)
	}
	shown, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return errorf(http.StatusUnauthorized, "this control API asks for its token (Authorization: Bearer ...)")
	}
	got := sha256.Sum256([]byte(shown))
	if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		return errorf(http.StatusUnauthorized, "wrong token")
	}
	return nil
}

// origin refuses what a page in a browser of this machine sends. Browsers name
// the page that a request comes from, or the host that the page pretends to be.
func origin(r *http.Request) error {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if r.Header.Get("Origin") != "" || host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return errorf(http.StatusForbidden, "requests from web pages are refused; give the control API a token_file")
	}
	return nil
}

// limited is a listener with a bounded number of open connections. Others wait in
// its accept queue.
type limited struct {
	net.Listener
	places chan struct{}
	closed chan struct{}
	once   sync.Once
}

func limit(l net.Listener, n int) *limited {
	return &limited{Listener: l, places: make(chan struct{}, n), closed: make(chan struct{})}
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &placed{Conn: c, leave: sync.OnceFunc(func() { <-l.places })}, nil
}

func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// placed is a connection that gives its place back.
type placed struct {
	net.Conn
	leave func()
}

func (c *placed) Close() error {
	err := c.Conn.Close()
	c.leave()
	return err
}

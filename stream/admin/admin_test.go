package admin_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream"
	"github.com/weirlb/weir/stream/admin"
)

// daemon answers reloads as a test says.
type daemon struct {
	asked admin.ReloadOrder
	out   *admin.Reload
	err   error
}

func (d *daemon) Upgrade(_ context.Context, order admin.UpgradeOrder) (*admin.Upgrade, error) {
	if order.Drain {
		return nil, &admin.Error{Status: http.StatusConflict, Message: "not upgraded"}
	}
	return &admin.Upgrade{Pid: 2, From: 1, Moved: 7}, nil
}

func (d *daemon) Reload(_ context.Context, order admin.ReloadOrder) (*admin.Reload, error) {
	d.asked = order
	return d.out, d.err
}

// world is a server with its control API on a unix socket, before two servers "a"
// and "b" of upstream "u", which echo.
type world struct {
	cfg    *conf.Config
	server *stream.Server
	daemon *daemon
	api    *admin.Server
	path   string // of the socket
	client *admin.Client
	addr   string // of the listener
}

func start(t *testing.T, edit func(*conf.Config)) *world {
	t.Helper()
	w := &world{daemon: &daemon{out: new(admin.Reload)}, path: filepath.Join(shortDir(t), "admin.sock")}
	cfg := conf.Default()
	cfg.Log.Access = conf.AccessOff
	cfg.Admin.Listen = conf.Address{Path: w.path}
	u := conf.NewUpstream("u")
	for _, name := range []string{"a", "b"} {
		s := conf.NewServer(echo(t))
		s.Name = name
		u.Servers = append(u.Servers, s)
	}
	l := conf.NewListener("l")
	l.Upstream, l.Listen = "u", []conf.Address{{Host: "127.0.0.1"}}
	cfg.Upstreams, cfg.Listeners = []conf.Upstream{u}, []conf.Listener{l}
	if edit != nil {
		edit(&cfg)
	}
	w.cfg = &cfg
	logger := slog.New(slog.DiscardHandler)
	var err error
	if w.server, err = stream.Start(t.Context(), &cfg, stream.Options{Logger: logger}); err != nil {
		t.Fatal(err)
	}
	w.addr = w.server.Bound()[0].Addr.String()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		w.server.Stop(ctx)
	})
	w.api = admin.NewServer(admin.Options{Server: w.server, Daemon: w.daemon, Logger: logger, Version: "1.2.3", Config: "weir.hcl"})
	t.Cleanup(w.api.Close)
	w.api.Serve(mustListen(t, &cfg.Admin))
	w.client = admin.NewClient(cfg.Admin.Listen, "")
	return w
}

// shortDir returns a directory whose path leaves room for a socket's name.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func mustListen(t *testing.T, c *conf.Admin) *admin.Listener {
	t.Helper()
	l, err := admin.Listen(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// echo serves echoes and returns its address.
func echo(t *testing.T) conf.Address {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(c, c)
				c.Close()
			}()
		}
	}()
	return conf.Address{Host: "127.0.0.1", Port: uint16(ln.Addr().(*net.TCPAddr).Port)}
}

// session opens a session that has echoed five bytes.
func (w *world) session(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(c, "hello")
	if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	return c
}

// raw sends a request as it is and returns status and body.
func (w *world) raw(t *testing.T, method, path, contentType, body string) (int, string) {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", w.path)
	}}}
	r, err := http.NewRequestWithContext(t.Context(), method, "http://weir"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	answer, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.Header.Get("Content-Type") != "application/json" || !json.Valid(text) {
		t.Errorf("%s %s: the answer is no JSON: %q %v", method, path, text, err)
	}
	return answer.StatusCode, string(text)
}

func wantError(t *testing.T, err error, status int, words string) {
	t.Helper()
	var e *admin.Error
	if !errors.As(err, &e) || e.Status != status || !strings.Contains(e.Message, words) {
		t.Errorf("the error is %v, want status %d with %q", err, status, words)
	}
}

func TestStatus(t *testing.T) {
	w := start(t, nil)
	w.session(t)
	w.session(t).Close()
	eventually(t, func() bool {
		s, err := w.client.Status(t.Context())
		return err == nil && s.Ended["client_closed"] == 1
	})
	s, err := w.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Version != "1.2.3" || s.PID != os.Getpid() || s.Config != "weir.hcl" || !s.Ready || s.Reloaded != nil || s.Workers == 0 ||
		s.Sessions.Now != 1 || s.Sessions.Total != 2 || s.Sessions.Max == 0 || s.Bytes != (admin.ByteCounts{ToPeers: 10, ToClients: 10}) || s.Recording.On {
		t.Errorf("the status is %+v", s)
	}
	if l := s.Listeners; len(l) != 1 || l[0].Name != "l" || l[0].Protocol != "tcp" || l[0].Sessions != 1 || l[0].Total != 2 || l[0].Addresses[0] != w.addr || l[0].Upstream != "u" {
		t.Errorf("the listeners are %+v", l)
	}
	if u := s.Upstreams; len(u) != 1 || u[0] != (admin.UpstreamSums{Name: "u", Method: "round_robin", Peers: 2, Usable: 2, Conns: 1, Load: admin.Load{Sessions: 1}}) {
		t.Errorf("the upstreams are %+v", u)
	}
}

var kept []byte

func TestAllocationsAreCounted(t *testing.T) {
	w := start(t, nil)
	before, err := w.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const size = 1 << 20
	kept = make([]byte, size)
	runtime.GC()
	after, err := w.client.Runtime(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	was, is := before.Runtime, *after
	if is.GCCycles <= was.GCCycles || is.AllocatedBytes < was.AllocatedBytes+size || is.AllocatedObjects <= was.AllocatedObjects {
		t.Errorf("1 MiB and a garbage collection later: %+v after %+v", is, was)
	}
}

func eventually(t *testing.T, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not seen in time")
		}
	}
}

func TestPeers(t *testing.T) {
	w := start(t, nil)
	w.session(t)
	all, err := w.client.Upstreams(t.Context())
	if err != nil || len(all.Upstreams) != 1 || len(all.Upstreams[0].Peers) != 2 || all.Upstreams[0].Listeners[0] != "l" {
		t.Fatalf("the upstreams are %+v: %v", all, err)
	}
	p, err := w.client.SetPeer(t.Context(), "u", "a", admin.PeerOrder{Admin: "drain"})
	if err != nil || p.Admin != "drain" || p.State != "draining" || p.Conns != 1 || p.BytesSent != 5 {
		t.Errorf("after the drain: %+v %v", p, err)
	}
	five := 5
	if p, err = w.client.SetPeer(t.Context(), "u", w.cfg.Upstreams[0].Servers[1].Address.String(), admin.PeerOrder{Weight: &five}); err != nil || p.Name != "b" || p.Weight != 5 {
		t.Errorf("after the change of weight: %+v %v", p, err)
	}
	peers, err := w.client.Peers(t.Context(), "u")
	if err != nil || peers.Peers[0].State != "draining" || peers.Peers[1].Weight != 5 {
		t.Errorf("the peers are %+v: %v", peers, err)
	}
	_, err = w.client.Peers(t.Context(), "uu")
	wantError(t, err, http.StatusNotFound, `there is no upstream "uu"`)
	_, err = w.client.SetPeer(t.Context(), "u", "unix:/run/x/y", admin.PeerOrder{Admin: "up"})
	wantError(t, err, http.StatusNotFound, `called "unix:/run/x/y"`)
}

func TestSessions(t *testing.T) {
	w := start(t, nil)
	c := w.session(t)
	w.session(t)
	all, err := w.client.Sessions(t.Context(), admin.SessionQuery{Limit: 1})
	if err != nil || all.Total != 2 || len(all.Sessions) != 1 {
		t.Fatalf("the sessions are %+v: %v", all, err)
	}
	s := all.Sessions[0]
	if s.Client != c.LocalAddr().String() || s.Peer != "a" || s.Phase != "relaying" || s.BytesReceived != 5 || s.BytesSent != 5 || s.Tries != 1 || s.AgeSeconds <= 0 || s.Ended != nil {
		t.Errorf("the session is %+v", s)
	}
	if err := w.client.CloseSession(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client got %v", err)
	}
	wantError(t, w.client.CloseSession(t.Context(), s.ID), http.StatusNotFound, "closed_by_operator")
	ended, err := w.client.Sessions(t.Context(), admin.SessionQuery{Ended: true})
	if err != nil || len(ended.Sessions) != 1 || ended.Sessions[0].ID != s.ID || ended.Sessions[0].CloseReason != "closed_by_operator" || ended.Sessions[0].Ended == nil {
		t.Errorf("the ended sessions are %+v: %v", ended, err)
	}
	e, err := w.client.ExplainSession(t.Context(), s.ID)
	if err != nil || len(e.Decisions) != 0 || !strings.Contains(e.Missing, "weir explain --record") {
		t.Errorf("the session is explained so: %+v %v", e, err)
	}
}

func TestRecord(t *testing.T) {
	w := start(t, nil)
	r, err := w.client.Record(t.Context(), "1h")
	if err != nil || !r.On || r.Until == nil || time.Until(*r.Until) < 59*time.Minute {
		t.Fatalf("recording is %+v: %v", r, err)
	}
	w.session(t)
	all, err := w.client.Sessions(t.Context(), admin.SessionQuery{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := w.client.ExplainSession(t.Context(), all.Sessions[0].ID)
	if err != nil || e.Missing != "" || len(e.Decisions) != 1 || e.Decisions[0].Sentence != "picked a by current weight: a 1, b 1" {
		t.Errorf("the session is explained so: %+v %v", e, err)
	}
	if c := e.Decisions[0].Candidates(); len(c) != 2 || c[0].Peer != "a" {
		t.Errorf("the candidates are %+v", c)
	}
	if r, err = w.client.Record(t.Context(), "off"); err != nil || r.On {
		t.Errorf("recording is %+v: %v", r, err)
	}
	_, err = w.client.Record(t.Context(), "maybe")
	wantError(t, err, http.StatusBadRequest, "on, off or a duration")
}

// The forecast names the peer that the next session gets, before and after a
// failure.
func TestForecast(t *testing.T) {
	w := start(t, func(cfg *conf.Config) {
		dead := conf.NewServer(conf.Address{Host: "127.0.0.1", Port: 1})
		dead.Name = "dead"
		cfg.Upstreams[0].Servers = append(cfg.Upstreams[0].Servers, dead)
	})
	for i := range 6 {
		f, err := w.client.Forecast(t.Context(), "u", "", "")
		if err != nil || f.Sentence == "" || len(f.Candidates()) != 3 {
			t.Fatalf("the forecast is %+v: %v", f, err)
		}
		w.session(t)
		all, _ := w.client.Sessions(t.Context(), admin.SessionQuery{})
		got := all.Sessions[len(all.Sessions)-1]
		if want := f.Peer; want == "dead" && got.Tries != 2 || want != "dead" && got.Peer != want {
			t.Errorf("session %d: the forecast was %s, it got %s with try %d", i, want, got.Peer, got.Tries)
		}
	}
	_, err := w.client.Forecast(t.Context(), "u", "nowhere", "")
	wantError(t, err, http.StatusBadRequest, "client takes an IP address")
}

func TestReload(t *testing.T) {
	w := start(t, nil)
	w.daemon.out = &admin.Reload{DryRun: true, SessionsAffected: 3}
	out, err := w.client.Reload(t.Context(), admin.ReloadOrder{RequireSafe: true, DryRun: true})
	if err != nil || out.SessionsAffected != 3 || w.daemon.asked != (admin.ReloadOrder{RequireSafe: true, DryRun: true}) {
		t.Errorf("the answer is %+v: %v; asked for %+v", out, err, w.daemon.asked)
	}
	w.daemon.err = &admin.Error{Status: http.StatusUnprocessableEntity, Message: "mistakes", Diagnostics: "line 1"}
	_, err = w.client.Reload(t.Context(), admin.ReloadOrder{})
	wantError(t, err, http.StatusUnprocessableEntity, "mistakes")
	var e *admin.Error
	if errors.As(err, &e); e == nil || e.Diagnostics != "line 1" {
		t.Errorf("the diagnostics are lost: %+v", e)
	}
	if status, _ := w.raw(t, "GET", "/v1/diff", "", ""); status != http.StatusUnprocessableEntity || !w.daemon.asked.DryRun {
		t.Errorf("a diff is %d, asked for %+v", status, w.daemon.asked)
	}
}

func TestDiff(t *testing.T) {
	w := start(t, nil)
	w.session(t)
	out, err := w.client.Diff(t.Context(), w.cfg)
	if err != nil || !out.Changes.None() || !out.DryRun {
		t.Errorf("the same configuration changes %+v: %v", out, err)
	}
	next := *w.cfg
	next.Upstreams = []conf.Upstream{w.cfg.Upstreams[0]}
	next.Upstreams[0].Servers = w.cfg.Upstreams[0].Servers[1:]
	out, err = w.client.Diff(t.Context(), &next)
	if err != nil || len(out.Changes.Removed) != 1 || out.SessionsAffected != 1 {
		t.Errorf("without a it changes %+v: %v", out, err)
	}
	if status, text := w.raw(t, "POST", "/v1/diff", "application/json", `{"Upstreams":[{"Name":"u","Balance":{"Method":"least_time","Time":200}}]}`); status != http.StatusBadRequest && status != http.StatusUnprocessableEntity {
		t.Errorf("a configuration that is none: %d %s", status, text)
	}
	if _, err := w.client.Status(t.Context()); err != nil {
		t.Error(err)
	}
}

// Whatever is wrong with a request is said, as JSON and with its status.
func TestBadRequests(t *testing.T) {
	w := start(t, nil)
	const js = "application/json"
	for _, c := range []struct {
		method, path, kind, body string
		status                   int
		words                    string
	}{
		{"GET", "/", "", "", 404, "begin with /v1/"},
		{"GET", "/v2/status", "", "", 404, "there is no /v2/status here"},
		{"POST", "/v1/status", js, "{}", 405, "does not take POST"},
		{"GET", "/v1/sessions?lissener=l", "", "", 400, `did you mean \"listener\"?`},
		{"GET", "/v1/sessions?older=3", "", "", 400, "older: "},
		{"GET", "/v1/sessions?limit=-1", "", "", 400, "limit takes a number"},
		{"GET", "/v1/sessions?ended=maybe", "", "", 400, "true or false"},
		{"GET", "/v1/sessions?ended=true&peer=a", "", "", 400, "by listener only"},
		{"GET", "/v1/sessions/x", "", "", 400, "is not the number of a session"},
		{"GET", "/v1/sessions/12345678", "", "", 404, "there is no session 12345678"},
		{"DELETE", "/v1/sessions/-1", "", "", 400, "is not the number"},
		{"GET", "/v1/explain", "", "", 400, "name an upstream"},
		{"GET", "/v1/peers?%zz", "", "", 400, "bad request"},
		{"POST", "/v1/peers/u/a", "text/plain", `{"admin":"up"}`, 415, "application/json"},
		{"POST", "/v1/peers/u/a", js, "", 400, "say what to do"},
		{"POST", "/v1/peers/u/a", js, `{"admin":"up","weight":3}`, 400, "say what to do"},
		{"POST", "/v1/peers/u/a", js, `{"admin":"sideways"}`, 400, "it is up, drain or down"},
		{"POST", "/v1/peers/u/a", js, `{"weight":0}`, 400, "from 1 to 65535"},
		{"POST", "/v1/peers/u/a", js, `{"wait":3}`, 400, "unknown field"},
		{"POST", "/v1/peers/u/a", js, `{"admin":"up"} x`, 400, "behind the JSON object"},
		{"POST", "/v1/peers/u/a", js, `{"admin":"` + strings.Repeat("x", 70<<10) + `"}`, 413, "larger than 65536 bytes"},
		{"POST", "/v1/record", js, `{}`, 400, "on, off or a duration"},
		{"POST", "/v1/reload", js, `[`, 400, "bad request"},
	} {
		status, text := w.raw(t, c.method, c.path, c.kind, c.body)
		if status != c.status || !strings.Contains(text, c.words) {
			t.Errorf("%s %s %.40s: %d %.200s, want %d with %s", c.method, c.path, c.body, status, text, c.status, c.words)
		}
	}
}

// A client that sends or takes nothing keeps nobody waiting, and the sessions
// least of all.
func TestStuckClients(t *testing.T) {
	w := start(t, nil)
	for i := range 10 {
		c, err := net.Dial("unix", w.path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i%2 == 0 {
			io.WriteString(c, "GET /v1/status HTTP/1.1\r\nHost: weir\r\n\r\nGET /v1/sta")
		}
	}
	begin := time.Now()
	if _, err := w.client.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.session(t)
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("it took %v", took)
	}
	begin = time.Now()
	w.api.Close()
	if took := time.Since(begin); took > 4*time.Second {
		t.Errorf("the end took %v", took)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	w := start(t, nil)
	var conns []net.Conn
	for range 16 {
		c, err := net.Dial("unix", w.path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c)
	}
	time.Sleep(50 * time.Millisecond) // so that they are accepted first
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := w.client.Status(ctx); err == nil {
		t.Error("there is a 17th connection")
	}
	conns[0].Close()
	if _, err := w.client.Status(t.Context()); err != nil {
		t.Errorf("no place came free: %v", err)
	}
}

func TestSocketIsPrivate(t *testing.T) {
	w := start(t, nil)
	wantMode(t, w.path, 0o600)
	w.api.Close()
	if _, err := os.Lstat(w.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	_, err := w.client.Status(t.Context())
	if err == nil || !strings.Contains(err.Error(), "there is no such socket; does weir run") {
		t.Errorf("the client says %v", err)
	}
}

func wantMode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Perm() != want {
		t.Errorf("the socket's mode is %v, want %v: %v", info.Mode(), want, err)
	}
}

func TestGroup(t *testing.T) {
	g, err := user.LookupGroupId(fmt.Sprint(os.Getgid()))
	if err != nil {
		t.Skip(err)
	}
	w := start(t, func(cfg *conf.Config) { cfg.Admin.Group = g.Name })
	wantMode(t, w.path, 0o660)
	without := w.cfg.Admin
	without.Group = ""
	change, err := w.api.Prepare(&without)
	if err != nil {
		t.Fatal(err)
	}
	change.Abandon()
	wantMode(t, w.path, 0o660)
	if change, err = w.api.Prepare(&without); err != nil {
		t.Fatal(err)
	}
	change.Commit()
	wantMode(t, w.path, 0o600)
	without.Group = "no such group"
	if _, err := w.api.Prepare(&without); err == nil || !strings.Contains(err.Error(), `there is no group "no such group"`) {
		t.Errorf("the error is %v", err)
	}
}

func TestStaleSocket(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	c := &conf.Admin{Listen: conf.Address{Path: path}}
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Listen(c); err == nil || !strings.Contains(err.Error(), "somebody listens on unix:"+path+" already") {
		t.Errorf("the error about a socket in use is %v", err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	first := mustListen(t, c)
	if _, err := admin.Listen(c); err == nil {
		t.Error("two listen on one socket")
	}
	// Another one's socket is left alone.
	os.Remove(path)
	second := mustListen(t, c)
	first.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the first one has removed the second one's socket: %v", err)
	}
	second.Close()

	os.WriteFile(path, []byte("precious"), 0o600)
	if _, err := admin.Listen(c); err == nil || !strings.Contains(err.Error(), "is there already and no socket") {
		t.Errorf("the error about a file is %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "precious" {
		t.Error("the file is gone")
	}
	c.Listen.Path = filepath.Join(path+".d", "s")
	if _, err := admin.Listen(c); err == nil || !strings.Contains(err.Error(), "there is no directory "+path+".d") {
		t.Errorf("the error about a directory is %v", err)
	}
}

func tokenFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestToken(t *testing.T) {
	const secret = "0123456789abcdef"
	w := start(t, nil)
	c := &conf.Admin{Listen: freePort(t), TokenFile: tokenFile(t, secret+"\n")}
	w.api.Serve(mustListen(t, c))
	for token, want := range map[string]int{secret: 0, "": 401, "0123456789abcdeF": 401, secret + "0": 401} {
		_, err := admin.NewClient(c.Listen, token).Status(t.Context())
		if want == 0 && err != nil {
			t.Errorf("with the token: %v", err)
		} else if want != 0 {
			wantError(t, err, want, "token")
		}
	}
	os.WriteFile(c.TokenFile, []byte("another token, longer"), 0o600)
	if _, err := w.api.Prepare(c); err == nil || !strings.Contains(err.Error(), "visible ASCII") {
		t.Errorf("the error is %v", err)
	}
	os.WriteFile(c.TokenFile, []byte("anothertokenlonger"), 0o600)
	change, err := w.api.Prepare(c)
	if err != nil {
		t.Fatal(err)
	}
	change.Commit()
	if _, err := admin.NewClient(c.Listen, "anothertokenlonger").Status(t.Context()); err != nil {
		t.Errorf("with the new token: %v", err)
	}
	_, err = admin.NewClient(c.Listen, secret).Status(t.Context())
	wantError(t, err, 401, "wrong token")
	short := &conf.Admin{Listen: freePort(t), TokenFile: tokenFile(t, "short")}
	if _, err := admin.Listen(short); err == nil || !strings.Contains(err.Error(), "has 5 characters") {
		t.Errorf("the error is %v", err)
	}
}

func freePort(t *testing.T) conf.Address {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return conf.Address{Host: "127.0.0.1", Port: uint16(l.Addr().(*net.TCPAddr).Port)}
}

// A page in a browser on this machine can't use a control API without a token.
func TestPagesAreRefused(t *testing.T) {
	w := start(t, nil)
	c := &conf.Admin{Listen: freePort(t)}
	w.api.Serve(mustListen(t, c))
	for _, header := range []http.Header{{"Host": {"evil.example"}}, {"Origin": {"http://evil.example"}}} {
		r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://"+c.Listen.String()+"/v1/status", nil)
		r.Header = header
		r.Host = header.Get("Host")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusForbidden {
			t.Errorf("%v: %s", header, answer.Status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// The request that moves the control API is still answered.
func TestMove(t *testing.T) {
	w := start(t, nil)
	next := w.cfg.Admin
	next.Listen.Path += "2"
	change, err := w.api.Prepare(&next)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.Status(t.Context()); err != nil {
		t.Errorf("before the change is made: %v", err)
	}
	conn, err := net.Dial("unix", w.path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "POST /v1/reload HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{")
	time.Sleep(20 * time.Millisecond)
	change.Commit()
	io.WriteString(conn, "}")
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("the answer is %v: %v", answer, err)
	}
	if _, err := admin.NewClient(next.Listen, "").Status(t.Context()); err != nil {
		t.Errorf("at the new address: %v", err)
	}
	eventually(t, func() bool { _, err := os.Lstat(w.path); return errors.Is(err, os.ErrNotExist) })

	// And to nowhere, and back.
	if change, err = w.api.Prepare(&conf.Admin{}); err != nil {
		t.Fatal(err)
	}
	change.Commit()
	eventually(t, func() bool { _, err := admin.NewClient(next.Listen, "").Status(t.Context()); return err != nil })
	if change, err = w.api.Prepare(&w.cfg.Admin); err != nil {
		t.Fatal(err)
	}
	change.Commit()
	if _, err := w.client.Status(t.Context()); err != nil {
		t.Error(err)
	}
	bad := w.cfg.Admin
	bad.Listen.Path = "/nowhere/at/all"
	if change, err := w.api.Prepare(&bad); err == nil || change != nil {
		t.Error("a place that can't be opened is no error")
	}
	abandoned := w.cfg.Admin
	abandoned.Listen.Path += "3"
	if change, err = w.api.Prepare(&abandoned); err != nil {
		t.Fatal(err)
	}
	change.Abandon()
	if _, err := os.Lstat(abandoned.Listen.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was abandoned is still there: %v", err)
	}
}

// To all addresses of the machine and back, at the port that it has already. They
// are those of one family: what is meant for IPv4 is not open to IPv6.
func TestMoveToAnotherHost(t *testing.T) {
	const secret = "0123456789abcdef"
	w := start(t, nil)
	one := &conf.Admin{Listen: freePort(t), TokenFile: tokenFile(t, secret)}
	all := *one
	all.Listen.Host = "0.0.0.0"
	w.api.Serve(mustListen(t, one))
	for _, to := range []*conf.Admin{&all, one} {
		change, err := w.api.Prepare(to)
		if err != nil {
			t.Fatal(err)
		}
		change.Commit()
		eventually(t, func() bool { _, err := admin.NewClient(one.Listen, secret).Status(t.Context()); return err == nil })
		if c, err := net.Dial("tcp", net.JoinHostPort("::1", strconv.Itoa(int(one.Listen.Port)))); err == nil {
			t.Errorf("%s is open to IPv6", to.Listen)
			c.Close()
		}
	}
}

func TestClientOfNobody(t *testing.T) {
	_, err := admin.NewClient(freePort(t), "").Status(t.Context())
	if err == nil || !strings.Contains(err.Error(), "does weir run?") {
		t.Errorf("the error is %v", err)
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "teapot", http.StatusTeapot) }))
	defer other.Close()
	at := other.Listener.Addr().(*net.TCPAddr)
	_, err = admin.NewClient(conf.Address{Host: "127.0.0.1", Port: uint16(at.Port)}, "").Status(t.Context())
	if err == nil || !strings.Contains(err.Error(), "is that weir's control API?") {
		t.Errorf("the error is %v", err)
	}
}

// Requests of any kind get an answer in JSON, and the server goes on.
func FuzzRequest(f *testing.F) {
	for _, seed := range []struct{ method, target, body string }{
		{"GET", "/v1/status", ""}, {"GET", "/v1/sessions?listener=l&older=10m&limit=3", ""}, {"GET", "/v1/explain?upstream=u&client=::1", ""},
		{"POST", "/v1/peers/u/a", `{"admin":"drain"}`}, {"POST", "/v1/peers/u/%2f", `{"weight":7}`}, {"DELETE", "/v1/sessions/1", ""},
		{"POST", "/v1/record", `{"record":"1s"}`}, {"POST", "/v1/reload", `{"dry_run":true}`},
		{"POST", "/v1/diff", `{"Upstreams":[{"Name":"u","Balance":{"Method":"maglev"},"Servers":[{"Address":{"Host":"::1"}}]}],"Listeners":[{"Upstream":"v"}]}`},
	} {
		f.Add(seed.method, seed.target, []byte(seed.body))
	}
	cfg := conf.Default()
	cfg.Log.Access = conf.AccessOff
	u := conf.NewUpstream("u")
	u.Servers = []conf.Server{conf.NewServer(conf.Address{Host: "127.0.0.1", Port: 1})}
	cfg.Upstreams = []conf.Upstream{u}
	nobody := func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no such host") }
	server, err := stream.Start(f.Context(), &cfg, stream.Options{Logger: slog.New(slog.DiscardHandler), Lookup: nobody})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { server.Stop(context.Background()) })
	api := admin.NewServer(admin.Options{Server: server, Daemon: &daemon{out: new(admin.Reload)}, Logger: slog.New(slog.DiscardHandler)})
	f.Fuzz(func(t *testing.T, method, target string, body []byte) {
		r, err := http.NewRequest(method, "http://localhost"+target, bytes.NewReader(body))
		if err != nil || len(body) > 1<<16 || bytes.Contains(body, []byte("TableSize")) {
			return // large tables are slow, and the API is for operators
		}
		r.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		api.ServeHTTP(answer, r)
		if answer.Code >= 300 && answer.Code < 400 {
			return // a path that was not clean
		}
		if !json.Valid(answer.Body.Bytes()) {
			t.Errorf("%s %s: %d %q", method, target, answer.Code, answer.Body)
		}
	})
}

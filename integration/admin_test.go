package integration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlb/weir/stream/admin"
)

// operated is two servers "a" and "b" of upstream "u" and a control API.
const operated = `
	worker { count = 2 }
	admin {
	  listen = "unix:$dir/admin.sock"
	}
	upstream "u" {
	  server "$a" { name = "a" }
	  server "$b" { name = "b" }
	}
	listener "l" {
	  listen   = ["$listen"]
	  upstream = "u"
	}`

// greeter says its name, one letter and a newline, and then echoes.
func greeter(name string) func(net.Conn) {
	return func(c net.Conn) {
		io.WriteString(c, name+"\n")
		io.Copy(c, c)
	}
}

func startOperated(t *testing.T) *proxy {
	t.Helper()
	return start(t, operated, vars{"a": serve(t, greeter("a")), "b": serve(t, greeter("b"))})
}

// said is what a command has said.
type said struct {
	out, err string
	code     int
}

// weir runs a command against the weir that runs, whose configuration it reads.
func (p *proxy) weir(args ...string) said {
	p.t.Helper()
	return p.weirWith(nil, append(args, "-c", filepath.Join(p.dir, "weir.hcl"))...)
}

func (p *proxy) weirWith(edit func(*exec.Cmd), args ...string) said {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), scaled(20*time.Second))
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	if edit != nil {
		edit(cmd)
	}
	code := exitCode(cmd.Run())
	return said{out.String(), err.String(), code}
}

// mustWeir is weir for a command that must succeed. It returns what it printed.
func (p *proxy) mustWeir(args ...string) string {
	p.t.Helper()
	s := p.weir(args...)
	if s.code != 0 || s.err != "" {
		p.t.Fatalf("weir %s: exit code %d, %s%s", strings.Join(args, " "), s.code, s.out, s.err)
	}
	return s.out
}

// weirJSON decodes what a command prints with --json.
func (p *proxy) weirJSON(into any, args ...string) {
	p.t.Helper()
	text := p.mustWeir(append(args, "--json")...)
	d := json.NewDecoder(strings.NewReader(text))
	if err := d.Decode(into); err != nil {
		p.t.Fatalf("weir %s: %v in %s", strings.Join(args, " "), err, text)
	}
}

// wantSaid expects a failed command with these words on standard error.
func (s said) wantFailure(t *testing.T, code int, words string) {
	t.Helper()
	if s.code != code || !strings.Contains(s.err, words) {
		t.Errorf("exit code %d, want %d with %q: %s%s", s.code, code, words, s.out, s.err)
	}
}

func wantWords(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q is missing in\n%s", w, text)
		}
	}
}

// sessions asks the control API, as `weir sessions` does, which costs far less
// than to run a command.
func (p *proxy) sessions(q admin.SessionQuery) *admin.Sessions {
	p.t.Helper()
	s, err := p.control.Sessions(p.t.Context(), q)
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// sessionsNow returns how many sessions there are.
func (p *proxy) sessionsNow() int {
	p.t.Helper()
	return p.sessions(admin.SessionQuery{Limit: 1}).Total
}

// peers asks for the peers of an upstream, or of all if it is "".
func (p *proxy) peers(upstream string) []admin.Peer {
	p.t.Helper()
	all, err := p.control.Peers(p.t.Context(), upstream)
	if err != nil {
		p.t.Fatal(err)
	}
	return all.Peers
}

// status asks how weir is.
func (p *proxy) status() *admin.Status {
	p.t.Helper()
	s, err := p.control.Status(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// connect opens a session and returns the name of its server.
func (p *proxy) connect() (stream, string) {
	p.t.Helper()
	c := dial(p.t, p.addr)
	c.SetDeadline(time.Now().Add(scaled(10 * time.Second)))
	name := make([]byte, 2)
	if _, err := io.ReadFull(c, name); err != nil {
		p.t.Fatal(err)
	}
	return c, strings.TrimSpace(string(name))
}

// Every command that looks, as text and as JSON. No line of a table is wider than
// a terminal.
func TestAdminCommandsThatLook(t *testing.T) {
	t.Parallel()
	p := startOperated(t)
	p.mustWeir("explain", "--record", "on")
	_, name := p.connect()
	id := p.sessions(admin.SessionQuery{}).Sessions[0].ID
	number := fmt.Sprint(id)
	for _, test := range []struct {
		args  []string
		words []string
		keys  []string
	}{
		{[]string{"status"}, []string{"weir (devel), pid ", "1 now, 1 since the start", "tcp " + p.addr, "round_robin", "decisions are remembered, until", " garbage collections, "},
			[]string{"bytes", "config", "ended", "leaving_workers", "listeners", "pid", "ready", "recording", "reloaded", "runtime", "sessions", "started", "upstreams", "uptime_seconds", "version", "workers"}},
		{[]string{"peers"}, []string{"upstream u", "PEER", "a ", "b ", "up "}, []string{"groups", "peers", "sources"}},
		{[]string{"peers", "u"}, []string{"upstream u"}, []string{"groups", "peers", "sources"}},
		{[]string{"sessions"}, []string{"CLIENT", number, "relaying"}, []string{"sessions", "total"}},
		{[]string{"sessions", "--listener", "l", "--peer", "u/" + name, "--limit", "1"}, []string{number}, []string{"sessions", "total"}},
		{[]string{"sessions", "--older", "1h"}, []string{"no such sessions"}, []string{"sessions", "total"}},
		{[]string{"sessions", "--ended"}, []string{"no such sessions"}, []string{"sessions", "total"}},
		{[]string{"explain", "u"}, []string{"upstream u: the next session would get ", "by current weight", "PEER"}, []string{"address", "at", "figures", "peer", "sentence", "upstream"}},
		{[]string{"explain", number}, []string{"session " + number + ": tcp 127.0.0.1:", "picked " + name + " by current weight", "relaying"}, []string{"decisions", "session"}},
		{[]string{"diff"}, []string{"nothing would change"}, []string{"changes", "dry_run", "sessions_affected", "sessions_ended"}},
		{[]string{"reload", "--dry-run"}, []string{"nothing would change"}, []string{"changes", "dry_run", "sessions_affected", "sessions_ended"}},
		{[]string{"reload"}, []string{"reloaded: nothing has changed"}, []string{"changes", "dry_run", "sessions_affected", "sessions_ended"}},
	} {
		text := p.mustWeir(test.args...)
		wantWords(t, text, test.words...)
		for line := range strings.Lines(text) {
			if len(strings.TrimSuffix(line, "\n")) > 80 {
				t.Errorf("weir %s: this line has %d columns: %s", strings.Join(test.args, " "), len(line)-1, line)
			}
		}
		var answer map[string]any
		p.weirJSON(&answer, test.args...)
		var keys []string
		for k := range answer {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		if !slices.Equal(keys, test.keys) {
			t.Errorf("weir %s --json has %v, want %v", strings.Join(test.args, " "), keys, test.keys)
		}
	}
}

// A drain under load: no new session comes to the server, those that run end by
// themselves, and nobody fails.
func TestDrainUnderLoad(t *testing.T) {
	t.Parallel()
	p := startOperated(t)
	held := map[string][]net.Conn{}
	for range 8 {
		c, name := p.connect()
		held[name] = append(held[name], c)
	}
	stop := make(chan struct{})
	var sessions, failed atomic.Int64
	load := func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			c, err := net.Dial("tcp", p.addr)
			if err == nil {
				c.SetDeadline(time.Now().Add(scaled(5 * time.Second)))
				_, err = io.ReadFull(c, make([]byte, 2))
				c.Close()
			}
			sessions.Add(1)
			if err != nil {
				failed.Add(1)
			}
		}
	}
	loaded := make(chan struct{})
	for range 4 {
		go func() { load(); loaded <- struct{}{} }()
	}
	a := func() (conns, total int, state string) {
		first := p.peers("u")[0]
		return first.Conns, int(first.Sessions), first.State
	}
	wantWords(t, p.mustWeir("drain", "u/a"), "u/a (", "is drained: no new sessions, ")
	_, before, state := a()
	count := sessions.Load()
	eventually(t, 20*time.Second, "500 more sessions", func() bool { return sessions.Load() > count+500 })
	if conns, total, _ := a(); total != before || state != "draining" || conns < len(held["a"]) {
		t.Errorf("a is %s with %d sessions and was picked %d times during the drain", state, conns, total-before)
	}
	for _, c := range held["a"] {
		io.WriteString(c, "x")
		c.Close()
	}
	eventually(t, 5*time.Second, "the drained server has no session", func() bool { conns, _, _ := a(); return conns == 0 })
	wantWords(t, p.mustWeir("up", "u/a"), "u/a (", "is up, weight 1")
	eventually(t, 5*time.Second, "the server is used again", func() bool { _, total, _ := a(); return total > before })
	close(stop)
	for range 4 {
		<-loaded
	}
	if failed.Load() > 0 {
		t.Errorf("%d of %d sessions failed", failed.Load(), sessions.Load())
	}
}

func TestWeightAndDown(t *testing.T) {
	t.Parallel()
	p := startOperated(t)
	wantWords(t, p.mustWeir("weight", "u/a", "3"), "u/a (", "is up, weight 3")
	counts := map[string]int{}
	for range 40 {
		c, name := p.connect()
		c.Close()
		counts[name]++
	}
	if counts["a"] != 30 || counts["b"] != 10 {
		t.Errorf("with weights 3 and 1 the sessions went to %v", counts)
	}
	eventually(t, 5*time.Second, "these have ended", func() bool { return p.sessionsNow() == 0 })
	c, name := p.connect()
	for name != "b" {
		c, name = p.connect()
	}
	wantWords(t, p.mustWeir("down", "u/b"), "is down: no new sessions, 1 session on it")
	for range 4 {
		if _, name := p.connect(); name != "a" {
			t.Errorf("a session went to %s", name)
		}
	}
	roundTrip(t, c)
	p.weir("weight", "u/a", "65536").wantFailure(t, 1, "from 1 to 65535")
	p.weir("weight", "u/a", "x").wantFailure(t, 2, `"x" is not a weight`)
	p.weir("drain", "a").wantFailure(t, 2, "write UPSTREAM/PEER")
	p.weir("drain", "u/z").wantFailure(t, 1, `there is no peer in upstream "u" called "z"; there is a, b`)
	p.weir("peers", "nowhere").wantFailure(t, 1, `there is no upstream "nowhere"; there is u`)
}

func TestCloseCommand(t *testing.T) {
	t.Parallel()
	p := startOperated(t)
	c, _ := p.connect()
	other, _ := p.connect()
	all := p.sessions(admin.SessionQuery{}).Sessions
	id := all[0].ID
	if all[0].Client != c.LocalAddr().String() {
		id = all[1].ID
	}
	s := p.weir("close", fmt.Sprint(id), "999999999")
	s.wantFailure(t, 1, "")
	wantWords(t, s.out, fmt.Sprintf("session %d is closed\n", id), "there is no session 999999999\n")
	wantReset(t, c)
	roundTrip(t, other)
	e := p.wantEnd(5*time.Second, "closed_by_operator", 200)
	if e.Listener != "l" {
		t.Errorf("the line is %+v", e)
	}
	wantWords(t, p.mustWeir("explain", fmt.Sprint(id)), "closed_by_operator (status 200)", "its decisions were not recorded", "weir explain --record 10m")
	p.weir("close", fmt.Sprint(id)).wantFailure(t, 1, fmt.Sprintf("session %d has ended already: closed_by_operator", id))
	p.weir("close", "x").wantFailure(t, 2, `"x" is not the number of a session`)
}

// What explain says of the next session is what that gets, before a failure and
// after it; and the session itself tells of the failure.
func TestExplainCommand(t *testing.T) {
	t.Parallel()
	dead := freeAddr(t)
	p := start(t, operated, vars{"a": dead, "b": serve(t, greeter("b"))})
	next := func() (peer, sentence string) {
		var f struct{ Peer, Sentence string }
		p.weirJSON(&f, "explain", "u")
		return f.Peer, f.Sentence
	}
	p.mustWeir("explain", "--record", "10m")
	if peer, why := next(); peer != "a" || !strings.HasPrefix(why, "picked a by current weight") {
		t.Errorf("before the failure: %s, %s", peer, why)
	}
	p.connect() // a refuses, so b
	peer, why := next()
	if peer != "b" || !strings.Contains(why, "left out: a (unavailable until ") {
		t.Errorf("after the failure: %s, %s", peer, why)
	}
	if _, got := p.connect(); got != peer {
		t.Errorf("the forecast was %s, the session went to %s", peer, got)
	}
	first := p.sessions(admin.SessionQuery{}).Sessions[0].ID
	wantWords(t, p.mustWeir("explain", fmt.Sprint(first)), "tries       2", "picked a by current weight", "connecting to a ("+dead+")", "refused", "picked b by current weight")
	p.mustWeir("explain", "--record", "off")
	c, _ := p.connect()
	c.Close()
	ended := admin.SessionQuery{Ended: true}
	eventually(t, 5*time.Second, "the session has ended", func() bool { return p.sessions(ended).Total == 1 })
	last := p.sessions(ended).Sessions[0]
	wantWords(t, p.mustWeir("explain", fmt.Sprint(last.ID)), "its decisions were not recorded")
	p.weir("explain", "4711", "--record", "on").wantFailure(t, 2, "takes no name")
	p.weir("explain").wantFailure(t, 2, "explain what?")
	p.weir("explain", "1234567").wantFailure(t, 1, "there is no session 1234567")
}

func TestTokenOverTCP(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	addr := freeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	config := strings.Replace(operated, `listen = "unix:$dir/admin.sock"`, "listen = \"0.0.0.0:$port\"\ntoken_file = \"$token\"", 1)
	p := start(t, config, vars{"a": serve(t, greeter("a")), "b": serve(t, greeter("b")), "port": port, "token": write("token", "a-token-of-some-length\n")})
	wantWords(t, p.mustWeir("status"), "weir ")
	p.weirWith(nil, "status", "--admin", addr).wantFailure(t, 1, addr+": this control API asks for its token")
	p.weirWith(nil, "status", "--admin", addr).wantFailure(t, 1, "--token-file or WEIR_TOKEN_FILE")
	p.weir("status", "--token-file", write("wrong", "another-token-of-some-length")).wantFailure(t, 1, "wrong token")
	withVariables := func(cmd *exec.Cmd) {
		cmd.Env = append(os.Environ(), "WEIR_ADMIN="+addr, "WEIR_TOKEN_FILE="+filepath.Join(dir, "token"))
	}
	if s := p.weirWith(withVariables, "status"); s.code != 0 {
		t.Errorf("with variables: %s", s.err)
	}
	if text := p.stderr.String(); strings.Contains(text, "a-token") {
		t.Error("the token is in the log")
	}
	// It is changed by a reload.
	write("token", "the-token-after-that-one")
	p.weirWith(nil, "status", "--admin", addr, "--token-file", filepath.Join(dir, "token")).wantFailure(t, 1, "wrong token")
	p.signal(syscall.SIGHUP)
	eventually(t, 5*time.Second, "reloaded", func() bool { return len(p.logged("reloaded")) == 1 })
	wantWords(t, p.mustWeir("status"), "weir ")
}

// Another user may not use the socket.
func TestSocketOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		missing(t, "root, to be another user")
	}
	p := startOperated(t)
	readable := filepath.Join(p.dir, "weir")
	// Not written by this process: a child that another test starts meanwhile
	// would hold the file open for writing, and it could not be run (ETXTBSY).
	if text, err := exec.Command("install", "-m", "755", binary, readable).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	asNobody := func(cmd *exec.Cmd) {
		cmd.Path = readable
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	p.weirWith(asNobody, "status", "-c", filepath.Join(p.dir, "weir.hcl")).wantFailure(t, 1, "this user may not use unix:"+p.dir+"/admin.sock: be its owner (sudo), or in the group")
}

// What a killed weir leaves behind is no hindrance; one that runs is.
func TestSocketLeftBehind(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	config := strings.ReplaceAll(operated, "$dir", dir)
	v := func() vars {
		return vars{"a": serve(t, greeter("a")), "b": serve(t, greeter("b"))}
	}
	first := start(t, config, v())
	second := launch(t, where{}, config, v())
	second.wantStartFailure("weir: open control API: somebody listens on unix:" + dir + "/admin.sock already: is weir running?")
	first.ended = true
	first.signal(syscall.SIGKILL)
	<-first.done
	if _, err := os.Lstat(dir + "/admin.sock"); err != nil {
		t.Fatal(err)
	}
	first.weir("status").wantFailure(t, 1, "does weir run?")
	third := start(t, config, v())
	wantWords(t, third.mustWeir("status"), "weir ")
	info, err := os.Stat(dir + "/admin.sock")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %v: %v", info.Mode(), err)
	}
	third.stop()
	if _, err := os.Lstat(dir + "/admin.sock"); err == nil {
		t.Error("the socket outlives weir")
	}
}

func TestControlAPICannotOpen(t *testing.T) {
	t.Parallel()
	for place, why := range map[string]string{
		"unix:/nonesuch/admin.sock":                   "weir: open control API: listen on unix:/nonesuch/admin.sock: there is no directory /nonesuch; make it",
		"192.0.2.1:9091\"\n token_file = \"/nonesuch": "weir: open control API: read token_file: open /nonesuch: no such file or directory",
	} {
		p := launch(t, where{}, strings.Replace(operated, "unix:$dir/admin.sock", place, 1), vars{"a": "127.0.0.1:9", "b": "127.0.0.1:10"})
		p.wantStartFailure(why)
	}
}

// editConfig changes the configuration file.
func (p *proxy) editConfig(old, replacement string) {
	p.t.Helper()
	path := filepath.Join(p.dir, "weir.hcl")
	text, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(text, []byte(old)) {
		p.t.Fatalf("no %q in the configuration: %v", old, err)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte(old), []byte(replacement), 1), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func TestReloadCommand(t *testing.T) {
	t.Parallel()
	p := startOperated(t)
	c, name := p.connect()
	other := map[string]string{"a": "b", "b": "a"}[name]

	p.editConfig(`{ name = "`+name+`" }`, `{ nam = "`+name+`" }`)
	for _, args := range [][]string{{"reload"}, {"reload", "--dry-run"}} {
		s := p.weir(args...)
		s.wantFailure(t, 1, "weir.hcl has mistakes: the old configuration stays")
		wantWords(t, s.err, `unknown word "nam" in a server block`, `Write "name".`)
	}
	if s := p.weir("peers"); s.code != 0 { // the admin block is found in a file with mistakes
		t.Errorf("weir peers: %s", s.err)
	}
	s := p.weir("diff")
	s.wantFailure(t, 1, `unknown word "nam"`)

	p.editConfig(`{ nam = "`+name+`" }`, `{ name = "other" }`)
	var diff struct {
		DryRun   bool `json:"dry_run"`
		Affected int  `json:"sessions_affected"`
		Ended    int  `json:"sessions_ended"`
		Changes  struct{ Added, Removed []string }
	}
	for _, args := range [][]string{{"diff"}, {"reload", "--dry-run", "--require-safe"}} {
		p.weirJSON(&diff, args...)
		if !diff.DryRun || diff.Affected != 1 || diff.Ended != 0 || len(diff.Changes.Added) != 1 || len(diff.Changes.Removed) != 1 {
			t.Errorf("weir %v: %+v", args, diff)
		}
	}
	text := p.mustWeir("diff")
	wantWords(t, text, "a reload would change:", "added     u/other (", "removed   u/"+name+" (", "1 session of what is removed; they run on")
	wantWords(t, p.mustWeir("reload", "--require-safe"), "reloaded:", "added     u/other (", "1 session of what is removed")
	roundTrip(t, c)
	wantWords(t, p.mustWeir("peers"), "other ", other+" ")
	if got := p.logged("reloaded"); len(got) != 1 || got[0]["sessions_affected"] != 1.0 {
		t.Errorf("the log says %v", got)
	}
	wantWords(t, p.mustWeir("status"), "reloaded at ")

	// A signal does the same.
	p.editConfig(`"other"`, `"another"`)
	p.signal(syscall.SIGHUP)
	eventually(t, 5*time.Second, "reloaded by signal", func() bool { return len(p.logged("reloaded")) == 2 })
	wantWords(t, p.mustWeir("peers"), "another ")

	// What can't be done leaves everything as it is.
	p.editConfig(`unix:`+p.dir+`/admin.sock`, `unix:/nonesuch/admin.sock`)
	p.weirWith(nil, "reload", "--admin", p.dir+"/admin.sock").wantFailure(t, 1, "the old configuration stays: open control API: listen on unix:/nonesuch/admin.sock: there is no directory /nonesuch")
	p.editConfig(`unix:/nonesuch/admin.sock`, `unix:`+p.dir+`/moved.sock`)
	wantWords(t, p.weirWith(nil, "reload", "--admin", "unix:"+p.dir+"/admin.sock").out, "reloaded:", "settings  admin")
	wantWords(t, p.mustWeir("peers"), "another ")
	p.weirWith(nil, "status", "--admin", p.dir+"/admin.sock").wantFailure(t, 1, "there is no such socket")
}

// A reload that would end sessions of UDP is refused, if that is asked for.
func TestReloadRequireSafe(t *testing.T) {
	t.Parallel()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for b := make([]byte, 100); ; {
			n, from, err := server.ReadFrom(b)
			if err != nil {
				return
			}
			server.WriteTo(b[:n], from)
		}
	}()
	p := start(t, strings.Replace(operated, "upstream = \"u\"", "upstream = \"u\"\nprotocol = \"udp\"", 1), vars{"a": server.LocalAddr().String(), "b": "127.0.0.1:9"})
	p.mustWeir("down", "u/b")
	c, err := net.Dial("udp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(scaled(5 * time.Second)))
	io.WriteString(c, "x")
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	p.editConfig(`{ name = "a" }`, "{\n name = \"a\"\n down = true\n}")
	for _, args := range [][]string{{"reload", "--require-safe"}, {"reload", "--require-safe", "--dry-run"}} {
		p.weir(args...).wantFailure(t, 1, "the old configuration stays: it would end 1 session")
	}
	wantWords(t, p.mustWeir("reload", "--dry-run"), "1 session to be ended: UDP clients go on in new ones")
	wantWords(t, p.mustWeir("reload"), "reloaded:")
	p.mustWeir("close", fmt.Sprint(p.sessions(admin.SessionQuery{}).Sessions[0].ID)) // else the stop waits for it
}

// The control API answers while weir drains, and until it has stopped.
func TestControlAPIDuringADrain(t *testing.T) {
	t.Parallel()
	p := startOperated(t)
	c, _ := p.connect()
	p.ended = true
	p.signal(syscall.SIGTERM)
	p.waitRefusing()
	wantWords(t, p.mustWeir("status"), "not ready  draining", "1 now")
	p.weir("reload").wantFailure(t, 1, "the server is stopping")
	p.mustWeir("close", fmt.Sprint(p.sessions(admin.SessionQuery{}).Sessions[0].ID))
	wantReset(t, c)
	p.wantExit(5*time.Second, 0)
	if _, err := os.Lstat(filepath.Join(p.dir, "admin.sock")); err == nil {
		t.Error("the socket outlives weir")
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	p := startOperated(t)
	file := filepath.Join(p.dir, "weir.hcl")
	for _, test := range []struct {
		args []string
		word string
	}{
		{[]string{"peers", "--watch=100ms"}, "upstream u"},
		{[]string{"status", "--watch=100ms", "--json"}, `{"version"`},
	} {
		cmd := exec.Command(binary, append(test.args, "-c", file)...)
		out := new(output)
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, "three answers", func() bool { return strings.Count(out.String(), test.word) >= 3 })
		cmd.Process.Signal(syscall.SIGINT)
		if code := exitCode(cmd.Wait()); code != 0 {
			t.Errorf("weir %v ended with %d: %s", test.args, code, out)
		}
	}
	p.weir("peers", "--watch=1ms").wantFailure(t, 2, "an interval of at least 100ms")
}

// With --json standard output is JSON, line by line, while nobody answers too.
func TestWatchAWeirThatIsAway(t *testing.T) {
	t.Parallel()
	p := startOperated(t)
	cmd := exec.Command(binary, "status", "--watch=100ms", "--json", "-c", filepath.Join(p.dir, "weir.hcl"))
	stdout, stderr := new(output), new(output)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "an answer", func() bool { return stdout.String() != "" })
	p.stop()
	const away = "nothing listens on"
	eventually(t, 10*time.Second, "it says that weir is away", func() bool { return strings.Contains(stdout.String()+stderr.String(), away) })
	cmd.Process.Signal(syscall.SIGINT)
	if code := exitCode(cmd.Wait()); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	for line := range strings.Lines(stdout.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("standard output has the line %q", line)
		}
	}
	wantWords(t, stderr.String(), away)
}

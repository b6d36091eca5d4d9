package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlb/weir/stream/admin"
)

// scene is what all configurations of a reload test have in common.
type scene struct {
	dir         string
	short, long string   // listening addresses
	extra       []string // listening addresses that come and go
	servers     []string // of upstream "short"
	a, b, c     string   // of upstream "long"

	peers map[string]*server // all of them, by address
}

// act is one configuration in a scene.
type act struct {
	workers       int
	steering      string
	method        string // of upstream "short"
	weights       []int  // of its servers, 0 = it is not there
	long          bool   // there is a listener "long"
	a, b, c       int    // weights in upstream "long", 0 = it is not there
	extra         []bool
	idle, connect time.Duration
	tries         int
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{dir: tempDir(t), short: freeAddr(t), long: freeAddr(t), peers: map[string]*server{}}
	peer := func(name string) string {
		p := startServer(t, "tcp", "127.0.0.1:0", greeter(name))
		s.peers[p.addr] = p
		return p.addr
	}
	s.a, s.b, s.c = peer("a"), peer("b"), peer("c")
	for range 3 {
		s.extra = append(s.extra, freeAddr(t))
	}
	for range 6 {
		s.servers = append(s.servers, peer("s"))
	}
	return s
}

// plain is the configuration that figures are compared in.
func (s *scene) plain() act {
	return act{
		workers: 2, steering: "auto", method: "round_robin", weights: []int{1, 1, 1, 1, 1, 1}, long: true, a: 1, b: 1,
		extra: make([]bool, len(s.extra)), idle: time.Minute, connect: 5 * time.Second, tries: 2,
	}
}

// random returns any configuration that serves the address of "short" and has
// the servers a and b.
func (s *scene) random(r *rand.Rand) act {
	methods := []string{"round_robin", "weighted_round_robin", "least_conn", "least_time", "random", "ip_hash", "maglev", "first", "epsilon_greedy"}
	x := act{
		workers: 1 + r.IntN(4), steering: "auto", method: methods[r.IntN(len(methods))], long: r.IntN(4) > 0,
		a: 1 + r.IntN(9), b: 1 + r.IntN(9), c: r.IntN(3),
		idle: time.Duration(60+r.IntN(60)) * time.Second, connect: time.Duration(5+r.IntN(5)) * time.Second, tries: 1 + r.IntN(3),
	}
	for range s.servers {
		x.weights = append(x.weights, r.IntN(4))
	}
	x.weights[r.IntN(len(x.weights))] = 1
	for range s.extra {
		x.extra = append(x.extra, r.IntN(2) == 0)
	}
	return x
}

// text is the configuration file.
func (s *scene) text(x act) string {
	var b strings.Builder
	fmt.Fprintf(&b, `
		worker {
		  count    = %d
		  steering = %q
		}
		admin {
		  listen = "unix:%s/admin.sock"
		}
		log {
		  format = "json"
		  access = "%[3]s/access.log"
		}
		upstream "short" {
		  balance %[4]q {%[5]s}
	`, x.workers, x.steering, s.dir, x.method, map[bool]string{true: "\nkey = \"${remote_addr}${remote_port}\"\n"}[x.method == "maglev"])
	server := func(addr, name string, weight int) {
		if weight > 0 {
			fmt.Fprintf(&b, "server %q {\nname = %q\nweight = %d\nmax_fails = 0\n}\n", addr, name, weight)
		}
	}
	for i, addr := range s.servers {
		server(addr, fmt.Sprint("s", i), x.weights[i])
	}
	b.WriteString("}\nupstream \"long\" {\nbalance \"least_conn\" {}\n")
	server(s.a, "a", x.a)
	server(s.b, "b", x.b)
	server(s.c, "c", x.c)
	b.WriteString("}\n")
	listener := func(name, addr, upstream string) {
		fmt.Fprintf(&b, "listener %q {\nlisten = [%q]\nupstream = %q\nidle_timeout = \"%v\"\nconnect_timeout = \"%v\"\nnext_upstream {\ntries = %d\n}\n}\n",
			name, addr, upstream, x.idle, x.connect, x.tries)
	}
	listener("short", s.short, "short")
	if x.long {
		listener("long", s.long, "long")
	}
	for i, there := range x.extra {
		if there {
			listener(fmt.Sprint("extra", i), s.extra[i], []string{"short", "long"}[i%2])
		}
	}
	if !x.long && !(len(x.extra) > 1 && x.extra[1]) { // an upstream wants a listener
		fmt.Fprintf(&b, "listener \"unused\" {\nlisten = [\"unix:%s/unused.sock\"]\nupstream = \"long\"\n}\n", s.dir)
	}
	return b.String()
}

// start runs weir with a configuration of the scene.
func (s *scene) start(t *testing.T, x act) *proxy {
	t.Helper()
	return start(t, s.text(x), vars{"listen": s.short, "access": filepath.Join(s.dir, "access.log")})
}

// setConfig replaces the configuration file.
func (p *proxy) setConfig(text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, "weir.hcl"), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// said counts the lines of the process log with a message, without reading them
// all as logged does.
func (p *proxy) said(msg string) int {
	return strings.Count(p.stderr.String(), `"msg":"`+msg+`"`)
}

// hup has weir read its configuration and waits for it to say so.
func (p *proxy) hup(want string) {
	p.t.Helper()
	other := map[string]string{"reloaded": "not reloaded", "not reloaded": "reloaded"}[want]
	before, not := p.said(want), p.said(other)
	p.signal(syscall.SIGHUP)
	eventually(p.t, 20*time.Second, "weir says: "+want, func() bool {
		if p.said(other) > not {
			p.t.Fatalf("weir has %s", other)
		}
		return p.said(want) > before
	})
}

// reloadTo changes to a configuration, by signal or by command in turn.
func (p *proxy) reloadTo(turn int, text string) {
	p.t.Helper()
	p.setConfig(text)
	if turn%2 == 0 {
		p.hup("reloaded")
		return
	}
	wantWords(p.t, p.mustWeir("reload"), "reloaded:")
}

// wantNotReloaded expects a configuration to change nothing, and both ways to
// reload to say why.
func (p *proxy) wantNotReloaded(text string, why ...string) {
	p.t.Helper()
	before := p.shape()
	p.setConfig(text)
	from := len(p.stderr.String())
	p.hup("not reloaded")
	// What is wrong in the file goes before the line, another error is in it.
	wantWords(p.t, p.stderr.String()[from:], why...)
	s := p.weir("reload")
	s.wantFailure(p.t, 1, "the old configuration stays")
	wantWords(p.t, s.err, why...)
	if after := p.shape(); after != before {
		p.t.Errorf("a reload that failed has changed\n%s\nto\n%s", before, after)
	}
}

// shape describes what is configured.
func (p *proxy) shape() string {
	p.t.Helper()
	status := p.status()
	out := fmt.Sprintf("%d workers", status.Workers)
	for _, x := range status.Listeners {
		out += fmt.Sprintf("\n%s %s %v %s", x.Name, x.Protocol, x.Addresses, x.Upstream)
	}
	for _, x := range status.Upstreams {
		out += fmt.Sprintf("\n%s %s %d", x.Name, x.Method, x.Peers)
	}
	for _, x := range p.peers("") {
		out += fmt.Sprintf("\n%s %s %s %s %d", x.Upstream, x.Name, x.Address, x.Admin, x.Weight)
	}
	return out
}

// conns returns how many connections each peer of an upstream is said to have.
func (p *proxy) conns(upstream string) map[string]int {
	p.t.Helper()
	out := map[string]int{}
	for _, x := range p.peers(upstream) {
		out[x.Name] += x.Conns
	}
	return out
}

// fixedFDs counts descriptors that are no pipes, of which an idle weir keeps
// some.
func (p *proxy) fixedFDs() int { return countFDs(p.pid) - countFDs(p.pid, "pipe:") }

// threads counts a process's threads.
func threads(pid int) int {
	all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	return len(all)
}

// mib writes amounts of memory.
func mib(bytes ...int) (text string) {
	for _, n := range bytes {
		text += fmt.Sprintf(" %.1f", float64(n)/(1<<20))
	}
	return text
}

// wantOneProcess expects weir to be the process that was started, without
// children.
func (p *proxy) wantOneProcess() {
	p.t.Helper()
	if p.exited() {
		p.t.Fatal("weir has ended")
	}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.pid))
	for _, path := range lists {
		if text, _ := os.ReadFile(path); len(text) > 0 {
			p.t.Errorf("weir has children: %s", text)
		}
	}
}

// shortSessions are clients that connect, ask, and go, again and again.
type shortSessions struct {
	addr                 string
	done                 atomic.Int64 // with the right answer
	refused, reset, lost atomic.Int64
	first                atomic.Pointer[error]
	stopping             atomic.Bool
	running              sync.WaitGroup

	late func(client net.Addr) // told of the first session whose greeting does not come
}

// startShortSessions has clients of upstream "short" come and go.
func (s *scene) startShortSessions(p *proxy, clients int) *shortSessions {
	t := p.t
	t.Helper()
	var once sync.Once
	l := &shortSessions{addr: s.short, late: func(client net.Addr) { once.Do(func() { s.tellOfStuck(p, client) }) }}
	for range clients {
		l.running.Go(func() {
			for !l.stopping.Load() {
				l.count(l.session())
			}
		})
	}
	t.Cleanup(l.stop)
	return l
}

func (l *shortSessions) session() error {
	c, err := tryDial(l.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	name := make([]byte, 2) // the server's
	c.SetReadDeadline(time.Now().Add(scaled(10 * time.Second)))
	n, err := io.ReadFull(c, name)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		l.late(c.LocalAddr())
		c.SetReadDeadline(time.Now().Add(scaled(20 * time.Second)))
		_, err = io.ReadFull(c, name[n:])
	}
	if err != nil {
		return fmt.Errorf("read greeting: %w", err)
	}
	c.SetDeadline(time.Now().Add(scaled(30 * time.Second)))
	return tryRoundTrip(c)
}

// tellOfStuck logs what there is to know of a session whose server has not said
// its name: who has not done what the others wait for?
func (s *scene) tellOfStuck(p *proxy, client net.Addr) {
	t, ctx := p.t, context.Background()
	all, err := p.control.Sessions(ctx, admin.SessionQuery{Listener: "short"})
	if err != nil {
		t.Logf("%v waits for its greeting, and weir does not answer: %v", client, err)
		return
	}
	t.Logf("%v waits for its greeting; weir has %d short sessions", client, all.Total)
	for _, x := range all.Sessions {
		t.Logf("session %d of %s: %s with %s (%s), %.1f s old, idle for %.1f s, %d bytes from the peer", x.ID, x.Client, x.Phase, x.Peer, x.PeerAddress, x.AgeSeconds, x.IdleSeconds, x.UpstreamBytesReceived)
		if x.Client != client.String() {
			continue
		}
		e, err := p.control.ExplainSession(ctx, x.ID)
		t.Logf("weir explains it: %+v, %v", e, err)
		if peer := s.peers[x.PeerAddress]; peer != nil {
			t.Logf("its peer %s has accepted %d connections; of those below it has not accepted the ones without an inode:\n%s", peer.addr, peer.accepted.Load(), socketsAt(peer.addr))
		}
	}
	for _, metric := range []string{"ListenOverflows", "ListenDrops", "SyncookiesSent", "SyncookiesFailed"} {
		t.Logf("%s %d", metric, kernelCount(metric))
	}
}

func (l *shortSessions) count(err error) {
	switch {
	case err == nil:
		l.done.Add(1)
		return
	case errors.Is(err, syscall.ECONNREFUSED):
		l.refused.Add(1)
	case errors.Is(err, syscall.ECONNRESET):
		l.reset.Add(1)
	default:
		l.lost.Add(1)
	}
	l.first.CompareAndSwap(nil, &err)
}

// await waits until that many sessions have ended well.
func (l *shortSessions) await(t *testing.T, n int64) {
	t.Helper()
	eventually(t, 60*time.Second, fmt.Sprintf("%d short sessions", n), func() bool { return l.done.Load() >= n })
}

func (l *shortSessions) stop() {
	l.stopping.Store(true)
	l.running.Wait()
}

// wantAllServed stops the load, of which no session may have failed.
func (l *shortSessions) wantAllServed(t *testing.T) {
	t.Helper()
	l.stop()
	if l.refused.Load()+l.reset.Load()+l.lost.Load() > 0 {
		t.Errorf("of %d short sessions %d were refused, %d reset, %d failed otherwise; the first: %v",
			l.done.Load(), l.refused.Load(), l.reset.Load(), l.lost.Load(), *l.first.Load())
	}
}

// talks are long sessions, of which each asks a small question about every
// 50 ms and looks at the answer.
type talks struct {
	answers  atomic.Int64
	lost     atomic.Int64
	stopping chan struct{}
	running  sync.WaitGroup
	conns    []stream
	servers  map[string]int // sessions by the server's name
}

// startTalks opens sessions one after the other, to servers that are greeters.
func startTalks(t *testing.T, addr string, n int) *talks {
	t.Helper()
	k := &talks{stopping: make(chan struct{}), servers: map[string]int{}}
	for i := range n {
		c := dial(t, addr)
		name := make([]byte, 2)
		if _, err := io.ReadFull(c, name); err != nil {
			t.Fatal(err)
		}
		k.servers[strings.TrimSpace(string(name))]++
		k.conns = append(k.conns, c)
		k.running.Go(func() { k.talk(t, i, c) })
	}
	t.Cleanup(k.stop)
	return k
}

func (k *talks) talk(t *testing.T, id int, c net.Conn) {
	answer := make([]byte, 64)
	for turn := 0; ; turn++ {
		question := fmt.Sprintf("session %d asks %d\n", id, turn)
		c.SetDeadline(time.Now().Add(scaled(20 * time.Second)))
		_, err := io.WriteString(c, question)
		if err == nil {
			_, err = io.ReadFull(c, answer[:len(question)])
		}
		if err == nil && string(answer[:len(question)]) != question {
			err = fmt.Errorf("asked %q, got %q", question, answer[:len(question)])
		}
		if err != nil {
			k.lost.Add(1)
			t.Errorf("long session %d, turn %d: %v", id, turn, err)
			return
		}
		k.answers.Add(1)
		select {
		case <-k.stopping:
			return
		case <-time.After(time.Duration(40+rand.IntN(20)) * time.Millisecond):
		}
	}
}

// stop has all sessions get their last answer, and leaves them open.
func (k *talks) stop() {
	select {
	case <-k.stopping:
	default:
		close(k.stopping)
	}
	k.running.Wait()
}

func (k *talks) close() {
	k.stop()
	for _, c := range k.conns {
		c.Close()
	}
}

// Reloads change everything that can be changed while clients come and go and
// others stay: nobody notices.
func TestReloadsUnderLoad(t *testing.T) {
	sessions, held, reloads := int64(4_000), 100, 20
	if long {
		sessions, held, reloads = 40_000, 500, 100
	}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	s := newScene(t)
	taken := serve(t, echo)
	p := s.start(t, s.plain())
	// Whatever is made at the first use is there.
	s.startShortSessions(p, 4).stop()
	p.hup("reloaded")
	eventually(t, 10*time.Second, "no session is left", func() bool { return p.sessionsNow() == 0 })
	base := p.fixedFDs()

	k := startTalks(t, s.long, held)
	if n := k.servers["a"]; n != held/2 {
		t.Fatalf("%d of %d sessions came to a", n, held)
	}
	l := s.startShortSessions(p, 8)
	l.await(t, sessions/20)
	begin, bad := time.Now(), 0
	var memory []int
	for i := range reloads {
		if i%(reloads/10) == 0 {
			memory = append(memory, rssAnon(t, p.pid))
		}
		l.await(t, sessions*int64(i+1)/int64(reloads+1))
		x := s.random(r)
		p.reloadTo(i, s.text(x))
		if i%10 == 5 {
			bad += 2
			p.wantNotReloaded(strings.Replace(s.text(s.random(r)), "weight =", "wieght =", 1), `unknown word "wieght" in a server block`)
			y := s.random(r)
			p.wantNotReloaded(s.text(y)+fmt.Sprintf("listener \"taken\" {\nlisten = [%q]\nupstream = \"short\"\n}\n", taken), "address already in use")
		}
	}
	took := time.Since(begin)
	l.await(t, sessions)
	p.reloadTo(0, s.text(s.plain()))
	l.wantAllServed(t)
	k.stop()
	memory = append(memory, rssAnon(t, p.pid))
	if k.lost.Load() > 0 {
		t.Errorf("%d of %d long sessions were lost (seed %d)", k.lost.Load(), held, seed)
	}
	p.wantOneProcess()

	// The counts are those of the sessions that there are, and rule the next picks.
	eventually(t, 10*time.Second, "only the long sessions are left", func() bool { return p.sessionsNow() == held })
	if got := p.conns("long"); got["a"] != k.servers["a"] || got["b"] != k.servers["b"] {
		t.Errorf("weir counts %v, there are %v", got, k.servers)
	}
	for name, n := range p.conns("short") {
		if n != 0 {
			t.Errorf("weir counts %d connections to %s and there is none", n, name)
		}
	}
	x := s.plain()
	x.a = 3
	p.reloadTo(1, s.text(x))
	more := startTalks(t, s.long, held/5)
	if more.servers["b"] != 0 || p.conns("long")["a"] != held/2+held/5 {
		t.Errorf("with weight 3 for a the sessions went to %v; weir counts %v", more.servers, p.conns("long"))
	}
	crowded := p.fixedFDs() - 2*(held+held/5)
	more.close()
	k.close()
	p.reloadTo(0, s.text(s.plain()))
	eventually(t, 10*time.Second, "all sessions have ended", func() bool { return p.sessionsNow() == 0 })
	last := 0
	eventually(t, 5*time.Second, "the descriptors of the start", func() bool { last = p.fixedFDs(); return last <= base })
	t.Logf("%d reloads and %d that failed in %v (seed %d), %d short sessions, %d answers in %d long ones; descriptors %d before, %d beside the long sessions, %d after; RssAnon in MiB%s; %d threads",
		reloads, bad, took.Round(time.Millisecond), seed, l.done.Load(), k.answers.Load(), held, base, crowded, last, mib(memory...), threads(p.pid))
	// Below that it may be what the collector has not looked at yet.
	if most := max(slices.Max(memory[:len(memory)/2]), 32<<20); !raceEnabled && memory[len(memory)-1] > most+most/2 {
		t.Errorf("memory grows:%s", mib(memory...))
	}

	p.stop()
	served := map[string]int{}
	for _, e := range p.entries() {
		served[e.Listener]++
		if e.Status != 200 || e.CloseReason != "client_closed" {
			t.Errorf("a session is logged as %+v", e)
		}
	}
	if served["short"] < int(l.done.Load()) || served["long"] != held+held/5 {
		t.Errorf("the access log has %v sessions, there were %d short and %d long ones", served, l.done.Load(), held+held/5)
	}
}

// Reloads leave nothing behind, however many.
func TestManyReloadsLeaveNothing(t *testing.T) {
	reloads := 100
	switch {
	case long:
		reloads = 1000
	case raceEnabled:
		reloads = 50 // memory is not looked at
	}
	// A leak shall not hide in what the collector has not looked at yet.
	t.Setenv("GOGC", "10")
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 2))
	s := newScene(t)
	p := s.start(t, s.plain())
	type figures struct{ fds, memory, threads int }
	measure := func() figures {
		p.setConfig(s.text(s.plain()))
		p.hup("reloaded")
		return figures{p.fixedFDs(), rssAnon(t, p.pid), threads(p.pid)}
	}
	begin := time.Now()
	var seen []figures
	for i := range reloads {
		if i%(reloads/5) == 0 {
			seen = append(seen, measure())
		}
		p.setConfig(s.text(s.random(r)))
		p.hup("reloaded")
	}
	took := time.Since(begin)
	first := seen[1] // what is made at the first use is there
	var last figures
	eventually(t, 10*time.Second, "the descriptors of before", func() bool { last = measure(); return last.fds <= first.fds })
	for range 20 { // one look may come just before a collection
		if raceEnabled || last.memory <= first.memory+4<<20 {
			break
		}
		last = measure()
	}
	seen = append(seen, last)
	p.wantOneProcess()
	text := ""
	for _, f := range seen {
		text += fmt.Sprintf(" %d/%s/%d", f.fds, mib(f.memory)[1:], f.threads)
	}
	t.Logf("%d reloads in %v (seed %d); descriptors/RssAnon in MiB/threads:%s", reloads, took.Round(time.Millisecond), seed, text)
	if !raceEnabled && last.memory > first.memory+4<<20 {
		t.Errorf("memory has grown from %d to %d bytes", first.memory, last.memory)
	}
	if last.threads > first.threads+8 {
		t.Errorf("threads have become %d, there were %d", last.threads, first.threads)
	}
	// It still does what it is for.
	c, _ := p.connect()
	roundTrip(t, c)
}

// A UDP listener that was removed comes back while sessions of it still run.
func TestReloadBringsBackAUDPListener(t *testing.T) {
	t.Parallel()
	server, _ := serveUDP(t, echoUDP)
	p := startUDP(t, oneUDPServer, vars{"server": server, "udp": ""})
	with := p.config()
	c := dialUDP(t, p.addr)
	if askUDP(c, "before", 3*time.Second) != "before" {
		t.Fatal("no answer")
	}
	other := strings.ReplaceAll(with, p.addr, "127.0.0.1:"+freeUDPPort(t))
	for range 3 {
		p.setConfig(other)
		p.hup("reloaded")
		if got := askUDP(c, "meanwhile", 3*time.Second); got != "meanwhile" {
			t.Errorf("the session of the listener that went answers %q", got)
		}
		p.setConfig(with)
		p.hup("reloaded")
		for _, client := range []*net.UDPConn{c, dialUDP(t, p.addr)} {
			if got := askUDP(client, "after", 3*time.Second); got != "after" {
				t.Errorf("the listener that came back answers %q", got)
			}
		}
	}
}

// A worker that leaves and one that came later with its number write down all
// their sessions, also when these end at the same time.
func TestLogOfWorkersThatLeave(t *testing.T) {
	t.Parallel()
	const each = 300
	s := newScene(t)
	x := s.plain()
	p := s.start(t, x)
	var held []stream
	rounds := 4
	for range rounds {
		held = append(held, startBurst(t, s.short, each)...)
		x.workers = 1
		p.setConfig(s.text(x))
		p.hup("reloaded")
		x.workers = 2
		p.setConfig(s.text(x))
		p.hup("reloaded")
	}
	for _, c := range held {
		c.Close()
	}
	eventually(t, 10*time.Second, "all sessions have ended", func() bool { return p.sessionsNow() == 0 })
	p.stop()
	seen := map[string]int{}
	for _, e := range p.entries() {
		seen[fmt.Sprint(e.Listener, " ", e.Status, " ", e.CloseReason)]++
	}
	if len(seen) != 1 || seen["short 200 client_closed"] != rounds*each {
		t.Errorf("%d sessions were held, the access log has %v", rounds*each, seen)
	}
}

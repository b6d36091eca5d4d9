package integration_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/admin"
)

// This file replaces a weir under load by one process after the other.

// startUpgradable is start for a weir that is replaced: p.pid is always the
// process in charge. What one process after the other writes comes to p.stderr,
// whose end, and with it p.done, comes with that of the last.
func startUpgradable(t *testing.T, config string, v vars) *proxy {
	t.Helper()
	p := start(t, config, v)
	t.Cleanup(func() {
		syscall.Kill(p.pid, syscall.SIGTERM)
		for deadline := time.Now().Add(scaled(10 * time.Second)); !processGone(p.pid); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("process %d does not end", p.pid)
				syscall.Kill(p.pid, syscall.SIGKILL)
				return
			}
		}
	})
	p.guardSuccessor()
	return p
}

// guardSuccessor has the process in charge killed if the test binary dies.
// Pdeathsig does so for the first one only.
func (p *proxy) guardSuccessor() {
	p.t.Helper()
	guard := exec.Command("sh", "-c", `while read pid; do last=$pid; done; kill -9 "$last"`)
	told, err := guard.StdinPipe()
	if err == nil {
		err = guard.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	guards.Store(p, told)
	p.t.Cleanup(func() {
		guards.Delete(p)
		guard.Process.Kill() // before its input ends
		guard.Wait()
	})
}

var guards sync.Map // *proxy to io.Writer

// become notes which process is in charge now.
func (p *proxy) become(pid int) {
	p.t.Helper()
	p.pid = pid
	told, ok := guards.Load(p)
	if !ok {
		p.t.Fatal("an upgrade of a weir that was not started by startUpgradable")
	}
	fmt.Fprintln(told.(io.Writer), pid)
}

func processGone(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	return err != nil || rest[0] == 'Z' // PID 1 may be slow to reap
}

// upgradeJSON is what `weir upgrade --json` says.
type upgradeJSON struct {
	Pid, From int
	Moved     int `json:"sessions_moved"`
	Left      int `json:"sessions_left"`
}

// upgrade has weir replaced, and returns at once when it is.
func (p *proxy) upgrade(args ...string) upgradeJSON {
	p.t.Helper()
	var u upgradeJSON
	p.weirJSON(&u, append([]string{"upgrade"}, args...)...)
	if u.From != p.pid || u.Pid == p.pid {
		p.t.Errorf("process %d was in charge, and %+v", p.pid, u)
	}
	p.become(u.Pid)
	return u
}

// upgradeBySignal is upgrade with SIGUSR2.
func (p *proxy) upgradeBySignal() {
	p.t.Helper()
	before := len(p.logged("draining"))
	syscall.Kill(p.pid, syscall.SIGUSR2)
	eventually(p.t, 20*time.Second, "SIGUSR2 has weir replaced", func() bool { return len(p.logged("draining")) > before })
	pid, _ := p.logged("draining")[before]["successor"].(float64)
	p.become(int(pid))
}

// statusPid asks who answers on the control API.
func (p *proxy) statusPid() int {
	p.t.Helper()
	return p.status().PID
}

func (p *proxy) wantGone(pid int) {
	p.t.Helper()
	eventually(p.t, 3*time.Second, fmt.Sprintf("the old process %d has ended", pid), func() bool { return processGone(pid) })
}

// upgradeWindow numbers the upgrade that is under way, from 1 on; 0 is none.
type upgradeWindow struct{ now atomic.Int32 }

// talker is a session of questions and answers that runs on.
type talker struct {
	c     net.Conn
	r     *rand.Rand
	said  int64
	worst map[int32]time.Duration // the longest answer, by upgrade
	usual []time.Duration         // answers between upgrades
	began time.Time
	err   error
}

func newTalker(t *testing.T, addr string, id int) *talker {
	t.Helper()
	c := dial(t, addr)
	a := &talker{c: c, r: rand.New(rand.NewPCG(uint64(id), 1)), worst: map[int32]time.Duration{}, began: time.Now()}
	if err := a.exchange(10); err != nil {
		t.Fatal(err)
	}
	return a
}

// exchange sends so many random bytes, which must come back.
func (a *talker) exchange(n int) error {
	a.c.SetDeadline(time.Now().Add(scaled(10 * time.Second)))
	question := make([]byte, n)
	for i := range question {
		question[i] = byte(a.r.Uint32())
	}
	if _, err := a.c.Write(question); err != nil {
		return err
	}
	a.said += int64(n)
	answer := make([]byte, n)
	if _, err := io.ReadFull(a.c, answer); err != nil {
		return err
	}
	if !bytes.Equal(question, answer) {
		return errors.New("the answer is not the question")
	}
	return nil
}

func (a *talker) talk(w *upgradeWindow, stop <-chan struct{}, think time.Duration) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(think/2 + time.Duration(a.r.Int64N(int64(think)))):
		}
		n := 1 + a.r.IntN(1000)
		if a.r.IntN(20) == 0 {
			n *= 60 // enough to be spliced
		}
		k, begin := w.now.Load(), time.Now()
		if a.err = a.exchange(n); a.err != nil {
			return
		}
		took := time.Since(begin)
		if k = max(k, w.now.Load()); k > 0 {
			a.worst[k] = max(a.worst[k], took)
		} else if n <= 1000 {
			a.usual = append(a.usual, took)
		}
	}
}

func percentiles(d []time.Duration) string {
	if len(d) == 0 {
		return "none"
	}
	slices.Sort(d)
	at := func(p int) time.Duration { return d[min(len(d)-1, len(d)*p/100)].Round(10 * time.Microsecond) }
	return fmt.Sprintf("p50 %v, p99 %v, most %v", at(50), at(99), d[len(d)-1].Round(10*time.Microsecond))
}

const upgradeConfig = `
	worker { count = 2 }
	admin {
	  listen  = "unix:$dir/admin.sock"
	  metrics = "$metrics"
	}
	upstream "long" {
	  balance "least_conn" {}
	  server "$a" { name = "a" }
	  server "$b" { name = "b" }
	}
	upstream "short" {
	  server "$short" {}
	}
	upstream "bulk" {
	  server "$bulk" {}
	}
	upstream "odd" {
	  server "$odd" {}
	}
	listener "long" {
	  listen   = ["$listen", "unix:$dir/long.sock"]
	  upstream = "long"
	}
	listener "short" {
	  listen   = ["$toShort"]
	  upstream = "short"
	}
	listener "bulk" {
	  listen   = ["$toBulk"]
	  upstream = "bulk"
	}
	listener "odd" {
	  listen   = ["$toOdd"]
	  upstream = "odd"
	}
	log {
	  format = "json"
	  access = "$access"
	  fields = ["listener", "remote_addr", "remote_port", "status", "close_reason", "bytes_received", "bytes_sent", "session_time", "tries", "pid"]
	}`

// digester reads to the end and answers with the SHA-256 of all.
func digester(c net.Conn) {
	h := sha256.New()
	if _, err := io.Copy(h, c); err == nil {
		c.Write(h.Sum(nil))
	}
}

// sendForever sends at full speed until stop, and compares what the other side
// makes of it.
func sendForever(c net.Conn, stop <-chan struct{}) (sent int64, err error) {
	c.SetDeadline(time.Time{})
	buf, h := randomBytes(1<<20), sha256.New()
	for stopped := false; !stopped; {
		select {
		case <-stop:
			stopped = true
		default:
		}
		copy(buf, strconv.FormatInt(sent, 10)) // no two pieces are the same
		n, err := c.Write(buf)
		h.Write(buf[:n])
		sent += int64(n)
		if err != nil {
			return sent, err
		}
	}
	c.SetDeadline(time.Now().Add(scaled(30 * time.Second)))
	return sent, endAndCompare(c, h.Sum(nil))
}

// endAndCompare ends the output and wants that answer, and the end.
func endAndCompare(c net.Conn, want []byte) error {
	if err := c.(stream).CloseWrite(); err != nil {
		return err
	}
	got, err := io.ReadAll(c)
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("the answer is %d bytes and another one than wanted", len(got))
	}
	return err
}

// oddities are sessions in states that are rarely seen. The first byte that a
// client sends chooses; release ends the wait of all.
type oddities struct {
	t       *testing.T
	release chan struct{}
	results chan error // of the server's side of 'e' and of nobody else
	ends    []func() error
}

// oddBytes is more than sockets and pipes hold.
const oddBytes = 6 << 20

// serve is the peer's side.
func (o *oddities) serve(c net.Conn) {
	kind := make([]byte, 1)
	if _, err := io.ReadFull(c, kind); err != nil {
		return
	}
	switch kind[0] {
	case 'c': // the client ends first
		question, err := io.ReadAll(c)
		if err != nil {
			return
		}
		<-o.release
		sum := sha256.Sum256(question)
		c.Write(append(sum[:], question...))
	case 'e': // the peer ends first
		io.WriteString(c, "that was all")
		c.(stream).CloseWrite()
		got, err := io.ReadAll(c)
		if err == nil && !bytes.Equal(got, randomBytes(oddBytes)) {
			err = fmt.Errorf("%d bytes have come, which are others", len(got))
		}
		o.results <- err
	case 'd': // the client does not read
		c.Write(randomBytes(oddBytes))
	case 'm': // nor small messages
		for b := randomBytes(oddBytes); len(b) > 0; {
			n, err := c.Write(b[:min(len(b), 700)])
			if err != nil {
				return
			}
			b = b[n:]
		}
	case 'u': // the peer does not read
		<-o.release
		digester(c)
	}
}

// open opens one session of each kind and has it go as far as it can.
func (o *oddities) open(addr string) {
	o.t.Helper()
	begin := func(kind string) net.Conn {
		d := net.Dialer{Control: smallReceiveBuffer}
		c, err := d.Dial("tcp", addr)
		if err != nil {
			o.t.Fatal(err)
		}
		o.t.Cleanup(func() { c.Close() })
		io.WriteString(c, kind)
		return c
	}
	all := randomBytes(oddBytes)
	sum := sha256.Sum256(all)

	client := begin("c")
	client.Write(all[:1<<20])
	client.(stream).CloseWrite()
	o.end("the client's end first", func() error {
		want := sha256.Sum256(all[:1<<20])
		return readExactly(client, append(want[:], all[:1<<20]...))
	})

	peer := begin("e")
	if b, err := io.ReadAll(peer); err != nil || string(b) != "that was all" {
		o.t.Errorf("half-closed by the peer: %q, %v", b, err)
	}
	o.end("the peer's end first", func() error {
		if _, err := peer.Write(all); err != nil {
			return err
		}
		peer.Close()
		return <-o.results
	})

	for _, kind := range []string{"d", "m"} {
		c := begin(kind)
		o.end("a client that does not read, "+kind, func() error { return readExactly(c, all) })
	}

	up := begin("u")
	written := make(chan error, 1)
	go func() {
		_, err := up.Write(all)
		written <- err
	}()
	o.end("a peer that does not read", func() error {
		up.SetDeadline(time.Now().Add(scaled(20 * time.Second)))
		if err := <-written; err != nil {
			return err
		}
		defer up.Close()
		return endAndCompare(up, sum[:])
	})
}

func (o *oddities) end(what string, f func() error) {
	o.ends = append(o.ends, func() error {
		if err := f(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	})
}

func readExactly(c net.Conn, want []byte) error {
	c.SetDeadline(time.Now().Add(scaled(20 * time.Second)))
	c.(*net.TCPConn).SetReadBuffer(1 << 20) // no longer small
	got, err := io.ReadAll(c)
	c.Close()
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("read %d bytes, want %d others", len(got), len(want))
	}
	return err
}

// upgradedLine is a line of upgradeConfig's access log.
type upgradedLine struct {
	entry
	RemoteAddr string `json:"remote_addr"`
	RemotePort int    `json:"remote_port"`
	Pid        int
}

func (p *proxy) upgradedLines() []upgradedLine {
	p.t.Helper()
	text, err := os.ReadFile(p.access)
	if err != nil {
		p.t.Fatal(err)
	}
	var all []upgradedLine
	for line := range strings.Lines(string(text)) {
		var l upgradedLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			p.t.Errorf("access log line %q: %v", line, err)
		}
		all = append(all, l)
	}
	return all
}

// Under a load of short sessions, with long ones that talk, one that transfers at
// full speed, half-closed and stalled ones, weir is replaced again and again, and
// nobody notices but by a short pause.
func TestUpgradeUnderLoad(t *testing.T) {
	upgrades, talkers, think := 4, 60, 20*time.Millisecond
	if long {
		upgrades, talkers, think = 20, 500, 100*time.Millisecond
	}
	odd := &oddities{t: t, release: make(chan struct{}), results: make(chan error, 100)}
	metrics, toShort, toBulk, toOdd := freeAddr(t), freeAddr(t), freeAddr(t), freeAddr(t)
	p := startUpgradable(t, upgradeConfig, vars{
		"a": serve(t, echo), "b": serve(t, echo), "short": serve(t, echo), "bulk": serve(t, digester), "odd": serve(t, odd.serve),
		"metrics": metrics, "toShort": toShort, "toBulk": toBulk, "toOdd": toOdd,
	})
	released := sync.OnceFunc(func() { close(odd.release) })
	t.Cleanup(released) // before the servers wait for their handlers

	var window upgradeWindow
	var all []*talker
	for i := range talkers {
		addr := p.addr
		if i%10 == 9 {
			addr = "unix:" + p.dir + "/long.sock"
		}
		all = append(all, newTalker(t, addr, i))
	}
	stop := make(chan struct{})
	stopOnce := sync.OnceFunc(func() { close(stop) })
	t.Cleanup(stopOnce)
	var talking sync.WaitGroup
	for _, a := range all {
		talking.Go(func() { a.talk(&window, stop, think) })
	}
	for range 3 {
		odd.open(toOdd)
	}
	steady := talkers + 3*5 + 1

	var loading sync.WaitGroup
	var shorts, failed atomic.Int64
	for range 4 {
		loading.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(2 * time.Millisecond):
				}
				if err := shortSession(toShort, shorts.Add(1)); err != nil {
					t.Errorf("a short session, in upgrade %d: %v", window.now.Load(), err)
					if failed.Add(1) > 5 {
						return
					}
				}
			}
		})
	}
	var transferred int64
	bulk := dial(t, toBulk)
	loading.Go(func() {
		begin := time.Now()
		var err error
		if transferred, err = sendForever(bulk, stop); err != nil {
			t.Errorf("the transfer, after %d bytes: %v", transferred, err)
		}
		t.Logf("transferred %d MiB at %.0f MiB/s", transferred>>20, float64(transferred>>20)/time.Since(begin).Seconds())
	})
	eventually(t, 10*time.Second, "all sessions run", func() bool { return p.sessionsNow() >= steady })
	time.Sleep(time.Second)

	firstRSS, firstFDs := rss(t, p.pid), countFDs(p.pid)
	var took []time.Duration
	for k := range upgrades {
		old := p.pid
		window.now.Store(int32(k + 1))
		begin := time.Now()
		if k%4 == 2 {
			p.upgradeBySignal()
		} else if u := p.upgrade(); u.Moved < steady || u.Left > 0 {
			t.Errorf("upgrade %d moved %d sessions of %d, and left %d", k, u.Moved, steady, u.Left)
		}
		took = append(took, time.Since(begin))
		if got := p.statusPid(); got != p.pid {
			t.Errorf("upgrade %d: process %d answers on the control API, %d is in charge", k, got, p.pid)
		}
		peers := p.peers("long")
		if a, b := peers[0].Conns, peers[1].Conns; a+b != talkers || max(a, b)-min(a, b) > 1 {
			t.Errorf("upgrade %d: least_conn counts %d and %d sessions, there are %d", k, a, b, talkers)
		}
		p.wantGone(old)
		window.now.Store(0)
		p.wantUpgradedMetrics(metrics, talkers)
		time.Sleep(200 * time.Millisecond)
	}
	time.Sleep(300 * time.Millisecond)
	lastRSS, lastFDs := rss(t, p.pid), countFDs(p.pid)
	t.Logf("%d upgrades with %d sessions took %s; RSS %.1f and then %.1f MiB, descriptors %d and %d", upgrades, steady, percentiles(took), float64(firstRSS)/(1<<20), float64(lastRSS)/(1<<20), firstFDs, lastFDs)
	if lastRSS > firstRSS*5/4+8<<20 {
		t.Errorf("the first process had %d bytes of memory, the last one %d", firstRSS, lastRSS)
	}
	if lastFDs > firstFDs+p.pooledPipes() {
		t.Errorf("the first process had %d descriptors, the last one %d", firstFDs, lastFDs)
	}

	stopOnce()
	talking.Wait()
	loading.Wait()
	var worst, usual []time.Duration
	for i, a := range all {
		if a.err != nil {
			t.Errorf("long session %d: %v", i, a.err)
		}
		for _, d := range a.worst {
			worst = append(worst, d)
		}
		usual = append(usual, a.usual...)
	}
	t.Logf("the longest answer of a session during an upgrade: %s; answers between upgrades: %s; %d short sessions", percentiles(worst), percentiles(usual), shorts.Load())
	released()
	for _, f := range odd.ends {
		loading.Go(func() {
			if err := f(); err != nil {
				t.Error(err)
			}
		})
	}
	loading.Wait()
	for _, a := range all {
		a.c.Close()
	}
	eventually(t, 10*time.Second, "no session is left", func() bool { return p.sessionsNow() == 0 })
	syscall.Kill(p.pid, syscall.SIGTERM)
	p.wantGone(p.pid)
	p.wantWholeLives(all, int(shorts.Load()), transferred)
	if _, err := os.Lstat(p.dir + "/long.sock"); err == nil {
		t.Error("the unix socket outlives weir")
	}
	if lost := p.logged("access log lost lines"); len(lost) > 0 {
		t.Errorf("the access log is not whole: %v", lost)
	}
	for _, l := range p.logged("accept") {
		t.Errorf("the log says %v", l)
	}
}

// The pause that clients see when nothing else is going on: sessions talk without
// thinking. The control API answers at once for the new process.
func TestUpgradePause(t *testing.T) {
	upgrades := 10
	switch {
	case long:
		upgrades = 100
	case raceEnabled:
		upgrades = 3 // a start takes ten times as long
	}
	p := startUpgradable(t, upgradeOne, vars{"server": serve(t, echo)})
	var window upgradeWindow
	var all []*talker
	stop := make(chan struct{})
	stopOnce := sync.OnceFunc(func() { close(stop) })
	t.Cleanup(stopOnce)
	var talking sync.WaitGroup
	for i := range 8 {
		a := newTalker(t, p.addr, i)
		all = append(all, a)
		talking.Go(func() { a.talk(&window, stop, time.Millisecond) })
	}
	for k := range upgrades {
		old := p.pid
		window.now.Store(int32(k + 1))
		p.upgrade()
		if got := p.statusPid(); got != p.pid {
			t.Errorf("upgrade %d: process %d answers on the control API, %d is in charge", k, got, p.pid)
		}
		p.wantGone(old)
		window.now.Store(0)
	}
	stopOnce()
	talking.Wait()
	var worst, usual []time.Duration
	for i, a := range all {
		if a.err != nil {
			t.Errorf("session %d: %v", i, a.err)
		}
		for _, d := range a.worst {
			worst = append(worst, d)
		}
		usual = append(usual, a.usual...)
	}
	t.Logf("the longest answer of a session during an upgrade: %s; between upgrades: %s", percentiles(worst), percentiles(usual))
}

func shortSession(addr string, n int64) error {
	c, err := tryDial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	question := fmt.Sprintf("hello %d\n", n)
	if _, err := io.WriteString(c, question); err != nil {
		return err
	}
	return endAndCompare(c, []byte(question))
}

// wantUpgradedMetrics waits for the metrics of the process in charge.
func (p *proxy) wantUpgradedMetrics(addr string, talkers int) {
	p.t.Helper()
	eventually(p.t, 3*time.Second, "metrics of the new process", func() bool {
		_, body, err := askMetrics(addr, "/metrics")
		return err == nil && strings.Contains(body, "\nweir_ready 1\n") &&
			strings.Contains(body, fmt.Sprintf("\nweir_listener_sessions{listener=\"long\",protocol=\"tcp\"} %d\n", talkers))
	})
}

// wantWholeLives looks at the access log: each session has one line, with all of
// its bytes and time, whichever processes it has lived in.
func (p *proxy) wantWholeLives(all []*talker, shorts int, transferred int64) {
	p.t.Helper()
	count := map[string]int{}
	byPort := map[int]upgradedLine{}
	var unixBytes []int64
	for _, l := range p.upgradedLines() {
		count[l.Listener]++
		if l.Status != 200 || l.CloseReason != "client_closed" && l.CloseReason != "peer_closed" || l.Tries != 1 {
			p.t.Errorf("a session ended with %+v", l)
		}
		if l.BytesReceived != l.BytesSent && (l.Listener == "long" || l.Listener == "short") {
			p.t.Errorf("an echo is %+v", l)
		}
		switch {
		case l.Listener == "bulk" && (l.BytesReceived != transferred || l.BytesSent != sha256.Size):
			p.t.Errorf("the transfer of %d bytes is %+v", transferred, l)
		case l.Listener == "long" && l.RemotePort == 0:
			unixBytes = append(unixBytes, l.BytesReceived)
		case l.Listener == "long":
			byPort[l.RemotePort] = l
		}
	}
	if count["long"] != len(all) || count["short"] != shorts || count["bulk"] != 1 || count["odd"] != 15 {
		p.t.Errorf("the access log has %v lines, want %d long, %d short, 1 bulk, 15 odd", count, len(all), shorts)
	}
	for _, a := range all {
		tcp, ok := a.c.LocalAddr().(*net.TCPAddr)
		if !ok {
			if !slices.Contains(unixBytes, a.said) {
				p.t.Errorf("no line has the %d bytes of a unix session: %v", a.said, unixBytes)
			}
			continue
		}
		l := byPort[tcp.Port]
		lived := time.Since(a.began).Seconds()
		if l.BytesReceived != a.said || l.SessionTime > lived || l.SessionTime < lived-scaled(8*time.Second).Seconds() || l.Pid != p.pid {
			p.t.Errorf("a session of %d bytes and less than %.1f s is %+v", a.said, lived, l)
		}
	}
}

const upgradeOne = `
	admin { listen = "unix:$dir/admin.sock" }
	worker {
	  shutdown_timeout = "20s"
	}
	` + oneServer

// duringUpgrades replaces weir several times while f runs.
func (p *proxy) duringUpgrades(f func()) (n int) {
	p.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	for {
		select {
		case <-done:
			return n
		case <-time.After(300 * time.Millisecond):
		}
		old := p.pid
		p.upgrade()
		p.wantGone(old)
		n++
	}
}

func TestUpgradePostgres(t *testing.T) {
	pgbench := need(t, "pgbench", "postgresql-contrib")
	tcp, _ := startPostgres(t)
	p := startUpgradable(t, upgradeOne, vars{"server": tcp})
	_, port, _ := net.SplitHostPort(p.addr)
	to := []string{"-h", "127.0.0.1", "-p", port, "-U", "postgres"}
	run(t, 30*time.Second, pgbench, append(to, "-i", "-q", "postgres")...)
	for _, how := range [][]string{{}, {"-S", "-C"}} {
		args := append(slices.Concat(to, how), "-c", "16", "-T", seconds(load), "postgres")
		var out string
		var err error
		n := p.duringUpgrades(func() { out, err = tryRun(load+30*time.Second, pgbench, args...) })
		words := regexp.MustCompile(`(?s)number of failed transactions: 0 .*tps = (\d+)`).FindStringSubmatch(out)
		if err != nil || words == nil || strings.Contains(out, "error") {
			t.Errorf("pgbench %v: %v\n%s", how, err, out)
			continue
		}
		t.Logf("pgbench -c 16 %v: %s transactions/s over %d upgrades", how, words[1], n)
	}
}

func TestUpgradeRedis(t *testing.T) {
	benchmark := need(t, "redis-benchmark", "redis-tools")
	p := startUpgradable(t, upgradeOne, vars{"server": startRedis(t, "a")})
	_, port, _ := net.SplitHostPort(p.addr)
	requests := 30000 * int(load/time.Second)
	var out string
	var err error
	n := p.duringUpgrades(func() {
		out, err = tryRun(load+60*time.Second, benchmark, "-p", port, "-P", "4", "-c", "50", "-n", strconv.Itoa(requests), "-t", "set,get", "-q")
	})
	if err != nil || strings.Contains(strings.ToLower(out), "error") || strings.Count(out, "requests per second") != 2 || n < 1 {
		t.Errorf("redis-benchmark over %d upgrades: %v\n%s", n, err, out)
	}
	t.Logf("redis-benchmark over %d upgrades: %s", n, strings.Join(strings.Fields(out[max(0, len(out)-60):]), " "))
}

const upgradeUDP = `
	admin { listen = "unix:$dir/admin.sock" }
	worker {
	  count            = 2
	  shutdown_timeout = "100ms"
	}
	upstream "u" {
	  server "$server" {}
	}
	listener "l" {
	  listen   = ["$listen"]
	  protocol = "udp"
	  upstream = "u"
	}` + udpLog

// UDP sessions keep their socket to the peer. What the clients send while both
// processes are busy waits in sockets.
func TestUpgradeUDP(t *testing.T) {
	const clients = 40
	upgrades := 4
	if long {
		upgrades = 20
	}
	var mu sync.Mutex
	seen := map[string]map[netip.AddrPort]bool{} // by client, guarded by mu
	server, _ := serveUDP(t, func(c *net.UDPConn, b []byte, from netip.AddrPort) {
		client, _, _ := strings.Cut(string(b), " ")
		mu.Lock()
		if seen[client] == nil {
			seen[client] = map[netip.AddrPort]bool{}
		}
		seen[client][from] = true
		mu.Unlock()
		c.WriteToUDPAddrPort(b, from)
	})
	p := startUpgradable(t, upgradeUDP, vars{"server": server, "listen": "127.0.0.1:" + freeUDPPort(t)})
	var sent, received, foreign, refused atomic.Int64
	stop := make(chan struct{})
	stopOnce := sync.OnceFunc(func() { close(stop) })
	t.Cleanup(stopOnce)
	var running, listening sync.WaitGroup
	for id := range clients {
		c := dialUDP(t, p.addr)
		c.SetReadBuffer(1 << 20)
		listening.Go(func() {
			buf := make([]byte, 2000)
			for {
				n, err := c.Read(buf)
				if errors.Is(err, net.ErrClosed) {
					return
				}
				client, _, _ := strings.Cut(string(buf[:n]), " ")
				switch {
				case err != nil:
					refused.Add(1)
				case client != strconv.Itoa(id):
					foreign.Add(1)
				default:
					received.Add(1)
				}
			}
		})
		running.Go(func() {
			defer c.Close()
			for n := 0; ; n++ {
				if _, err := fmt.Fprintf(c, "%d %d", id, n); err != nil {
					refused.Add(1)
				}
				sent.Add(1)
				select {
				case <-stop:
					time.Sleep(scaled(300 * time.Millisecond)) // the last answers
					return
				case <-time.After(2 * time.Millisecond):
				}
			}
		})
	}
	eventually(t, 5*time.Second, "all sessions", func() bool { return p.sessionsNow() == clients })
	for k := range upgrades {
		old := p.pid
		if u := p.upgrade(); u.Moved != clients || u.Left != 0 {
			t.Errorf("upgrade %d: %+v, want %d moved", k, u, clients)
		}
		p.wantGone(old)
		time.Sleep(100 * time.Millisecond)
	}
	stopOnce()
	running.Wait()
	listening.Wait()
	lost := sent.Load() - received.Load()
	t.Logf("%d of %d datagrams lost in %d upgrades with %d sessions", lost, sent.Load(), upgrades, clients)
	if foreign.Load() > 0 || refused.Load() > 0 {
		t.Errorf("%d answers to another client, %d errors", foreign.Load(), refused.Load())
	}
	if lost < 0 || lost > int64(upgrades*clients) {
		t.Errorf("more than what was in flight is lost: %d", lost)
	}
	mu.Lock()
	for client, from := range seen {
		if len(from) != 1 {
			t.Errorf("client %s came from %d sockets: %v", client, len(from), from)
		}
	}
	mu.Unlock()
	syscall.Kill(p.pid, syscall.SIGTERM)
	p.wantGone(p.pid)
	var bytesReceived, bytesSent int64
	lines := p.udpEntries()
	for _, e := range lines {
		bytesReceived, bytesSent = bytesReceived+e.BytesReceived, bytesSent+e.BytesSent
	}
	if len(lines) != clients || bytesReceived < bytesSent || bytesSent == 0 {
		t.Errorf("%d lines of %d and %d bytes for %d sessions", len(lines), bytesReceived, bytesSent, clients)
	}
}

// busyPort is a port whose accept queue is full: connects to it hang.
func busyPort(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err == nil {
		err = syscall.Listen(fd, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	at, _ := syscall.Getsockname(fd)
	addr := fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port)
	for range 3 {
		c, err := net.DialTimeout("tcp", addr, 100*time.Millisecond)
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
	}
	return addr
}

// A session that connects during the upgrade follows when it is connected.
// Others do not wait for it, and the control API answers all the while.
func TestUpgradeWhileConnecting(t *testing.T) {
	t.Parallel()
	addr := freeAddr(t)
	p := startUpgradable(t, `
		admin { listen = "unix:$dir/admin.sock" }
		worker { count = 1 }
		upstream "slow" {
		  server "$busy" {}
		  server "$server" { backup = true }
		}
		upstream "u" {
		  server "$server" {}
		}
		listener "slow" {
		  listen          = ["$listen"]
		  upstream        = "slow"
		  connect_timeout = "3s"
		}
		listener "l" {
		  listen   = ["$other"]
		  upstream = "u"
		}`, vars{"busy": busyPort(t), "server": serve(t, echo), "other": addr})
	held := dial(t, addr)
	roundTrip(t, held)
	slow := dial(t, p.addr)
	io.WriteString(slow, "ping")
	eventually(t, 5*time.Second, "a session connects", func() bool {
		for _, s := range p.sessions(admin.SessionQuery{}).Sessions {
			if strings.HasPrefix(s.Phase, "connecting") {
				return true
			}
		}
		return false
	})
	old := p.pid
	answered := make(chan said, 1)
	go func() { answered <- p.weir("upgrade", "--json") }()
	eventually(t, 10*time.Second, "the new process is running", func() bool { return len(p.logged("upgrading")) == 1 && len(upgradeChildren(old)) == 1 })
	begin := time.Now()
	within(t, 1500*time.Millisecond, "a session that talks", func() {
		roundTrip(t, held)
		roundTrip(t, dial(t, addr))
	})
	within(t, 1500*time.Millisecond, "the control API during the upgrade", func() { p.statusPid() })
	within(t, 1500*time.Millisecond, "weir peers during the upgrade", func() { p.mustWeir("peers") })
	s := <-answered
	t.Logf("the upgrade took %v", time.Since(begin))
	var u upgradeJSON
	if err := json.Unmarshal([]byte(s.out), &u); err != nil || s.code != 0 {
		t.Fatalf("weir upgrade: %d, %s%s", s.code, s.out, s.err)
	}
	p.become(u.Pid)
	if u.Left != 0 {
		t.Errorf("%+v, want all moved", u)
	}
	p.wantGone(old)
	got := make([]byte, 4)
	if _, err := io.ReadFull(slow, got); err != nil || string(got) != "ping" {
		t.Errorf("the slow session got %q: %v", got, err)
	}
	roundTrip(t, slow)
	roundTrip(t, held)
}

func upgradeChildren(pid int) []string {
	var ids []string
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range tasks {
		text, _ := os.ReadFile(path)
		ids = append(ids, strings.Fields(string(text))...)
	}
	return ids
}

// Without a handover the sessions live on in the old process until they end. Who
// asks how weir is gets the new process's answer all the while.
func TestUpgradeWithoutHandover(t *testing.T) {
	t.Parallel()
	v := vars{"server": serve(t, echo), "control": freeAddr(t), "metrics": freeAddr(t)}
	p := startUpgradable(t, `
		admin {
		  listen  = "$control"
		  metrics = "$metrics"
		}
		worker { shutdown_timeout = "20s" }
		`+oneServer, v)
	host, port, _ := net.SplitHostPort(v["control"])
	number, _ := strconv.ParseUint(port, 10, 16)
	p.control = admin.NewClient(conf.Address{Host: host, Port: uint16(number)}, "")
	held := dial(t, p.addr)
	roundTrip(t, held)
	old := p.pid
	s := p.weir("upgrade", "--no-handover")
	if m := regexp.MustCompile(`^process (\d+) has taken over, with 0 sessions; 1 session left in process (\d+), which drains\n$`).FindStringSubmatch(s.out); m == nil || m[2] != strconv.Itoa(old) {
		t.Errorf("it says %q%s", s.out, s.err)
	} else {
		pid, _ := strconv.Atoi(m[1])
		p.become(pid)
	}
	for range 40 {
		if status, why, err := askMetrics(v["metrics"], "/readyz"); err != nil || status != http.StatusOK {
			t.Fatalf("/readyz during the drain of the old process: %d, %s%v", status, why, err)
		}
		if got := p.statusPid(); got != p.pid {
			t.Fatalf("process %d answers during the drain of the old one, want %d", got, p.pid)
		}
	}
	for range 20 {
		roundTrip(t, dial(t, p.addr))
		roundTrip(t, held)
	}
	if processGone(old) {
		t.Error("the old process has gone, with a session")
	}
	if n := p.sessionsNow(); n > 20 {
		t.Errorf("%d sessions in the new process", n)
	}
	held.Close()
	p.wantGone(old)
	if got := p.statusPid(); got != p.pid {
		t.Errorf("process %d answers, want %d", got, p.pid)
	}
}

// The program's path may be a link, which then leads to another version.
func TestUpgradeFollowsLink(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	copied := filepath.Join(dir, "weir-2")
	if text, err := exec.Command("install", "-m", "755", binary, copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	link := filepath.Join(dir, "weir")
	if err := os.Symlink(binary, link); err != nil {
		t.Fatal(err)
	}
	// start knows one binary only, and the first upgrade brings the link.
	p := startUpgradable(t, upgradeOne, vars{"server": serve(t, echo)})
	p.upgrade("--binary", link)
	if err := errors.Join(os.Remove(link), os.Symlink(copied, link)); err != nil {
		t.Fatal(err)
	}
	p.upgrade()
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.pid)); exe != copied {
		t.Errorf("%s runs, the link leads to %s: %v", exe, copied, err)
	}
}

// An upgrade to no steering leaves the choice to the kernel, which gives clients
// to the workers that are new, too.
func TestUpgradeToNoSteering(t *testing.T) {
	needSteering(t)
	t.Parallel()
	v := steeredVars(t, "least_sessions")
	p := startUpgradable(t, strings.Replace(steered, "= 4", "= 2", 1), v)
	p.setConfig(strings.NewReplacer("= 2", "= 4", "least_sessions", "none").Replace(p.config()))
	p.upgrade()
	for range 200 {
		greeted(t, p.addr)
	}
	if all, _ := bySessions(t, v["metrics"]); len(all) != 4 || all[0] == 0 {
		t.Errorf("the workers have %v sessions, want some each", all)
	}
}

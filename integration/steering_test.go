package integration_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
)

// steered has two servers and four workers; $policy is how these get clients.
const steered = `
	worker {
	  count    = 4
	  steering = "$policy"
	}
	admin {
	  listen  = "unix:$dir/admin.sock"
	  metrics = "$metrics"
	}
	upstream "u" {
	  server "$a" {}
	  server "$b" {}
	}
	listener "l" {
	  listen   = ["$listen"]
	  upstream = "u"
	}`

// needSteering skips the test where eBPF programs cannot be loaded. Root that
// cannot is a failure.
func needSteering(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		missing(t, "root (CAP_BPF), to load eBPF programs")
	}
}

func steeredVars(t *testing.T, policy string) vars {
	t.Helper()
	return vars{"policy": policy, "metrics": freeAddr(t), "a": serve(t, greeter("a")), "b": serve(t, greeter("b"))}
}

// samples returns the values of a metric by its labels as they are written.
func samples(t *testing.T, metrics, name string) map[string]int {
	t.Helper()
	status, body, err := askMetrics(metrics, "/metrics")
	if err != nil || status != 200 {
		t.Fatalf("metrics: %d, %v", status, err)
	}
	out := map[string]int{}
	for scan := bufio.NewScanner(strings.NewReader(body)); scan.Scan(); {
		rest, ok := strings.CutPrefix(scan.Text(), name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		labels, value, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatal(err)
		}
		out[labels] = int(n)
	}
	return out
}

// bySessions returns how many sessions the workers have, and how many times the
// mean the busiest has.
func bySessions(t *testing.T, metrics string) (all []int, skew float64) {
	t.Helper()
	sum, most := 0, 0
	for _, n := range samples(t, metrics, "weir_worker_sessions") {
		all = append(all, n)
		sum += n
		most = max(most, n)
	}
	slices.Sort(all)
	return all, float64(most*len(all)) / float64(max(sum, 1))
}

// greeted connects to a greeter and waits for its name.
func greeted(t *testing.T, addr string) stream {
	t.Helper()
	c := dial(t, addr)
	if _, err := io.ReadFull(c, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	return c
}

// Long sessions are spread evenly over the workers, however they come: all at
// once, or while others go.
func TestSteeringSpreadsSessions(t *testing.T) {
	needSteering(t)
	const sessions, most = 64, 1.1
	churn := map[string]time.Duration{"least_sessions": load, "none": load / 10} // nothing is wanted of none
	for _, policy := range []string{"least_sessions", "none"} {
		t.Run(policy, func(t *testing.T) {
			v := steeredVars(t, policy)
			p := start(t, steered, v)
			metrics := v["metrics"]
			want := map[string]int{"least_sessions": 1, "none": 0}[policy]
			if got := samples(t, metrics, "weir_steering")[""]; got != want {
				t.Errorf("weir_steering is %d, want %d", got, want)
			}
			check := func(when string, skew float64) {
				if policy != "none" && skew > most {
					t.Errorf("%s the busiest worker has %.3f times the mean, want at most %.1f", when, skew, most)
				}
			}
			k := startBurst(t, p.addr, sessions)
			burst, skew := bySessions(t, metrics)
			check("after a burst", skew)

			var worst, sum float64
			replaced, looks := 0, 0
			for begin := time.Now(); time.Since(begin) < churn[policy]; {
				for range 8 {
					i := rand.IntN(len(k))
					k[i].Close()
					k[i] = greeted(t, p.addr)
					replaced++
					time.Sleep(2 * time.Millisecond)
				}
				eventually(t, 5*time.Second, "weir has seen them go", func() bool {
					return samples(t, metrics, "weir_sessions")[""] == sessions
				})
				_, skew := bySessions(t, metrics)
				worst, sum, looks = max(worst, skew), sum+skew, looks+1
			}
			check("under churn", worst)
			t.Logf("%s: %d sessions in a burst: %v, busiest/mean %.3f; after %d were replaced: mean %.3f, worst %.3f",
				policy, sessions, burst, skew, replaced, sum/float64(looks), worst)
		})
	}
}

// startBurst opens sessions as fast as it can.
func startBurst(t *testing.T, addr string, n int) []stream {
	t.Helper()
	out := make([]stream, n)
	errs := make(chan error, n)
	for i := range out {
		go func() {
			c, err := tryDial(addr)
			if err == nil {
				out[i] = c
				_, err = c.Read(make([]byte, 2))
			}
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() {
		for _, c := range out {
			if c != nil {
				c.Close()
			}
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	return out
}

// unprivileged runs weir without the right to load eBPF programs: as an ordinary
// user, or as root without that capability.
func unprivileged(t *testing.T, how []string, config string, v vars) *proxy {
	t.Helper()
	p := &proxy{t: t, dir: tempDir(t), addr: freeAddr(t), stderr: new(output), done: make(chan struct{})}
	p.access = filepath.Join(p.dir, "access.log")
	v["listen"], v["dir"] = p.addr, p.dir
	config = os.Expand(config, func(name string) string { return v[name] })
	file, readable := filepath.Join(p.dir, "weir.hcl"), filepath.Join(p.dir, "weir")
	if err := os.WriteFile(file, []byte(config+"\nlog {\n  format = \"json\"\n}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command("install", "-m", "755", binary, readable).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if err := os.Chmod(p.dir, 0o777); err != nil { // for the control socket
		t.Fatal(err)
	}
	p.cmd = exec.Command(how[0], append(how[1:], readable, "run", "-c", file)...)
	p.cmd.Stdout, p.cmd.Stderr = p.stderr, p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.pid = p.cmd.Process.Pid
	go func() {
		p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(p.finish)
	return p
}

// Without privileges "auto" says so once and works; whoever asks for a policy by
// name is told why there is none.
func TestSteeringWithoutPrivileges(t *testing.T) {
	t.Parallel()
	needSteering(t) // else this is what all other tests do
	setpriv := need(t, "setpriv", "util-linux")
	const lines = "workers are not steered: the kernel spreads new clients by a hash"
	const why = "steering needs Linux 5.14 and the capability CAP_BPF: operation not permitted"
	for name, how := range map[string][]string{
		"ordinary user":   {setpriv, "--reuid=65534", "--regid=65534", "--clear-groups"},
		"without CAP_BPF": {setpriv, "--bounding-set=-bpf,-sys_admin"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := steeredVars(t, "auto")
			p := unprivileged(t, how, steered, v)
			eventually(t, 10*time.Second, "weir is running", func() bool { return p.said("weir is running") == 1 || p.exited() })
			for range 8 {
				roundTrip(t, greeted(t, p.addr))
			}
			if got := p.logged(lines); len(got) != 1 || got[0]["reason"] != why || got[0]["level"] != "INFO" {
				t.Errorf("it said %v", got)
			}
			if samples(t, v["metrics"], "weir_steering")[""] != 0 || countFDs(p.pid, "anon_inode:bpf") > 0 {
				t.Error("it steers, or keeps what it would steer with")
			}
			// A reload that changes nothing of it says nothing; one that asks for more
			// than there is changes nothing.
			p.setConfig(strings.ReplaceAll(p.config(), "count    = 4", "count    = 3"))
			p.hup("reloaded")
			if n := len(p.logged(lines)); n != 1 {
				t.Errorf("after a reload it said %d times that it does not steer", n)
			}
			for _, policy := range []string{"least_sessions", "cpu", "hash"} {
				p.setConfig(strings.ReplaceAll(p.config(), `"auto"`, strconv.Quote(policy)))
				p.hup("not reloaded")
				p.setConfig(strings.ReplaceAll(p.config(), strconv.Quote(policy), `"auto"`))
				failed := p.logged("not reloaded")
				if text := fmt.Sprint(failed[len(failed)-1]["error"]); text != "the old configuration stays: steer workers by "+policy+": "+why {
					t.Errorf("a reload to %s: %q", policy, text)
				}
			}
			roundTrip(t, greeted(t, p.addr))

			for _, policy := range []string{"least_sessions", "cpu", "hash"} {
				v := steeredVars(t, policy)
				p := unprivileged(t, how, steered, v)
				p.wantExit(5*time.Second, 1)
				if text := p.stderr.String(); !strings.HasSuffix(text, "weir: steer workers by "+policy+": "+why+"\n") {
					t.Errorf("with %s it said %q", policy, text)
				}
			}
		})
	}
}

// config returns the configuration file.
func (p *proxy) config() string {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, "weir.hcl"))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// Reloads from every policy to every other, with other numbers of workers, cost
// nobody anything.
func TestReloadsOfSteering(t *testing.T) {
	needSteering(t)
	turns := 20
	if long {
		turns = 200
	}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 3))
	s := newScene(t)
	x := s.plain()
	x.steering, x.workers = "least_sessions", 4
	p := s.start(t, x)
	p.setConfig(s.text(x))
	p.hup("reloaded")
	base, programs := p.fixedFDs(), countFDs(p.pid, "anon_inode:bpf")
	k := startTalks(t, s.long, 20)
	l := s.startShortSessions(p, 8)
	l.await(t, 100)
	policies := []string{"auto", "least_sessions", "hash", "cpu", "none"}
	y := x
	for i := range turns {
		before := y
		y.workers, y.steering = 1+r.IntN(5), policies[r.IntN(len(policies))]
		if before.steering == "none" && y.steering == "none" {
			// The kernel resets what a socket has not accepted when it is closed, if
			// nobody tells it where else to (package reuseport).
			y.workers = max(y.workers, before.workers)
		}
		l.await(t, l.done.Load()+50)
		p.setConfig(s.text(y))
		p.hup("reloaded")
		if failed := l.first.Load(); failed != nil {
			t.Errorf("turn %d, %d workers by %s (seed %d): %v", i, y.workers, y.steering, seed, *failed)
			break
		}
	}
	p.setConfig(s.text(x))
	p.hup("reloaded")
	l.await(t, l.done.Load()+50)
	l.wantAllServed(t)
	k.close()
	if k.lost.Load() > 0 {
		t.Errorf("%d long sessions were lost", k.lost.Load())
	}
	if n := len(p.logged("the kernel chooses the workers instead")); n > 0 {
		t.Errorf("steering failed %d times", n)
	}
	fds, now := 0, 0
	eventually(t, 10*time.Second, "the descriptors of the start", func() bool {
		fds, now = p.fixedFDs(), countFDs(p.pid, "anon_inode:bpf")
		return fds <= base && now <= programs
	})
	t.Logf("%d reloads (seed %d) during %d short sessions and %d long ones with %d answers; %d descriptors, of eBPF %d, before %d and %d",
		turns, seed, l.done.Load(), len(k.conns), k.answers.Load(), fds, now, base, programs)
}

// The counts of a policy that is new, or of workers that are, are those of the
// sessions that run.
func TestSteeringCountsAfterAReload(t *testing.T) {
	t.Parallel()
	needSteering(t)
	v := steeredVars(t, "none")
	p := start(t, steered, v)
	startBurst(t, p.addr, 64)
	before, skew := bySessions(t, v["metrics"])
	p.setConfig(strings.ReplaceAll(p.config(), `"none"`, `"least_sessions"`))
	p.hup("reloaded")
	time.Sleep(2*reconcileEvery + reconcileEvery/2) // as long as its counts may take to be right
	startBurst(t, p.addr, 64)
	after, now := bySessions(t, v["metrics"])
	t.Logf("64 sessions by the kernel's hash: %v, busiest/mean %.2f; with 64 more by least_sessions: %v, %.2f", before, skew, after, now)
	if now > 1.1 && slices.Max(before) <= 32 {
		t.Errorf("busiest/mean is %.2f, want at most 1.1", now)
	}
	p.setConfig(strings.ReplaceAll(p.config(), "count    = 4", "count    = 5"))
	p.hup("reloaded")
	startBurst(t, p.addr, 32)
	wider, now := bySessions(t, v["metrics"])
	t.Logf("a fifth worker and 32 more: %v, %.2f", wider, now)
	if now > 1.1 {
		t.Errorf("with a fifth worker busiest/mean is %.2f, want at most 1.1", now)
	}
}

// reconcileEvery is how often weir compares its counts of sessions with the
// truth; twice is what it takes.
const reconcileEvery = 2 * time.Second

// From one number of workers to another no more flows of UDP get another session
// than must, and no datagram is lost.
func TestUDPFlowsOverReloadsOfWorkers(t *testing.T) {
	t.Parallel()
	needSteering(t)
	const flows = 200
	for _, policy := range []string{"least_sessions", "none"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			// The server tells which session a datagram came by: each has a port.
			server, _ := serveUDP(t, func(c *net.UDPConn, b []byte, from netip.AddrPort) {
				c.WriteToUDPAddrPort(strconv.AppendUint(nil, uint64(from.Port()), 10), from)
			})
			p := startUDP(t, strings.ReplaceAll(oneUDPServer, "worker {", "worker {\ncount    = 4\nsteering = \""+policy+"\""), vars{"server": server, "udp": ""})
			var clients []*net.UDPConn
			for range flows {
				clients = append(clients, dialUDP(t, p.addr))
			}
			look := func() (ports []string) {
				for i, c := range clients {
					port := askUDP(c, "x", 3*time.Second)
					if port == "" {
						t.Errorf("client %d got no answer", i)
					}
					ports = append(ports, port)
				}
				return ports
			}
			before := look()
			if again := look(); !slices.Equal(before, again) {
				t.Fatal("flows change their session without a reload")
			}
			// While the number changes, some clients ask on and on.
			var asked, lost atomic.Int64
			stop, stopped := make(chan struct{}), make(chan struct{})
			for range 4 {
				c := dialUDP(t, p.addr)
				go func() {
					defer func() { stopped <- struct{}{} }()
					for {
						select {
						case <-stop:
							return
						default:
						}
						asked.Add(1)
						if askUDP(c, "y", time.Second) == "" {
							lost.Add(1)
						}
					}
				}()
			}
			workers := 4
			for _, n := range []int{5, 4, 3, 4, 2, 4} {
				p.setConfig(strings.ReplaceAll(p.config(), fmt.Sprintf("count    = %d", workers), fmt.Sprintf("count    = %d", n)))
				p.hup("reloaded")
				after := look()
				moved := 0
				for i := range after {
					if after[i] != before[i] {
						moved++
					}
				}
				share := float64(moved) / flows
				must := float64(max(n, workers)-min(n, workers)) / float64(max(n, workers))
				t.Logf("%s, %d workers to %d: %.2f of the flows got another session, %.2f must", policy, workers, n, share, must)
				if policy != "none" && share > must+0.16 { // more than four standard deviations of what a hash does to 200 flows
					t.Errorf("from %d workers to %d %.2f of the flows got another session, want about %.2f", workers, n, share, must)
				}
				workers, before = n, after
			}
			close(stop)
			for range 4 {
				<-stopped
			}
			t.Logf("%s: %d questions during the reloads, %d unanswered", policy, asked.Load(), lost.Load())
			if lost.Load() > 0 {
				t.Errorf("%d of %d questions had no answer", lost.Load(), asked.Load())
			}
		})
	}
}

// bpfIDs returns the kernel's numbers of the eBPF maps or programs that a
// process holds.
func bpfIDs(pid int, kind string) (ids []uint32) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	for _, path := range files {
		text, _ := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, kind+"_id:"); ok {
				id, _ := strconv.ParseUint(strings.TrimSpace(rest), 10, 32)
				ids = append(ids, uint32(id))
			}
		}
	}
	return ids
}

// However weir ends, its eBPF programs and maps end with it.
func TestNoProgramOutlivesWeir(t *testing.T) {
	t.Parallel()
	needSteering(t)
	for _, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGKILL} {
		v := steeredVars(t, "least_sessions")
		p := start(t, steered, v)
		c := greeted(t, p.addr)
		maps, programs := bpfIDs(p.pid, "map"), bpfIDs(p.pid, "prog")
		p.setConfig(strings.ReplaceAll(p.config(), "least_sessions", "hash"))
		p.hup("reloaded")
		maps, programs = append(maps, bpfIDs(p.pid, "map")...), append(programs, bpfIDs(p.pid, "prog")...)
		if len(maps) < 4 || len(programs) < 2 || !isProgram(programs[len(programs)-1]) {
			t.Fatalf("it has maps %v and programs %v", maps, programs)
		}
		c.Close()
		eventually(t, 5*time.Second, "the session has ended", func() bool { return samples(t, v["metrics"], "weir_sessions")[""] == 0 })
		p.ended = true
		p.signal(end)
		<-p.done
		eventually(t, 10*time.Second, "no map or program is left", func() bool {
			return !slices.ContainsFunc(maps, isMap) && !slices.ContainsFunc(programs, isProgram)
		})
	}
}

func isProgram(id uint32) bool {
	p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
	if err == nil {
		p.Close()
	}
	return !errors.Is(err, os.ErrNotExist)
}

func isMap(id uint32) bool {
	m, err := ebpf.NewMapFromID(ebpf.MapID(id))
	if err == nil {
		m.Close()
	}
	return !errors.Is(err, os.ErrNotExist)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	direct = "direct"
	weir   = "weir"
)

// proxyNames are the contestants besides direct, in the order of the tables:
// product, variant if there are several, and -2 for two workers or threads.
var proxyNames = []string{
	"nginx", "nginx" + twoWorkers, "haproxy", "haproxy" + twoWorkers, haproxySplice, haproxySplice + twoWorkers, weir, weir + twoWorkers, floor,
}

const twoWorkers = "-2"

// before is another weir, with one worker; no rival. A copy of the same one
// shows what two series of the same program differ by.
const before = "before"

// haproxySplice is HAProxy told to splice everything. It takes part in the
// bulk scenarios only, beside the HAProxy that decides by itself (splice-auto).
const haproxySplice = "haproxy-splice"

// maxSessions bounds what every proxy is configured for; the descriptors of the
// process may allow fewer.
const maxSessions = 9000

// contestant is one way from the client to the servers.
type contestant struct {
	name    string
	index   int       // gives it loopback addresses of its own
	workers int       // processes or threads; 0 for direct
	kinds   []traffic // that it takes part in; nil = every kind
	tuning  string    // what an expert set, for the report
	program string    // weir's, for its version
	// end is the signal that ends it at once, sessions or not.
	end syscall.Signal
	// write renders the configuration into the temporary directory and returns
	// the command that runs it in the foreground. It is nil for direct.
	write func(e *env, s site) (argv []string, err error)
}

func (c *contestant) takesPart(sc scenario) bool {
	switch {
	case c.name == direct, c.name == floor && sc.fresh:
		return !sc.fresh
	case c.workers > 1 && (sc.oneWorker || sc.traffic.udp()):
		return false
	}
	return c.kinds == nil || slices.Contains(c.kinds, sc.traffic)
}

// site is what a proxy is configured for.
type site struct {
	name    string // of the contestant and its files
	workers int
	traffic traffic
	parts   []part
}

// part is a group of listening addresses with the servers behind them.
type part struct{ listen, servers []string }

// traffic is what an expert tunes a proxy for. nginx gets the buffers that are
// best for the traffic at hand, HAProxy takes part in bulk a second time, told
// to splice; weir has one configuration.
type traffic int

const (
	messages        traffic = iota // TCP, small, many
	bulk                           // TCP
	flows                          // UDP, many datagrams each, in both directions or one
	queries                        // UDP, one datagram and one answer each
	flowsAndControl                // flows, and TCP on the same addresses
)

func (t traffic) tcp() bool { return t == messages || t == bulk || t == flowsAndControl }
func (t traffic) udp() bool { return t >= flows }

// instance is a contestant that is up, in front of its servers.
type instance struct {
	*contestant
	targets []string // where the client connects, one address per round in turn
	servers []string
	proc    *process      // nil for direct
	runtime *runtimeMeter // weir's, else nil
}

// target is the address for a round: connections that are over keep their
// addresses and ports in TIME_WAIT for a minute, so rounds take turns.
func (in *instance) target(round int) string { return in.targets[round%len(in.targets)] }

func newContestants(e *env) ([]*contestant, error) {
	cs := []*contestant{{name: direct}}
	for _, name := range e.proxies {
		workers := 1
		setting, two := strings.CutSuffix(name, twoWorkers)
		if two {
			workers = 2
		}
		var c *contestant
		switch setting {
		case "nginx":
			c = newNginx(workers)
		case "haproxy":
			c = newHAProxy(workers)
		case haproxySplice:
			c = newHAProxySplice(workers)
		case weir:
			var err error
			if c, err = newWeir(e.weir, workers); err != nil {
				return nil, err
			}
		case before:
			var err error
			if c, err = newWeir(e.before, workers); err != nil {
				return nil, err
			}
		case floor:
			var err error
			if c, err = newFloor(e); err != nil {
				return nil, err
			}
			if c == nil {
				continue
			}
		}
		c.name, c.index, c.workers = name, 1+slices.Index(append(proxyNames, before), name), workers
		cs = append(cs, c)
	}
	return cs, nil
}

// Every contestant has loopback addresses of its own on both sides, so that
// none finds its ports taken by another's connections in TIME_WAIT.
func (c *contestant) listenAddrs(port, n int) []string { return loopback(20+c.index, port, n) }
func (c *contestant) serverAddrs(port, n int) []string { return loopback(10+c.index, port, n) }

func loopback(net, port, n int) []string {
	const row = 250
	addrs := make([]string, n)
	for i := range addrs {
		addrs[i] = fmt.Sprintf("127.%d.%d.%d:%d", net, i/row, 1+i%row, port)
	}
	return addrs
}

// start brings the contestant up in front of servers, listening on as many
// addresses as the scenario has.
func (c *contestant) start(ctx context.Context, e *env, sc scenario, servers []string) (*instance, error) {
	if c.write == nil {
		return &instance{contestant: c, targets: servers, servers: servers}, nil
	}
	port, err := e.port()
	if err != nil {
		return nil, err
	}
	listen := c.listenAddrs(port, sc.addresses)
	argv, err := c.write(e, site{c.name, c.workers, sc.traffic, sc.parts(listen, servers)})
	if err != nil {
		return nil, fmt.Errorf("configure %s: %w", c.name, err)
	}
	core := noCore
	if sc.traffic.udp() {
		core = e.places().proxy
	}
	var p *process
	err = onCore(core, func() (err error) {
		p, err = e.startCommand(c.name, c.end, exec.Command(argv[0], argv[1:]...))
		return err
	})
	if err != nil {
		return nil, err
	}
	if sc.traffic.tcp() {
		err = p.waitListening(ctx, listen)
	}
	if sc.traffic.udp() && err == nil {
		err = p.waitBound(ctx, listen)
	}
	if err != nil {
		p.stop()
		return nil, err
	}
	return &instance{contestant: c, targets: listen, servers: servers, proc: p}, nil
}

// firstPort is below the kernel's default range for outgoing connections.
const firstPort = 18000

// port returns a port that nothing on the machine's loopback uses, and never
// the same one twice.
func (e *env) port() (int, error) {
	for ; e.nextPort < 32000; e.nextPort++ {
		ln, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(e.nextPort)))
		if err != nil {
			continue
		}
		ln.Close()
		e.nextPort++
		return e.nextPort - 1, nil
	}
	return 0, errors.New("find port: none free between 18000 and 32000")
}

func newWeir(program string, workers int) (*contestant, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, fmt.Errorf("find weir: %w; build it first, or leave it out with -proxies nginx,haproxy", err)
	}
	return &contestant{
		program: path,
		end:     syscall.SIGINT, // SIGTERM would let sessions end first
		tuning:  fmt.Sprintf("worker count = %d, access log off, admin on a unix socket, the rest as by default", workers),
		write:   func(e *env, s site) ([]string, error) { return writeWeir(e, path, s) },
	}, nil
}

// weirAdmin is where the weir of a contestant tells its status.
func (e *env) weirAdmin(contestant string) string { return e.path(contestant + ".sock") }

// writeWeir names no congestion control: the network's default is the wanted
// one for every contestant, and setting it per socket would cost weir alone a
// system call per connection.
func writeWeir(e *env, program string, s site) ([]string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "worker {\n  count = %d\n}\n\nlog {\n  access = \"off\"\n}\n\nadmin {\n  listen = %q\n}\n", s.workers, "unix:"+e.weirAdmin(s.name))
	for i, p := range s.parts {
		fmt.Fprintf(&b, "\nupstream \"bench-%d\" {\n", i)
		for _, addr := range p.servers {
			fmt.Fprintf(&b, "  server %q {}\n", addr)
		}
		b.WriteString("}\n")
		if s.traffic.tcp() {
			fmt.Fprintf(&b, "\nlistener \"tcp-%d\" {\n  listen   = [%s]\n  upstream = \"bench-%d\"\n}\n", i, quoteList(p.listen), i)
		}
		if s.traffic.udp() {
			fmt.Fprintf(&b, "\nlistener \"udp-%d\" {\n  protocol = \"udp\"\n  listen   = [%s]\n  upstream = \"bench-%d\"\n", i, quoteList(p.listen), i)
			if s.traffic == queries {
				b.WriteString("  udp {\n    responses = 1\n  }\n")
			}
			b.WriteString("}\n")
		}
	}
	path := e.path(s.name + ".hcl")
	return []string{program, "run", "-c", path}, os.WriteFile(path, []byte(b.String()), 0o644)
}

func quoteList(items []string) string {
	quoted := make([]string, len(items))
	for i, s := range items {
		quoted[i] = strconv.Quote(s)
	}
	return strings.Join(quoted, ", ")
}

func newNginx(workers int) *contestant {
	return &contestant{
		tuning: fmt.Sprintf("stream, worker_processes %d, listen reuseport backlog=4096, proxy_buffer_size %s (bulk scenarios %s), access_log off, worker_connections %d; UDP scenarios: listen udp reuseport rcvbuf=%s sndbuf=%s, multi_accept on, proxy_responses 1 in udp-session",
			workers, nginxBuffer(messages), nginxBuffer(bulk), nginxConnections, nginxUDPBuffer, nginxUDPBuffer),
		end:   syscall.SIGTERM,
		write: writeNginx,
	}
}

// nginxConnections covers both sides of maxSessions in a single worker.
const nginxConnections = 2*maxSessions + 480

// nginxBuffer is the size of each of a session's two buffers. On loopback 1m
// moved three times as much as the default 16k at a third of the CPU, as every
// read and write moves that much more; for small messages it made no difference.
func nginxBuffer(t traffic) string {
	if t == bulk {
		return "1m"
	}
	return "16k"
}

// nginxEvents has it take all datagrams that wait before it looks for other
// events: 10 to 25 % less CPU for each of them.
func nginxEvents(t traffic) string {
	if t.udp() {
		return "  multi_accept on;\n"
	}
	return ""
}

func writeNginx(e *env, s site) ([]string, error) {
	module, err := nginxStreamModule()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	writeNginxMain(&b, e, s.name, s.workers, module, nginxEvents(s.traffic))
	fmt.Fprintf(&b, "stream {\n  access_log off;\n")
	for i, p := range s.parts {
		fmt.Fprintf(&b, "  upstream bench-%d {\n", i)
		for _, addr := range p.servers {
			fmt.Fprintf(&b, "    server %s;\n", addr)
		}
		b.WriteString("  }\n")
		if s.traffic.tcp() {
			b.WriteString("  server {\n")
			for _, l := range p.listen {
				fmt.Fprintf(&b, "    listen %s reuseport backlog=4096;\n", l)
			}
			fmt.Fprintf(&b, "    proxy_pass bench-%d;\n    proxy_buffer_size %s;\n    proxy_connect_timeout 3s;\n    proxy_timeout 10m;\n  }\n", i, nginxBuffer(s.traffic))
		}
		if s.traffic.udp() {
			writeNginxUDP(&b, s.traffic, i, p.listen)
		}
	}
	b.WriteString("}\n")
	return nginxCommand(e, s.name, b.String())
}

// nginxUDPBuffer is what weir asks for too; the default of 208 KiB loses more.
const nginxUDPBuffer = "4m"

// writeNginxUDP leaves proxy_responses out for flows, also for those that have
// no answers: with 0 every datagram would be a session.
func writeNginxUDP(b *strings.Builder, t traffic, upstream int, listen []string) {
	b.WriteString("  server {\n")
	for _, l := range listen {
		fmt.Fprintf(b, "    listen %s udp reuseport rcvbuf=%s sndbuf=%s;\n", l, nginxUDPBuffer, nginxUDPBuffer)
	}
	fmt.Fprintf(b, "    proxy_pass bench-%d;\n    proxy_timeout 1m;\n", upstream)
	if t == queries {
		b.WriteString("    proxy_responses 1;\n")
	}
	b.WriteString("  }\n")
}

// writeNginxMain writes what the stream proxy and the HTTP backend share.
func writeNginxMain(b *strings.Builder, e *env, name string, workers int, module, events string) {
	if module != "" {
		fmt.Fprintf(b, "load_module %s;\n", module)
	}
	if os.Geteuid() == 0 {
		b.WriteString("user root;\n") // the compiled-in user may not exist here
	}
	fmt.Fprintf(b, "daemon off;\nworker_processes %d;\nworker_rlimit_nofile %d;\npid %s;\nerror_log %s warn;\n",
		workers, fileLimit(), e.path(name+".pid"), e.path(name+".log"))
	fmt.Fprintf(b, "events {\n  use epoll;\n  worker_connections %d;\n%s}\n", nginxConnections, events)
}

func nginxCommand(e *env, name, conf string) ([]string, error) {
	path := e.path(name + ".conf")
	argv := []string{"nginx", "-p", e.dir, "-c", path, "-e", e.path(name + ".log")}
	return argv, os.WriteFile(path, []byte(conf), 0o644)
}

var modulesPath = regexp.MustCompile(`--modules-path=(\S+)`)

// nginxStreamModule finds the module's file, or returns "" when nginx has
// stream built in.
func nginxStreamModule() (string, error) {
	out, err := exec.Command("nginx", "-V").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("nginx -V: %w", err)
	}
	text := string(out) + " "
	if strings.Contains(text, "--with-stream ") {
		return "", nil
	}
	m := modulesPath.FindStringSubmatch(text)
	if m == nil || !strings.Contains(text, "--with-stream=dynamic") {
		return "", errors.New("nginx has no stream module")
	}
	file := m[1] + "/ngx_stream_module.so"
	if _, err := os.Stat(file); err != nil {
		return "", fmt.Errorf("find nginx stream module: %w", err)
	}
	return file, nil
}

func newHAProxy(workers int) *contestant {
	return &contestant{
		kinds:  []traffic{messages, bulk}, // it forwards no UDP
		tuning: haproxyTuning(workers) + ", option splice-auto",
		end:    syscall.SIGTERM,
		write: func(e *env, s site) ([]string, error) {
			return writeHAProxy(e, s, "", "option splice-auto")
		},
	}
}

// newHAProxySplice is the expert's HAProxy for bulk. splice-auto waits for
// reads that fill its buffer in a row, which HAProxy 2.6 never saw on loopback:
// it copied all along. To splice always more than doubles bulk, and costs a
// sixth of small messages.
func newHAProxySplice(workers int) *contestant {
	pipes := fmt.Sprintf("tune.pipesize %d", haproxyPipe)
	return &contestant{
		kinds:  []traffic{bulk},
		tuning: haproxyTuning(workers) + ", option splice-request, option splice-response, " + pipes,
		end:    syscall.SIGTERM,
		write: func(e *env, s site) ([]string, error) {
			return writeHAProxy(e, s, pipes, "option splice-request", "option splice-response")
		},
	}
}

func haproxyTuning(workers int) string {
	return fmt.Sprintf("mode tcp, nbthread %d, bind backlog 4096, shards by-thread when nbthread > 1, maxconn %d", workers, haproxySessions())
}

// haproxyPipe is the size of its splicing pipes for bulk. 1 MiB measured the
// same, and less than 256 KiB more CPU.
const haproxyPipe = 256 << 10

// haproxySessions is its maxconn. HAProxy counts two descriptors per session and
// two per pipe, and refuses to start, or warns, where the limit is below.
func haproxySessions() int { return min(maxSessions+480, (fileLimit()-1000)/2) }

func writeHAProxy(e *env, s site, global string, options ...string) ([]string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "global\n  nbthread %d\n  maxconn %d\n  maxpipes 256\n  %s\n", s.workers, haproxySessions(), global)
	fmt.Fprintf(&b, "\ndefaults\n  mode tcp\n  %s\n  timeout connect 3s\n  timeout client 10m\n  timeout server 10m\n", strings.Join(options, "\n  "))
	for i, p := range s.parts {
		fmt.Fprintf(&b, "\nlisten bench-%d\n  balance roundrobin\n", i)
		for _, l := range p.listen {
			fmt.Fprintf(&b, "  bind %s backlog 4096", l)
			if s.workers > 1 {
				b.WriteString(" shards by-thread")
			}
			b.WriteByte('\n')
		}
		for k, addr := range p.servers {
			fmt.Fprintf(&b, "  server s%d %s\n", k+1, addr)
		}
	}
	path := e.path(s.name + ".cfg")
	return []string{"haproxy", "-db", "-q", "-f", path}, os.WriteFile(path, []byte(b.String()), 0o644)
}

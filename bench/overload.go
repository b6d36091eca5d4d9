package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weirlb/weir/bench/overload"
	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/admin"
)

// What the server and its clients are like. Answers differ in size, so that
// their p95 is no sharp edge, which a few milliseconds of a client's wait would
// carry far.
var overloadModel = overload.Model{Work: 80 * time.Millisecond, Spread: 0.5, Capacity: 80}

const (
	overloadTarget  = 200 * time.Millisecond
	overloadP       = 0.95
	overloadWindow  = 300 // samples: two turns of as many as the target allows, so that each step is seen before the next
	overloadInitial = 300
	overloadClients = 120 // the load; three times that is too much
	overloadHigh    = 10  // one of so many clients is of high priority
)

// overloadCommand shows what an adaptive limit does when the load triples.
func overloadCommand(args []string) error {
	var o options
	fs := flag.NewFlagSet("bench overload", flag.ContinueOnError)
	fs.StringVar(&o.weir, "weir", "build/weir", "weir `binary` to run")
	fs.StringVar(&o.out, "out", "", "also write the report to this `directory`: NAME.json has the time series, NAME.md the tables, NAME.svg the plot")
	fs.StringVar(&o.name, "name", "", "`name` of the report's files (default DATE-overload, or DATE-overload-N for N processes)")
	fs.IntVar(&o.seconds, "seconds", 0, "seconds per run (default 30, with -quick 12)")
	fs.BoolVar(&o.quick, "quick", false, "short runs; shows that things work, not how well")
	processes := fs.Int("processes", 1, "`number` of weirs that share the server, none of which knows of the others")
	if err := fs.Parse(args); err != nil {
		return err
	}
	switch {
	case fs.NArg() > 0:
		return fmt.Errorf("parse flags: unexpected argument %q", fs.Arg(0))
	case *processes < 1 || *processes > overloadClients/overloadHigh:
		return fmt.Errorf("parse flags: -processes is 1 to %d", overloadClients/overloadHigh)
	case o.seconds < 0:
		return errors.New("parse flags: -seconds starts at 1")
	case o.seconds == 0:
		o.seconds = pick(o.quick, 12, 30)
	}
	if o.name == "" {
		o.name = time.Now().UTC().Format(time.DateOnly) + "-overload"
		if *processes > 1 {
			o.name += "-" + strconv.Itoa(*processes)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := benchOverload(ctx, o, *processes)
	if ctx.Err() != nil {
		return errors.New("interrupted, everything started has been stopped")
	}
	return err
}

func benchOverload(ctx context.Context, o options, processes int) error {
	var err error
	if o.weir, err = exec.LookPath(o.weir); err != nil {
		return fmt.Errorf("find weir: %w; build it first", err)
	}
	dir, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := raiseFileLimit(); err != nil {
		return err
	}
	if o.out != "" {
		if err := os.MkdirAll(o.out, 0o755); err != nil {
			return err
		}
	}
	e := &env{options: o, dir: dir, nextPort: firstPort}
	r := &overloadReport{
		Format: overloadFormat, Quick: o.quick, Started: time.Now().UTC(), Commit: describeCommit(ctx), Machine: describeMachine(machineNetwork()),
		Versions:  map[string]string{"go": runtime.Version(), weir: versionLine(ctx, o.weir, "version") + buildRevision(o.weir)},
		Processes: processes, Best: overloadModel.Best(), TargetMs: overload.Milliseconds(overloadTarget), Limit: overloadLimit(processes),
	}
	for _, run := range []*overloadRun{
		{Name: "load x 1, no limit", Clients: overloadClients},
		{Name: "load x 3, no limit", Clients: 3 * overloadClients},
		{Name: "load x 3, adaptive limit", Clients: 3 * overloadClients, Limited: true},
	} {
		if err := run.measure(ctx, e, processes); err != nil {
			return fmt.Errorf("run %s: %w", run.Name, err)
		}
		r.Runs = append(r.Runs, run)
	}
	r.print(os.Stdout, "")
	if o.out == "" {
		return nil
	}
	return r.save(filepath.Join(o.out, o.name))
}

// overloadLimit is the block for one of several weirs. It begins far too high, so
// that it has to find its place under full load.
func overloadLimit(processes int) string {
	return fmt.Sprintf("  adaptive_limit \"aimd\" {\n    initial    = %d\n    target     = %q\n    percentile = %g\n    window     = %d\n    apply_to   = \"turn\"\n  }\n",
		overloadInitial/processes, overloadTarget.String(), overloadP, overloadWindow)
}

// overloadWeir is a weir with two listeners of different priority.
type overloadWeir struct {
	proc      *process
	high, low string
	client    *admin.Client
}

func (e *env) startOverloadWeir(ctx context.Context, name, server, limit string) (*overloadWeir, error) {
	var addrs []string
	for range 2 {
		port, err := e.port()
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	}
	socket := e.path(name + ".sock")
	var b strings.Builder
	fmt.Fprintf(&b, "log {\n  access = \"off\"\n}\n\nadmin {\n  listen = %q\n}\n\nupstream \"model\" {\n  server %q {}\n", "unix:"+socket, server)
	if limit != "" {
		fmt.Fprintf(&b, "  queue {\n    max     = %d\n    timeout = \"5s\"\n  }\n%s", 3*overloadClients, limit)
	}
	b.WriteString("}\n")
	for i, priority := range []int{0, 5} {
		fmt.Fprintf(&b, "\nlistener \"priority-%d\" {\n  listen   = [%q]\n  upstream = \"model\"\n", priority, addrs[i])
		if limit != "" {
			fmt.Fprintf(&b, "  priority = %d\n", priority)
		}
		b.WriteString("}\n")
	}
	path := e.path(name + ".hcl")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		return nil, err
	}
	// SIGTERM would let sessions end first.
	p, err := e.startCommand(name, syscall.SIGINT, exec.Command(e.weir, "run", "-c", path))
	if err != nil {
		return nil, err
	}
	if err := p.waitListening(ctx, addrs); err != nil {
		p.stop()
		return nil, err
	}
	return &overloadWeir{p, addrs[0], addrs[1], admin.NewClient(conf.Address{Path: socket}, "")}, nil
}

// measure runs one load through that many weirs.
func (r *overloadRun) measure(ctx context.Context, e *env, processes int) error {
	server, err := overload.Listen("127.0.0.1:0", overloadModel)
	if err != nil {
		return err
	}
	defer server.Close()
	watch := overload.Watch{Server: server, Upstream: "model"}
	limit := ""
	if r.Limited {
		limit = overloadLimit(processes)
	}
	var weirs []*overloadWeir
	for i := range processes {
		w, err := e.startOverloadWeir(ctx, fmt.Sprintf("weir-%d-%d", e.nextPort, i), server.Addr(), limit)
		if err != nil {
			return err
		}
		defer w.proc.stop()
		weirs, watch.Weirs = append(weirs, w), append(watch.Weirs, w.client)
	}

	began := time.Now()
	var high, low []*overload.Crowd
	defer func() {
		for _, c := range append(high, low...) {
			c.Leave()
		}
	}()
	important := r.Clients / overloadHigh
	for i, w := range weirs {
		high = append(high, overload.Gather(w.high, share(important, processes, i)))
		low = append(low, overload.Gather(w.low, share(r.Clients-important, processes, i)))
	}
	if err := watch.For(ctx, time.Duration(e.seconds)*time.Second); err != nil {
		return err
	}
	end := time.Now()
	for _, w := range weirs {
		r.CPU += w.proc.cpuTime().Seconds()
	}
	seen := overload.Seen{Began: began, Moments: watch.Moments, Server: server.Turns(), High: overload.TurnsOf(high...), Low: overload.TurnsOf(low...)}
	for _, c := range append(high, low...) {
		r.Refused += c.Refused()
		if err := c.Wrong(); err != nil {
			return err
		}
	}
	r.sum(seen, end)
	return nil
}

// share is part i of n that is divided among so many, as evenly as can be.
func share(n, parts, i int) int { return (n*(i+1))/parts - (n*i)/parts }

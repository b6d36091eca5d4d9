package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options is what the command line asked for; immutable after parseOptions.
type options struct {
	weir     string
	before   string // another weir, "" for none
	out      string // directory for the report, "" for none
	name     string // of the report's files
	only     []string
	proxies  []string
	rounds   int
	seconds  int
	quick    bool
	syscalls bool
	patience time.Duration
	install  bool
	netns    bool
}

func init() {
	// See the package comment: the main goroutine starts every process, and the
	// parent-death signal follows the starting thread.
	runtime.LockOSThread()
}

// commands are what there is besides the comparison. compare and report work on
// saved reports and measure nothing.
var commands = map[string]func(args []string) error{
	"compare":  compareCommand,
	"report":   reportCommand,
	"overload": overloadCommand,
}

func main() {
	args := os.Args[1:]
	if len(args) > 0 {
		if role, ok := roles[args[0]]; ok {
			exit(role(args[1:]))
		}
		if command, ok := commands[args[0]]; ok {
			exit(command(args[1:]))
		}
	}
	inside := len(args) > 0 && args[0] == namespaceArg
	if inside {
		args = args[1:]
	}
	opts, err := parseOptions(args)
	if err != nil {
		exit(err)
	}
	if inside {
		exit(run(opts, enterNamespace()))
	}
	if err := ensureTools(opts.install); err != nil {
		exit(err)
	}
	if os.Geteuid() == 0 && opts.netns {
		code, err := runInNamespace(args)
		if err == nil {
			os.Exit(code)
		}
		fmt.Fprintf(os.Stderr, "bench: no network namespace (%v), using the machine's loopback\n", err)
	}
	exit(run(opts, machineNetwork()))
}

func exit(err error) {
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func parseOptions(args []string) (options, error) {
	var o options
	var only, proxies string
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.StringVar(&o.weir, "weir", "build/weir", "weir `binary` to measure")
	fs.StringVar(&o.before, "before", "", "another weir `binary`, which takes part in the same rounds: what a change does")
	fs.StringVar(&o.out, "out", "", "also write the report to this `directory`: NAME.json has every sample, NAME.md the tables, NAME.svg and NAME-direct.svg are plots")
	fs.StringVar(&o.name, "name", time.Now().UTC().Format(time.DateOnly), "`name` of the report's files")
	fs.StringVar(&only, "only", "", "comma-separated `scenarios` to run, tcp and udp being all of a kind: "+strings.Join(scenarioNames(), ", "))
	fs.StringVar(&proxies, "proxies", strings.Join(proxyNames, ","), "comma-separated `proxies` to compare with a direct connection")
	fs.IntVar(&o.rounds, "rounds", 0, "rounds per scenario (default 5, with -quick 2)")
	fs.IntVar(&o.seconds, "seconds", 0, "seconds per run (default 3, with -quick 1)")
	fs.BoolVar(&o.syscalls, "syscalls", true, "count the proxies' system calls with strace, in runs of their own; not with -quick")
	fs.DurationVar(&o.patience, "patience", 0, "`time` to wait, and to repeat, for each run that something else on the machine disturbs")
	fs.BoolVar(&o.quick, "quick", false, "short runs of most scenarios, under five minutes in all; shows that things work, not how fast")
	fs.BoolVar(&o.install, "install", true, "as root, install missing tools from the distribution")
	fs.BoolVar(&o.netns, "netns", true, "as root, run in a network namespace of its own")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("parse flags: unexpected argument %q", fs.Arg(0))
	}
	if o.rounds == 0 {
		o.rounds = pick(o.quick, 2, 5)
	}
	if o.seconds == 0 {
		o.seconds = pick(o.quick, 1, 3)
	}
	if o.rounds < 1 || o.seconds < 1 {
		return o, errors.New("parse flags: -rounds and -seconds start at 1")
	}
	var err error
	if o.only, err = splitNames("-only", expandKinds(only), scenarioNames()); err != nil {
		return o, err
	}
	if o.quick && only == "" {
		o.only = quickNames()
	}
	o.syscalls = o.syscalls && !o.quick
	if o.proxies, err = splitNames("-proxies", proxies, proxyNames); err != nil {
		return o, err
	}
	if o.quick && proxies == strings.Join(proxyNames, ",") {
		o.proxies = slices.DeleteFunc(o.proxies, func(name string) bool { return strings.HasSuffix(name, twoWorkers) })
	}
	if o.before != "" {
		o.proxies = append(slices.Clip(o.proxies), before)
	}
	return o, nil
}

// expandKinds writes the scenarios' names in place of their protocol's.
func expandKinds(list string) string {
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		switch name = strings.TrimSpace(name); name {
		case "tcp", "udp":
			for _, sc := range scenarios {
				if sc.traffic.udp() == (name == "udp") {
					names = append(names, sc.name)
				}
			}
		default:
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

func pick(cond bool, yes, no int) int {
	if cond {
		return yes
	}
	return no
}

// splitNames parses a comma-separated list and refuses names that are not in
// valid. An empty list means all of them.
func splitNames(flagName, list string, valid []string) ([]string, error) {
	if list == "" {
		return valid, nil
	}
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(valid, name) {
			return nil, fmt.Errorf("parse %s: no %q here; valid: %s", flagName, name, strings.Join(valid, ", "))
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// env is what every scenario needs to know; immutable while scenarios run,
// except for what only the main goroutine touches.
type env struct {
	options
	dir      string // temporary, for configurations and logs
	nextPort int

	untraceable bool // strace is missing or not allowed, which has been said
	traced      bool // this run is under strace, which slows it down
}

func run(opts options, network network) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	dir, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	e := &env{options: opts, dir: dir, nextPort: firstPort}
	if err := raiseFileLimit(); err != nil {
		return err
	}
	contestants, err := newContestants(e)
	if err != nil {
		return err
	}

	if opts.out != "" { // before an hour of work, not after
		if err := os.MkdirAll(opts.out, 0o755); err != nil {
			return err
		}
	}
	r := &report{
		Format:   reportFormat,
		Quick:    opts.quick,
		Rounds:   opts.rounds,
		Seconds:  opts.seconds,
		Patience: opts.patience.String(),
		Started:  time.Now().UTC(),
		Commit:   describeCommit(ctx),
		Machine:  describeMachine(network),
		Versions: describeVersions(ctx, contestants),
		Tuning:   describeTuning(contestants),
	}
	printHeader(os.Stdout, r)
	err = runScenarios(ctx, e, contestants, r)
	if ctx.Err() != nil {
		return errors.New("interrupted, everything started has been stopped")
	}
	if err != nil {
		r.Ended = err.Error()
	}
	r.Took = time.Since(r.Started).Round(time.Second).String()
	printSummary(os.Stdout, r)
	if opts.out != "" {
		err = errors.Join(err, r.save(filepath.Join(opts.out, opts.name)))
	}
	if n := r.failedRuns(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d runs failed, see the tables", n))
	}
	return err
}

// runScenarios adds each wanted scenario's result to the report and prints it,
// up to the first that cannot be run.
func runScenarios(ctx context.Context, e *env, contestants []*contestant, r *report) error {
	for _, sc := range scenarios {
		if !slices.Contains(e.only, sc.name) {
			continue
		}
		res, err := runScenario(ctx, e, sc, contestants)
		if err != nil {
			return fmt.Errorf("run %s: %w", sc.name, err)
		}
		r.Scenarios = append(r.Scenarios, res)
		printScenario(os.Stdout, res)
	}
	return nil
}

// raiseFileLimit sets the soft limit of open files to the hard one for this
// process and, being set explicitly, for those it starts.
func raiseFileLimit() error {
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		return fmt.Errorf("getrlimit nofile: %w", err)
	}
	lim.Cur = lim.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		return fmt.Errorf("setrlimit nofile: %w", err)
	}
	return nil
}

func fileLimit() int {
	var lim syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim) != nil {
		return 1024
	}
	return int(min(lim.Max, 1<<20))
}

func (e *env) path(name string) string { return filepath.Join(e.dir, name) }

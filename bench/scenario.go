package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// metric is one figure of a scenario.
type metric struct {
	Name  string `json:"name"`
	Unit  string `json:"unit"`
	Lower bool   `json:"lower_is_better"`
	// ProxyOnly figures do not exist for a direct connection.
	ProxyOnly bool `json:"proxy_only,omitempty"`
}

// sample is what one run of one contestant gave, keyed by metric name.
type sample struct {
	Round   int                `json:"round"`
	Values  map[string]float64 `json:"values,omitempty"`
	Work    float64            `json:"work,omitempty"`    // units of it: transfers in Gbit, requests, connections, round trips
	Others  float64            `json:"others_cores"`      // cores that something else used meanwhile
	Repeats int                `json:"repeats,omitempty"` // runs before this one, which something else disturbed
	Flaw    string             `json:"flaw,omitempty"`    // errors inside a run that ended
	Failed  string             `json:"failed,omitempty"`  // why there are no values
}

// scenario is one comparison; each stands in its own file.
type scenario struct {
	name    string
	title   string
	setup   string // sizes, connections, cores, warm-up, for the report
	metrics []metric
	traffic traffic
	// quick ones are those of a quick run.
	quick bool
	// oneWorker leaves out the settings with several.
	oneWorker bool
	// addresses is how many a contestant listens on, and how many servers stand
	// behind them unless peers says so. With apart, each has one of its own.
	addresses, peers int
	apart            bool
	// traced scenarios have a run for the count of system calls.
	traced bool
	// backend starts what serves all the runs; nil when run starts its own.
	backend func(ctx context.Context, e *env, addrs []string) (stop func(), err error)
	// warm is one unmeasured run per contestant, nil for none.
	warm func(ctx context.Context, e *env, in *instance) error
	// run is one measured run.
	run func(ctx context.Context, e *env, in *instance, round int) (sample, error)
	// fresh restarts the proxy before every run, and leaves out direct. Such
	// scenarios weigh memory, which hardly varies, so they have five rounds at most.
	fresh bool
}

var scenarios = slices.Concat(
	bulkScenarios, threadsScenarios, keepaliveScenarios, []scenario{shortConnections}, pingPongScenarios,
	[]scenario{pgbenchSelect, pgbenchConnect, redisOne, redisSixteen, mixed, burst}, idleScenarios, peersScenarios, sessionsScenarios,
	[]scenario{udpEchoOne, udpEchoEight, udpFlood64, udpFlood1200, udpFloodGSO, udpSession, udpIperf, udpIperfReverse},
)

func scenarioNames() []string {
	var names []string
	for _, sc := range scenarios {
		names = append(names, sc.name)
	}
	return names
}

func quickNames() []string {
	var names []string
	for _, sc := range scenarios {
		if sc.quick {
			names = append(names, sc.name)
		}
	}
	return names
}

// servers is how many stand behind a contestant.
func (sc scenario) servers() int {
	if sc.peers > 0 {
		return sc.peers
	}
	return sc.addresses
}

// parts joins listening addresses with servers.
func (sc scenario) parts(listen, servers []string) []part {
	if !sc.apart {
		return []part{{listen, servers}}
	}
	var parts []part
	for i := range listen {
		parts = append(parts, part{listen[i : i+1], servers[i : i+1]})
	}
	return parts
}

func runScenario(ctx context.Context, e *env, sc scenario, all []*contestant) (*result, error) {
	contestants := slices.DeleteFunc(slices.Clone(all), func(c *contestant) bool { return !c.takesPart(sc) })
	port, err := e.port()
	if err != nil {
		return nil, err
	}
	var addrs []string
	for _, c := range contestants {
		addrs = append(addrs, c.serverAddrs(port, sc.servers())...)
	}
	if sc.backend != nil {
		stop, err := sc.backend(ctx, e, addrs)
		if err != nil {
			return nil, err
		}
		defer stop()
	}

	// Up before the first round: all of them idle while one runs, and an idle
	// proxy uses no CPU.
	instances := make([]*instance, len(contestants))
	defer func() {
		for _, in := range instances {
			if in != nil {
				in.proc.stop()
			}
		}
	}()
	for i, c := range contestants {
		in, err := c.start(ctx, e, sc, c.serverAddrs(port, sc.servers()))
		if err != nil {
			return nil, err
		}
		instances[i] = in
		if c.program != "" && !sc.fresh {
			if in.runtime, err = newRuntimeMeter(ctx, e.weirAdmin(c.name)); err != nil {
				return nil, err
			}
		}
		if sc.warm == nil {
			continue
		}
		if err := sc.warm(ctx, e, in); err != nil && ctx.Err() == nil {
			// The measured runs will show whether it matters.
			fmt.Printf("warm-up of %s in %s: %v\n", c.name, sc.name, err)
		}
	}

	rounds := e.rounds
	if sc.fresh {
		rounds = min(rounds, pick(e.quick, 1, 5))
	}
	res := &result{Name: sc.name, Title: sc.title, Setup: sc.setup, Metrics: sc.metrics, Rounds: rounds}
	for _, c := range contestants {
		res.Contestants = append(res.Contestants, &series{Name: c.name})
	}
	for round := range rounds {
		for k := range instances {
			i := (round + k) % len(instances)
			if sc.fresh && round > 0 {
				if err := restart(ctx, e, sc, instances, i); err != nil {
					return nil, err
				}
			}
			s, err := runPatiently(ctx, e, sc, instances[i], round)
			if err != nil {
				return nil, err
			}
			res.Contestants[i].Samples = append(res.Contestants[i].Samples, s)
			if p := instances[i].proc; p != nil && p.exited() {
				return nil, fmt.Errorf("%s ended during its run (%v)%s", p.name, p.cmd.ProcessState, p.logTail())
			}
		}
	}
	for i, s := range res.Contestants {
		s.setMedians(sc.metrics)
		in := instances[i]
		s.Runtime = in.runtime.total()
		if sc.traced && in.workers == 1 && e.tracing() {
			if s.Syscalls, err = countSyscalls(ctx, e, sc, in, rounds); err != nil {
				return nil, err
			}
		}
	}
	return res, nil
}

// runPatiently is one measured run. Within the bench's patience it waits until
// nothing else is busy, and runs again if something was in the meantime, but
// not to be rid of a failure.
func runPatiently(ctx context.Context, e *env, sc scenario, in *instance, round int) (sample, error) {
	deadline := time.Now().Add(e.patience)
	for repeats := 0; ; repeats++ {
		if err := waitCalm(ctx, deadline); err != nil {
			return sample{}, err
		}
		before, err := readLoad()
		if err != nil {
			return sample{}, err
		}
		s, err := sc.run(ctx, e, in, round)
		if ctx.Err() != nil {
			return sample{}, ctx.Err()
		}
		if err != nil {
			s = sample{Failed: err.Error()}
		}
		s.Round, s.Repeats = round+1, repeats
		if after, err := readLoad(); err == nil {
			s.Others = after.othersSince(before)
		}
		if s.Failed != "" || s.Others <= busyCores || sc.fresh || !time.Now().Before(deadline) {
			return s, nil
		}
	}
}

// waitCalm returns when nothing else has been busy for a moment, and at the
// deadline.
func waitCalm(ctx context.Context, deadline time.Time) error {
	const moment = 300 * time.Millisecond
	for time.Now().Before(deadline) {
		before, err := readLoad()
		if err != nil {
			return err
		}
		time.Sleep(moment)
		after, err := readLoad()
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if after.othersSince(before) <= busyCores {
			return nil
		}
	}
	return nil
}

func restart(ctx context.Context, e *env, sc scenario, instances []*instance, i int) error {
	instances[i].proc.stop()
	in, err := instances[i].start(ctx, e, sc, instances[i].servers)
	if err != nil {
		return err
	}
	instances[i] = in
	return nil
}

// measured runs a load and returns a sample of what it reports: the units of
// work that were done, and figures, to which it adds the CPU time of the proxy
// ("cpu") and of the whole machine ("machine cpu") for each unit of work, in
// multiples of unit. What weir's Go runtime did meanwhile goes to its meter.
func measured(ctx context.Context, in *instance, unit time.Duration, load func() (work float64, values map[string]float64, err error)) (sample, error) {
	if err := in.runtime.begin(ctx); err != nil {
		return sample{}, err
	}
	machineBefore, err := machineCPU()
	if err != nil {
		return sample{}, err
	}
	before := in.proc.cpuTime()
	work, values, err := load()
	if err != nil {
		return sample{}, err
	}
	used := in.proc.cpuTime() - before
	machine, err := machineCPU()
	if err != nil {
		return sample{}, err
	}
	if work <= 0 {
		return sample{}, fmt.Errorf("%s: no work was done", in.name)
	}
	if err := in.runtime.add(ctx, work); err != nil {
		return sample{}, err
	}
	per := func(d time.Duration) float64 { return float64(d) / float64(unit) / work }
	values["cpu"], values["machine cpu"] = per(used), per(machine-machineBefore)
	return sample{Work: work, Values: values}, nil
}

// costMetrics are the CPU figures that measured adds.
func costMetrics(unit string) []metric {
	return []metric{
		{Name: "cpu", Unit: unit, Lower: true, ProxyOnly: true},
		{Name: "machine cpu", Unit: unit, Lower: true},
	}
}

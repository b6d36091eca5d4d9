package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream"
	"github.com/weirlb/weir/stream/upstream"
)

const (
	demoPort     = 8080 // where people try first; any free port if it is taken
	demoWorkers  = 2
	demoSessions = 256 // the servers and clients live on the same descriptors as weir
	demoPlain    = 10 * time.Second
	demoTick     = 200 * time.Millisecond
	demoVictim   = 1      // the server that goes away
	demoName     = "demo" // of the upstream and the listener
)

func newDemoCmd() *cobra.Command {
	var length time.Duration
	var overloaded bool
	cmd := &cobra.Command{
		Use:   "demo [--overload] [--for DURATION]",
		Short: "show the balancer at work, with servers and traffic of its own",
		Long: `demo starts three small servers, a balancer in front of them and clients, all
inside this process and on the loopback interface, and shows what happens, over
TCP and over UDP (DNS). Now and then one server goes away and comes back.

With --overload it shows what an adaptive limit does while the load triples: two
servers of one kind, one of them behind a limit, in lines of what is seen.

On a terminal it shows a page until Ctrl-C. Elsewhere it prints plain lines and
ends after 10s.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("for") && length <= 0 {
				return fmt.Errorf("--for is %v: it must be longer than 0", length)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGINT, unix.SIGTERM)
			defer stop()
			if overloaded {
				if length == 0 {
					length = overloadPlain
				}
				o := &overload{out: cmd.OutOrStdout()}
				if err := o.run(ctx, length); err != nil {
					return failed(err)
				}
				return nil
			}
			d := &demo{out: cmd.OutOrStdout(), size: terminalSize(cmd.OutOrStdout())}
			if length == 0 && d.size == nil {
				length = demoPlain
			}
			if length > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, length)
				defer cancel()
			}
			d.plan = planDemo(length)
			if err := d.run(ctx); err != nil {
				return failed(err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&overloaded, "overload", false, "show an adaptive limit under three times the load")
	cmd.Flags().DurationVar(&length, "for", 0, "how long it runs, such as 30s")
	return cmd
}

// terminalSize returns the function that measures the terminal that w is, or
// nil if it is none. isTerminal is not asked: the page has no colours, so
// NO_COLOR has no say in it.
func terminalSize(w io.Writer) func() (cols, rows int) {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return nil
	}
	if _, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err != nil {
		return nil
	}
	return func() (cols, rows int) {
		ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
		if err != nil || ws.Col == 0 || ws.Row == 0 {
			return 80, 24
		}
		return int(ws.Col), int(ws.Row)
	}
}

// demoPlan is when the server goes away: after up, for away, again and again.
type demoPlan struct {
	up, away    time.Duration
	failTimeout time.Duration
}

// planDemo fits one absence and its end into a demo of that length; 0 is
// without end.
func planDemo(length time.Duration) demoPlan {
	p := demoPlan{up: 6 * time.Second, away: 8 * time.Second, failTimeout: 2 * time.Second}
	if length > 0 {
		p.up = min(p.up, length/4)
		p.away = min(p.away, length*3/10)
	}
	if length > 0 && length < 10*time.Second {
		p.failTimeout = time.Second // the shortest there is
	}
	return p
}

// demo is one run of `weir demo`. Only the goroutine of run touches it.
type demo struct {
	out  io.Writer
	size func() (cols, rows int) // nil = plain lines
	plan demoPlan

	servers [3]*demoServer
	balance *stream.Server
	addr    string // that weir listens on
	dnsAddr string // the same, UDP
	traffic *demoTraffic

	start    time.Time
	taken    time.Time // the server last went away
	absences int
	events   []string // the last ones, or those not printed yet
	peers    []upstream.Snapshot
	dnsPeers []upstream.Snapshot
	since    []upstream.Snapshot // when the set of usable peers last changed
	sinceAt  time.Time
	samples  []demoSample // of the last second
	screen   demoScreen
}

// run shows the demo until ctx is done. When it returns, nothing of it is left.
func (d *demo) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i, weight := range [...]int{3, 1, 1} {
		d.servers[i], err = startDemoServer(string(rune('a'+i)), weight)
		if err != nil {
			return err
		}
		defer d.servers[i].close()
	}
	if err := d.startBalancer(); err != nil {
		return err
	}
	defer d.balance.Stop(ctx) // ctx is done by then: it cuts at once

	// Without ctx's deadline, which a dial would report shortly before ctx does.
	clients, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	d.traffic = startDemoTraffic(clients, d.addr, d.dnsAddr)
	defer func() {
		hangUp()
		d.traffic.running.Wait()
		cancel()
	}()

	d.start = time.Now()
	d.sinceAt = d.start
	d.peers = d.balance.Peers(demoName)
	d.since = d.peers
	d.dnsPeers = d.balance.Peers(dnsName)
	return d.watch(ctx)
}

// startBalancer starts weir in front of the servers.
func (d *demo) startBalancer() error {
	cfg := conf.Default()
	cfg.Log.Access = conf.AccessOff
	cfg.Worker.Count = demoWorkers
	cfg.Worker.MaxSessions = demoSessions
	u := conf.NewUpstream(demoName)
	for _, s := range d.servers {
		at := s.addr()
		c := conf.NewServer(conf.Address{Host: at.Addr().String(), Port: at.Port()})
		c.Name, c.Weight, c.FailTimeout = s.name, s.weight, d.plan.failTimeout
		u.Servers = append(u.Servers, c)
	}
	l := conf.NewListener(demoName)
	l.Upstream = demoName
	dns := u
	dns.Name = dnsName
	cfg.Upstreams = []conf.Upstream{u, dns}
	cfg.Listeners = []conf.Listener{l, newDNSListener()}

	// Where people try first, or wherever there is room.
	var err error
	for _, ports := range [...][2]uint16{{demoPort, demoPort}, {demoPort, 0}, {0, 0}} {
		for i, port := range ports {
			cfg.Listeners[i].Listen = []conf.Address{{Host: "127.0.0.1", Port: port}}
		}
		d.balance, err = stream.Start(context.Background(), &cfg, stream.Options{Logger: slog.New(slog.DiscardHandler)})
		if !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	if err != nil {
		return err
	}
	d.addr = d.balance.Bound()[0].Addr.String()
	d.dnsAddr = d.balance.Bound()[1].Addr.String()
	return nil
}

// watch carries out the plan and shows what comes of it.
func (d *demo) watch(ctx context.Context) error {
	if err := d.open(); err != nil {
		return err
	}
	tick := time.NewTicker(demoTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return d.end()
		case now := <-tick.C:
			d.observe(now)
			if err := d.follow(now); err != nil {
				return errors.Join(err, d.end())
			}
			if err := d.show(now); err != nil {
				return err
			}
		}
	}
}

// follow takes the server away or brings it back when the plan says so. It is
// not taken away before weir has used it again for a while.
func (d *demo) follow(now time.Time) error {
	v := d.servers[demoVictim]
	switch fails := d.peers[demoVictim].Balance.Fails; {
	case !v.away && fails == 0 && d.dnsPeers[demoVictim].Balance.Fails == 0 && now.Sub(d.sinceAt) >= d.plan.up:
		held := 0
		d.traffic.during(func() { held = v.takeAway() })
		d.taken = now
		d.absences++
		d.event("%s was taken away: connections and queries are refused, %s cut", v.name, count(held, "session"))
	case v.away && now.Sub(d.taken) >= d.plan.away:
		if err := v.comeBack(); err != nil {
			return err
		}
		d.traffic.cameBack()
		d.event("%s is back; weir finds out when it next tries %s", v.name, v.name)
	}
	return nil
}

// observe looks at weir's account of the peers and tells what changed in it.
// Fails says more than the state: a peer is up again when fail_timeout is over,
// but its failures are forgiven only once it has been connected to.
func (d *demo) observe(now time.Time) {
	before := d.peers
	d.peers = d.balance.Peers(demoName)
	d.observeDNS()
	d.sample(now)
	for i, p := range d.peers {
		was, is := before[i].Balance.Fails, p.Balance.Fails
		switch {
		case was == 0 && is > 0:
			d.event("weir was refused by %s and took another peer for that session", p.Name)
			d.event("%s is unavailable (max_fails = %d); tried again after fail_timeout = %v", p.Name, p.Balance.MaxFails, d.plan.failTimeout)
		case is > was:
			d.event("weir tried %s with one session: refused, another peer took it", p.Name)
		case is == 0 && was > 0:
			d.event("weir tried %s with one session: connected; %s gets its share again", p.Name, p.Name)
		}
		if (was == 0) != (is == 0) {
			d.since, d.sinceAt = d.peers, now
		}
	}
}

// event notes what happened now, in less than 80 columns.
func (d *demo) event(format string, args ...any) {
	d.events = append(d.events, time.Now().Format(time.TimeOnly)+" "+fmt.Sprintf(format, args...))
	d.events = d.events[max(len(d.events)-eventsKept, 0):]
}

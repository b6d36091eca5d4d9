package health

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlb/weir/conf"
)

// A fakeProbe takes what its function says, and notes when.
type fakeProbe struct {
	f func(ctx context.Context, n int) (reading, error) // n = 0 the first time

	begun         time.Time
	starts        []time.Duration // since begun
	running, last bool
	overlaps      int
}

func (p *fakeProbe) check(ctx context.Context) (reading, error) {
	if p.running {
		p.overlaps++
	}
	p.running = true
	defer func() { p.running = false }()
	p.starts = append(p.starts, time.Since(p.begun))
	return p.f(ctx, len(p.starts)-1)
}

func (p *fakeProbe) end(last bool) { p.last = p.last || last }

func fakeCheck(f func(ctx context.Context, n int) (reading, error)) (*check, *fakeProbe) {
	h := testCheck(2, 3)
	h.Interval, h.Timeout = time.Second, 500*time.Millisecond
	p := &fakeProbe{f: f, begun: time.Now()}
	return &check{HealthCheck: h, at: &endpoint{}, probe: p}, p
}

// none and most are the ends of what chance may add.
func none(time.Duration) time.Duration   { return 0 }
func most(d time.Duration) time.Duration { return d }

func shown(list []time.Duration) string { return strings.Trim(fmt.Sprint(list), "[]") }

func TestSchedule(t *testing.T) {
	for _, test := range []struct {
		name   string
		jitter func(time.Duration) time.Duration
		takes  time.Duration
		want   string
	}{
		{"no jitter", none, 0, "0s 1s 2s 3s"},
		{"all of the jitter", most, 0, "50ms 1.15s 2.25s 3.35s"},
		{"from start to start", none, 400 * time.Millisecond, "0s 1s 2s 3s"},
		{"no overlap", none, 1500 * time.Millisecond, "0s 1.5s 3s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, p := fakeCheck(func(ctx context.Context, n int) (reading, error) {
					time.Sleep(test.takes)
					return alive(""), nil
				})
				k.Timeout = time.Minute
				c := start([]*check{k}, Options{Jitter: test.jitter})
				time.Sleep(3900 * time.Millisecond)
				c.Stop()
				if got := shown(p.starts); got != test.want || p.overlaps > 0 || !p.last {
					t.Errorf("checks at %s, want %s; %d overlap; last goodbye said: %v", got, test.want, p.overlaps, p.last)
				}
			})
		})
	}
}

// The real jitter stays within its bounds.
func TestJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, p := fakeCheck(func(context.Context, int) (reading, error) { return alive(""), nil })
		c := start([]*check{k}, Options{})
		time.Sleep(500 * time.Second)
		c.Stop()
		if p.starts[0] > firstWithin {
			t.Errorf("the first check is at %v", p.starts[0])
		}
		seen := map[time.Duration]bool{}
		for i, at := range p.starts[1:] {
			d := at - p.starts[i]
			seen[d] = true
			if d < time.Second || d > 1100*time.Millisecond {
				t.Fatalf("%v between two checks, want 1s to 1.1s", d)
			}
		}
		if len(seen) < 100 {
			t.Errorf("only %d different intervals of %d", len(seen), len(p.starts)-1)
		}
	})
}

// A check that panics has failed, and its connection is not kept.
func TestPanicIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p *fakeProbe
		k, p := fakeCheck(func(_ context.Context, n int) (reading, error) {
			if n == 0 {
				panic("a strange answer")
			}
			if !p.last {
				t.Error("no goodbye after the panic")
			}
			return alive(""), nil
		})
		c := start([]*check{k}, Options{Jitter: none})
		time.Sleep(900 * time.Millisecond)
		if s := c.Checks()[0]; s.OK || s.Cause != "a panic at what the server says: a strange answer" {
			t.Errorf("the check's state is %+v", s)
		}
		time.Sleep(time.Second)
		if s := c.Checks()[0]; s.Passed != 1 {
			t.Errorf("the check's state is %+v", s)
		}
		c.Stop()
	})
}

// A check is told when its time is up, and the cause says what it waited for.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := fakeCheck(func(ctx context.Context, _ int) (reading, error) {
			<-ctx.Done()
			return reading{}, doing("waiting for the greeting", ctx.Err())
		})
		var got []Verdict
		c := start([]*check{k}, Options{Jitter: none, Report: func(v Verdict) { got = append(got, v) }})
		time.Sleep(900 * time.Millisecond)
		c.Stop()
		const want = "postgres: first check failed: timed out after 500ms waiting for the greeting"
		if len(got) != 1 || got[0].Health != Unhealthy || got[0].Cause != want {
			t.Errorf("reported %+v, want unhealthy, %q", got, want)
		}
		if s := c.Checks()[0]; s.Took != 500*time.Millisecond || s.Failed != 1 || s.OK {
			t.Errorf("the check's state is %+v", s)
		}
	})
}

func TestReports(t *testing.T) {
	burns := errors.New("it burns")
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		k, _ := fakeCheck(func(_ context.Context, n int) (reading, error) {
			switch {
			case n >= 3 && n <= 6:
				return reading{}, burns
			case n == 9:
				return reading{role: conf.Replica, lag: -1, note: "it follows"}, nil
			}
			return reading{role: conf.Primary, lag: -1, note: "it leads"}, nil
		})
		k.Role = conf.Primary
		var got strings.Builder
		c := start([]*check{k}, Options{Jitter: none, Report: func(v Verdict) {
			fmt.Fprintf(&got, "%v %v %s: %s\n", time.Since(begun), v.Health, v.ShownRole(), v.Cause)
		}})
		time.Sleep(11500 * time.Millisecond)
		c.Stop()
		const want = `0s healthy primary: postgres: it leads
5s unhealthy primary: postgres: 3 of 3 failed: it burns
8s healthy primary: postgres: 2 of 2 passed
9s healthy standby: postgres: it follows
10s healthy primary: postgres: it leads
`
		if got.String() != want {
			t.Errorf("reported\n%swant\n%s", got.String(), want)
		}
		s := c.Checks()[0]
		if s.Passed != 8 || s.Failed != 4 || !s.OK || s.InRow != 5 || s.Cause != "it leads" || s.Kind != conf.CheckPostgres || s.Health != Healthy {
			t.Errorf("the check's state is %+v", s)
		}
	})
}

// The first verdict is reported even if nothing has changed, so that whoever
// began with a guess learns that it was right.
func TestFirstVerdictIsReported(t *testing.T) {
	for _, test := range []struct {
		name, cause string
		opt         Options
		initial     conf.Initial
	}{
		{"begin", "from before", Options{Begin: &Verdict{Health: Healthy, Cause: "from before", At: 42}}, conf.InitialUnknown},
		{"initial", "initial is up", Options{}, conf.InitialUp},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, _ := fakeCheck(func(context.Context, int) (reading, error) { return alive(""), nil })
				k.Initial = test.initial
				var got []Verdict
				test.opt.Jitter, test.opt.Report = none, func(v Verdict) { got = append(got, v) }
				c := start([]*check{k}, test.opt)
				before := c.Verdict()
				time.Sleep(5 * time.Second)
				c.Stop()
				if len(got) != 1 || got[0] != before || got[0].Health != Healthy || got[0].Cause != test.cause {
					t.Errorf("reported %+v, want once what was known: %+v", got, before)
				}
			})
		})
	}
}

// Two checks must agree, and none is reported before both have spoken.
func TestTwoChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		quick, _ := fakeCheck(func(_ context.Context, n int) (reading, error) {
			if n >= 5 {
				return reading{}, errors.New("it burns")
			}
			return alive(""), nil
		})
		slow, _ := fakeCheck(func(context.Context, int) (reading, error) {
			time.Sleep(300 * time.Millisecond)
			return alive(""), nil
		})
		slow.Kind = conf.CheckTCP
		var got strings.Builder
		c := start([]*check{quick, slow}, Options{Jitter: none, Report: func(v Verdict) {
			fmt.Fprintf(&got, "%v %v: %s\n", time.Since(begun), v.Health, v.Cause)
		}})
		time.Sleep(10 * time.Second)
		c.Stop()
		const want = "300ms healthy: tcp: first check passed\n7s unhealthy: postgres: 3 of 3 failed: it burns\n"
		if got.String() != want {
			t.Errorf("reported\n%swant\n%s", got.String(), want)
		}
	})
}

// Reports of many checks come one at a time and in order, and none after Stop.
func TestReportsAreSerial(t *testing.T) {
	var list []*check
	for range 8 {
		k, _ := fakeCheck(func(_ context.Context, n int) (reading, error) {
			if n%2 == 1 {
				return reading{}, errors.New("it burns")
			}
			return alive(""), nil
		})
		k.Rise, k.Fall, k.Interval = 1, 1, time.Millisecond
		list = append(list, k)
	}
	var reporting, stopped atomic.Bool
	var reports atomic.Int32
	var last Health
	var c *Checker
	ready := make(chan struct{})
	c = start(list, Options{Report: func(v Verdict) {
		if reporting.Swap(true) {
			t.Error("two reports at once")
		}
		defer reporting.Store(false)
		<-ready
		if stopped.Load() {
			t.Error("a report after Stop")
		}
		if v.Health == last {
			t.Errorf("%v twice", v.Health)
		}
		if now := c.Verdict(); now.Health != v.Health {
			t.Errorf("%v is reported while the verdict is %v", v.Health, now.Health)
		}
		last = v.Health
		reports.Add(1)
	}})
	close(ready)
	eventually(t, 10*time.Second, "fifty reports", func() bool { return reports.Load() >= 50 })
	c.Stop()
	stopped.Store(true)
}

// A check that was cut off by Stop says nothing about the server.
func TestStopIsNoResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, p := fakeCheck(func(ctx context.Context, _ int) (reading, error) {
			<-ctx.Done()
			return reading{}, ctx.Err()
		})
		k.Role = conf.Primary
		c := start([]*check{k}, Options{Jitter: none, Report: func(v Verdict) { t.Errorf("reported %+v", v) }})
		if v := c.Verdict(); v.Health != Unknown || v.Role != RoleUnknown || v.Cause != "not checked yet" {
			t.Errorf("begins with %+v", v)
		}
		time.Sleep(100 * time.Millisecond)
		c.Stop()
		if !p.last || c.Checks()[0].Failed != 0 {
			t.Errorf("last goodbye said: %v; state %+v", p.last, c.Checks()[0])
		}
	})
}

// Stop lets a check that runs end in its own time, if that is soon.
func TestStopLetsACheckEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cut error
		k, p := fakeCheck(func(ctx context.Context, _ int) (reading, error) {
			time.Sleep(80 * time.Millisecond)
			cut = ctx.Err()
			return alive(""), nil
		})
		c := start([]*check{k}, Options{Jitter: none})
		time.Sleep(10 * time.Millisecond)
		begun := time.Now()
		c.Stop()
		if took := time.Since(begun); took != 70*time.Millisecond || cut != nil || !p.last {
			t.Errorf("stopped in %v, the check is told %v, last goodbye said: %v", took, cut, p.last)
		}
	})
}

// A whole Checker on real sockets: a server that comes, goes and comes back.
func TestServerGoes(t *testing.T) {
	target := nobody(t)
	h := conf.NewHealthCheck(conf.CheckTCP)
	h.Interval, h.Timeout = 10*time.Millisecond, scaled(5*time.Second)
	reports := make(chan Verdict, 10)
	c, err := Start([]conf.HealthCheck{h}, target, Options{Report: func(v Verdict) { reports <- v }})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	want := func(health Health, cause string) {
		t.Helper()
		select {
		case v := <-reports:
			if v.Health != health || v.Cause != cause || v.Lag != -1 {
				t.Errorf("reported %+v, want %v, %q", v, health, cause)
			}
		case <-time.After(scaled(10 * time.Second)):
			t.Fatalf("no report, want %v", health)
		}
	}
	refused := "connecting to " + target.Addr.String() + ": connection refused"
	want(Unhealthy, "tcp: first check failed: "+refused)
	ln, err := net.Listen("tcp", target.Addr.String())
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, ln, silent)
	want(Healthy, "tcp: 2 of 2 passed")
	ln.Close()
	want(Unhealthy, "tcp: 3 of 3 failed: "+refused)
}

// What Start refuses, each with the check's name and the reason.
func TestStartRefuses(t *testing.T) {
	tcp := Target{Addr: mustAddr("127.0.0.1:1"), Host: "127.0.0.1"}
	unix := Target{Path: "/run/x.sock"}
	edit := func(kind conf.CheckKind, f func(h *conf.HealthCheck)) []conf.HealthCheck {
		h := conf.NewHealthCheck(kind)
		f(&h)
		return []conf.HealthCheck{h}
	}
	for _, test := range []struct {
		checks []conf.HealthCheck
		target Target
		want   string
	}{
		{nil, tcp, "no health_check"},
		{edit("smtp", func(*conf.HealthCheck) {}), tcp, `health_check "smtp": unknown kind`},
		{edit(conf.CheckTCP, func(*conf.HealthCheck) {}), Target{}, `health_check "tcp": the server has no address`},
		{edit(conf.CheckTCP, func(h *conf.HealthCheck) { h.Port = 1 }), unix, `health_check "tcp": a unix socket has no ports`},
		{edit(conf.CheckUDP, func(*conf.HealthCheck) {}), unix, `health_check "udp": a unix socket has no ports`},
		{edit(conf.CheckTLS, func(*conf.HealthCheck) {}), unix, `health_check "tls": tls: a server without a host name needs server_name to be verified`},
		{edit(conf.CheckTLS, func(h *conf.HealthCheck) { h.TLS.CAFile = "/nowhere.pem" }), tcp, `health_check "tls": open /nowhere.pem: no such file or directory`},
		{edit(conf.CheckTLS, func(h *conf.HealthCheck) { h.TLS.CAFile = "checker_test.go" }), tcp, `health_check "tls": tls: no certificate in checker_test.go`},
		{edit(conf.CheckTLS, func(h *conf.HealthCheck) { h.TLS.CertFile = "/nowhere.pem" }), tcp, `health_check "tls": tls: open /nowhere.pem: no such file or directory`},
		{edit(conf.CheckSendExpect, func(*conf.HealthCheck) {}), tcp, `health_check "send_expect": no steps`},
		{edit(conf.CheckPostgres, func(h *conf.HealthCheck) { h.Role = conf.Primary }), tcp, `health_check "postgres": role needs a user`},
		{edit(conf.CheckMySQL, func(h *conf.HealthCheck) { h.Galera = true }), tcp, `health_check "mysql": role and galera need a user`},
		{edit(conf.CheckHTTP, func(h *conf.HealthCheck) { h.Path = "/%zz" }), tcp, `health_check "http": parse "http://weir/%zz": invalid URL escape "%zz"`},
	} {
		c, err := Start(test.checks, test.target, Options{})
		if err == nil {
			c.Stop()
		}
		if fmt.Sprint(err) != test.want {
			t.Errorf("%+v: %v, want %s", test.checks, err, test.want)
		}
	}
}

func TestCause(t *testing.T) {
	expired, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	<-expired.Done()
	for _, test := range []struct {
		ctx  context.Context
		err  error
		want string
	}{
		{context.Background(), errors.New("status 503"), "status 503"},
		{expired, errors.New("status 503"), "status 503"}, // it had answered
		{expired, doing("waiting for PONG", context.DeadlineExceeded), "timed out after 1s waiting for PONG"},
		{context.Background(), fmt.Errorf("AUTH: %w", errors.New("no such command 'AUTH' 'hunter2'")), "AUTH: no such command 'AUTH' '(hidden)'"},
		{context.Background(), errors.New("two\r\nlines\x00 \x1b[31mand\xff more"), "two lines [31mand? more"},
		{context.Background(), errors.New(strings.Repeat("é", 150)), strings.Repeat("é", 100) + "..."},
	} {
		if got := cause(test.ctx, test.err, time.Second, "hunter2"); got != test.want {
			t.Errorf("%q: %q, want %q", test.err, got, test.want)
		}
	}
}

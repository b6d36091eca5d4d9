package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"
)

// runtimeMeter adds up what weir's Go runtime does in the runs, from begin to
// add. The methods do nothing on nil, which the other contestants have.
type runtimeMeter struct {
	client *http.Client
	asking goRuntime // what the question itself costs
	before goRuntime
	sum    goRuntime
}

// newRuntimeMeter asks the weir whose control API is at a unix socket. It asks
// twice in a row to know what asking costs.
func newRuntimeMeter(ctx context.Context, socket string) (*runtimeMeter, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	m := &runtimeMeter{client: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
	for range 2 { // the first one of all costs more
		if err := m.begin(ctx); err != nil {
			return nil, err
		}
	}
	after, err := m.ask(ctx)
	m.asking = after.less(m.before)
	m.asking.GCCycles = 0 // a cycle meanwhile is no part of it
	return m, err
}

func (m *runtimeMeter) begin(ctx context.Context) (err error) {
	if m == nil {
		return nil
	}
	m.before, err = m.ask(ctx)
	return err
}

// add adds what has been done since begin, for so many units of work.
func (m *runtimeMeter) add(ctx context.Context, work float64) error {
	if m == nil {
		return nil
	}
	after, err := m.ask(ctx)
	if err != nil {
		return err
	}
	did := after.less(m.before).less(m.asking)
	m.sum.GCCycles += did.GCCycles
	m.sum.Objects += did.Objects
	m.sum.Bytes += did.Bytes
	m.sum.Work += work
	return nil
}

// total is the sum. What the question costs differs a little from one time to
// the next, as weir counts small objects late, so a sum of nothing may come out
// below it. A cycle counts all that was not yet counted since the start.
func (m *runtimeMeter) total() *goRuntime {
	if m == nil {
		return nil
	}
	return &goRuntime{GCCycles: m.sum.GCCycles, Objects: max(0, m.sum.Objects), Bytes: max(0, m.sum.Bytes), Work: m.sum.Work}
}

func (m *runtimeMeter) ask(ctx context.Context) (goRuntime, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v1/runtime", nil)
	if err != nil {
		return goRuntime{}, err
	}
	answer, err := m.client.Do(r)
	if err != nil {
		return goRuntime{}, fmt.Errorf("ask weir: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return goRuntime{}, fmt.Errorf("ask weir: %s", answer.Status)
	}
	var runtime goRuntime
	if err := json.NewDecoder(answer.Body).Decode(&runtime); err != nil {
		return goRuntime{}, fmt.Errorf("ask weir: %w", err)
	}
	return runtime, nil
}

func (r goRuntime) less(o goRuntime) goRuntime {
	return goRuntime{GCCycles: r.GCCycles - o.GCCycles, Objects: r.Objects - o.Objects, Bytes: r.Bytes - o.Bytes, Work: r.Work - o.Work}
}

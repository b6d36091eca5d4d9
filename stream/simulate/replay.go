package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/upstream"
)

// Result is what a step comes to. Steps that select have Expect; the rest have
// a Result only if the state is asked for.
type Result struct {
	Step   int       `json:"step"`
	Expect *[]string `json:"expect,omitempty"` // attempted peers, in order
	Status *int      `json:"status,omitempty"` // null in JSON lines of sessions that have none yet
	Busy   bool      `json:"busy"`
	State
}

// State is how the peers stand after a step, in the order of the trace. Times
// are seconds on the trace's clock, null = never.
type State struct {
	Weights  [][2]int            `json:"weights_after,omitempty"` // current, effective
	Fails    []int               `json:"fails_after,omitempty"`
	Conns    []int               `json:"conns_after,omitempty"`
	Checked  []*int64            `json:"checked_after,omitempty"`
	Accessed []*int64            `json:"accessed_after,omitempty"`
	Average  [][3]balance.Millis `json:"avg_after,omitempty"`      // least_time: connect, first byte, session; ms
	Inflight [][4]*int64         `json:"inflight_after,omitempty"` // and inflight: average, accumulated, changed, count
}

// MarshalJSON writes the line of a step: null stands for a status that is not
// known yet, and a step that selects nothing has state only.
func (r Result) MarshalJSON() ([]byte, error) {
	if r.Expect == nil {
		return json.Marshal(struct {
			Step   int  `json:"step"`
			Status *int `json:"status,omitempty"`
			State
		}{r.Step, r.Status, r.State})
	}
	return json.Marshal(struct {
		Step   int      `json:"step"`
		Expect []string `json:"expect"`
		Status *int     `json:"status"`
		Busy   bool     `json:"busy"`
		State
	}{r.Step, *r.Expect, r.Status, r.Busy, r.State})
}

// Replay carries the trace out and calls emit for each step that selects, or
// for every step, with the state after it, if withState. Traces that give only
// totals yield the returned totals instead. Lots are drawn from seed.
func (t *Trace) Replay(seed uint64, withState bool, emit func(Result) error) (totals map[string]int, err error) {
	u, err := t.upstream()
	if err != nil {
		return nil, fmt.Errorf("replay trace %q: %w", t.Name, err)
	}
	r := &replay{Trace: t, servers: map[string]*server{}, sessions: map[int]*held{}}
	if err := r.build(u, seed); err != nil {
		return nil, fmt.Errorf("replay trace %q: %w", t.Name, err)
	}
	if len(t.Steps) == 0 {
		return r.draw(), nil
	}
	for i := range t.Steps {
		result := Result{Step: i}
		if err := r.step(&t.Steps[i], &result); err != nil {
			return nil, fmt.Errorf("replay trace %q: step %d: %w", t.Name, i, err)
		}
		if withState {
			result.State = r.state()
		} else if result.Expect == nil {
			continue
		}
		if err := emit(result); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// WriteReplay is Replay with one JSON line for each result.
func (t *Trace) WriteReplay(w io.Writer, seed uint64, withState bool) error {
	enc := json.NewEncoder(w)
	totals, err := t.Replay(seed, withState, func(r Result) error { return enc.Encode(r) })
	if err != nil || totals == nil {
		return err
	}
	return enc.Encode(map[string]any{"totals": totals})
}

type replay struct {
	*Trace
	group    *upstream.Group
	peers    []*upstream.Peer // in the trace's order
	servers  map[string]*server
	clock    clock.Fake
	sessions map[int]*held
}

// server is what stands behind a label, or behind several.
type server struct {
	state string
	delay time.Duration
}

// held is a session that outlives its step.
type held struct {
	session
	failed bool // UDP: how it will end
}

func (r *replay) build(u *conf.Upstream, seed uint64) error {
	nowhere := func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{netip.IPv4Unspecified()}, nil }
	var err error
	if r.peers, err = upstream.Resolve(context.Background(), u, 1, nowhere); err != nil {
		return err
	}
	if r.group, err = upstream.NewGroup(u, r.peers, 1, seed); err != nil {
		return err
	}
	for i, p := range r.Upstream {
		if same := p.SameServerAs; same != "" {
			r.servers[p.Peer] = r.servers[same]
			continue
		}
		r.servers[r.Upstream[i].Peer] = &server{state: "up"}
	}
	return nil
}

// draw makes the sessions of a trace that gives totals only.
func (r *replay) draw() map[string]int {
	totals := map[string]int{}
	hold := r.Held || r.FinalConns != nil || strings.Contains(r.Name, "_hold")
	for range r.Selections {
		s := &held{}
		r.begin(s, &TraceStep{})
		walk(r.group, &s.session, 0, r.world(&TraceStep{}))
		if s.peer != nil {
			totals[s.peer.Name]++
		}
		if !hold {
			end(r.group, &s.session, upstream.Succeeded, r.clock.Now())
		}
	}
	return totals
}

// step carries out one step.
func (r *replay) step(st *TraceStep, out *Result) error {
	at := st.T
	if st.NowMs != nil {
		at = *st.NowMs
	}
	r.clock.Set(clock.Base.Add(ms(at)))
	switch st.Event {
	case "backend":
		return r.setServer(st)
	case "connect", "connect_begin":
		return r.connect(st, out)
	case "connect_end":
		return r.connectEnd(st, out)
	case "client_gone":
		return nil // must change nothing
	case "datagram":
		s, err := r.session(st.ID)
		if err == nil {
			out.Expect = &[]string{s.peer.Name}
		}
		return err
	case "close", "expire":
		s, err := r.session(st.CloseOf)
		if err != nil {
			return err
		}
		delete(r.sessions, st.CloseOf)
		r.endHeld(s, out)
		return nil
	}
	return fmt.Errorf("unknown event %q", st.Event)
}

func (r *replay) session(id int) (*held, error) {
	s, ok := r.sessions[id]
	if !ok {
		return nil, fmt.Errorf("no session %d is open", id)
	}
	return s, nil
}

func (r *replay) endHeld(s *held, out *Result) {
	o := upstream.Succeeded
	if s.failed {
		o = upstream.Failed
	}
	out.Status = &s.status
	now := r.clock.Now()
	if s.took.Whole >= 0 && r.Options.Proto != "udp" {
		now = s.since.Add(s.took.Whole) // to the millisecond, as recorded
	}
	end(r.group, &s.session, o, now)
}

func (r *replay) setServer(st *TraceStep) error {
	s, ok := r.servers[st.Peer]
	if !ok {
		return fmt.Errorf("no peer %q; the trace has %s", st.Peer, strings.Join(slices.Sorted(maps.Keys(r.servers)), ", "))
	}
	switch st.State {
	case "up", "down", "hang", "reset", "silent":
		s.state, s.delay = st.State, 0
	case "delay_ms":
		s.state, s.delay = "up", ms(st.Ms)
	default:
		return fmt.Errorf("unknown state %q of a backend", st.State)
	}
	return nil
}

// connect carries out connect and connect_begin.
func (r *replay) connect(st *TraceStep, out *Result) error {
	s := &held{}
	r.begin(s, st)
	w := r.world(st)
	switch {
	case st.Event == "connect_begin":
		pick(r.group, &s.session, w)
	case r.Options.Proto == "udp":
		r.flow(s, st, w)
	default:
		walk(r.group, &s.session, 0, w)
	}
	r.report(s, out)
	if s.peer == nil {
		return nil
	}
	if st.Held || st.Event == "connect_begin" {
		if _, taken := r.sessions[st.ID]; taken {
			return fmt.Errorf("session %d is open already", st.ID)
		}
		r.sessions[st.ID] = s
		return nil
	}
	r.endHeld(s, out)
	return nil
}

// connectEnd carries out the end of a connect that was in progress.
func (r *replay) connectEnd(st *TraceStep, out *Result) error {
	s, err := r.session(st.ID)
	if err != nil {
		return err
	}
	delete(r.sessions, st.ID)
	s.picked = nil
	w := r.world(st)
	switch st.Outcome {
	case "failed":
		if len(st.Attempts) > 0 {
			r.setSecond(st.Attempts[0].Free)
		}
		if fail(r.group, &s.session, w) {
			walk(r.group, &s.session, 1, w)
		}
	case "connected":
		stand(r.group, &s.session, r.times(st, 0, s.peer), r.clock.Now)
	default:
		return fmt.Errorf("unknown outcome %q", st.Outcome)
	}
	r.report(s, out)
	r.endHeld(s, out)
	return nil
}

func (r *replay) report(s *held, out *Result) {
	names := []string{}
	for _, p := range s.picked {
		names = append(names, p.Name)
	}
	out.Expect, out.Busy = &names, s.busy
	if s.status != 0 {
		out.Status = &s.status
	}
}

// begin starts a session.
func (r *replay) begin(s *held, st *TraceStep) {
	l := upstream.Limits{Tries: r.Options.Tries, Timeout: ms(r.Options.NextUpstreamTimeoutMs)}
	if next := r.Options.NextUpstream; next != nil && !*next {
		l.Tries = 1
	}
	r.group.Begin(&s.attempts, l, r.clock.Now())
	s.attempts.Key = append(s.attempts.Key, r.key(st)...)
}

// tracePort is the port that the clients of the recordings connected to.
const tracePort = "7000"

// key evaluates the trace's hash key for a session. A variable that a trace
// does not tell the value of is the step's key.
func (r *replay) key(st *TraceStep) string {
	if conf.IPHash == r.Method {
		ip, err := netip.ParseAddr(st.Client)
		if err != nil {
			return ""
		}
		return string(ip.Unmap().AsSlice())
	}
	return expand(r.Options.Key, func(name string) string {
		switch name {
		case "remote_addr":
			return st.Client
		case "server_port":
			return tracePort
		}
		return st.Key
	})
}

// expand replaces nginx's $name and ${name}.
func expand(text string, value func(name string) string) string {
	isName := func(c byte) bool {
		return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	var b strings.Builder
	for len(text) > 0 {
		i := strings.IndexByte(text, '$')
		if i < 0 {
			i = len(text)
		}
		b.WriteString(text[:i])
		if text = text[i:]; text == "" {
			break
		}
		text = text[1:]
		if braced, rest, ok := strings.Cut(text, "}"); ok && strings.HasPrefix(braced, "{") {
			b.WriteString(value(braced[1:]))
			text = rest
			continue
		}
		n := 0
		for n < len(text) && isName(text[n]) {
			n++
		}
		b.WriteString(value(text[:n]))
		text = text[n:]
	}
	return b.String()
}

// world is what happens to the sessions of a step from outside.
func (r *replay) world(st *TraceStep) world {
	return world{
		now: r.clock.Now,
		before: func(n int) {
			if n < len(st.Attempts) {
				r.setSecond(st.Attempts[n].Get)
			}
		},
		connect: func(n int, p *upstream.Peer) answer {
			switch r.servers[p.Name].state {
			case "up", "reset", "silent": // a reset comes after the connection stands
				return answer{true, r.times(st, n, p)}
			case "hang":
				r.clock.Advance(ms(r.Options.ConnectTimeoutMs))
			}
			if n < len(st.Attempts) {
				r.setSecond(st.Attempts[n].Free)
			}
			return answer{}
		},
	}
}

// times returns what the session with a peer took, as recorded or as the
// server's delay has it.
func (r *replay) times(st *TraceStep, n int, p *upstream.Peer) upstream.Took {
	delay := r.servers[p.Name].delay
	if n >= len(st.Times) {
		if st.Held {
			return upstream.Took{FirstByte: delay, Whole: -1}
		}
		return upstream.Took{FirstByte: delay, Whole: delay}
	}
	span := func(m int) time.Duration {
		if m >= len(st.Times[n]) || st.Times[n][m] == nil {
			return -1
		}
		return ms(*st.Times[n][m])
	}
	return upstream.Took{Connect: span(0), FirstByte: span(1), Whole: span(2)}
}

// setSecond moves the clock into a second, if it is not in it.
func (r *replay) setSecond(s int64) {
	if at := clock.Base.Seconds() + s; r.clock.Now().Seconds() != at {
		r.clock.Set(clock.Time(at) * clock.Time(time.Second))
	}
}

// flow carries out a UDP session: one pick, no connect, and an end that depends
// on what came back.
func (r *replay) flow(s *held, st *TraceStep, w world) {
	w.before(0)
	if !pick(r.group, &s.session, w) {
		return
	}
	s.status = 200
	s.took = upstream.Took{Connect: -1, FirstByte: -1}
	refused, silent := false, false
	switch r.servers[s.peer.Name].state {
	case "down":
		refused = true
	case "silent", "hang":
		silent = true
	}
	atTimeout := false
	switch responses := r.Options.ProxyResponses; {
	case responses == nil:
		s.failed = refused
		atTimeout = true
	case *responses == 0: // over before anything can come back
	case refused: // counts as a response
		s.failed = true
		atTimeout = *responses > 1
	case silent:
		s.failed, s.status = true, 502
		atTimeout = true
	}
	if st.Held {
		return
	}
	if atTimeout {
		r.clock.Advance(ms(r.Options.ProxyTimeoutMs))
	}
	if len(st.Attempts) > 0 {
		r.setSecond(st.Attempts[0].Free)
	}
}

// state reads the peers' state.
func (r *replay) state() State {
	// A Snapshot has the primaries first.
	index := map[*upstream.Peer]int{}
	for i, p := range r.group.Peers() {
		index[p] = i
	}
	snap := r.group.Snapshot(nil, r.clock.Now())
	timed := r.Method == conf.LeastTime
	var out State
	for _, p := range r.peers {
		b := &snap[index[p]].Balance
		out.Weights = append(out.Weights, [2]int{b.Current, b.Effective})
		out.Fails = append(out.Fails, b.Fails)
		out.Conns = append(out.Conns, b.Conns)
		out.Checked = append(out.Checked, second(b.Checked))
		out.Accessed = append(out.Accessed, second(b.Accessed))
		if timed {
			out.Average = append(out.Average, b.Average)
		}
		if f := &b.Inflight; timed && r.Options.LtInflight {
			out.Inflight = append(out.Inflight, [4]*int64{number(f.Average), number(f.Accumulated), since(f.Changed), number(f.Count)})
		}
	}
	return out
}

func second(at balance.Seconds) *int64 {
	if at == balance.Never {
		return nil
	}
	return number(int64(at) - clock.Base.Seconds())
}

func since(at balance.Millis) *int64 {
	if at == 0 {
		return nil
	}
	return number(int64(at) - clock.Base.Millis())
}

func number[T ~int | ~int64](n T) *int64 {
	v := int64(n)
	return &v
}

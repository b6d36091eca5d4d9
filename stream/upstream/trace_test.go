package upstream

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/internal/clock"
)

// trace is one recorded scenario; see testdata/nginx-1.31.3/README.md.
type trace struct {
	Name    string
	Method  string
	Options struct {
		NextUpstream          bool `json:"next_upstream"`
		Tries                 int
		NextUpstreamTimeoutMs int64 `json:"next_upstream_timeout_ms"`
		ConnectTimeoutMs      int64 `json:"connect_timeout_ms"`
	}
	Upstream []struct {
		Peer          string
		Weight        int
		MaxFails      int   `json:"max_fails"`
		FailTimeoutMs int64 `json:"fail_timeout_ms"`
		MaxConns      int   `json:"max_conns"`
		Backup, Down  bool
		SameServerAs  string `json:"same_server_as"`
	}
	Steps        []step
	Totals       map[string]map[string]int
	TotalsFromMs int64 `json:"totals_from_ms"`
}

type step struct {
	T        int64 `json:"t_ms"`
	Event    string
	Peer     string
	State    string
	Expect   []string
	Status   int
	Busy     bool
	Held     bool
	ID       int
	CloseOf  int `json:"close_of"`
	Outcome  string
	Attempts []struct {
		GetS   int64 `json:"get_s"`
		FreeS  int64 `json:"free_s"`
		Failed bool
	}
	ByServerOnly bool      `json:"by_server_only"`
	Weights      [][2]int  `json:"weights_after"`
	Fails        []int     `json:"fails_after"`
	Conns        []int     `json:"conns_after"`
	Checked      []*uint64 `json:"checked_after"`
	Accessed     []*uint64 `json:"accessed_after"`
}

// replayer runs a trace against a Group the way a session does.
type replayer struct {
	t        *testing.T
	tr       *trace
	group    *Group
	peers    []*Peer           // in trace order
	server   map[string]string // label -> label of the same server
	backend  map[string]string // label -> state
	now      int64             // ms on the trace's clock
	sessions map[int]*replayed
}

type replayed struct {
	attempts Attempts
	peer     *Peer
	picked   []string // attempted since the step began
	status   int
	busy     bool
}

func TestTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/nginx-1.31.3/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var tr trace
		if err := json.Unmarshal(text, &tr); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		t.Run(tr.Name, func(t *testing.T) { replay(t, &tr) })
	}
}

func replay(t *testing.T, tr *trace) {
	r := &replayer{t: t, tr: tr, server: map[string]string{}, backend: map[string]string{}, sessions: map[int]*replayed{}}
	u := conf.NewUpstream(tr.Name)
	u.Balance = tr.Method
	for i, p := range tr.Upstream {
		s := conf.NewServer(conf.Address{Host: "127.0.0.1", Port: uint16(i + 1)})
		s.Name, s.Weight, s.MaxFails, s.MaxConns = p.Peer, p.Weight, p.MaxFails, p.MaxConns
		s.FailTimeout = time.Duration(p.FailTimeoutMs) * time.Millisecond
		s.Backup, s.Down = p.Backup, p.Down
		r.peers = append(r.peers, newPeer(&s, netip.AddrPort{}, 1))
		r.server[p.Peer] = p.Peer
		if p.SameServerAs != "" {
			r.server[p.Peer] = p.SameServerAs
		}
	}
	var err error
	if r.group, err = NewGroup(&u, r.peers); err != nil {
		t.Fatal(err)
	}
	counts, selections := map[string]int{}, 0
	for i := range tr.Steps {
		st := &tr.Steps[i]
		picked := r.step(i, st)
		r.compareState(i, st)
		if st.T >= tr.TotalsFromMs {
			for _, p := range picked {
				counts[p]++
			}
			if st.Event == "connect" {
				selections++
			}
			if want, ok := tr.Totals[fmt.Sprint(selections)]; ok && st.Event == "connect" && fmt.Sprint(counts) != fmt.Sprint(want) {
				t.Errorf("step %d: totals after %d are %v, nginx has %v", i, selections, counts, want)
			}
		}
	}
}

func (r *replayer) clock() clock.Time {
	return clock.Base + clock.Time(r.now)*clock.Time(time.Millisecond)
}

// step carries one step out and returns the peers attempted in it.
func (r *replayer) step(i int, st *step) []string {
	r.now = st.T
	switch st.Event {
	case "backend":
		r.backend[r.server[st.Peer]] = st.State
		return nil
	case "client_gone":
		return nil // must change nothing
	case "close":
		s := r.sessions[st.CloseOf]
		r.group.Release(s.peer, Succeeded, r.clock())
		delete(r.sessions, st.CloseOf)
		return nil
	case "connect_end":
		s := r.sessions[st.ID]
		delete(r.sessions, st.ID)
		s.picked = nil
		switch st.Outcome {
		case "failed":
			r.setSecond(st.Attempts[0].FreeS)
			if r.failed(s) {
				r.run(s, st, 1)
			}
		case "connected":
			r.group.Connected(s.peer)
			s.status = 200
		default:
			r.t.Fatalf("step %d: unknown outcome %q", i, st.Outcome)
		}
		r.finish(s, st)
		r.compare(i, st, s)
		return s.picked
	case "connect", "connect_begin":
		s := new(replayed)
		l := Limits{Tries: r.tr.Options.Tries, Timeout: time.Duration(r.tr.Options.NextUpstreamTimeoutMs) * time.Millisecond}
		if !r.tr.Options.NextUpstream {
			l.Tries = 1
		}
		r.group.Begin(&s.attempts, l, r.clock())
		if st.Event == "connect_begin" {
			if s.peer = r.group.Pick(&s.attempts, r.clock()); s.peer != nil {
				s.picked = append(s.picked, s.peer.Name)
			}
			r.sessions[st.ID] = s
		} else {
			r.run(s, st, 0)
			r.finish(s, st)
		}
		r.compare(i, st, s)
		return s.picked
	}
	r.t.Fatalf("step %d: unknown event %q", i, st.Event)
	return nil
}

// run picks and attempts peers until one connects or there is no going on.
func (r *replayer) run(s *replayed, st *step, attempt int) {
	for ; ; attempt++ {
		if attempt < len(st.Attempts) {
			r.setSecond(st.Attempts[attempt].GetS)
		}
		if s.peer = r.group.Pick(&s.attempts, r.clock()); s.peer == nil {
			s.status, s.busy = 502, true
			return
		}
		s.picked = append(s.picked, s.peer.Name)
		switch r.backend[r.server[s.peer.Name]] {
		case "", "up", "reset": // a reset comes after the connection stands
			r.group.Connected(s.peer)
			s.status = 200
			return
		case "hang":
			r.now += r.tr.Options.ConnectTimeoutMs
		}
		if attempt < len(st.Attempts) {
			r.setSecond(st.Attempts[attempt].FreeS)
		}
		if !r.failed(s) {
			return
		}
	}
}

// failed settles a failed attempt and reports whether to go on.
func (r *replayer) failed(s *replayed) bool {
	r.group.Release(s.peer, Failed, r.clock())
	s.peer, s.status = nil, 502
	return s.attempts.Again(r.clock())
}

// finish ends a session that is not held.
func (r *replayer) finish(s *replayed, st *step) {
	if s.peer == nil {
		return
	}
	if st.Held {
		r.sessions[st.ID] = s
		return
	}
	r.group.Release(s.peer, Succeeded, r.clock())
}

// setSecond moves the clock into the recorded second if it is not in it.
func (r *replayer) setSecond(s int64) {
	if r.now/1000 != s {
		r.now = s * 1000
	}
}

func (r *replayer) compare(i int, st *step, s *replayed) {
	r.t.Helper()
	got, want := slices.Clone(s.picked), slices.Clone(st.Expect)
	if st.ByServerOnly {
		for _, list := range [][]string{got, want} {
			for k := range list {
				list[k] = r.server[list[k]]
			}
		}
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("step %d (%d ms): picked [%s], nginx picked [%s]", i, st.T, strings.Join(got, " "), strings.Join(want, " "))
	}
	if st.Status != 0 && st.Status != s.status {
		r.t.Errorf("step %d (%d ms): status %d, nginx has %d", i, st.T, s.status, st.Status)
	}
	if st.Event == "connect" && st.Busy != s.busy {
		r.t.Errorf("step %d (%d ms): busy %v, nginx has %v", i, st.T, s.busy, st.Busy)
	}
}

func (r *replayer) compareState(i int, st *step) {
	r.t.Helper()
	differ := func(field string, p *Peer, got, want any) {
		r.t.Helper()
		r.t.Errorf("step %d (%d ms): %s of %s is %v, nginx has %v", i, st.T, field, p.Name, got, want)
	}
	second := func(at *uint64) balance.Seconds {
		if at == nil {
			return balance.Never
		}
		return balance.Seconds(clock.Base.Seconds()) + balance.Seconds(*at)
	}
	for k, p := range r.peers {
		b := &p.balance
		if st.Weights != nil && st.Weights[k] != [2]int{b.Current, b.Effective} {
			differ("[current effective]", p, [2]int{b.Current, b.Effective}, st.Weights[k])
		}
		if st.Fails != nil && st.Fails[k] != b.Fails {
			differ("fails", p, b.Fails, st.Fails[k])
		}
		if st.Conns != nil && st.Conns[k] != b.Conns {
			differ("conns", p, b.Conns, st.Conns[k])
		}
		if st.Checked != nil && second(st.Checked[k]) != b.Checked {
			differ("checked", p, b.Checked, second(st.Checked[k]))
		}
		if st.Accessed != nil && second(st.Accessed[k]) != b.Accessed {
			differ("accessed", p, b.Accessed, second(st.Accessed[k]))
		}
	}
}

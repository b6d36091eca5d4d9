package simulate

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/weirlb/weir/conf"
)

// Trace is one recorded scenario. What a recording expects is not part of it:
// a trace says what happened to the upstream, and Replay what comes of it.
type Trace struct {
	Name     string
	Method   string
	Options  TraceOptions
	Upstream []TracePeer
	Steps    []TraceStep

	// of traces that give totals only
	Selections int             // sessions, one after another
	FinalConns json.RawMessage `json:"final_conns"` // given = the sessions are held
	Held       bool            // the same
}

// TraceOptions are the settings around the upstream.
type TraceOptions struct {
	NextUpstream          *bool `json:"next_upstream"` // absent = true
	Tries                 int
	NextUpstreamTimeoutMs int64 `json:"next_upstream_timeout_ms"`
	ConnectTimeoutMs      int64 `json:"connect_timeout_ms"`
	Proto                 string
	Key                   string
	LtMode                string `json:"lt_mode"`
	LtInflight            bool   `json:"lt_inflight"`
	ProxyResponses        *int   `json:"proxy_responses"` // absent = any number
	ProxyTimeoutMs        int64  `json:"proxy_timeout_ms"`
}

// TracePeer is one server line.
type TracePeer struct {
	Peer          string
	Weight        *int
	MaxFails      *int   `json:"max_fails"`
	FailTimeoutMs *int64 `json:"fail_timeout_ms"`
	MaxConns      int    `json:"max_conns"`
	Backup, Down  bool
	Server        string
	SameServerAs  string `json:"same_server_as"`
}

// TraceStep is one event.
type TraceStep struct {
	T        int64 `json:"t_ms"`
	Event    string
	Peer     string // backend
	State    string
	Ms       int64
	Client   string // connect, connect_begin
	Key      string
	Held     bool
	ID       int
	CloseOf  int    `json:"close_of"` // close, expire
	Outcome  string // connect_end
	Attempts []TraceAttempt
	Times    [][]*int64 // per attempt: connect, first byte, session, in ms
	NowMs    *int64     `json:"now_ms"`
}

// TraceAttempt is the seconds of an attempt that did not happen all within the
// second of its step.
type TraceAttempt struct {
	Get  int64 `json:"get_s"`
	Free int64 `json:"free_s"`
}

// ReadTrace reads a trace in JSON.
func ReadTrace(r io.Reader) (*Trace, error) {
	var t Trace
	dec := json.NewDecoder(r)
	if err := dec.Decode(&t); err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("read trace: there is more after its closing brace")
	}
	if len(t.Upstream) == 0 {
		return nil, fmt.Errorf("read trace: it has no upstream")
	}
	return &t, nil
}

// upstream returns the configured upstream that the trace is about.
func (t *Trace) upstream() (*conf.Upstream, error) {
	u := conf.NewUpstream(t.Name)
	if err := t.balance(&u.Balance); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for i, p := range t.Upstream {
		switch {
		case p.Peer == "":
			return nil, fmt.Errorf("peer %d has no label", i+1)
		case seen[p.Peer]:
			return nil, fmt.Errorf("two peers are labelled %q", p.Peer)
		case p.SameServerAs != "" && !seen[p.SameServerAs]:
			return nil, fmt.Errorf("peer %q is the same server as %q, which does not stand before it", p.Peer, p.SameServerAs)
		}
		seen[p.Peer] = true
		s := conf.NewServer(conf.Address{Host: p.Peer, Port: 1})
		if p.Server != "" {
			addr, err := conf.ParseServerAddress(p.Server)
			if err != nil {
				return nil, fmt.Errorf("peer %q: server %q: %w", p.Peer, p.Server, err)
			}
			s.Address = addr
		}
		s.Name, s.MaxConns, s.Backup, s.Down = p.Peer, p.MaxConns, p.Backup, p.Down
		if p.Weight != nil {
			s.Weight = *p.Weight
		}
		if p.MaxFails != nil {
			s.MaxFails = *p.MaxFails
		}
		if p.FailTimeoutMs != nil {
			s.FailTimeout = ms(*p.FailTimeoutMs)
		}
		if s.Weight < 1 || s.Weight > conf.MaxWeight || s.MaxFails < 0 || s.FailTimeout < 0 || s.MaxConns < 0 {
			return nil, fmt.Errorf("peer %q: a number is out of range", p.Peer)
		}
		u.Servers = append(u.Servers, s)
	}
	return &u, nil
}

// balance translates the trace's method into ours.
func (t *Trace) balance(b *conf.Balance) error {
	name := map[string]string{"hash_consistent": conf.Hash, "random_two": conf.Random}[t.Method]
	if name == "" {
		name = t.Method
	}
	*b = conf.DefaultBalance(name)
	b.Consistent = t.Method == "hash_consistent"
	if t.Method == "random_two" {
		b.Choices = 2
	}
	b.Inflight = t.Options.LtInflight
	switch t.Options.LtMode {
	case "", "first_byte":
	case "connect":
		b.Time = conf.TimeConnect
	case "last_byte":
		b.Time = conf.TimeLastByte
	default:
		return fmt.Errorf("unknown lt_mode %q", t.Options.LtMode)
	}
	return nil
}

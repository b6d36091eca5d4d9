package admin

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirlb/weir/stream"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/decisions"
	"github.com/weirlb/weir/stream/discovery"
	"github.com/weirlb/weir/stream/health"
	"github.com/weirlb/weir/stream/history"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/stats"
	"github.com/weirlb/weir/stream/upstream"
)

// This file makes answers of what the server knows.

// count adds up a reading.
func (s *Status) count(r *stream.Reading) {
	s.Sessions.Now, s.Sessions.Max = r.Sessions, r.MaxSessions
	for i := range r.Listeners {
		for _, c := range r.Listeners[i].Workers {
			s.Sessions.Total += c.Sessions.Load()
			for p := range c.Bytes {
				s.Bytes.ToPeers += c.Bytes[p][stats.ToPeer].Load()
				s.Bytes.ToClients += c.Bytes[p][stats.ToClient].Load()
			}
		}
	}
	for reason, n := range r.Closed() {
		if n > 0 {
			s.Ended[stats.CloseReason(reason).String()] = int64(n)
		}
	}
}

func listening(l *stream.Listening, r *stream.Reading) Listening {
	out := Listening{Name: l.Name, Protocol: l.Protocol.String(), Upstream: l.Upstream, Addresses: []string{}}
	for _, a := range l.Addresses {
		out.Addresses = append(out.Addresses, a.String())
	}
	for i := range r.Listeners {
		if c := &r.Listeners[i]; c.Name == l.Name && c.Protocol == l.Protocol {
			for _, w := range c.Workers {
				out.Sessions += w.Active.Load()
				out.Total += w.Sessions.Load()
			}
		}
	}
	return out
}

func sums(u *stream.UpstreamState) UpstreamSums {
	out := UpstreamSums{Name: u.Name, Method: u.Method, Peers: len(u.Peers), Load: load(&u.Load)}
	for i := range u.Peers {
		out.Conns += u.Peers[i].Balance.Conns
		if u.Peers[i].Eligible {
			out.Usable++
		}
	}
	return out
}

func peersOf(u *stream.UpstreamState) []Peer {
	out := []Peer{}
	for i := range u.Peers {
		p := peer(u.Name, &u.Peers[i])
		for j := range u.Checks[i] {
			p.Checks = append(p.Checks, check(&u.Checks[i][j]))
		}
		out = append(out, p)
	}
	return out
}

func peer(upstreamName string, p *upstream.Snapshot) Peer {
	b := &p.Balance
	out := Peer{
		Upstream:           upstreamName,
		Name:               p.Name,
		Address:            p.Addr,
		Backup:             p.Backup,
		State:              p.State.String(),
		Admin:              b.Admin.String(),
		Weight:             b.Weight,
		Effective:          b.Effective,
		Current:            b.Current,
		Conns:              b.Conns,
		MaxConns:           b.MaxConns,
		Fails:              b.Fails,
		MaxFails:           b.MaxFails,
		FailTimeoutSeconds: float64(b.FailTimeout),
		Sessions:           p.Sessions,
		Failures:           p.Failures,
		BytesSent:          p.Sent,
		BytesReceived:      p.Received,
	}
	if p.State == upstream.Unavailable {
		again := clock.Time((b.Checked + b.FailTimeout + 1) * balance.Seconds(time.Second))
		out.RetryInSeconds = max(again.Sub(clock.Now()).Seconds(), 0)
	}
	if p.Axes[upstream.AxisPassive].Value == upstream.Ejected {
		out.EjectedForSeconds = max(p.EjectedUntil.Sub(clock.Now()).Seconds(), 0)
	}
	out.SlowStart, out.Checks, out.Axes = p.Warmth, []Check{}, map[string]Axis{}
	out.Eligible = p.Eligible
	for i, a := range p.Axes {
		out.Axes[upstream.Axis(i).String()] = Axis{a.Value, a.Since.Wall(), a.Cause}
	}
	return out
}

func check(c *health.CheckState) Check {
	out := Check{
		Kind: string(c.Kind), Health: c.Health.String(), OK: c.OK, Cause: c.Cause, InRow: c.InRow,
		TookSeconds: c.Took.Seconds(), Passed: c.Passed, Failed: c.Failed,
	}
	if c.At != 0 {
		at := c.At.Wall()
		out.Last = &at
	}
	return out
}

func group(s *upstream.GroupState) Group {
	return Group{s.ExactlyOne, s.Incumbent, s.Epoch, s.Conflict, s.Panic}
}

func load(l *upstream.Load) Load {
	out := Load{Sessions: l.Sessions, Pending: l.Pending, Retries: l.Retries}
	if q := l.Queue; q != nil {
		out.Queue = &Queue{l.Waiting, q.Max}
	}
	if l.Circuit != nil {
		out.Circuit = &Circuit{l.CircuitState.String(), l.CircuitFor.Seconds(), l.Opened}
	}
	if a := l.Limit; a != nil {
		out.Limit = &Limit{string(a.Algorithm), a.ApplyTo.String(), a.Limit, a.InFlight, a.Waiting, a.Latency.Seconds(), a.Windows, a.Enforced}
	}
	return out
}

func source(s *discovery.Source) Source {
	out := Source{
		Upstream: s.Upstream, Kind: string(s.Kind), Name: s.Name, Servers: s.Servers, AgeSeconds: s.Age.Seconds(),
		Error: s.Error, Answers: s.Answers, Failures: s.Failures, Changes: s.Changes,
	}
	if !s.AnsweredAt.IsZero() {
		out.Answered = &s.AnsweredAt
	}
	if !s.StaleSince.IsZero() {
		out.StaleSince = &s.StaleSince
	}
	return out
}

func transition(t *upstream.Transition) Transition {
	return Transition{t.At.Wall(), t.Axis.String(), t.From, t.To, t.Cause}
}

func running(v *history.Live, at clock.Time) Session {
	out := Session{
		ID:                    v.ID,
		Listener:              v.Listener,
		Protocol:              v.Protocol.String(),
		Client:                v.Client.String(),
		Upstream:              v.Upstream,
		Phase:                 v.Phase,
		Tries:                 v.Tries,
		Started:               v.Start.Wall(),
		AgeSeconds:            max(at.Sub(v.Start).Seconds(), 0),
		IdleSeconds:           max(at.Sub(v.Active).Seconds(), 0),
		BytesReceived:         v.Received,
		BytesSent:             v.Sent,
		UpstreamBytesSent:     v.UpstreamSent,
		UpstreamBytesReceived: v.UpstreamReceived,
	}
	if v.Peer != nil {
		out.Peer, out.PeerAddress = v.Peer.Name, v.Peer.String()
	}
	return out
}

func finished(e *history.Session) Session {
	end := e.End.Wall()
	return Session{
		ID:                    e.Connection,
		Listener:              e.Listener,
		Protocol:              e.Protocol.String(),
		Client:                e.Client.String(),
		Upstream:              e.Upstream,
		PeerAddress:           e.UpstreamAddr,
		Phase:                 "closed",
		Tries:                 e.Tries,
		Started:               e.Start.Wall(),
		AgeSeconds:            e.End.Sub(e.Start).Seconds(),
		BytesReceived:         e.Received,
		BytesSent:             e.Sent,
		UpstreamBytesSent:     e.UpstreamSent,
		UpstreamBytesReceived: e.UpstreamReceived,
		Ended:                 &end,
		CloseReason:           e.Reason.String(),
		Status:                e.Reason.Status(),
		ConnectSeconds:        seconds(e.ConnectTime),
		FirstByteSeconds:      seconds(e.FirstByteTime),
	}
}

// seconds returns nil for what did not come to pass.
func seconds(d time.Duration) *float64 {
	if d < 0 {
		return nil
	}
	s := d.Seconds()
	return &s
}

func decision(r *decisions.Record) Decision {
	return Decision{At: r.At.Wall(), Sentence: r.Sentence(), Figures: r.Figures()}
}

func explained(e *stream.Explanation) *SessionExplanation {
	out := &SessionExplanation{Decisions: []Decision{}}
	var trail *history.Trail
	forgotten := false
	if e.Live != nil {
		out.Session, trail = running(e.Live, e.Now), &e.Live.Trail
	} else {
		out.Session, trail, forgotten = finished(e.Ended), &e.Ended.Trail, e.Ended.Forgotten
	}
	for i := range trail.Records {
		out.Decisions = append(out.Decisions, decision(&trail.Records[i]))
	}
	out.Missing = missing(out.Session.Tries, trail, forgotten)
	out.Session.namePeer(trail)
	return out
}

// missing says why there are no decisions, or not all.
func missing(tries int, t *history.Trail, forgotten bool) string {
	const how = `weir explain --record 10m, or log { decisions = "all" }, has them recorded from then on`
	picks := 0
	for i := range t.Records {
		if t.Records[i].Decision != nil {
			picks++
		}
	}
	switch {
	case forgotten:
		return "its decisions were recorded, and are forgotten by now: later sessions needed the room"
	case t.Lost > 0:
		return fmt.Sprintf("%d more of its decisions were not recorded for want of room", t.Lost)
	case len(t.Records) == 0:
		return "its decisions were not recorded: " + how
	case picks < tries:
		return "not all of its picks were recorded: " + how
	}
	return ""
}

// namePeer takes the name of the last peer of a session that has ended from what
// was recorded.
func (s *Session) namePeer(t *history.Trail) {
	n := len(t.Records)
	if s.Peer != "" || n == 0 {
		return
	}
	if d := t.Records[n-1].Decision; d != nil && d.Peer != nil {
		s.Peer = d.Peer.Name
	}
}

// NewReload makes an answer of a change.
func NewReload(c *stream.Change, dryRun bool, diagnostics string) *Reload {
	return &Reload{
		DryRun: dryRun,
		Changes: Changes{
			Opened: orEmpty(c.Opened), Closed: orEmpty(c.Closed), Changed: orEmpty(c.Changed), Added: orEmpty(c.Added),
			Removed: orEmpty(c.Removed), Altered: orEmpty(c.Altered), Settings: orEmpty(c.Settings), Workers: c.Workers,
		},
		SessionsAffected: c.Affected,
		SessionsEnded:    c.Ended,
		Diagnostics:      strings.TrimSpace(diagnostics),
	}
}

// orEmpty writes nothing as [], not as null.
func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

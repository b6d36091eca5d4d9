package decisions

import (
	"log/slog"
	"time"

	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/upstream"
)

// candidate is one peer of a pick, in a JSON line.
type candidate struct {
	Peer             string   `json:"peer"`
	Address          string   `json:"address"`
	Backup           bool     `json:"backup,omitempty"`
	Weight           int      `json:"weight"`
	Effective        int      `json:"effective"`
	CurrentBefore    int      `json:"current_before"`
	CurrentAfter     int      `json:"current_after"`
	Conns            int      `json:"conns"`
	MaxConns         int      `json:"max_conns"`
	Fails            int      `json:"fails"`
	MaxFails         int      `json:"max_fails"`
	Score            *float64 `json:"score,omitempty"`
	LeftOut          string   `json:"left_out,omitempty"`
	UnavailableUntil string   `json:"unavailable_until,omitempty"`
}

// probe is one step of a search, in a JSON line.
type probe struct {
	At      int    `json:"at"`
	Hash    uint32 `json:"hash,omitempty"`
	Peer    string `json:"peer"`
	LeftOut string `json:"left_out,omitempty"`
}

// fields returns the figures behind the record's sentence.
func (r *Record) fields() []slog.Attr {
	if r.Failure != nil {
		return failed(r)
	}
	return picked(r.Decision)
}

// picked returns the figures of a pick. What did not play a part is left out.
func picked(d *upstream.Decision) []slog.Attr {
	attrs := []slog.Attr{slog.Any("peer", peerName(d.Peer)), slog.String("method", d.Method)}
	if by := decidedBy(d); by != "" {
		attrs = append(attrs, slog.String("by", by))
	}
	if d.Tied > 0 {
		attrs = append(attrs, slog.Int("tied", d.Tied))
	}
	if d.Fallback != "" {
		attrs = append(attrs, slog.String("fallback", d.Fallback))
	}
	if d.Key != "" {
		attrs = append(attrs, slog.String("key", d.KeyText()))
	}
	if len(d.Probes) > 0 {
		attrs = append(attrs, slog.Any("probes", probes(d)))
	}
	return append(attrs, slog.Any("candidates", candidates(d)))
}

// decidedBy returns what decided, or "" if nobody was picked.
func decidedBy(d *upstream.Decision) string {
	switch {
	case d.Peer == nil:
		return ""
	case d.By == "" || d.Fallback != "":
		return "current weight"
	}
	return d.By
}

// peerName returns the name, or nil for null.
func peerName(p *upstream.Peer) any {
	if p == nil {
		return nil
	}
	return p.Name
}

func candidates(d *upstream.Decision) []candidate {
	out := make([]candidate, len(d.Candidates))
	for i := range d.Candidates {
		c := &d.Candidates[i]
		out[i] = candidate{
			Peer: c.Peer.Name, Address: c.Peer.String(), Backup: c.Peer.IsBackup(),
			Weight: c.Weight, Effective: c.Effective, CurrentBefore: c.Before, CurrentAfter: c.After,
			Conns: c.Conns, MaxConns: c.MaxConns, Fails: c.Fails, MaxFails: c.MaxFails,
			LeftOut: leftOut(c.Left),
		}
		if c.Scored {
			out[i].Score = &c.Score
		}
		if c.Left == balance.LeftUnavailable {
			out[i].UnavailableUntil = instant(c.Until)
		}
	}
	return out
}

func probes(d *upstream.Decision) []probe {
	out := make([]probe, len(d.Probes))
	for i, p := range d.Probes {
		out[i] = probe{p.At, p.Hash, p.Peer.Name, leftOut(p.Left)}
	}
	return out
}

func leftOut(l balance.Left) string {
	if l == balance.Eligible {
		return ""
	}
	return l.String()
}

// failed returns the figures of a failed attempt.
func failed(r *Record) []slog.Attr {
	f := r.Failure
	attrs := []slog.Attr{
		slog.String("peer", f.Peer.Name), slog.String("address", f.Peer.String()), slog.String("cause", r.cause()),
		slog.Bool("charged", f.Charged), slog.Int("fails", f.Fails), slog.Int("max_fails", f.MaxFails),
		slog.Int("weight", f.Weight), slog.Int("effective_before", f.Before), slog.Int("effective_after", f.After),
	}
	if f.Unavailable && !f.Only {
		attrs = append(attrs, slog.String("unavailable_until", instant(f.Until)))
	}
	return attrs
}

// wall returns the wall-clock time of an instant in whole seconds of the
// monotonic clock.
func wall(s balance.Seconds) time.Time { return clock.Time(s * balance.Seconds(time.Second)).Wall() }

// instant writes an instant for machines.
func instant(s balance.Seconds) string { return wall(s).Format("2006-01-02T15:04:05.000Z07:00") }

// hour returns how instants are said in a sentence about now: as a time of the
// day, with the date only if that is a day or more away.
func hour(now clock.Time) func(balance.Seconds) string {
	return func(s balance.Seconds) string {
		t := wall(s)
		if up := t.Truncate(time.Second); up.Before(t) {
			t = up.Add(time.Second)
		}
		if t.Sub(now.Wall()) >= 24*time.Hour {
			return t.Format("2006-01-02 15:04:05")
		}
		return t.Format("15:04:05")
	}
}

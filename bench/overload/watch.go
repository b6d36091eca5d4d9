package overload

import (
	"context"
	"fmt"
	"time"

	"github.com/weirlb/weir/stream/admin"
)

// Moment is how it goes at one moment.
type Moment struct {
	At       time.Time
	UnderWay int           // lines at the server
	Limits   []admin.Limit // of the weirs; zero for one without
}

// Watch looks how it goes, every WatchEvery.
type Watch struct {
	Server   *Server
	Weirs    []*admin.Client
	Upstream string // of every weir
	Moments  []Moment
}

// WatchEvery is the time between two moments.
const WatchEvery = 100 * time.Millisecond

// For watches so long.
func (w *Watch) For(ctx context.Context, d time.Duration) error {
	tick := time.NewTicker(WatchEvery)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		m := Moment{At: time.Now(), UnderWay: w.Server.UnderWay()}
		for _, weir := range w.Weirs {
			l, err := AskLimit(ctx, weir, w.Upstream)
			if err != nil {
				return err
			}
			m.Limits = append(m.Limits, l)
		}
		w.Moments = append(w.Moments, m)
	}
	return nil
}

// AskLimit asks a weir for the adaptive limit of an upstream; it is zero if there
// is none.
func AskLimit(ctx context.Context, weir *admin.Client, upstream string) (admin.Limit, error) {
	status, err := weir.Status(ctx)
	if err != nil {
		return admin.Limit{}, err
	}
	for _, u := range status.Upstreams {
		switch {
		case u.Name != upstream:
		case u.Load.Limit == nil:
			return admin.Limit{}, nil
		default:
			return *u.Load.Limit, nil
		}
	}
	return admin.Limit{}, fmt.Errorf("ask %s: it has no upstream %q", weir.Addr(), upstream)
}

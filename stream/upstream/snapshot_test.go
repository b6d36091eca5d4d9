package upstream

import (
	"context"
	"fmt"
	"testing"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/clock"
)

// BenchmarkSnapshot is how long a reading of a large group keeps sessions from
// picking, at most.
func BenchmarkSnapshot(b *testing.B) {
	u := conf.NewUpstream("u")
	for i := range 1000 {
		u.Servers = append(u.Servers, conf.NewServer(conf.Address{Host: fmt.Sprintf("10.0.%d.%d", i/256, i%256), Port: 1}))
	}
	peers, err := Resolve(context.Background(), &u, 8, nil)
	if err != nil {
		b.Fatal(err)
	}
	g, err := NewGroup(&u, peers, 1, 1)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		g.Snapshot(nil, clock.Now())
	}
}

package stream

import (
	"context"
	"net/netip"
	"runtime"
	"testing"
	"testing/fstest"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/upstream"
)

func TestCPUQuota(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	for _, c := range []struct {
		name string
		fs   fstest.MapFS
		want float64 // 0 = none
	}{
		{"no cgroups", fstest.MapFS{}, 0},
		{"version 2", fstest.MapFS{
			"proc/self/cgroup":          file("0::/a/b\n"),
			"sys/fs/cgroup/a/b/cpu.max": file("150000 100000\n"),
		}, 1.5},
		{"version 2, quota of a group above", fstest.MapFS{
			"proc/self/cgroup":          file("0::/a/b\n"),
			"sys/fs/cgroup/a/cpu.max":   file("50000 100000\n"),
			"sys/fs/cgroup/a/b/cpu.max": file("max 100000\n"),
		}, 0.5},
		{"version 2, in a container", fstest.MapFS{
			"proc/self/cgroup":      file("0::/\n"),
			"sys/fs/cgroup/cpu.max": file("200000 100000\n"),
		}, 2},
		{"version 2, no quota", fstest.MapFS{
			"proc/self/cgroup":        file("0::/a\n"),
			"sys/fs/cgroup/a/cpu.max": file("max 100000\n"),
		}, 0},
		{"version 1", fstest.MapFS{
			"proc/self/cgroup":                      file("4:memory:/x\n3:cpu,cpuacct:/x\n"),
			"sys/fs/cgroup/cpu/x/cpu.cfs_quota_us":  file("300000\n"),
			"sys/fs/cgroup/cpu/x/cpu.cfs_period_us": file("100000\n"),
		}, 3},
		{"version 1, no quota", fstest.MapFS{
			"proc/self/cgroup":                    file("3:cpu:/\n"),
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":  file("-1\n"),
			"sys/fs/cgroup/cpu/cpu.cfs_period_us": file("100000\n"),
		}, 0},
		{"garbage", fstest.MapFS{
			"proc/self/cgroup":      file("0::/\nx\n"),
			"sys/fs/cgroup/cpu.max": file("lots\n"),
		}, 0},
	} {
		got, ok := cpuQuota(c.fs)
		if ok != (c.want != 0) || ok && got != c.want {
			t.Errorf("%s: %v %v, want %v", c.name, got, ok, c.want)
		}
	}
	half := fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/cpu.max": file("50000 100000\n")}
	if n := CPUs(half); n != 1 {
		t.Errorf("half a CPU makes %d workers, want 1", n)
	}
	if n := CPUs(fstest.MapFS{}); n != runtime.NumCPU() {
		t.Errorf("without a quota %d workers, want %d", n, runtime.NumCPU())
	}
}

func TestCheckLoops(t *testing.T) {
	for _, c := range []struct {
		listen, server string
		lookup         string
		loop           bool
	}{
		{"127.0.0.1:5432", "127.0.0.1:5432", "", true},
		{"127.0.0.1:5432", "127.0.0.1:5433", "", false},
		{"0.0.0.0:5432", "127.0.0.2:5432", "", true},
		{"0.0.0.0:5432", "192.0.2.1:5432", "", false},
		{"[::]:5432", "[::1]:5432", "", true},
		{"[::]:5432", "127.0.0.1:5432", "", false},
		{"0.0.0.0:5432", "db.example:5432", "127.0.0.1", true},
		{"127.0.0.1:5432", "db.example:5432", "192.0.2.1", false},
		{"unix:/run/a", "unix:/run/a", "", true},
		{"unix:/run/a", "unix:/run/b", "", false},
		{"unix:/run/a", "127.0.0.1:5432", "", false},
	} {
		addr, err := conf.ParseServerAddress(c.server)
		if err != nil {
			t.Fatal(err)
		}
		listen, err := conf.ParseListenAddress(c.listen)
		if err != nil {
			t.Fatal(err)
		}
		u := conf.NewUpstream("u")
		u.Servers = []conf.Server{conf.NewServer(addr)}
		l := conf.NewListener("l")
		l.Listen, l.Upstream = listen, "u"
		cfg := &conf.Config{Upstreams: []conf.Upstream{u}, Listeners: []conf.Listener{l}}
		peers, err := upstream.Resolve(t.Context(), &u, 1, fixed(c.lookup))
		if err != nil {
			t.Fatal(err)
		}
		if err := checkLoops(cfg, &u, peers); (err != nil) != c.loop {
			t.Errorf("listen %s, server %s (%s): %v, want loop=%v", c.listen, c.server, c.lookup, err, c.loop)
		}
	}
}

// fixed resolves every name to one address.
func fixed(addr string) upstream.LookupFunc {
	return func(_ context.Context, _ string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr(addr)}, nil
	}
}

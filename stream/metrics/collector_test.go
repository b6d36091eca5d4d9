package metrics

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
)

// A server through which sessions went, some of which failed, tells of each.
func TestValues(t *testing.T) {
	cfg := balancer()
	db := add(cfg, "db", conf.TCP, nobody(t), echoTCP(t), echoTCP(t))
	db.NextUpstream.Tries = 3
	add(cfg, "gone", conf.TCP, nobody(t), nobody(t))
	dns := add(cfg, "dns", conf.UDP, echoUDP(t))
	dns.UDP.Requests, dns.UDP.Responses = 1, 1
	a, b, c := cfg.Upstreams[0].Servers[0].Address, cfg.Upstreams[0].Servers[1].Address, cfg.Upstreams[0].Servers[2].Address
	cfg.Upstreams[0].Servers[1].MaxConns = 100
	cfg.Upstreams[0].Servers[1].Weight = 5
	s := run(t, cfg)
	if err := s.SetAdmin("db", "c", balance.Drain); err != nil {
		t.Fatal(err)
	}

	held := dial(t, "tcp", at(t, s, "db"))
	defer held.Close()
	exchange(t, held, 1000)
	for range 6 { // one of them meets a, which is gone
		c := dial(t, "tcp", at(t, s, "db"))
		exchange(t, c, 10)
		c.Close()
	}
	big := dial(t, "tcp", at(t, s, "db"))
	exchange(t, big, 4<<20)
	big.Close()
	for range 3 {
		refused := dial(t, "tcp", at(t, s, "gone"))
		refused.SetDeadline(time.Now().Add(5 * time.Second))
		refused.Read(make([]byte, 1)) // until weir gives up
		refused.Close()
	}
	for range 5 {
		q := dial(t, "udp", at(t, s, "dns"))
		exchange(t, q, 30)
		q.Close()
	}
	eventually(t, "all but one session end", func() bool { return s.Sessions() == 1 })

	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector(s))
	// The last answer is counted after it was sent, and its session is over.
	eventually(t, "all answers are counted", func() bool { return gather(t, registry)["weir_udp_sent_datagrams_total"] == 10 })
	got := gather(t, registry)
	peer := func(metric, name string, addr conf.Address) string {
		return fmt.Sprintf("%s{address=%q,peer=%q,upstream=\"db\"}", metric, addr, name)
	}
	admin := func(name string, addr conf.Address, state string) string {
		return fmt.Sprintf("weir_peer_admin_state{address=%q,peer=%q,state=%q,upstream=\"db\"}", addr, name, state)
	}
	got.want(t, map[string]float64{
		"weir_ready":    1,
		"weir_sessions": 1,
		`weir_listener_sessions{listener="db",protocol="tcp"}`:                                                   1,
		`weir_listener_sessions{listener="dns",protocol="udp"}`:                                                  0,
		`weir_listener_accepted_sessions_total{listener="db",protocol="tcp"}`:                                    8,
		`weir_listener_accepted_sessions_total{listener="dns",protocol="udp"}`:                                   5,
		`weir_listener_closed_sessions_total{listener="db",protocol="tcp",reason="client_closed"}`:               7,
		`weir_listener_closed_sessions_total{listener="db",protocol="tcp",reason="idle_timeout"}`:                0,
		`weir_listener_closed_sessions_total{listener="gone",protocol="tcp",reason="connect_failed"}`:            1,
		`weir_listener_closed_sessions_total{listener="gone",protocol="tcp",reason="no_peer"}`:                   2,
		`weir_listener_closed_sessions_total{listener="dns",protocol="udp",reason="answered"}`:                   5,
		`weir_listener_relayed_bytes_total{direction="to_peer",listener="dns",path="datagram",protocol="udp"}`:   150,
		`weir_listener_relayed_bytes_total{direction="to_client",listener="dns",path="datagram",protocol="udp"}`: 150,
		"weir_udp_received_datagrams_total":                                                                      10,
		"weir_udp_sent_datagrams_total":                                                                          10,
		`weir_udp_dropped_datagrams_total{reason="refused"}`:                                                     0,
		`weir_upstream_no_peer_total{upstream="gone"}`:                                                           2,
		`weir_upstream_no_peer_total{upstream="db"}`:                                                             0,
		`weir_upstream_connect_duration_seconds{upstream="db"}`:                                                  8,
		`weir_upstream_connect_duration_seconds{upstream="gone"}`:                                                0,
		peer("weir_peer_available", "a", a):                                                                      0,
		peer("weir_peer_fails", "a", a):                                                                          1,
		peer("weir_peer_failures_total", "a", a):                                                                 1,
		peer("weir_peer_picks_total", "a", a):                                                                    1,
		peer("weir_peer_weight", "a", a):                                                                         1,
		peer("weir_peer_effective_weight", "a", a):                                                               0,
		peer("weir_peer_available", "b", b):                                                                      1,
		peer("weir_peer_weight", "b", b):                                                                         5,
		peer("weir_peer_picks_total", "b", b):                                                                    8,
		peer("weir_peer_connections", "b", b):                                                                    1,
		peer("weir_peer_max_connections", "b", b):                                                                100,
		peer("weir_peer_failures_total", "b", b):                                                                 0,
		peer("weir_peer_sent_bytes_total", "b", b):                                                               1000 + 60 + 4<<20,
		peer("weir_peer_received_bytes_total", "b", b):                                                           1000 + 60 + 4<<20,
		peer("weir_peer_backup", "b", b):                                                                         0,
		admin("b", b, "up"):                                                                                      1,
		admin("b", b, "drain"):                                                                                   0,
		admin("c", c, "up"):                                                                                      0,
		admin("c", c, "drain"):                                                                                   1,
		admin("c", c, "down"):                                                                                    0,
		peer("weir_peer_picks_total", "c", c):                                                                    0,
		`weir_log_lost_lines_total{log="access"}`:                                                                0,
	})
	copied, spliced := 0.0, 0.0
	for _, d := range []string{"to_peer", "to_client"} {
		copied += got[fmt.Sprintf(`weir_listener_relayed_bytes_total{direction=%q,listener="db",path="copy",protocol="tcp"}`, d)]
		spliced += got[fmt.Sprintf(`weir_listener_relayed_bytes_total{direction=%q,listener="db",path="splice",protocol="tcp"}`, d)]
	}
	if spliced == 0 || copied+spliced != 2*(1000+60+4<<20) {
		t.Errorf("%v bytes copied and %v spliced, want %d together", copied, spliced, 2*(1000+60+4<<20))
	}
	wantOverWorkers(t, got)
}

// wantOverWorkers checks what depends on how the kernel spreads clients.
func wantOverWorkers(t *testing.T, got scrape) {
	t.Helper()
	sum := func(metric string) (n float64) {
		for w := range 2 {
			v, ok := got[fmt.Sprintf("%s{worker=\"%d\"}", metric, w)]
			if !ok {
				t.Errorf("worker %d has no %s", w, metric)
			}
			n += v
		}
		return n
	}
	for metric, want := range map[string]float64{
		"weir_worker_sessions":                1,
		"weir_worker_accepted_sessions_total": 8 + 5 + 3,
		"weir_worker_connect_attempts_total":  9 + 5 + 2,
		"weir_worker_connect_failures_total":  1 + 2,
		"weir_worker_accept_pauses_total":     0,
	} {
		if n := sum(metric); n != want {
			t.Errorf("the workers' %s are %v together, want %v", metric, n, want)
		}
	}
	for _, metric := range []string{"weir_worker_loop_turns_total", "weir_worker_cpu_seconds_total"} {
		if sum(metric) == 0 {
			t.Errorf("%s is 0", metric)
		}
	}
	for w := range 2 {
		if limit := got[fmt.Sprintf(`weir_listener_accept_queue_max_connections{listener="db",worker="%d"}`, w)]; limit < 1 {
			t.Errorf("worker %d's accept queue has room for %v", w, limit)
		}
		if limit := got[fmt.Sprintf(`weir_listener_receive_queue_max_bytes{listener="dns",worker="%d"}`, w)]; limit < 1 {
			t.Errorf("worker %d's receive queue has room for %v", w, limit)
		}
	}
}

func TestLint(t *testing.T) {
	s := run(t, everything(t))
	e := newTestEndpoint()
	e.Watch(s)
	problems, err := testutil.GatherAndLint(e.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// everything is a configuration that every metric says something about.
func everything(t testing.TB) *conf.Config {
	cfg := balancer()
	add(cfg, "db", conf.TCP, echoTCP(t), echoTCP(t))
	add(cfg, "dns", conf.UDP, echoUDP(t))
	add(cfg, "checked", conf.TCP, echoTCP(t))
	u := &cfg.Upstreams[len(cfg.Upstreams)-1]
	u.Checks = []conf.HealthCheck{conf.NewHealthCheck(conf.CheckTCP)}
	u.Checks[0].Initial = conf.InitialUp // sessions come at once
	u.ExactlyOne = true
	u.ServerFile = filepath.Join(t.TempDir(), "peers.json")
	text := fmt.Sprintf(`{"servers":[{"address":%q}]}`, echoTCP(t))
	if err := os.WriteFile(u.ServerFile, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	add(cfg, "bounded", conf.TCP, echoTCP(t))
	b := &cfg.Upstreams[len(cfg.Upstreams)-1]
	queue, breaker, limit := conf.DefaultQueue(), conf.DefaultCircuitBreaker(), conf.DefaultAdaptiveLimit(conf.AIMD)
	breaker.MaxRetries, limit.Target = 10, time.Second
	b.Queue, b.Breaker, b.Limit = &queue, &breaker, &limit
	return cfg
}

// Two servers that are written alike are two peers, and two servers of one name
// differ in their addresses.
func TestPeersThatAreAlike(t *testing.T) {
	cfg := balancer()
	a, b := echoTCP(t), echoTCP(t)
	add(cfg, "db", conf.TCP, a, a, b)
	for i := range cfg.Upstreams[0].Servers {
		cfg.Upstreams[0].Servers[i].Name = "a"
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector(run(t, cfg)))
	gather(t, registry).want(t, map[string]float64{
		fmt.Sprintf(`weir_peer_weight{address=%q,peer="a",upstream="db"}`, a):   1,
		fmt.Sprintf(`weir_peer_weight{address=%q,peer="a#2",upstream="db"}`, a): 1,
		fmt.Sprintf(`weir_peer_weight{address=%q,peer="a",upstream="db"}`, b):   1,
	})
}

// Scrapes, sessions and reloads at the same time leave every counter growing.
func TestConcurrentScrapes(t *testing.T) {
	cfg := everything(t)
	s := run(t, cfg)
	e := newTestEndpoint()
	e.Watch(s)
	addr := at(t, s, "db")
	const clients, each = 4, 50
	var sessions, scrapers sync.WaitGroup
	stop := make(chan struct{})
	for range clients {
		sessions.Go(func() {
			for range each {
				c, err := net.Dial("tcp", addr)
				if err != nil {
					t.Error(err)
					return
				}
				c.Write([]byte("x"))
				c.Read(make([]byte, 1))
				c.Close()
			}
		})
	}
	for range 3 {
		scrapers.Go(func() {
			before := scrape{}
			for {
				select {
				case <-stop:
					return
				default:
				}
				now := gather(t, e.registry)
				for _, counter := range []string{`weir_listener_accepted_sessions_total{listener="db",protocol="tcp"}`, `weir_upstream_connect_duration_seconds{upstream="db"}`} {
					if now[counter] < before[counter] {
						t.Errorf("%s fell from %v to %v", counter, before[counter], now[counter])
					}
				}
				before = now
			}
		})
	}
	for i := range 10 {
		next := *cfg
		next.Worker.Count = 1 + i%3
		if _, err := s.Reload(t.Context(), &next); err != nil {
			t.Error(err)
		}
	}
	sessions.Wait()
	close(stop)
	scrapers.Wait()
	eventually(t, "every session ends", func() bool { return s.Sessions() == 0 })
	gather(t, e.registry).want(t, map[string]float64{
		`weir_listener_accepted_sessions_total{listener="db",protocol="tcp"}`: clients * each,
		`weir_listener_sessions{listener="db",protocol="tcp"}`:                0,
	})
}

func BenchmarkScrape(b *testing.B) {
	for _, peers := range []int{10, 1000} {
		b.Run(fmt.Sprintf("peers=%d", peers), func(b *testing.B) {
			cfg := balancer()
			servers := make([]conf.Address, peers)
			for i := range servers {
				servers[i] = conf.Address{Host: fmt.Sprintf("10.0.%d.%d", i/256, i%256), Port: 5432}
			}
			add(cfg, "db", conf.TCP, servers...)
			e := newTestEndpoint()
			e.Watch(run(b, cfg))
			b.Run("gather", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					gatherOnly(b, e)
				}
			})
			b.Run("http", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					b.SetBytes(int64(len(get(b, e.handler, "/metrics").Body.Bytes())))
				}
			})
		})
	}
}

func gatherOnly(b *testing.B, e *Endpoint) {
	if _, err := e.registry.Gather(); err != nil {
		b.Fatal(err)
	}
}

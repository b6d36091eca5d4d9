package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

const dashboard = "../../packaging/grafana/weir.json"

// metricName finds what looks like a metric in a PromQL expression.
var metricName = regexp.MustCompile(`\b(?:weir|go|process)_[a-z0-9_]+`)

// Every metric that the Grafana dashboard asks for exists, with the labels that
// it sorts by, and every metric of weir's but a few is on it.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile(dashboard)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Title      string
		Panels     []panel
		Templating struct{ List []struct{ Definition string } }
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	var expressions []string
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the id %d", p.ID)
		}
		ids[p.ID] = true
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			expressions = append(expressions, target.Expr)
		}
	}
	for _, v := range d.Templating.List {
		if v.Definition != "" {
			expressions = append(expressions, v.Definition)
		}
	}
	if d.Title != "weir" || len(expressions) < 30 {
		t.Fatalf("the dashboard is %q, with %d expressions", d.Title, len(expressions))
	}
	known, used := known(t), map[string]bool{}
	for _, e := range expressions {
		if strings.Count(e, "(") != strings.Count(e, ")") || strings.Count(e, "{") != strings.Count(e, "}") {
			t.Errorf("brackets do not match: %s", e)
		}
		for _, name := range metricName.FindAllString(e, -1) {
			base := name
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				if b, ok := strings.CutSuffix(name, part); ok && known[b] {
					base = b
				}
			}
			if used[base] = true; !known[base] {
				t.Errorf("there is no metric %s: %s", name, e)
			}
		}
	}
	left := map[string]bool{ // to say the same again, or for other eyes
		"weir_peer_backup": true, "weir_peer_current_weight": true, "weir_peer_fails": true, "weir_steering": true,
		"weir_worker_accepted_sessions_total": true, "weir_worker_connect_attempts_total": true, "weir_worker_connect_failures_total": true,
		"weir_listener_receive_queue_bytes": true, "weir_listener_receive_queue_max_bytes": true,
		"weir_udp_offload_fallbacks_total": true, "weir_udp_reused_sockets_total": true,
	}
	for name := range known {
		if strings.HasPrefix(name, "weir_") && used[name] == left[name] {
			t.Errorf("%s: on the dashboard %v, left out on purpose %v", name, used[name], left[name])
		}
	}
}

type panel struct {
	ID      int
	Type    string
	Title   string
	Targets []struct{ Expr string }
}

// known returns the names of everything that is gathered.
func known(t *testing.T) map[string]bool {
	e := newTestEndpoint()
	e.Watch(run(t, everything(t)))
	all, err := e.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range all {
		names[f.GetName()] = true
	}
	return names
}

package main

import (
	"slices"
	"testing"
)

func TestTargetsNameScenarios(t *testing.T) {
	byName := map[string]scenario{}
	for _, sc := range scenarios {
		byName[sc.name] = sc
	}
	seen := map[[2]string]bool{}
	for _, row := range targets {
		for _, name := range row.scenarios {
			sc, ok := byName[name]
			if !ok {
				t.Errorf("a target is set for %q, which is no scenario", name)
			}
			for figure := range row.goals {
				if seen[[2]string{name, figure}] {
					t.Errorf("two targets for %s of %s", figure, name)
				}
				seen[[2]string{name, figure}] = true
				if ok && !slices.ContainsFunc(sc.metrics, func(m metric) bool { return m.Name == figure }) {
					t.Errorf("a target is set for %s of %s, which has no such metric", figure, name)
				}
			}
		}
	}
}

func TestTargetOf(t *testing.T) {
	got, ok := targetOf("bulk-8", "cpu")
	if want := (target{ratio: 0.6}); !ok || got != want {
		t.Errorf("got %v, %v, want %v", got, ok, want)
	}
	for _, none := range [][2]string{{"bulk-8", "p99"}, {"burst", "cpu"}} {
		if got, ok := targetOf(none[0], none[1]); ok {
			t.Errorf("%q has a target: %v", none, got)
		}
	}
}

func TestJudge(t *testing.T) {
	rate, memory := metric{Name: "v"}, metric{Name: "v", Lower: true}
	for _, tt := range []struct {
		name   string
		metric metric
		target target
		own    []float64
		want   verdict
	}{
		{"above, told apart", rate, target{ratio: 1.2}, []float64{11.5, 12, 12.5, 13, 13}, reached},
		{"just reached", rate, target{ratio: 1.2}, []float64{12, 12, 12, 12}, reached},
		{"above, not told apart", rate, target{ratio: 1.2}, []float64{9, 9, 12.5, 13, 13}, notApart},
		{"missed, though ahead", rate, target{ratio: 1.2}, []float64{11.5, 11.8, 11.9, 13, 13}, missed},
		{"missed, not told apart", rate, target{ratio: 1.2}, []float64{9, 9, 10, 11, 13}, missed},
		{"less is better", memory, target{ratio: 0.5}, []float64{1, 1, 1, 1}, reached},
		{"less is better, missed", memory, target{ratio: 0.5}, []float64{4}, missed},
		{"against one product", memory, target{0.5, "haproxy"}, []float64{4, 4, 4, 4}, reached},
		{"against one that was not there", memory, target{0.5, "envoy"}, []float64{4}, noFigures},
		{"no run ended", rate, target{ratio: 1.2}, nil, noFigures},
	} {
		nginx, haproxy := runs("nginx", 9, 9, 10, 11, 11), runs("haproxy", 3, 3, 3, 3)
		if tt.metric.Lower {
			nginx, haproxy = runs("nginx", 3, 3, 3, 3), runs("haproxy", 9, 9, 10, 11, 11)
		}
		sc := &result{Metrics: []metric{tt.metric}, Contestants: []*series{nginx, haproxy, runs(weir, tt.own...)}}
		if got := tt.target.judge(sc, tt.metric); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

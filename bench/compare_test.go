package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func oneScenario(name string, m metric, values ...float64) *report {
	return &report{Format: reportFormat, Scenarios: []*result{{Name: name, Metrics: []metric{m}, Contestants: []*series{runs(weir, values...)}}}}
}

func TestWorseBy(t *testing.T) {
	rate, cpu := metric{Name: "v"}, metric{Name: "v", Lower: true}
	for _, tt := range []struct {
		name          string
		metric        metric
		before, after []float64
		want          bool
	}{
		{"slower", rate, []float64{99, 100, 100, 101}, []float64{88, 89, 89, 90}, true},
		{"slower within the limit", rate, []float64{99, 100, 100, 101}, []float64{90, 91, 91, 92}, false},
		{"slower, not told apart", rate, []float64{79, 85, 100, 101}, []float64{80, 81, 81, 86}, false},
		{"faster", rate, []float64{100}, []float64{200}, false},
		{"more CPU", cpu, []float64{100, 100, 100, 100}, []float64{111, 111, 111, 111}, true},
		{"more CPU within the limit", cpu, []float64{100, 100, 100, 100}, []float64{109, 109, 109, 109}, false},
		{"less CPU", cpu, []float64{100, 100, 100, 100}, []float64{50, 50, 50, 50}, false},
		{"loss where none was", cpu, []float64{0, 0, 0, 0}, []float64{1, 1, 1, 1}, true},
		{"gone", rate, []float64{100}, nil, true},
		{"new", rate, nil, []float64{1}, false},
	} {
		c := change{"s", weir, tt.metric, runs(weir, tt.before...).spread("v"), runs(weir, tt.after...).spread("v")}
		if got := c.worseBy(10); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

func TestPrintChanges(t *testing.T) {
	m := metric{Name: "v", Unit: "x"}
	before, after := oneScenario("s", m, 10, 10, 12, 12), oneScenario("s", m, 20, 20, 24, 24)
	after.Quick = true
	after.Machine.CPU = "another"
	before.Scenarios = append(before.Scenarios, &result{Name: "old-one", Metrics: []metric{m}})
	after.Scenarios = append(after.Scenarios, &result{Name: "new-one", Metrics: []metric{m}})
	var b strings.Builder
	printChanges(&b, before, after, weir, compareReports(before, after, weir))
	for _, want := range []string{
		"| s | weir | v x | 11.0 (10.0..12.0) | 22.0 (20.0..24.0) | 2.00 |",
		"QUICK", "The machines differ", "Only in the old file: old-one", "Only in the new file: new-one",
	} {
		if !strings.Contains(squeeze(b.String()), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// Which setting is the best is partly chance; like is compared with like.
func TestSettingsAreCompared(t *testing.T) {
	rate, cpu := metric{Name: "rate"}, metric{Name: "cpu", Lower: true}
	two := func(one, other [2]float64) *report {
		r := oneScenario("s", rate)
		sc := r.Scenarios[0]
		sc.Metrics, sc.Contestants = append(sc.Metrics, cpu), nil
		for name, v := range map[string][2]float64{weir: one, weir + "-2": other} {
			s := &series{Name: name}
			for range 4 {
				s.Samples = append(s.Samples, sample{Values: map[string]float64{"rate": v[0], "cpu": v[1]}})
			}
			sc.Contestants = append(sc.Contestants, s)
		}
		return r
	}
	old := two([2]float64{100, 10}, [2]float64{99, 20})
	for _, c := range compareReports(old, two([2]float64{99, 10}, [2]float64{100, 20}), weir) {
		if c.setting != weir || c.worseBy(10) {
			t.Errorf("%s of %s: %v, then %v", c.metric.Name, c.setting, c.before, c.after)
		}
	}
	lacking := two([2]float64{99, 10}, [2]float64{100, 20})
	lacking.Scenarios[0].Contestants = slices.DeleteFunc(lacking.Scenarios[0].Contestants, func(s *series) bool { return s.Name == weir })
	if c := compareReports(old, lacking, weir)[1]; c.setting != "weir, weir-2" || !c.worseBy(10) {
		t.Errorf("%s: %v, then %v", c.setting, c.before, c.after)
	}
}

func TestCompareCommand(t *testing.T) {
	dir := t.TempDir()
	save := func(name string, r *report) string {
		if err := r.save(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name+".json")
	}
	rate := metric{Name: "v", Unit: "x"}
	fast, slow := save("fast", oneScenario("s", rate, 100, 100, 100, 100)), save("slow", oneScenario("s", rate, 50, 50, 50, 50))
	other := save("other", oneScenario("t", rate, 100))
	both := oneScenario("s", rate, 100, 100, 100, 100)
	both.Scenarios = append(both.Scenarios, oneScenario("t", rate, 100).Scenarios...)
	all, early := save("all", both), oneScenario("s", rate, 100, 100, 100, 100)
	early.Ended = "weir ended during its run"
	ended := save("ended", early)
	for _, tt := range []struct {
		args []string
		want string // in the error; "" for none
	}{
		{[]string{fast, slow}, ""},
		{[]string{"-fail-above", "60", fast, slow}, ""},
		{[]string{"-fail-above", "0", slow, fast}, ""},
		{[]string{"-fail-above", "40", fast, slow}, "1 figures are worse by more than 40 %, the first is v of s"},
		{[]string{"-fail-above", "10", all, fast}, ""},
		{[]string{all, ended}, ""},
		{[]string{"-fail-above", "10", all, ended}, "the new run ended early and has no t"},
		{[]string{fast}, "want two files"},
		{[]string{"-product", "envoy", fast, slow}, `no product "envoy"`},
		{[]string{"-product", "nginx", fast, slow}, "share no figure of nginx"},
		{[]string{fast, other}, "share no figure"},
		{[]string{fast, filepath.Join(dir, "none.json")}, "no such file"},
		{[]string{filepath.Join("testdata", "iperf3.json"), fast}, "not a bench report"},
	} {
		err := compareCommand(tt.args)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%q: got %v, want %q", tt.args, err, tt.want)
		}
	}
}

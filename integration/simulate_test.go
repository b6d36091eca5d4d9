package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// recording is a trace of nginx as JSON has it, with what it expects.
type recording map[string]any

func mustReadRecording(t *testing.T, path string) recording {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return mustDecode(t, text)
}

// mustDecode keeps numbers as they are written.
func mustDecode(t *testing.T, text []byte) recording {
	t.Helper()
	var r recording
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&r); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return r
}

func (r recording) list(key string) []recording {
	var out []recording
	values, _ := r[key].([]any)
	for _, v := range values {
		out = append(out, v.(map[string]any))
	}
	return out
}

func (r recording) names(key string) []string {
	out := []string{}
	values, _ := r[key].([]any)
	for _, v := range values {
		out = append(out, v.(string))
	}
	return out
}

// strip takes out what nginx did and leaves what happened to it.
func (r recording) strip() {
	for _, key := range []string{"totals", "totals_from_ms", "expected_share", "final_conns", "invariants"} {
		delete(r, key)
	}
	for _, step := range r.list("steps") {
		for key := range step {
			if slices.Contains([]string{"expect", "status", "busy", "failed", "rr_fallback"}, key) || strings.HasSuffix(key, "_after") {
				delete(step, key)
			}
		}
		for _, a := range step.list("attempts") {
			delete(a, "failed")
		}
	}
}

// replay has weir replay the recording, without what is expected.
func replay(t *testing.T, r recording, args ...string) []recording {
	t.Helper()
	r.strip()
	in, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, append([]string{"simulate", "--trace", "-"}, args...)...)
	cmd.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("weir simulate: %v\n%s", err, &stderr)
	}
	var lines []recording
	for line := range bytes.Lines(out) {
		lines = append(lines, mustDecode(t, line))
	}
	return lines
}

// manyKinds are recordings of every method and every kind, which are enough to
// try the command: package simulate replays all of them without one.
var manyKinds = regexp.MustCompile("(^|_)ops_|^(zone|random|udp|big|vectors)_")

// Every selection and every state that nginx was recorded with is printed by
// weir simulate --trace, which is not told of them.
func TestSimulateReplaysNginx(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../stream/simulate/testdata/nginx-1.31.3/*.json")
	if err != nil || len(files) < 171 {
		t.Fatalf("%d recordings, want 171: %v", len(files), err)
	}
	leastPicks, leastStates := int64(8000), int64(10000)
	if !long {
		files = slices.DeleteFunc(files, func(path string) bool { return !manyKinds.MatchString(filepath.Base(path)) })
		leastPicks = 4000
	}
	var picks, states atomic.Int64
	t.Run("all", func(t *testing.T) {
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
				t.Parallel()
				want := mustReadRecording(t, file)
				if len(want.list("steps")) == 0 {
					compareTotals(t, want, replay(t, mustReadRecording(t, file)))
					return
				}
				compareSteps(t, want, replay(t, mustReadRecording(t, file), "--state"), &picks, &states)
			})
		}
	})
	t.Logf("%d attempts and %d arrays of state are equal", picks.Load(), states.Load())
	if !t.Failed() && (picks.Load() < leastPicks || states.Load() < leastStates) {
		t.Error("that is less than the recordings hold")
	}
}

// compareSteps compares the lines of --state with a recording's steps.
func compareSteps(t *testing.T, want recording, lines []recording, picks, states *atomic.Int64) {
	t.Helper()
	server := map[string]string{}
	for _, p := range want.list("upstream") {
		name := p["peer"].(string)
		server[name] = name
		if same, ok := p["same_server_as"].(string); ok {
			server[name] = same
		}
	}
	steps := want.list("steps")
	if len(lines) != len(steps) {
		t.Fatalf("%d lines for %d steps", len(lines), len(steps))
	}
	for i, step := range steps {
		got := lines[i]
		where := fmt.Sprintf("step %d (%v, %v ms)", i, step["event"], step["t_ms"])
		if fmt.Sprint(got["step"]) != fmt.Sprint(i) {
			t.Fatalf("%s: the line is that of step %v", where, got["step"])
		}
		if _, selects := step["expect"]; selects {
			g, w := got.names("expect"), step.names("expect")
			picks.Add(int64(len(w)))
			if step["by_server_only"] == true {
				for _, list := range [][]string{g, w} {
					for i := range list {
						list[i] = server[list[i]]
					}
				}
			}
			if !slices.Equal(g, w) {
				t.Errorf("%s: picked %v, nginx picked %v", where, g, w)
			}
			if got["busy"] != (step["busy"] == true) {
				t.Errorf("%s: busy is %v, nginx has %v", where, got["busy"], step["busy"])
			}
		} else if _, selects := got["expect"]; selects {
			t.Errorf("%s: selected %v, nginx selected nothing", where, got["expect"])
		}
		for key, w := range step {
			if key != "status" && !strings.HasSuffix(key, "_after") {
				continue
			}
			states.Add(1)
			if !reflect.DeepEqual(got[key], w) {
				t.Errorf("%s: %s is %v, nginx has %v", where, key, got[key], w)
			}
		}
	}
}

// compareTotals compares shares that were drawn by lot. The bound is that of
// the recordings' README: 4 standard deviations.
func compareTotals(t *testing.T, want recording, lines []recording) {
	t.Helper()
	if len(lines) != 1 {
		t.Fatalf("%d lines, want one with the totals", len(lines))
	}
	number := func(r any, peer string) float64 {
		n, _ := r.(map[string]any)[peer].(json.Number)
		f, _ := n.Float64()
		return f
	}
	selections, _ := want["selections"].(json.Number).Float64()
	sum := 0.0
	for _, p := range want.list("upstream") {
		peer := p["peer"].(string)
		got, recorded := number(lines[0]["totals"], peer), number(want["totals"], peer)
		sum += got
		bound := 2.0 // sessions were held, and all differences levelled out
		if _, held := want["final_conns"]; !held {
			share := recorded / selections
			bound = 4 * math.Sqrt(2*share*(1-share)*selections) // of two draws
		}
		if math.Abs(got-recorded) > bound {
			t.Errorf("%s got %v of %v sessions, nginx gave it %v: a difference above %.1f", peer, got, selections, recorded, bound)
		}
		if shares, ok := want["expected_share"]; ok {
			exact := number(shares, peer)
			if bound := 4 * math.Sqrt(exact*(1-exact)*selections); math.Abs(got-exact*selections) > bound {
				t.Errorf("%s got %v of %v sessions, want %.1f within %.1f", peer, got, selections, exact*selections, bound)
			}
		}
	}
	if sum != selections {
		t.Errorf("%v sessions, want %v", sum, selections)
	}
}

// Without --state there is a line for each step that selects, and for no other.
func TestSimulateTraceWithoutState(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"fail_night_morning", "probe_in_flight", "client_gone_during_connect"} {
		path := "../stream/simulate/testdata/nginx-1.31.3/" + name + ".json"
		lines := replay(t, mustReadRecording(t, path))
		n := 0
		for i, step := range mustReadRecording(t, path).list("steps") {
			if _, selects := step["expect"]; !selects {
				continue
			}
			if n == len(lines) {
				t.Fatalf("%s: %d lines, too few", name, n)
			}
			got := lines[n]
			if fmt.Sprint(got["step"]) != fmt.Sprint(i) || !slices.Equal(got.names("expect"), step.names("expect")) {
				t.Errorf("%s: line %d is %v, want %v of step %d", name, n+1, got, step["expect"], i)
			}
			if _, state := got["weights_after"]; state {
				t.Errorf("%s: line %d has state that nobody asked for", name, n+1)
			}
			n++
		}
		if n != len(lines) {
			t.Errorf("%s: %d lines, want %d", name, len(lines), n)
		}
	}
}

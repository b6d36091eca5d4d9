package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// expectation is what a recording says beside what Trace reads.
type expectation struct {
	Name     string
	Upstream []struct {
		Peer         string
		SameServerAs string `json:"same_server_as"`
	}
	Steps []struct {
		Event        string
		T            int64 `json:"t_ms"`
		Expect       *[]string
		Status       *int
		Busy         bool
		ByServerOnly bool `json:"by_server_only"`
		State
	}
	Totals        json.RawMessage
	TotalsFromMs  int64              `json:"totals_from_ms"`
	ExpectedShare map[string]float64 `json:"expected_share"`
	FinalConns    []int              `json:"final_conns"`
}

func traceFiles(tb testing.TB) []string {
	tb.Helper()
	files, err := filepath.Glob("testdata/nginx-1.31.3/*.json")
	if err != nil || len(files) < 171 {
		tb.Fatalf("%d traces, want 171: %v", len(files), err)
	}
	return files
}

func mustRead(tb testing.TB, file string) (*Trace, *expectation) {
	tb.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	tr, err := ReadTrace(bytes.NewReader(text))
	if err != nil {
		tb.Fatalf("%s: %v", file, err)
	}
	var want expectation
	// ReadTrace knows final_conns as a sign only; here it is read.
	if err := json.Unmarshal(text, &want); err != nil {
		tb.Fatalf("%s: %v", file, err)
	}
	return tr, &want
}

// Every recorded selection and state comes out the same.
func TestTracesReplayEqual(t *testing.T) {
	steps, picks, states := 0, 0, 0
	for _, file := range traceFiles(t) {
		tr, want := mustRead(t, file)
		if len(tr.Steps) == 0 {
			continue // see TestRandomTotals
		}
		t.Run(tr.Name, func(t *testing.T) {
			server := map[string]string{}
			for _, p := range want.Upstream {
				server[p.Peer] = p.Peer
				if p.SameServerAs != "" {
					server[p.Peer] = p.SameServerAs
				}
			}
			counts, connects := map[string]int{}, 0
			_, err := tr.Replay(1, true, func(r Result) error {
				w := &want.Steps[r.Step]
				steps++
				if w.Expect != nil {
					got, expect := slices.Clone(*r.Expect), slices.Clone(*w.Expect)
					picks += len(got)
					if w.ByServerOnly {
						for _, list := range [][]string{got, expect} {
							for i := range list {
								list[i] = server[list[i]]
							}
						}
					}
					if !slices.Equal(got, expect) {
						t.Errorf("step %d (%s, %d ms): picked %v, nginx picked %v", r.Step, w.Event, w.T, got, expect)
					}
					if r.Busy != w.Busy {
						t.Errorf("step %d (%d ms): busy is %v, nginx has %v", r.Step, w.T, r.Busy, w.Busy)
					}
				}
				if w.Status != nil && (r.Status == nil || *r.Status != *w.Status) {
					t.Errorf("step %d (%d ms): status is %v, nginx has %d", r.Step, w.T, r.Status, *w.Status)
				}
				states += compareState(t, r.Step, w.T, &r.State, &w.State)
				if w.Event == "connect" && w.T >= want.TotalsFromMs && want.Totals != nil {
					for _, p := range *r.Expect {
						counts[p]++
					}
					connects++
					var totals map[string]map[string]int
					if err := json.Unmarshal(want.Totals, &totals); err != nil {
						return err
					}
					if w, ok := totals[fmt.Sprint(connects)]; ok && !reflect.DeepEqual(counts, w) {
						t.Errorf("totals after %d are %v, nginx has %v", connects, counts, w)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Logf("%d steps, %d attempts and %d arrays of state are equal", steps, picks, states)
	if !t.Failed() && (steps < 9000 || picks < 8000 || states < 10000) {
		t.Error("that is less than the recordings hold")
	}
}

// compareState compares the arrays that the recording gives and returns how
// many there were.
func compareState(t *testing.T, step int, at int64, got, want *State) int {
	t.Helper()
	n := 0
	g, w := reflect.ValueOf(*got), reflect.ValueOf(*want)
	for i := range w.NumField() {
		if w.Field(i).IsNil() {
			continue
		}
		n++
		if !reflect.DeepEqual(g.Field(i).Interface(), w.Field(i).Interface()) {
			t.Errorf("step %d (%d ms): %s is %s, nginx has %s", step, at, w.Type().Field(i).Name, text(g.Field(i).Interface()), text(w.Field(i).Interface()))
		}
	}
	return n
}

func text(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// Draws can't be equal, their shares are. The bound is that of the recordings'
// README: 4 standard deviations.
func TestRandomTotals(t *testing.T) {
	seen := 0
	for _, file := range traceFiles(t) {
		tr, want := mustRead(t, file)
		if len(tr.Steps) > 0 {
			continue
		}
		seen++
		t.Run(tr.Name, func(t *testing.T) {
			const seed = 20261129
			totals, err := tr.Replay(seed, false, func(Result) error { t.Error("a step"); return nil })
			if err != nil {
				t.Fatal(err)
			}
			var recorded map[string]int
			if err := json.Unmarshal(want.Totals, &recorded); err != nil {
				t.Fatal(err)
			}
			n, sum := float64(tr.Selections), 0
			for _, k := range totals {
				sum += k
			}
			if sum != tr.Selections {
				t.Errorf("%d selections in %v, want %d", sum, totals, tr.Selections)
			}
			var shares []string
			for _, p := range tr.Upstream {
				share, bound := float64(totals[p.Peer])/n, 0.0
				if exact, ok := expectedShare(tr, want, p.Peer); ok {
					bound = 4 * math.Sqrt(exact*(1-exact)/n)
					if math.Abs(share-exact) > bound {
						t.Errorf("%s got %.4f of the sessions, want %.4f within %.4f (seed %d)", p.Peer, share, exact, bound, seed)
					}
				}
				if other := float64(recorded[p.Peer]) / n; want.FinalConns == nil {
					// Two samples: the bounds add up in squares.
					if two := 4 * math.Sqrt(2*other*(1-other)/n); math.Abs(share-other) > two {
						t.Errorf("%s got %.4f of the sessions, nginx gave %.4f, which differs by more than %.4f (seed %d)", p.Peer, share, other, two, seed)
					}
				} else if got := totals[p.Peer]; math.Abs(float64(got-recorded[p.Peer])) > 2 {
					t.Errorf("%s holds %d sessions, under nginx %d", p.Peer, got, recorded[p.Peer])
				}
				shares = append(shares, fmt.Sprintf("%s %d (nginx %d)", p.Peer, totals[p.Peer], recorded[p.Peer]))
			}
			t.Logf("seed %d: %s", seed, strings.Join(shares, ", "))
		})
	}
	if seen != 8 {
		t.Errorf("%d traces with totals only, want 8", seen)
	}
}

// expectedShare is the exact share of a peer, where it can be computed.
func expectedShare(tr *Trace, want *expectation, peer string) (float64, bool) {
	if share, ok := want.ExpectedShare[peer]; ok {
		return share, true
	}
	if tr.Method != "random" {
		return 0, false
	}
	total, own := 0, 0
	for _, p := range tr.Upstream {
		if p.Down {
			continue
		}
		total += *p.Weight
		if p.Peer == peer {
			own = *p.Weight
		}
	}
	return float64(own) / float64(total), true
}

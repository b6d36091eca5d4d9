package metrics

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite README.md")

// README.md lists every metric of weir's, and none that there is not.
func TestReadmeListsEveryMetric(t *testing.T) {
	e := newTestEndpoint()
	e.Watch(run(t, everything(t)))
	all, err := e.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	want.WriteString(readmeHead)
	listed := map[string]bool{}
	for _, f := range all {
		if !strings.HasPrefix(f.GetName(), "weir_") {
			continue
		}
		listed[f.GetName()] = true
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+l.GetName()+"`")
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, " "), f.GetHelp())
	}
	for _, f := range families {
		if !listed[f.name] {
			t.Errorf("%s has no value, though there is everything to tell of", f.name)
		}
	}
	if *update {
		if err := os.WriteFile("README.md", want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("README.md is not what the code has; run go test ./stream/metrics -run Readme -update, and look at the difference")
	}
}

const readmeHead = "# The metrics of weir\n\n" +
	"At `/metrics` of `admin { metrics }`, beside those of the Go runtime (`go_`) and of the process (`process_`: descriptors open and\n" +
	"allowed, memory, CPU). What they cost and what is not counted is told in [doc.go](doc.go).\n\n" +
	"Made by `go test ./stream/metrics -run Readme -update`; the test fails when a metric is missing here or in the code.\n\n" +
	"| metric | type | labels | meaning |\n|---|---|---|---|\n"

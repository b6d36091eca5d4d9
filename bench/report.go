package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// reportFormat is the version of the saved report; a change that makes older
// files mean something else counts it up.
const reportFormat = 1

// report is everything one comparison found; it is saved as it is.
type report struct {
	Format    int               `json:"format"`
	Quick     bool              `json:"quick"`
	Rounds    int               `json:"rounds"`
	Seconds   int               `json:"seconds"`
	Patience  string            `json:"patience"`
	Started   time.Time         `json:"started"`
	Took      string            `json:"took"`
	Ended     string            `json:"ended_early,omitempty"` // why scenarios are missing
	Commit    string            `json:"weir_commit"`
	Machine   machine           `json:"machine"`
	Versions  map[string]string `json:"versions"`
	Tuning    map[string]string `json:"tuning"` // by contestant
	Scenarios []*result         `json:"scenarios"`
}

func (r *report) failedRuns() int {
	n := 0
	for _, sc := range r.Scenarios {
		for _, s := range sc.Contestants {
			for _, sm := range s.Samples {
				if sm.Failed != "" {
					n++
				}
			}
		}
	}
	return n
}

// scenario returns the result with a name, nil when it was not run.
func (r *report) scenario(name string) *result {
	for _, sc := range r.Scenarios {
		if sc.Name == name {
			return sc
		}
	}
	return nil
}

// save writes the report as base.json, and what render makes of it.
func (r *report) save(base string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(base+".json", append(b, '\n'), 0o644); err != nil {
		return err
	}
	return r.render(base)
}

// render writes base.md and its plots, base.svg and base-direct.svg.
func (r *report) render(base string) error {
	return errors.Join(
		writeFile(base+".md", func(w io.Writer) error {
			printReport(w, r, filepath.Base(base))
			return nil
		}),
		writeFile(base+".svg", r.plotRivals),
		writeFile(base+"-direct.svg", r.plotDirect),
	)
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// loadReport reads what save wrote. The error names the file and what is wrong
// with it.
func loadReport(path string) (*report, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r, err := parseReport(b)
	if err != nil {
		return nil, fmt.Errorf("read report %s: %w", path, err)
	}
	return r, nil
}

func parseReport(b []byte) (*report, error) {
	// The format first: files of another one may not fit the fields.
	var head struct {
		Format *int `json:"format"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("not a bench report in JSON: %w", err)
	}
	if head.Format == nil {
		return nil, errors.New("it has no format number: not a bench report, or one from before there was a number")
	}
	if *head.Format != reportFormat {
		return nil, fmt.Errorf("format %d, and this bench reads %d: use the bench of the commit that wrote it", *head.Format, reportFormat)
	}
	r := new(report)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, err
	}
	for i, sc := range r.Scenarios {
		if sc == nil || len(sc.Metrics) == 0 {
			return nil, fmt.Errorf("scenario %d has no metrics", i+1)
		}
		for _, s := range sc.Contestants {
			if s == nil {
				return nil, fmt.Errorf("scenario %s has an empty contestant", sc.Name)
			}
		}
	}
	return r, nil
}

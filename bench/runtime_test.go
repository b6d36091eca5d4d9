package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

func TestRuntimeMeter(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "admin.sock")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	did := goRuntime{Objects: 1000, Bytes: 50_000}
	text := ""
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		did.Objects += 300 // by each question
		did.Bytes += 9000
		fmt.Fprintf(w, `{%s"gc_cycles": %.0f, "allocated_objects": %.0f, "allocated_bytes": %.0f}`, text, did.GCCycles, did.Objects, did.Bytes)
	}))
	server.Listener.Close()
	server.Listener = ln
	server.Start()
	defer server.Close()

	m, err := newRuntimeMeter(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		did.GCCycles++
		did.Objects += 7
		did.Bytes += 700
		if err := m.add(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
	}
	if want := (goRuntime{GCCycles: 2, Objects: 14, Bytes: 1400, Work: 200}); *m.total() != want {
		t.Errorf("got %+v, want %+v", *m.total(), want)
	}
	text = "no JSON"
	if err := m.begin(t.Context()); err == nil || !strings.Contains(err.Error(), "ask weir") {
		t.Errorf("not JSON: got %v, want an error", err)
	}
}

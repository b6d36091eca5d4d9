package main

import (
	"strings"
	"testing"
)

var cpuOnly = []metric{{Name: "cpu", Unit: "us/request", Lower: true, ProxyOnly: true}}

func TestPrintSyscalls(t *testing.T) {
	var b strings.Builder
	printSyscalls(&b, &result{Metrics: cpuOnly, Contestants: []*series{
		{Name: direct},
		{Name: "nginx", Syscalls: map[string]float64{"recvfrom": 2, "epoll_wait": 0.5, "futex": 0.05, "total": 2.55}},
		{Name: weir, Syscalls: map[string]float64{"read": 2, "epoll_pwait": 0.04, "total": 2.04}},
	}})
	want := `
| system calls per request | nginx | weir |
|--------------------------|-------|------|
| read                     | -     | 2.00 |
| recvfrom                 | 2.00  | -    |
| epoll_wait               | 0.50  | -    |
| total                    | 2.55  | 2.04 |
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPrintRuntime(t *testing.T) {
	var b strings.Builder
	printRuntime(&b, &result{Metrics: cpuOnly, Contestants: []*series{
		{Name: "nginx"},
		{Name: weir, Runtime: &goRuntime{GCCycles: 3, Objects: 120, Bytes: 64000, Work: 40000}},
		{Name: "weir-2", Runtime: &goRuntime{}},
	}})
	want := `
| Go runtime | GC cycles | objects | objects per request | bytes per request |
|------------|-----------|---------|---------------------|-------------------|
| weir       | 3         | 120     | 0.003               | 1.60              |
| weir-2     | 0         | 0       | -                   | -                 |
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestCostsThatNobodyTook(t *testing.T) {
	var b strings.Builder
	r := &result{Metrics: cpuOnly, Contestants: []*series{{Name: weir}}}
	printSyscalls(&b, r)
	printRuntime(&b, r)
	if b.Len() > 0 {
		t.Errorf("printed %q", b.String())
	}
}

func TestWorkUnit(t *testing.T) {
	for want, ms := range map[string][]metric{
		"request":      cpuOnly,
		"unit of work": {{Name: "rate", Unit: "requests/s"}, {Name: "cpu", Unit: "ms"}},
	} {
		if got := workUnit(ms); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

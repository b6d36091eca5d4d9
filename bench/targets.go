package main

import (
	"fmt"
	"slices"
)

// goals are ratios of weir to the better rival by metric name: at least that
// much where more is better, at most where less is.
type goals map[string]float64

// targets is what weir is built to reach, a line for each line of the wish.
var targets = []struct {
	scenarios []string
	goals     goals
	rival     string // one product instead of the better rival
}{
	{[]string{"bulk-1", "bulk-8", "bulk-1-reverse", "bulk-8-reverse"}, goals{"throughput": 1.2, "cpu": 0.6}, ""},
	{[]string{"keepalive-64"}, goals{"rate": 1.05, "p99": 1, "cpu": 0.9}, ""},
	{[]string{"short"}, goals{"rate": 1.05, "cpu": 0.95}, ""},
	{[]string{"ping-pong-1", "ping-pong-16"}, goals{"rate": 1.1, "cpu": 0.9}, ""},
	{[]string{"pgbench-select", "redis-1"}, goals{"rate": 1.03, "cpu": 0.9}, ""},
	{[]string{"redis-16"}, goals{"rate": 1.1, "cpu": 0.85}, ""},
	{[]string{"mixed"}, goals{"p99": 0.7}, ""},
	{[]string{"udp-echo-1"}, goals{"rate": 1.6, "cpu": 0.7}, ""},
	{[]string{"udp-echo-8"}, goals{"rate": 1.5, "cpu": 0.5}, ""},
	{[]string{"udp-session"}, goals{"rate": 1.3, "cpu": 0.45}, ""},
	{[]string{"idle-1-byte", "idle-64k"}, goals{"used": 0.25}, "haproxy"},
}

// target is the goal of one figure.
type target struct {
	ratio float64
	rival string
}

func targetOf(scenario, metric string) (target, bool) {
	for _, t := range targets {
		if goal, ok := t.goals[metric]; ok && slices.Contains(t.scenarios, scenario) {
			return target{goal, t.rival}, true
		}
	}
	return target{}, false
}

func (t target) format(m metric) string {
	text := fmt.Sprintf(">= %g", t.ratio)
	if m.Lower {
		text = fmt.Sprintf("<= %g", t.ratio)
	}
	if t.rival != "" {
		text += " of " + t.rival
	}
	return text
}

// verdict tells whether a target was reached.
type verdict string

const (
	reached   verdict = "yes"
	missed    verdict = "no"
	notApart  verdict = "not told apart"
	noFigures verdict = "no figures"
)

// judge compares the medians with the goal. A miss is a miss, told apart or not;
// what is reached and not told apart from the rival may be chance.
func (t target) judge(sc *result, m metric) verdict {
	own, other := sc.figure(weir, m), sc.bestRival(m)
	if t.rival != "" {
		other = sc.figure(t.rival, m)
	}
	got := ratio(own.median, other.median)
	switch {
	case !own.ok() || !other.ok():
		return noFigures
	case got != t.ratio && !m.better(got, t.ratio):
		return missed
	case !own.apart(other):
		return notApart
	}
	return reached
}

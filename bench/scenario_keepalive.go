package main

var keepaliveRun = wrkRun{}

var keepalive = scenario{
	name:  "keepalive",
	title: "small requests over connections kept open",
	setup: "wrk, 1 thread, 64 connections kept alive, GET of about 45 bytes, answer of about 160; backend nginx http, 1 worker; warm-up of 1 s; nothing pinned",
	metrics: []metric{
		{Name: "rate", Unit: "requests/s"},
		{Name: "p50", Unit: "us", Lower: true},
		{Name: "p99", Unit: "us", Lower: true},
		{Name: "cpu", Unit: "us/request", Lower: true, ProxyOnly: true},
	},
	addresses: 1,
	backend:   startHTTP,
	warm:      keepaliveRun.warm,
	run:       keepaliveRun.measure,
}

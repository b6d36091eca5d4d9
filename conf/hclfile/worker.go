package hclfile

import "github.com/weirlb/weir/conf"

var workerBlock = &block{
	name:   "worker",
	header: "worker {",
	single: true,
	attrs: []attribute{
		{"count", kindNumber, `"auto"`},
		{"max_sessions", kindNumber, `"auto"`},
		{"shutdown_timeout", kindDuration, `"30s"`},
		{"steering", kindString, `"auto"`},
	},
}

var steerings = []choice[conf.Steering]{
	{"auto", conf.SteerAuto},
	{"none", conf.SteerNone},
	{"cpu", conf.SteerCPU},
	{"least_sessions", conf.SteerLeastSessions},
	{"hash", conf.SteerHash},
}

// The largest values of the worker block: far above what a machine has, low
// enough that a slip of the finger is noticed.
const (
	maxWorkers  = 1024
	maxSessions = 100_000_000
)

func (d *decoder) worker(b *body, w *conf.Worker) {
	b.numberOrAuto("count", 1, maxWorkers, &w.Count)
	b.numberOrAuto("max_sessions", 1, maxSessions, &w.MaxSessions)
	b.duration("shutdown_timeout", orOff, &w.ShutdownTimeout)
	choose(b, "steering", steerings, nil, &w.Steering)
	d.maxSessionsAt = b.valueRange("max_sessions")
}

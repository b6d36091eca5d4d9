// Package stream is the balancer itself: a [Server] of workers that carry
// sessions between clients and the peers of upstreams.
//
// One session, step by step, and the file that tells of each:
//
//	the kernel, or a steerer, chooses the worker               steering.go, tcp/listener.go
//	a worker's loop wakes up                                   loop/loop.go
//	the connection is accepted, if there is room               tcp/worker.go
//	it is let in, has to wait, or is refused                   tcp/clientele.go, tcp/walk.go, upstream/admission.go, queue/
//	a peer is picked, and the next one if it fails             tcp/session.go, upstream/group.go, balance/
//	what a failure costs the peer                              upstream/failure.go
//	why it was that peer is told, if the operator asked        tcp/decision.go, upstream/decision.go, decisions/
//	bytes move: small ones copied, big ones spliced            tcp/session.go, tcp/pipe.go
//	they may be slowed down, or wait for their turn            tcp/rate.go, tcp/turn.go, adaptive/
//	ends and resets are passed on, deadlines kept              tcp/session.go, loop/wheel.go
//	one log line is written, and the worker remembers it       accesslog/, history/
//
// A UDP session's life is told in udp/session.go; its half of a worker shares the
// loop with TCP's (worker.go).
//
// Start and a change of the configuration are one thing: prepared aside, where all
// that can fail happens, and committed on every worker (reload.go, binding.go,
// upstream/update.go). Another process takes over by upgrade.go, in which the
// messages of handover/ carry sockets, the state of peers and sessions.
//
// Peers are checked by health/, on goroutines of their own (probing.go), and names
// and files that servers are discovered from are followed by discovery/
// (discover.go). Both end in the peers' axes (upstream/axes.go); what follows from
// these for running sessions, and for the log, is in failover.go: the sessions of a
// peer are found by its list on each worker (tcp/peers.go), in time proportional to
// their number, and ended at the pace that on_state says.
//
// An operator sees sessions and peers and changes them (sessions.go, operate.go;
// over the control API: admin/). What was counted is read in reading.go, and served
// to Prometheus by metrics/.
//
// A worker is one goroutine locked to its thread, with its own epoll set, its
// own listening socket for every address, its own sessions, pipes and timers.
// Workers share only the upstreams' state, the count of sessions, and, for
// unix sockets, the listening descriptor.
//
// Units: see conf for settings, stats for counters.
//
// Errors: [Start] returns every error; afterwards only log lines tell of
// trouble, and close reasons of what became of sessions.
//
// Ownership: a Server's methods may be called by any goroutine. The Server
// closes every descriptor it opened, at the latest in Stop.
//
// Kernel: Linux 5.6 or newer. GOMAXPROCS is raised to workers + 1, so that
// the workers, which hold on to their Ps, leave one to everybody else.
//
// HCL, signals, flags and eBPF are left to others.
package stream

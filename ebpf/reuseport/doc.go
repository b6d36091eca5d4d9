// Package reuseport chooses, with an eBPF program, the worker that gets a new
// TCP connection or a UDP datagram, among the sockets that the workers have on
// one address with SO_REUSEPORT.
//
// A [Steering] has the process's [Policy] and counts its workers' sessions. A
// [Group] steers one address: it has a map of sockets and a program, and
// [Group.Set] says which socket belongs to which worker. The usual order:
//
//	s, err := reuseport.New(reuseport.LeastSessions)
//	g, err := s.NewGroup(reuseport.TCP, 2*workers)
//	err = g.Set(fds)        // listening, fds[w] is worker w's
//	err = g.Attach(fds[0])
//	...                     // for each session that has ended:
//	s.Ended(w)
//	...                     // for new listeners:
//	err = g.Set(newFDs)     // then close the old ones
//
// # Policies
//
// With [LeastSessions] the program adds one to the worker's sessions for each
// SYN that it sends there, on all addresses of the process; user space only
// subtracts. No message and no lock is needed, and a burst spreads before
// anybody has accepted. Other packets for listeners go by hash and are not
// counted. What makes the counters drift is set right by [Steering.Reconcile].
// With [Hash] workers have equal shares of the hash space, and another number
// of workers moves no more of it than it must. [CPU] is for machines whose
// network card spreads connections over the CPUs; on the loopback interface a
// worker gets what its CPU's clients send. UDP is always steered by hash: a
// flow's datagrams must reach the worker that has its session.
//
// # Replacing sockets
//
// Set switches all workers at once, with one store. The sockets that it
// replaces can be closed as soon as it returns: the kernel moves the connections
// that they have not accepted, half-open ones included, to the same workers' new
// sockets (without the program, or net.ipv4.tcp_migrate_req, it resets
// them). Set waits for packets on their way (synchronize_rcu), 10 to 20 ms.
// Another process takes an address over with [Steering.Inherit]; it loads its own
// program and counters, so the two need not be of the same version.
//
// Whenever the program cannot choose, the kernel chooses among all sockets on the
// address, replaced ones that are still open included; nobody is refused. Each
// way out has a counter ([Counters]).
//
// Units: sessions, packets; workers are numbered from 0 to [MaxWorkers]-1.
//
// Errors: [ErrNotSupported] is wrapped by New's error only. A worker number out
// of range panics, but for those that Reconcile is told of.
//
// Ownership: Began, Ended, Sessions and Counters may be called by any
// goroutine, and the first three make no system call; Set and Reconcile take a
// mutex of their own. Sockets stay the caller's. A Group closes its maps and its
// program; nothing is pinned, so all is gone when the sockets are.
//
// Kernel: Linux 5.14 (BPF_SK_REUSEPORT_SELECT_OR_MIGRATE) and CAP_BPF, no other
// capability and no sysctl. Without them New fails and leaves nothing, and the
// caller goes on with plain SO_REUSEPORT, the kernel's own hash.
//
// The program is written with cilium/ebpf/asm, not in C: it has about 70
// instructions, and for least sessions 30 more and 15 for each slot. So the layout
// of shared memory is declared once, in memory_unsafe.go, for both sides, and
// neither a build nor CI needs clang to know that a generated object is what its
// source says.
//
// It knows nothing of configuration, listeners and sessions, and of when to
// replace sockets.
package reuseport

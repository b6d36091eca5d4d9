// Package loop is the event loop of one worker: an epoll set, a timer wheel, a
// mailbox and a slab, all for one thread.
//
// [Loop] waits for readiness and calls a [Handler], which is the worker. Each
// descriptor is registered with a [Token] that names what it belongs to: a
// kind, a slot, that slot's generation and a side. A [Slab] keeps the things
// that own slots; it refuses a token of an earlier generation, so an event
// that was queued before its descriptor was closed and reused is dropped and
// counted, never delivered to a stranger. A [Wheel] keeps one deadline for each
// slot. A [Mailbox] brings work from other goroutines.
//
// Units: the wheel counts whole milliseconds of the loop's clock; a deadline
// never fires early and at most one millisecond and one turn late. A slab holds
// at most [MaxSlots] things.
//
// Errors: only [New] returns one (epoll, eventfd or timerfd refused by the kernel). A
// failing epoll_wait afterwards is a bug and panics.
//
// Ownership: everything here belongs to the goroutine that calls Run or Turn,
// which must be locked to its thread for Run. The exceptions are
// [Mailbox.Post], which any goroutine may call, and Loop.Stats, whose fields
// are atomic. The loop closes its own epoll set, eventfd and timerfd and no other
// descriptor.
//
// Waiting and the Go scheduler are explained at sys.EpollWait; it was proven
// under garbage-collection stress in the tests here.
//
// # Where the time goes
//
// Shares of weir's CPU by perf (cpu-clock, 4 kHz, call graphs), in per cent, on the
// machine of bench/results, a 2-core VM where a system call that does nothing takes
// 0.24 us, with one worker. Epoll is waiting and registering; close has shutdown in it:
//
//	                        user  send  recv  connect  close  epoll  the rest
//	64 keep-alive requests     7    72    13        -      -      4   4
//	the same, 16 KiB each      6    69    14        -      -      8   3
//	1 round trip               7    33     8        -      -     48   4
//	16 round trips             7    70    14        -      -      5   4
//	redis -P 1                 6    72    11        -      -      5   6
//	redis -P 16                8    71    11        -      -      5   5
//	pgbench -S                 6    56     8        -      -      4  26: 25 leaving calls
//	a connection a request     6    13     4       26     32      6  13: accept, socket
//	the same, 1000 servers     7    14     4       25     32      6  12: user was 12 before lazy rounds (stream/balance)
//	a burst of connects        6    19     5       19     32      7  12
//	pgbench -C                11    24     5        7     13     24  16: 5 the runtime's own
//
//	                        user  splice in  splice out  send, recv  epoll  the rest
//	1 bulk stream              3         19          67           1      7   3
//	the other way              3         16          70           1      6   4
//	8 bulk streams             3         30          58           3      3   3
//	mixed                      4         33          25          18      4  16: 15 leaving calls
//
// Leaving a call is where another process, which the call woke, takes the core. In
// one round trip at a time weir sleeps twice, and waking up is half of what it does.
//
// A write does most of the work because loopback delivers in it: two thirds of a
// send is the receiver's side of TCP and waking who waits for it. The kernel
// does the same for every relay, so what a proxy can save is its own code, calls
// and packets. bench/floor/relay.c makes weir's calls with next to nothing in
// between: the floor. Counted in samples for each round trip of 16 connections,
// C spent 0.5 us in user space and 20.6 in the kernel, weir 1.5 and 22.2: three
// layers of Go's system call wrappers, the worker's own bookkeeping, and file
// descriptors that cost a reference count each once a process has threads. In 30
// interleaved rounds, two copies each, weir had 0.96 of the floor's rate and 1.06 of
// its CPU, and nginx 0.96 of weir's rate and 1.05 of its CPU. A relay
// that moves bytes by epoll and one system call each is where it can be. Requests
// of pgbench and Redis, one at a time, are such round trips too.
//
// Where requests are few (pgbench -C: each one forks a server) 6 % of weir's CPU
// is the runtime's own: sysmon asks for the worker's P every 10 ms, and another
// thread hands it back. It was 12 % before a worker that was just asked waited on
// without letting the scheduler have the P (sys.EpollWait).
//
// In the mixed scenario five processes want two cores, and a worker that moves
// megabytes has no claim to be first when a message wakes it. The p99 of messages
// is that wait for a core: 0.4 to 13 ms from one second to the next, beside weir
// as beside HAProxy.
//
// One bulk stream has a slow mode, in which the sender spends ten times as much
// on the same bytes (_copy_from_iter 40 % of the machine instead of 11): it
// copies into pages that are cold, as they were given back on the other core.
// All who splice have it, the floor included. Which mode a run takes is partly
// chance: the more bytes are under way, the likelier it is (spliceBytes in
// stream/tcp). With eight streams it evens out.
//
// What made it faster stands where it is done: stream/tcp (fewer calls and
// packets, a buffer of 64 KiB, recv instead of read, longer runs of bulk),
// stream/balance (many peers), sys.EpollWait and timeout.
//
// Tried and lost, interleaved with what they were to replace:
//
//   - Another stub for the system call, in assembly: 260 ns for an empty call,
//     245 by x/sys.
//   - Two workers on a core each, and with SO_INCOMING_CPU to have connections on the
//     client's core: 0.95 to 0.99 of the rate with a connection a request, 0.98 to
//     1.05 at 64 requests.
//   - A short slice for the worker (sched_setattr, 100 us): 0.92 to 1.03 of the
//     rate, and the same p99 of messages beside bulk. A long one, SCHED_BATCH, a core of its own: 0.96 to 0.98.
//   - A Go runtime whose scheduler never asks for the thread (forcePreemptNS out of
//     reach), to know what its requests every 10 ms cost: 0.96 to 1.0 of the CPU.
//   - sched_yield before a wait, so that more has come by then: 0.88 of the rate
//     with a connection a request, 0.97 to 1.03 with messages.
//   - The first bytes sent right after connect(2), which over loopback is over when it
//     returns, instead of in the next turn: 0.97 to 1.03 of the rate with a connection
//     a request, by run, and the same latency for one client.
//   - TCP_QUICKACK off on listening sockets, which accepted ones inherit: 17.2 packets
//     instead of 18.4 with a connection a request, 1.02 of the rate and 0.97 of the CPU;
//     but a client that writes its first request in two pieces, without TCP_NODELAY,
//     waits 40 ms for the acknowledgement in between.
//   - weir's text in huge pages: 0.97 of the CPU with pgbench -C, no other rate.
//   - No locked thread: 0.82 to 0.88 of the rate at 16 round trips, 0.97 to 1.06 at 64
//     requests. A descriptor table of the worker's own (CLONE_FILES), which saves the
//     reference counts: 0.83 to 1.06.
//   - Huge pages under the Go heap (MADV_HUGEPAGE, MADV_COLLAPSE): 1.00.
//   - Filling a pipe by several splices before it is emptied: 0.96 to 1.10 of
//     the CPU. Pipes of 64 and 256 KiB: 2 and 1.2 times that of 1 MiB.
//   - TCP_NOTSENT_LOWAT of 128 to 512 KiB, or SO_RCVBUF of 1 or 2 MiB, on bulk
//     flows, to have less under way: 0.65 to 1.4 of the rate, by scenario.
//   - SO_RCVLOWAT on bulk flows: 0.9 of the CPU, and a message that is shorter
//     waits for ever unless somebody undoes it in time.
//   - Turning back from splicing at 16 or 48 KiB instead of 2: 0.96 to 1.16 of
//     the CPU, by size of the answers.
//   - Less bulk in one turn beside messages (256 KiB of a flow instead of 1 MiB), or
//     bulk after all else in a turn: the same p99 of messages, which is the
//     scheduler's time slice. More (4 MiB of a flow): 1.4 to 2 times that p99.
//   - MSG_ZEROCOPY on loopback: every one of 23,183 sends was reported as copied,
//     at 1.4 times the CPU.
//   - TCP_FASTOPEN_CONNECT was not tried: without the servers' consent it is a
//     connect with one more option on the SYN.
//
// What events mean is left to the handler: the loop knows no TCP, UDP or peer.
package loop

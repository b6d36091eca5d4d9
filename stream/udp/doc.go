// Package udp carries UDP sessions: what comes from one client address to one
// local address goes to one peer, and what that peer answers goes back.
//
// [Worker] is the UDP half of a worker; it is called by the worker's loop.
// [Listener] is what the sessions of a listener block have in common. A
// session's life is told in session.go, in the order in which things happen;
// table.go finds sessions and bounds them, pool.go keeps the sockets to the
// peers, batch.go moves many datagrams with few system calls.
//
// # Rules
//
// One session is one selection of a peer, as in nginx's stream module: no
// session moves to another peer because its peer does not answer. It ends when
// every datagram has had its `responses`, when nothing has moved for
// idle_timeout, or when it must make room. Datagrams of one client that are read
// together share a session that `requests` leaves open, even if `responses` is
// "none" and each would have been enough to end it. A datagram that comes after
// the end begins a new session, with a new selection. So does one whose session's peer
// has refused an earlier datagram (ICMP port unreachable), was set down by the
// operator or, unless on_state keeps it, is no longer in the configuration: such
// sessions end there and then, and no client talks to a dead peer for longer than it
// takes to be refused once. Only where the listener has gone too they run on, as
// there is nobody to begin another one.
//
// What counts as a failure of the peer is nginx's: a refusal, when the session
// ends; too few answers by idle_timeout, if `responses` asks for some. A refusal
// stands for one answer.
//
// # Bounds
//
// A session takes one descriptor, a slot of about 250 bytes, its entry in a map,
// and a local port: connected sockets share net.ipv4.ip_local_port_range, idle
// ones included, whatever their peer. At max_sessions, and when the process has no
// room, a new session takes the place of another one of its listener, be it from
// before a reload: the longest idle of those that have had one datagram and no
// answer, else the longest idle one, if nothing has moved in it for a second. A flood of new clients so pushes out itself. If
// there is no such session the datagram is dropped and counted.
//
// Nothing waits: a datagram that a socket has no room for is dropped and
// counted, as the network would.
//
// # Sockets to peers
//
// Each session has a connected socket of its own, so that answers and errors
// are its own. After the session the socket rests for the quarantine; what comes
// to it then is dropped and counted. One that was owed nothing is used again
// afterwards, if its queue is empty; one that may still get answers is closed.
// (A query in a session of its own cost 27 us of CPU with new sockets, 17.5 with
// rested ones; nginx 34 to 39. Giving a resting socket another port, by
// connect(2) to AF_UNSPEC and back, cost 19, but gives the old port up: 2 of
// 20,000 answers that servers sent twice then reached somebody else.)
// What comes later than that can reach another client: an answer that was sent
// twice by the same socket, any other by way of a port that the kernel has given
// out again, as with every proxy. Protocols that are prone to it have
// identifiers, or ask for a longer quarantine. At most as many sockets rest as
// there may be sessions, of the listener and of the process, and 12288 for each
// worker; more are closed at once. From seven eighths of that on a quarter of the
// quarantine is enough: the choice then is between a socket that has rested so long
// and a new one, whose port may have been given up a moment ago. At 40,000 queries a
// second half of them needed a new socket; where none does, weir serves 1.6 times as
// many, at 0.64 of the CPU for each.
//
// # Several workers
//
// The kernel spreads clients over the workers' sockets by a hash of addresses
// and ports. It stays the same while the number of sockets does; when it
// changes, some clients' datagrams begin new sessions on other workers, and what
// their old sessions' peers still answer is passed on.
//
// # Where the time goes
//
// Shares of a worker's CPU by perf (cpu-clock, 3 kHz), one worker on the machine of
// bench/results, in the scenarios of bench:
//
//	                    user  sends  receives  epoll_wait  sockets  the rest
//	echo, window 1       6 %   68 %      20 %         3 %        -       3 %
//	echo, window 8       9 %   52 %      25 %         8 %        -       6 %
//	short sessions      10 %   60 %      24 %         2 %        -       4 %
//
// A send does most of the work, because loopback delivers in it; of a segmented one
// a fifth is cutting it up for a receiver that does not want it whole. A round trip
// in a window of 1 takes 2.2 system calls and two sends: 8 of its 12 us, where nginx
// needs 14 for all. Nothing that a relay of sockets can do without is left: 0.7 of
// nginx's CPU would mean to receive both datagrams, wait for them and find their
// session in 1.7 us. A direct round trip takes the load generator 9 us, so that 1.6
// of nginx's rate is what it does with no proxy between. Of the 15 us of a short
// session the two sends are 9, and a look whether something has come to the rested
// socket is 1.
//
// Tried and lost: more answers taken by one call (16 or 32 instead of 8), 0.97 to
// 1.03 of the rate at either window; requests after all answers of a turn, 0.96 to
// 1.06; not asking who sent an answer, which a connected socket knows, 0.95 to 1.02.
//
// Units: bytes of payload, datagrams, clock.Time.
//
// Errors: NewListener and Listen return errors; afterwards sessions end with
// close reasons, and what belongs to no session is counted in stats.Worker.
//
// Ownership: everything but Listener belongs to the worker's thread. A socket
// belongs to its session, or to the pool.
//
// Kernel: UDP_SEGMENT (4.18) and UDP_GRO (5.0) are probed; without them
// datagrams are moved one by one, and counted so. A listening socket whose datagrams
// come to be counted gives up UDP_GRO as soon as it is empty: what the kernel has put
// together would be received as one.
//
// It knows no TCP, no configuration file and no eBPF.
package udp

// Package tcp carries TCP (and unix stream) sessions on one worker: from
// accept to close, a session is a client's connection, a peer's connection and
// the bytes on their way between them.
//
// A [Worker] is the handler of one loop.Loop and owns its sessions, listening
// sockets, pipes and buffers. A [Listener] is what the sessions of one listener
// block have in common. A [Room] bounds the sessions of all workers together.
// session.go tells a session's life from top to bottom.
//
// How bytes move: a read goes into the worker's one buffer of 64 KiB and is
// sent on at once. A read that fills the buffer turns its direction to splice, at
// most 640 KiB at a time, through a pipe of 1 MiB that is lent while bytes are
// inside; a spliced read of under 2 KiB turns it back. So small messages cost two
// system calls, big ones are never copied, and an idle session holds neither pipe
// nor buffer.
// What the other side does not take stays with its session, at most one buffer
// or pipe for each direction, and nothing more is read until it is gone.
//
// What a session costs: accept, watch, read, open, connect, watch, write, read,
// write, shutdown, read and two closes are the 13 calls of a short one; to hold
// back the handshake's ACK for bytes that wait already is a 14th that saves a
// packet. Three things keep it at that. The first bytes are read before the
// peer is connected (readAhead). TCP_NODELAY comes with the second write
// (hurry). After a FIN was announced a short read needs no second one to find
// the end, and the last bytes leave in one packet with the FIN (take, passEnd).
// Urgent data makes reads stop short: EPOLLPRI tells, and its byte is dropped.
//
// What bounds the load: a listener's limits are looked at when a session begins
// (clientele.go; accept_rate before that: connections wait in the accept queue).
// Then the upstream lets it in, has it wait in its queue (walk.go), or refuses it,
// and its client is told so in its own protocol (refuse.go). Attempts to connect can
// wait in between (walk.go), have another beside them (hedge.go), and go on until the
// peer's first byte (hold.go). While it relays, a flow can be slowed down (rate.go)
// and turns can be made to wait (turn.go). What only some sessions need is lent to
// them (extras.go): the others pay one comparison for a read.
//
// accept_rate delays and does not refuse, as HAProxy's rate-limit sessions: clients
// that are refused come back at once, and all together. The accept queue
// (net.core.somaxconn) bounds how many wait.
//
// How sessions end: the end of input is passed on in each direction by itself.
// A reset is passed on as a reset, after the bytes that came before it were
// acknowledged. What was cut (a timeout with bytes undelivered, a stop) is
// reset too, so that half a stream never looks like a whole one. Unix sockets
// have no reset; they see an end.
//
// Units: timeouts have a resolution of one millisecond and never fire early.
// dead_peer_timeout becomes keepalive in whole seconds, so it acts within two
// seconds of times below three.
//
// Errors: [NewWorker] and [Listener.Listen] return them; sessions end with a
// stats.CloseReason.
//
// Ownership: everything but Room and Listener belongs to the worker's thread.
// The worker closes each descriptor it accepted, opened or was given by Serve,
// except shared listening sockets. Nothing is allocated while bytes move, and
// no lock taken but the upstream group's, to pick a peer and to settle, and, under a
// limit of turns that is reached, the limiter's.
//
// Kernel: SO_REUSEPORT (3.9), splice, TCP_USER_TIMEOUT; see guard.go for what
// TCP_RTO_MAX_MS (6.15) adds. Where a pipe of full
// size is refused (fs.pipe-user-pages-soft) smaller ones or copying do, and
// stats.Worker.SpliceFallbacks counts it.
//
// Picking peers and what a failure costs is left to stream/upstream.
package tcp

// Package handover is the conversation in which one weir hands its work to
// another, for an upgrade: listening sockets, what steers them, the state of
// peers, and the sessions that run.
//
// A [Conn] carries [Message]s, each with the descriptors that it speaks of, over
// a pair of connected unix sockets of which the new process inherits one. The
// old process speaks first:
//
//	old                                   new
//	hello, sockets, peers, inherit   ->
//	                                 <-   ready, once everything is set up, or its end
//	accepts no more; go              ->
//	an empty batch                   ->
//	                                      accepts
//	                                 <-   adopted: it is ready for sessions
//	sessions, batch                  ->
//	                                 <-   adopted, for each batch
//	done                             ->
//	                                 <-   bye
//
// Until a batch is answered its sessions are the old process's: it has only
// ceased to move their bytes, and goes on with them if the new one fails. A
// process of another version of sessions gets none: the old one drains. Before
// that, what a process does not know it ignores.
//
// Units: spans of time are nanoseconds before the message was made, -1 for what
// has not happened.
//
// Errors: of the socket, [ErrEnded] and [ErrVersion].
//
// Ownership: a Conn may be used by one goroutine for each direction.
// Descriptors are sent as duplicates; those that are received belong to the
// caller, and close themselves on exec.
//
// What sessions are made of is stream/tcp's and stream/udp's business.
package handover

// Package refusal has the words that tell a client in its own protocol that
// there is too much to do, for stream/tcp, which would have to reset the client
// without them.
//
// [New] makes [Words] for a listener's profile, or none if its protocol has no
// such words. [Words.Next] is asked with what the client has said so far, first
// with nothing, and says what to answer:
//
//	profile    after                 answer
//	postgres   SSLRequest            N: no encryption here, go on
//	           GSSENCRequest         N
//	           StartupMessage        ErrorResponse: FATAL, SQLSTATE 53300 (too_many_connections)
//	           CancelRequest         nothing: it never has an answer
//	           TLS at once           nothing
//	mysql      the connect           ERR packet: error 1040 (ER_CON_COUNT_ERROR)
//	redis      the connect           -ERR
//	http       the first bytes       503 with Retry-After and Connection: close
//	           TLS                   nothing
//
// An HTTP client that is answered before it has asked takes the answer for a
// stray one (Go's drops the connection), so its first bytes are waited for. The
// others' clients expect that a server which is full says so at once. A client
// that insists on encryption (sslmode=require, rediss) learns only that there is
// none, since the words would need the server's key; one that speaks HTTP/2 from
// its first byte does not understand.
//
// Units: bytes. Of what a client says, no more than [MostInput] matter at a time.
//
// Errors: none; what makes no sense in the protocol ends without words.
//
// Ownership: Words are immutable and may be used by any goroutine. The replies
// are theirs: whoever sends them does not write to them.
//
// Left to the caller: the sockets, and how long a client may take. After the last
// reply it ends its output, and reads until the client has ended too: a close
// with input unread is a reset, which can overtake the reply (RFC 9112 section
// 9.6).
package refusal

package tcp

import (
	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/stream/stats"
)

// phase is what a session waits for.
//
//	          queued, pausing <──┐
//	            ↑    │           │ next peer
//	accepted ───┴────┴──> connecting ──> relaying ──> flushing ──> closed
//	    │                     │              │                       ↑
//	    ├──> refusing ────────┴──────────────┴───────────────────────┤
//	    └────────────────────────────────────────────────────────────┘
//
// A session goes back from relaying to another peer, by pausing, only while it holds
// all that its client has sent (hold.go), and is refused from wherever it has no peer.
// Only setPhase assigns it.
type phase uint8

const (
	accepted   phase = iota
	queued           // for room at a peer
	pausing          // for the time of the next attempt
	connecting       // for a peer to answer
	relaying         // for bytes from either half
	flushing         // for one half to acknowledge the last bytes, before it is reset
	refusing         // for the client to hear that it gets no peer
	closed
)

// String returns the phase as a log line says it.
func (p phase) String() string {
	return [...]string{"accepting", "waiting for a peer", "waiting to try another peer", "connecting to peer", "relaying", "flushing before reset", "refusing", "closed"}[p]
}

// phaseEdges holds, for each phase, the set of phases that may come before it.
var phaseEdges = [...]uint8{
	queued:     1<<accepted | 1<<queued | 1<<pausing | 1<<connecting,
	pausing:    1<<accepted | 1<<queued | 1<<pausing | 1<<connecting | 1<<relaying,
	connecting: 1<<accepted | 1<<queued | 1<<pausing | 1<<connecting,
	relaying:   1<<accepted | 1<<connecting, // accepted: taken over from another process
	flushing:   1 << relaying,
	refusing:   1<<accepted | 1<<queued | 1<<pausing | 1<<connecting,
	closed:     1<<closed - 1,
}

func (s *session) setPhase(p phase) {
	if phaseEdges[p]>>s.phase&1 == 0 {
		panic("tcp: session goes from " + s.phase.String() + " to " + p.String())
	}
	s.phase = p
}

// side names one of a session's halves: its own index, and the index of the
// flow that reads from it.
type side uint8

const (
	down side = 0 // downstream: the client's side
	up   side = 1 // upstream: the peer's side
)

func (d side) other() side { return 1 - d }

// to returns where the flow that reads from d goes.
func (d side) to() stats.Direction {
	if d == down {
		return stats.ToPeer
	}
	return stats.ToClient
}

// half is one of a session's two connections, with what is known of it.
type half struct {
	fd       int32 // -1 = none
	unix     bool  // a unix socket: it has no RST and no TCP options
	readable bool  // a read may find something
	writable bool  // a write may find room
	urgent   bool  // a read may stop at urgent data: a short one does not mean that all is read
	hungUp   bool  // its end was announced: a short read does not mean that all is read
	finished bool  // its FIN is there: after a short read there are no more bytes
	ended    bool  // end of input was read, or is known to be all that is left
	shut     bool  // we have sent our FIN
	nagle    bool  // TCP_NODELAY has still to be set: see hurry
	stalled  bool  // its window is shut and it answers probes: see guard.go
	err      uint8 // errno that broke the connection; 0 = it stands
}

// broken reports whether the connection is gone: nothing can be written, and
// input ends once what the kernel still holds was read.
func (h *half) broken() bool { return h.err != 0 }

// flow is one direction of a session: bytes read from the half of the same
// index on their way to the other.
type flow struct {
	read     uint64 // bytes
	sent     uint64 // bytes
	buf      []byte // holds the pending bytes, if pipe does not
	pipe     *pipe  // holds the pending bytes, lent by the worker until none is left
	pending  int32  // bytes read and not yet sent
	off      int32  // of the first pending byte in buf
	splice   bool   // the last read was large: use a pipe
	noSplice bool   // the kernel refused to splice these sockets
	done     bool   // nothing more will come or can be delivered
}

// rest returns the pending bytes that are in buf.
func (f *flow) rest() []byte {
	if f.pending == 0 {
		return nil
	}
	return f.buf[f.off : f.off+f.pending]
}

// reasonFor tells what the errno that broke a half says about its end.
func reasonFor(d side, errno uint8) stats.CloseReason {
	switch unix.Errno(errno) {
	case unix.ETIMEDOUT, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EHOSTDOWN:
		return stats.DeadPeer
	}
	if d == down {
		return stats.ClientReset
	}
	return stats.PeerReset
}

package stats

// CloseReason is why a session ended. Every session has exactly one.
type CloseReason uint8

// The close reasons.
const (
	ClientClosed     CloseReason = iota // both sides ended their input, the client first
	PeerClosed                          // both sides ended their input, the peer first
	ClientReset                         // the client's connection was reset
	PeerReset                           // the peer's connection was reset
	ConnectFailed                       // no attempted peer could be connected to; the last one refused or was unreachable
	ConnectTimeout                      // the same; the last one did not answer in time
	NoPeer                              // no peer was eligible
	IdleTimeout                         // no byte in either direction for idle_timeout
	HalfCloseTimeout                    // no byte for half_close_timeout after one side had ended its input
	DeadPeer                            // one side no longer answers at all (dead_peer_timeout)
	Shutdown                            // weir stopped before the session had ended
	LocalError                          // this machine lacked something: descriptors, memory, ports
	Answered                            // UDP: every datagram has had its answers
	NoAnswer                            // UDP: fewer answers than the listener expects came within idle_timeout
	PeerRefused                         // UDP: the peer had nobody listening (ICMP port unreachable)
	PeerDown                            // UDP: the peer was set down, removed or found sick; the client goes to another one
	Evicted                             // UDP: another client needed the room
	ClosedByOperator                    // the operator has closed this very session
	PeerUnhealthy                       // on_state: a check or outlier detection went against the peer
	PeerStandby                         // on_state: the peer has another role than the one wanted
	PeerLagging                         // on_state: the replica is too far behind
	PeerDrained                         // on_state: the operator has drained the peer or set it down
	PeerRemoved                         // on_state: the peer is no longer in the configuration
	QueueFull                           // no server had room, and no place in the queue was left
	QueueTimeout                        // no server had room within queue.timeout
	CircuitOpen                         // the upstream's circuit breaker is open
	Overloaded                          // the upstream has as many sessions as circuit_breaker or adaptive_limit allow
	Limit                               // the listener has as many sessions as limits.sessions
	ClientLimit                         // the client has as many as limits.sessions_per_client
	HandedOver                          // goes on in another process; not a line in the access log
	reasons
)

// Reasons is how many close reasons there are.
const Reasons = int(reasons)

var reasonNames = [Reasons]string{
	"client_closed", "peer_closed", "client_reset", "peer_reset", "connect_failed", "connect_timeout", "no_peer",
	"idle_timeout", "half_close_timeout", "dead_peer", "shutdown", "local_error",
	"answered", "no_answer", "peer_refused", "peer_down", "evicted", "closed_by_operator",
	"peer_unhealthy", "peer_standby", "peer_lagging", "peer_drained", "peer_removed",
	"queue_full", "queue_timeout", "circuit_open", "overloaded", "limit", "client_limit",
	"handed_over",
}

// String returns the reason as logs and metrics write it.
func (r CloseReason) String() string { return reasonNames[r] }

// Ordered reports whether weir ends the session for a reason of its own while
// both sides would go on: they are reset, not told that the other has ended.
func (r CloseReason) Ordered() bool {
	switch r {
	case ClosedByOperator, PeerUnhealthy, PeerStandby, PeerLagging, PeerDrained, PeerRemoved:
		return true
	}
	return false
}

// Refused reports whether the session never got a server because there is too
// much to do: its client is told so in its own protocol, where that is known.
func (r CloseReason) Refused() bool {
	switch r {
	case QueueFull, QueueTimeout, CircuitOpen, Overloaded, Limit, ClientLimit:
		return true
	}
	return false
}

// Status returns nginx's session status for the reason: 200 once a peer was
// connected, 502 without one, 503 if there was too much to do, 500 if the machine
// was at fault.
func (r CloseReason) Status() int {
	switch r {
	case ConnectFailed, ConnectTimeout, NoPeer, NoAnswer:
		return 502
	case LocalError:
		return 500
	}
	if r.Refused() {
		return 503
	}
	return 200
}

package conf

// Variable is the name of a session variable, nginx's without the dollar.
type Variable string

// The session variables, and time, which only log lines have.
const (
	VarTime                  Variable = "time"       // end of the session, RFC 3339 with milliseconds
	VarListener              Variable = "listener"   // name of the listener
	VarProtocol              Variable = "protocol"   // tcp or udp
	VarConnection            Variable = "connection" // serial number of the session in this process
	VarRemoteAddr            Variable = "remote_addr"
	VarRemotePort            Variable = "remote_port"
	VarBinaryRemoteAddr      Variable = "binary_remote_addr"
	VarServerAddr            Variable = "server_addr"
	VarServerPort            Variable = "server_port"
	VarHostname              Variable = "hostname"
	VarPid                   Variable = "pid"
	VarStatus                Variable = "status" // nginx's session status: 200, 500, 502, 503
	VarCloseReason           Variable = "close_reason"
	VarTries                 Variable = "tries"          // attempts to connect to a peer
	VarBytesReceived         Variable = "bytes_received" // from the client
	VarBytesSent             Variable = "bytes_sent"     // to the client
	VarSessionTime           Variable = "session_time"   // seconds with milliseconds
	VarUpstream              Variable = "upstream"       // name of the upstream
	VarUpstreamAddr          Variable = "upstream_addr"  // every attempted peer, in order
	VarUpstreamConnectTime   Variable = "upstream_connect_time"
	VarUpstreamFirstByteTime Variable = "upstream_first_byte_time"
	VarUpstreamSessionTime   Variable = "upstream_session_time"
	VarUpstreamBytesSent     Variable = "upstream_bytes_sent"
	VarUpstreamBytesReceived Variable = "upstream_bytes_received"
)

// LogVariables lists the variables that an access-log line may hold.
func LogVariables() []Variable {
	return []Variable{
		VarTime, VarListener, VarProtocol, VarConnection, VarRemoteAddr, VarRemotePort, VarBinaryRemoteAddr,
		VarServerAddr, VarServerPort, VarHostname, VarPid, VarStatus, VarCloseReason, VarTries,
		VarBytesReceived, VarBytesSent, VarSessionTime, VarUpstream, VarUpstreamAddr,
		VarUpstreamConnectTime, VarUpstreamFirstByteTime, VarUpstreamSessionTime,
		VarUpstreamBytesSent, VarUpstreamBytesReceived,
	}
}

// DefaultLogFields lists the fields of an access-log line that sets none.
func DefaultLogFields() []Variable {
	return []Variable{
		VarTime, VarListener, VarRemoteAddr, VarUpstream, VarUpstreamAddr, VarTries, VarStatus, VarCloseReason,
		VarBytesReceived, VarBytesSent, VarUpstreamConnectTime, VarSessionTime,
	}
}

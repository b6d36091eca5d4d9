package handover

import (
	"net/netip"
	"time"

	"github.com/weirlb/weir/conf"
)

// Kind is what a message says.
type Kind string

// The kinds, in the order of the conversation.
const (
	Hello     Kind = "hello"     // Version, Serial
	Socket    Kind = "socket"    // a listening socket: Socket, and its descriptor
	Steered   Kind = "steered"   // an address that eBPF steers: Socket, and the map of sockets
	Admin     Kind = "admin"     // the listening socket of the control API: Name, and its descriptor
	Peer      Kind = "peer"      // Peer
	Inherit   Kind = "inherit"   // that was all there is to set up with
	Ready     Kind = "ready"     // the new process could accept: Sessions
	Go        Kind = "go"        // it shall
	Datagrams Kind = "datagrams" // there are no more UDP sessions: read from clients
	TCP       Kind = "tcp"       // a session: TCP, and its descriptors
	UDP       Kind = "udp"       // a session: UDP, and its descriptor
	Batch     Kind = "batch"     // the end of a batch of Count sessions
	Adopted   Kind = "adopted"   // all of the batch; Refused are those that were not, by Serial
	Done      Kind = "done"      // there are no more sessions
	Bye       Kind = "bye"
	Failed    Kind = "failed" // Error
)

// Message is one message. What does not belong to its kind is absent.
type Message struct {
	Kind     Kind
	Version  int          `json:",omitempty"`
	Sessions int          `json:",omitempty"` // version of what is said about sessions; 0 = none are understood
	Serial   uint64       `json:",omitempty"` // the numbers of sessions are below this
	Name     string       `json:",omitempty"`
	Socket   *SocketState `json:",omitempty"`
	Peer     *PeerState   `json:",omitempty"`
	TCP      *TCPState    `json:",omitempty"`
	UDP      *UDPState    `json:",omitempty"`
	Count    int          `json:",omitempty"`
	Refused  []uint64     `json:",omitempty"`
	Error    string       `json:",omitempty"`
}

// SocketState is a listening socket.
type SocketState struct {
	Protocol conf.Protocol
	Addr     conf.Address // as configured
	Bound    conf.Address
	Worker   int  // -1 = all workers'
	Kept     bool `json:",omitempty"` // a service manager has it too
}

// PeerRef names a peer.
type PeerRef struct {
	Upstream string
	Name     string
	Addr     string
	Backup   bool `json:",omitempty"`
}

// PeerState is what is known of a peer.
type PeerState struct {
	// Of its upstream: the adaptive limit, 0 = there is none; how long the circuit
	// breaker stays open, 0 = it is not; whether a peer has ever said something.
	Limit       int           `json:",omitempty"`
	CircuitOpen time.Duration `json:",omitempty"`
	Spoken      bool          `json:",omitempty"`
	PeerRef
	Admin     int `json:",omitempty"`
	Weight    int // that the effective one is a part of
	Written   int `json:",omitempty"` // weight in the configuration; 0 = not told
	Effective int
	Current   int
	Fails     int           `json:",omitempty"`
	Accessed  time.Duration // ago; -1 = never
	Checked   time.Duration
	Average   [3]int64 `json:",omitempty"` // milliseconds

	Active     string        `json:",omitempty"` // upstream's words
	Role       string        `json:",omitempty"`
	Verdict    string        `json:",omitempty"` // cause of the two
	Epoch      int           `json:",omitempty"` // of the peer that has the role that only one may have, how many have had it; 0 = another has it
	Ejections  int           `json:",omitempty"`
	EjectedFor time.Duration `json:",omitempty"` // from now on
	Cold       time.Duration `json:",omitempty"` // since slow start began
}

// Session is what TCP and UDP sessions have in common.
type Session struct {
	Serial   uint64
	Listener string
	Peer     PeerRef
	Client   netip.AddrPort // not valid for a unix socket
	Unix     bool           `json:",omitempty"` // the client's socket is one
	Worker   int
	Tries    int
	Tried    string `json:",omitempty"`

	// how long ago; -1 = never
	Start, Active, FirstByte time.Duration
}

// TCPState is a relaying TCP session. Its descriptors: the client's socket, the
// peer's, and for each flow with InPipe a pipe's reading and writing end.
type TCPState struct {
	Session
	PeerUnix          bool `json:",omitempty"`
	Picked, Connected time.Duration
	Reason            uint8 `json:",omitempty"`
	Blamed            bool  `json:",omitempty"`
	HalfClosed        bool  `json:",omitempty"`
	Halves            [2]HalfState
	Flows             [2]FlowState
}

// HalfState is one connection of a TCP session.
type HalfState struct {
	Ended bool `json:",omitempty"` // its end of input was read
	Shut  bool `json:",omitempty"` // it was told of the other's
}

// FlowState is one direction of a TCP session.
type FlowState struct {
	Read, Sent uint64
	Pending    []byte `json:",omitempty"` // read and not sent
	InPipe     int    `json:",omitempty"` // bytes of that, in a pipe
	PipeSize   int    `json:",omitempty"`
}

// UDPState is a UDP session. Its descriptor is the socket to the peer.
type UDPState struct {
	Session
	Place               SocketState // where the client sends to
	Local               netip.Addr  `json:",omitempty"` // that it has asked, on a wildcard socket
	LocalIndex          uint32      `json:",omitempty"` // and the interface, of a link-local one
	Requests, Responses uint64
	Received, Sent      uint64
	PeerSent, PeerRead  uint64
	Bound, Refused      bool `json:",omitempty"`
}

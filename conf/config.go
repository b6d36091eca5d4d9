package conf

import (
	"log/slog"
	"time"
)

// Off is the value of a timeout that was switched off with "off".
const Off time.Duration = 0

// MaxDuration is the longest timeout that a configuration may hold.
const MaxDuration = 365 * 24 * time.Hour

// MaxWeight is the largest weight of a server, as in nginx.
const MaxWeight = 65535

// Config is one whole configuration.
type Config struct {
	Worker    Worker
	Log       Log
	Admin     Admin
	Resolver  Resolver
	Upstreams []Upstream
	Listeners []Listener
}

// Upstream returns the upstream of that name, or nil.
func (c *Config) Upstream(name string) *Upstream {
	for i := range c.Upstreams {
		if c.Upstreams[i].Name == name {
			return &c.Upstreams[i]
		}
	}
	return nil
}

// Steering is how workers get their new clients.
type Steering uint8

// The values of `worker { steering }`.
const (
	SteerAuto          Steering = iota // SteerLeastSessions, or SteerNone where the kernel or rights do not allow it
	SteerNone                          // the kernel's hash
	SteerCPU                           // the worker of the CPU that the packet came to
	SteerLeastSessions                 // TCP: the worker with the fewest sessions; UDP: SteerHash
	SteerHash                          // a hash that moves few clients when workers change
)

// String returns the configuration's word.
func (s Steering) String() string {
	return [...]string{SteerAuto: "auto", SteerNone: "none", SteerCPU: "cpu", SteerLeastSessions: "least_sessions", SteerHash: "hash"}[s]
}

// Worker is the `worker` block.
type Worker struct {
	Steering        Steering
	Count           int           // event loops; 0 = as many as CPUs this process may use
	MaxSessions     int           // over all workers; 0 = what RLIMIT_NOFILE allows
	ShutdownTimeout time.Duration // how long a stop waits for sessions to end; Off = for ever
}

// Admin is the `admin` block.
type Admin struct {
	Listen    Address // of the control API; zero = none
	Group     string  // that may use a unix socket beside its owner; "" = nobody
	TokenFile string  // holds the token that a TCP client must show; "" = none is asked for
	Metrics   Address // of /metrics, /healthz and /readyz; zero = none
}

// Format is how log lines are written.
type Format uint8

// The formats of `log { format }`.
const (
	Text Format = iota
	JSON
)

// The values of Log.Access that are not a path.
const (
	AccessOff    = "off"
	AccessStdout = "stdout"
	AccessStderr = "stderr"
)

// Decisions is which picks of peers are logged, with the reasons.
type Decisions uint8

// The values of `log { decisions }`.
const (
	DecisionsOff      Decisions = iota
	DecisionsFailures           // failed attempts, picks after them, and picks that found nobody
	DecisionsAll                // and every other pick
)

// Log is the `log` block.
type Log struct {
	Level     slog.Level
	Format    Format
	Access    string // AccessOff, AccessStdout, AccessStderr, or a path to append to
	Decisions Decisions
	Fields    []Variable // of an access-log line, in order; never empty
}

// Listener returns the listener of that name, or nil.
func (c *Config) Listener(name string) *Listener {
	for i := range c.Listeners {
		if c.Listeners[i].Name == name {
			return &c.Listeners[i]
		}
	}
	return nil
}

// Upstream is an `upstream` block: a named group of servers.
type Upstream struct {
	Name       string
	Balance    Balance
	Servers    []Server // at least one that is not a backup, or a ServerFile
	ServerFile string   // path of a file with more servers, watched; "" = none
	Congestion string   // TCP_CONGESTION of the sockets to the servers; "" = the system's

	Checks         []HealthCheck // all of them must agree that a peer is healthy
	ExactlyOne     bool          // never more than one eligible peer
	OnState        OnState
	Outlier        *OutlierDetection // nil = off
	PanicThreshold float64           // share of healthy peers below which the sick are used too, 0..1; 0 = off

	Queue   *Queue          // nil = nobody waits for a server
	Breaker *CircuitBreaker // nil = none
	Limit   *AdaptiveLimit  // nil = none
}

// Server is a `server` block: one server of an upstream. A host name with
// several addresses becomes several peers at run time, each with these
// settings.
type Server struct {
	Address     Address
	Name        string // default: the address as written
	Weight      int    // 1..MaxWeight
	MaxFails    int    // 0 = never unavailable
	FailTimeout time.Duration
	MaxConns    int           // 0 = no limit
	SlowStart   time.Duration // Off = the whole share at once
	Backup      bool
	Down        bool
	Resolve     bool // the name's addresses are followed
	Service     bool // the name's SRV records are; Address has no port

	// Of a server that was discovered: the name that its address was found by, ""
	// if none, and what it was discovered from, for people. Empty of one that stands
	// in the configuration.
	Host, Origin string
}

// Label returns the label of the server's block, as a file writes it.
func (s *Server) Label() string {
	if s.Service {
		return s.Address.Host
	}
	return s.Address.String()
}

// Dynamic reports whether servers come and go while the process runs.
func (u *Upstream) Dynamic() bool {
	for i := range u.Servers {
		if u.Servers[i].Resolve || u.Servers[i].Service {
			return true
		}
	}
	return u.ServerFile != ""
}

// NextUpstream is the `next_upstream` block: when a session moves on to
// another peer after a failed attempt.
type NextUpstream struct {
	Tries   int           // attempts at most; 0 = every peer once
	Timeout time.Duration // no further attempt after this long; Off = no bound
	// Backoff is the longest wait before the third attempt, and doubles for each
	// that follows: exponential, with full jitter. Off = no wait.
	Backoff time.Duration
	// BeforeFirstByte says that a peer that ends a session before its first byte,
	// while all that the client has sent is still held, is a failed attempt too.
	// What the client asked for may then be done twice.
	BeforeFirstByte bool
}

// Protocol is what a listener accepts.
type Protocol uint8

// The protocols.
const (
	TCP Protocol = iota
	UDP
)

// String returns the configuration's word.
func (p Protocol) String() string { return [...]string{TCP: "tcp", UDP: "udp"}[p] }

// NoResponses is the value of Datagrams.Responses for servers that never
// answer.
const NoResponses = -1

// Datagrams is the `udp` block of a listener with protocol "udp".
type Datagrams struct {
	IdleTimeout time.Duration // no datagram in either direction; never Off
	Requests    int           // a session takes this many datagrams of its client; 0 = any number
	Responses   int           // and ends after this many answers to each; 0 = any number; NoResponses = none, it ends at once
	MaxSessions int           // 0 = as many as there is room for
	Quarantine  time.Duration // how long a socket to a server rests before another client's session gets it; a quarter of it when too many rest
}

// Listener is a `listener` block.
type Listener struct {
	Name             string
	Protocol         Protocol
	Profile          Profile
	UDP              Datagrams
	Listen           []Address // port ranges expanded
	Upstream         string
	ConnectTimeout   time.Duration // never Off
	IdleTimeout      time.Duration
	HalfCloseTimeout time.Duration // Off = IdleTimeout holds
	DeadPeerTimeout  time.Duration
	NextUpstream     NextUpstream
	Priority         int    // 0..Priorities-1, 0 = the most important
	Hedge            *Hedge // nil = none
	Limits           Limits
	Congestion       string // TCP_CONGESTION of the clients' sockets; "" = the system's
}

// Default returns a configuration without upstreams and listeners and with
// every other value at its default.
func Default() Config {
	return Config{
		Worker:   Worker{ShutdownTimeout: 30 * time.Second},
		Resolver: DefaultResolver(),
		Log: Log{
			Level:  slog.LevelInfo,
			Format: Text,
			Access: AccessStdout,
			Fields: DefaultLogFields(),
		},
	}
}

// NewUpstream returns an upstream of that name with defaults and no servers.
func NewUpstream(name string) Upstream {
	return Upstream{Name: name, Balance: DefaultBalance(RoundRobin), OnState: DefaultOnState()}
}

// NewServer returns a server at that address with nginx's defaults.
func NewServer(addr Address) Server {
	return Server{
		Address:     addr,
		Name:        addr.String(),
		Weight:      1,
		MaxFails:    1,
		FailTimeout: 10 * time.Second,
	}
}

// NewListener returns a listener of that name with default timeouts and no
// addresses. The connect timeout is far below nginx's 60 s: a peer that does
// not answer within 3 s (one SYN retransmission) is given up for the next one.
func NewListener(name string) Listener {
	return Listener{
		Name:             name,
		ConnectTimeout:   3 * time.Second,
		IdleTimeout:      10 * time.Minute,
		HalfCloseTimeout: time.Minute,
		DeadPeerTimeout:  30 * time.Second,
		Priority:         DefaultPriority,
		Limits:           DefaultLimits(),
		UDP:              Datagrams{IdleTimeout: time.Minute, Quarantine: 500 * time.Millisecond},
	}
}

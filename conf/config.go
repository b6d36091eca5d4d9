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

// Worker is the `worker` block.
type Worker struct {
	Count           int           // event loops; 0 = as many as CPUs this process may use
	MaxSessions     int           // over all workers; 0 = what RLIMIT_NOFILE allows
	ShutdownTimeout time.Duration // how long a stop waits for sessions to end; Off = for ever
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

// Log is the `log` block.
type Log struct {
	Level  slog.Level
	Format Format
	Access string     // AccessOff, AccessStdout, AccessStderr, or a path to append to
	Fields []Variable // of an access-log line, in order; never empty
}

// Upstream is an `upstream` block: a named group of servers.
type Upstream struct {
	Name       string
	Balance    string   // method name; see Methods
	Servers    []Server // never empty; at least one is not a backup
	Congestion string   // TCP_CONGESTION of the sockets to the servers; "" = the system's
}

// BalanceRoundRobin is the default balancing method.
const BalanceRoundRobin = "round_robin"

// Server is a `server` block: one server of an upstream. A host name with
// several addresses becomes several peers at run time, each with these
// settings.
type Server struct {
	Address     Address
	Name        string // default: the address as written
	Weight      int    // 1..MaxWeight
	MaxFails    int    // 0 = never unavailable
	FailTimeout time.Duration
	MaxConns    int // 0 = no limit
	Backup      bool
	Down        bool
}

// NextUpstream is the `next_upstream` block: when a session moves on to
// another peer after a failed attempt.
type NextUpstream struct {
	Tries   int           // attempts at most; 0 = every peer once
	Timeout time.Duration // no further attempt after this long; Off = no bound
}

// Listener is a `listener` block.
type Listener struct {
	Name             string
	Listen           []Address // port ranges expanded
	Upstream         string
	ConnectTimeout   time.Duration // never Off
	IdleTimeout      time.Duration
	HalfCloseTimeout time.Duration
	DeadPeerTimeout  time.Duration
	NextUpstream     NextUpstream
	Congestion       string // TCP_CONGESTION of the clients' sockets; "" = the system's
}

// Default returns a configuration without upstreams and listeners and with
// every other value at its default.
func Default() Config {
	return Config{
		Worker: Worker{ShutdownTimeout: 30 * time.Second},
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
	return Upstream{Name: name, Balance: BalanceRoundRobin}
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
	}
}

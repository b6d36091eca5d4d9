package conf

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// CheckKind is the protocol of a health check.
type CheckKind string

// The kinds of checks.
const (
	CheckTCP        CheckKind = "tcp"
	CheckTLS        CheckKind = "tls"
	CheckHTTP       CheckKind = "http"
	CheckSendExpect CheckKind = "send_expect"
	CheckPostgres   CheckKind = "postgres"
	CheckMySQL      CheckKind = "mysql"
	CheckRedis      CheckKind = "redis"
	CheckAMQP       CheckKind = "amqp"
	CheckMQTT       CheckKind = "mqtt"
	CheckNATS       CheckKind = "nats"
	CheckKafka      CheckKind = "kafka"
	CheckUDP        CheckKind = "udp"
)

// Role is what a server is among those that hold the same data.
type Role uint8

// The roles. AnyRole is one that nobody asks for, or that nobody knows.
const (
	AnyRole Role = iota
	Primary      // takes writes
	Replica      // follows a primary, and answers reads
)

// String returns the configuration's word.
func (r Role) String() string {
	return [...]string{AnyRole: "any", Primary: "primary", Replica: "replica"}[r]
}

// Initial is what a peer counts as before the first verdict of a check.
type Initial uint8

// The values of `initial`.
const (
	InitialUnknown Initial = iota // not eligible yet; the first result is the verdict
	InitialUp                     // eligible until `fall` checks have failed
)

// String returns the configuration's word.
func (i Initial) String() string {
	return [...]string{InitialUnknown: "unknown", InitialUp: "up"}[i]
}

// CheckTLSOptions is the `tls` block of a health check: the check speaks TLS.
type CheckTLSOptions struct {
	ServerName string   // sent as SNI and verified; "" = the server's host
	ALPN       []string // nil = none
	CAFile     string   // PEM; "" = the system's roots
	CertFile   string   // PEM, of the client; "" = none
	KeyFile    string
	Verify     bool // refuse what the roots do not vouch for; default true
}

// StatusRange is a range of HTTP statuses, both ends included.
type StatusRange struct{ From, To int }

// String returns the range as a configuration writes it: "200" or "200-399".
func (r StatusRange) String() string {
	if r.From == r.To {
		return strconv.Itoa(r.From)
	}
	return fmt.Sprintf("%d-%d", r.From, r.To)
}

// Step is one step of a send_expect or udp check: bytes to send, or what must
// come. Exactly one field is set.
type Step struct {
	Send   []byte
	Expect []byte         // must be somewhere in what has come since the last step
	Match  *regexp.Regexp // the same
}

// HealthCheck is a `health_check` block.
type HealthCheck struct {
	Kind     CheckKind
	Interval time.Duration // between the starts of two checks; jitter of 10 % is added
	Timeout  time.Duration // of one check
	Rise     int           // checks in a row that make an unhealthy peer healthy; at least 1
	Fall     int           // failures in a row that make a healthy peer unhealthy; at least 1
	Initial  Initial
	Port     int              // 0 = the server's
	TLS      *CheckTLSOptions // nil = plain; never nil for CheckTLS

	Method string         // http
	Path   string         // http
	Host   string         // http; "" = the server's address
	Status []StatusRange  // http; never empty there
	Body   *regexp.Regexp // http; nil = any
	Steps  []Step         // send_expect, udp; never empty in send_expect

	Role     Role          // postgres, mysql, redis
	MaxLag   time.Duration // of a replica; Off = any
	User     string        // postgres, mysql, redis (ACL), amqp, mqtt, nats, kafka (SASL PLAIN)
	Password string
	Database string // postgres
	VHost    string // amqp
	Galera   bool   // mysql: wsrep_ready and a state of Synced are wanted too
}

// HidesPassword is what is shown instead of a password.
const HidesPassword = "(hidden)"

// Fate is what happens to the running sessions of a peer after a verdict.
type Fate uint8

// The fates.
const (
	FateDefault Fate = iota // TCP sessions are kept; UDP clients go elsewhere with their next datagram
	Keep                    // sessions run on
	DrainFate               // sessions run on for worker.shutdown_timeout at most
	CloseFate               // sessions are closed, paced
)

// String returns the configuration's word, "" for the default.
func (f Fate) String() string {
	return [...]string{FateDefault: "", Keep: "keep", DrainFate: "drain", CloseFate: "close"}[f]
}

// OnState is the `on_state` block.
type OnState struct {
	Unhealthy Fate // by a check, or ejected for outliers
	Standby   Fate // another role than the one wanted, and conflict
	Lagging   Fate // a replica over max_lag
	Drained   Fate // by the operator: drained, or set down
	Removed   Fate // by a reload or by discovery
	Pace      Rate // of sessions closed, over all peers of the upstream; 0 = all at once
}

// Rate is a number of events in a second; 0 = no limit.
type Rate float64

// OutlierDetection is the `outlier_detection` block.
type OutlierDetection struct {
	ConsecutiveFailures int     // in a row that eject a peer; 0 = never
	MinSuccessRate      float64 // of the mean of the group's, below which a peer is ejected; 0 = never
	Interval            time.Duration
	BaseEjectionTime    time.Duration // times the number of ejections
	MaxEjection         float64       // share of the peers that may be ejected at once, 0..1; one always may, but not the last in use
}

// Resolver is the `resolver` block: how names are followed.
type Resolver struct {
	Servers []Address     // nil = the system's (resolv.conf)
	Timeout time.Duration // of one question to one server
	Valid   time.Duration // 0 = the answers' TTL
}

// Profile is what a listener's clients speak: it sets defaults.
type Profile string

// The profiles. NoProfile sets none.
const (
	NoProfile       Profile = ""
	ProfileGeneric  Profile = "generic"
	ProfilePostgres Profile = "postgres"
	ProfileMySQL    Profile = "mysql"
	ProfileRedis    Profile = "redis"
	ProfileAMQP     Profile = "amqp"
	ProfileMQTT     Profile = "mqtt"
	ProfileNATS     Profile = "nats"
	ProfileKafka    Profile = "kafka"
	ProfileHTTP     Profile = "http"
	ProfileDNS      Profile = "dns"
	ProfileSyslog   Profile = "syslog"
)

// NewHealthCheck returns a check of that kind with its defaults.
func NewHealthCheck(kind CheckKind) HealthCheck {
	h := HealthCheck{Kind: kind, Interval: 2 * time.Second, Timeout: time.Second, Rise: 2, Fall: 3}
	switch kind {
	case CheckTLS:
		h.TLS = NewCheckTLS()
	case CheckHTTP:
		h.Method, h.Path, h.Status = "GET", "/", []StatusRange{{200, 399}}
	case CheckPostgres:
		h.Database = "postgres"
	case CheckAMQP:
		h.User, h.Password, h.VHost = "guest", "guest", "/"
	}
	return h
}

// NewCheckTLS returns the options of a tls block with its defaults.
func NewCheckTLS() *CheckTLSOptions { return &CheckTLSOptions{Verify: true} }

// DefaultOnState returns the on_state block's defaults: nothing happens to
// running TCP sessions, and if it shall, at 200 in a second.
func DefaultOnState() OnState { return OnState{Pace: 200} }

// DefaultOutlierDetection returns the defaults of an outlier_detection block.
func DefaultOutlierDetection() OutlierDetection {
	return OutlierDetection{
		ConsecutiveFailures: 5,
		MinSuccessRate:      0.8,
		Interval:            10 * time.Second,
		BaseEjectionTime:    30 * time.Second,
		MaxEjection:         0.5,
	}
}

// DefaultResolver returns the defaults of the resolver block.
func DefaultResolver() Resolver { return Resolver{Timeout: 5 * time.Second} }

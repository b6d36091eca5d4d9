package admin

import (
	"encoding/json"
	"fmt"
	"time"
)

// Error is an answer that is none.
type Error struct {
	Status      int    `json:"-"` // of HTTP
	Message     string `json:"error"`
	Diagnostics string `json:"diagnostics,omitempty"` // of a configuration, for people
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

func errorf(status int, format string, args ...any) *Error {
	return &Error{Status: status, Message: fmt.Sprintf(format, args...)}
}

// Status is what `weir status` shows.
type Status struct {
	Version       string           `json:"version"`
	PID           int              `json:"pid"`
	Config        string           `json:"config"`
	Started       time.Time        `json:"started"`
	UptimeSeconds float64          `json:"uptime_seconds"`
	Reloaded      *time.Time       `json:"reloaded"` // null = never
	Ready         bool             `json:"ready"`
	NotReady      string           `json:"not_ready,omitempty"` // why
	Workers       int              `json:"workers"`
	Leaving       int              `json:"leaving_workers"` // that only finish their sessions
	Sessions      SessionCounts    `json:"sessions"`
	Bytes         ByteCounts       `json:"bytes"`
	Ended         map[string]int64 `json:"ended"` // by close reason
	Listeners     []Listening      `json:"listeners"`
	Upstreams     []UpstreamSums   `json:"upstreams"`
	Recording     Recording        `json:"recording"`
	Runtime       Runtime          `json:"runtime"`
}

// SessionCounts counts sessions.
type SessionCounts struct {
	Now   int    `json:"now"`
	Max   int    `json:"max"`
	Total uint64 `json:"total"` // of the present listeners, since they came
}

// ByteCounts counts relayed bytes.
type ByteCounts struct {
	ToPeers   uint64 `json:"to_peers"`
	ToClients uint64 `json:"to_clients"`
}

// Runtime is what Go's runtime has done since the start. Its allocator counts
// small objects when a span of them (8 KiB) is full, so the last few are missing.
type Runtime struct {
	GCCycles         uint64 `json:"gc_cycles"`
	AllocatedObjects uint64 `json:"allocated_objects"`
	AllocatedBytes   uint64 `json:"allocated_bytes"`
}

// Listening is a listener.
type Listening struct {
	Name      string   `json:"name"`
	Protocol  string   `json:"protocol"`
	Addresses []string `json:"addresses"`
	Upstream  string   `json:"upstream"`
	Sessions  int64    `json:"sessions"`
	Total     uint64   `json:"sessions_total"`
}

// UpstreamSums is an upstream without its peers.
type UpstreamSums struct {
	Name   string `json:"name"`
	Method string `json:"method"`
	Peers  int    `json:"peers"`
	Usable int    `json:"usable"` // peers that the next session could get
	Conns  int    `json:"conns"`
	Load   Load   `json:"load"`
}

// Load is how much an upstream has to do, and what bounds it.
type Load struct {
	Sessions int      `json:"sessions"` // that hold a peer
	Pending  int      `json:"pending"`  // of these, those not connected yet
	Retries  int      `json:"retries"`  // of these, those at a later attempt than their first
	Queue    *Queue   `json:"queue"`    // null = there is none
	Circuit  *Circuit `json:"circuit"`  // the same
	Limit    *Limit   `json:"limit"`    // the same
}

// Queue is where sessions wait for a peer.
type Queue struct {
	Waiting int `json:"waiting"`
	Max     int `json:"max"`
}

// Circuit is a circuit breaker.
type Circuit struct {
	State      string  `json:"state"`        // closed, open, half_open
	ForSeconds float64 `json:"for_seconds"`  // how long an open one stays so
	Opened     uint64  `json:"opened_total"` // how often it has
}

// Limit is an adaptive limit.
type Limit struct {
	Algorithm      string  `json:"algorithm"`
	ApplyTo        string  `json:"apply_to"` // session, turn
	Limit          int     `json:"limit"`
	InFlight       int     `json:"in_flight"`       // sessions, or turns
	Waiting        int     `json:"waiting"`         // turns
	LatencySeconds float64 `json:"latency_seconds"` // of the last window: aimd's percentile, or the mean
	Windows        uint64  `json:"windows_total"`
	Enforced       bool    `json:"enforced"` // false = it has turned itself off
}

// Recording says whether decisions are remembered with their sessions.
type Recording struct {
	On    bool       `json:"on"`
	Until *time.Time `json:"until"` // null = until further notice
}

// Upstreams is the answer of /v1/upstreams.
type Upstreams struct {
	Upstreams []Upstream `json:"upstreams"`
}

// Upstream is an upstream with its peers.
type Upstream struct {
	Name      string   `json:"name"`
	Method    string   `json:"method"`
	Listeners []string `json:"listeners"`
	Group     Group    `json:"group"`
	Load      Load     `json:"load"`
	Peers     []Peer   `json:"peers"`
}

// Peers is the answer of /v1/peers.
type Peers struct {
	Peers []Peer `json:"peers"`
	// by upstream
	Groups  map[string]Group    `json:"groups"`
	Sources map[string][]Source `json:"sources"` // that servers are discovered from
}

// Peer is one address of an upstream.
type Peer struct {
	Upstream           string  `json:"upstream"`
	Name               string  `json:"name"`
	Address            string  `json:"address"`
	Backup             bool    `json:"backup"`
	State              string  `json:"state"`
	Admin              string  `json:"admin"` // the operator's word: up, drain, down
	Weight             int     `json:"weight"`
	Effective          int     `json:"effective_weight"`
	Current            int     `json:"current_weight"`
	Conns              int     `json:"conns"`
	MaxConns           int     `json:"max_conns"` // 0 = no limit
	Fails              int     `json:"fails"`
	MaxFails           int     `json:"max_fails"`
	FailTimeoutSeconds float64 `json:"fail_timeout_seconds"`
	RetryInSeconds     float64 `json:"retry_in_seconds"` // of one that is unavailable
	Sessions           uint64  `json:"sessions_total"`
	Failures           uint64  `json:"failures_total"`
	BytesSent          uint64  `json:"bytes_sent"`
	BytesReceived      uint64  `json:"bytes_received"`

	Axes              map[string]Axis `json:"axes"`            // admin, discovery, passive, active, role, capacity
	Eligible          bool            `json:"eligible"`        // all axes allow it to be picked
	SlowStart         float64         `json:"slow_start"`      // share of its part that it gets, 0..1
	EjectedForSeconds float64         `json:"ejected_seconds"` // from now on; 0 = it is not ejected
	Checks            []Check         `json:"checks"`
}

// Axis is where a peer stands on one of the separate things that decide whether
// it may be picked.
type Axis struct {
	Value string    `json:"value"`
	Since time.Time `json:"since"`
	Cause string    `json:"cause,omitempty"`
}

// Check is how one health check of a peer is going.
type Check struct {
	Kind        string     `json:"kind"`
	Health      string     `json:"health"` // by this check alone
	OK          bool       `json:"ok"`     // the last result
	Cause       string     `json:"cause,omitempty"`
	InRow       int        `json:"in_row"` // results like the last one
	Last        *time.Time `json:"last"`   // null = none yet
	TookSeconds float64    `json:"took_seconds"`
	Passed      uint64     `json:"passed_total"`
	Failed      uint64     `json:"failed_total"`
}

// PeerHistory is the answer of /v1/peers/UPSTREAM/PEER/history.
type PeerHistory struct {
	Upstream    string       `json:"upstream"`
	Peer        string       `json:"peer"`
	Address     string       `json:"address"`
	Transitions []Transition `json:"transitions"` // the latest, the oldest first
	Total       int          `json:"total"`       // since the peer came
}

// Transition is a change on one axis of a peer.
type Transition struct {
	At    time.Time `json:"at"`
	Axis  string    `json:"axis"`
	From  string    `json:"from"`
	To    string    `json:"to"`
	Cause string    `json:"cause"`
}

// Discovery is the answer of /v1/discovery.
type Discovery struct {
	Sources []Source `json:"sources"`
}

// Source is a name or a file that servers of an upstream are discovered from.
type Source struct {
	Upstream   string     `json:"upstream"`
	Kind       string     `json:"kind"` // resolve, service, server_file
	Name       string     `json:"name"`
	Servers    int        `json:"servers"`
	AgeSeconds float64    `json:"age_seconds"` // of the last good answer
	Answered   *time.Time `json:"answered"`    // when that came; null = never
	StaleSince *time.Time `json:"stale_since"` // null = what is known is fresh
	Error      string     `json:"error,omitempty"`
	Answers    uint64     `json:"answers_total"`
	Failures   uint64     `json:"failures_total"`
	Changes    uint64     `json:"changes_total"`
}

// Group is what holds for an upstream as a whole.
type Group struct {
	ExactlyOne bool   `json:"exactly_one"`
	Incumbent  string `json:"incumbent,omitempty"` // the peer that has what only one may have
	Epoch      int    `json:"epoch"`               // how many have had it, one after the other
	Conflict   bool   `json:"conflict"`            // several claim it
	Panic      bool   `json:"panic"`               // too few peers are healthy: the sick are used too
}

// PeerOrder is the body of POST /v1/peers/UPSTREAM/PEER: one of the two.
type PeerOrder struct {
	Admin  string `json:"admin,omitempty"`
	Weight *int   `json:"weight,omitempty"`
}

// Sessions is the answer of /v1/sessions.
type Sessions struct {
	Sessions []Session `json:"sessions"`
	Total    int       `json:"total"` // that were asked for; there may be more than are listed
}

// Session is one that runs, or has ended.
type Session struct {
	ID                    uint64     `json:"id"` // `connection` in the access log
	Listener              string     `json:"listener"`
	Protocol              string     `json:"protocol"`
	Client                string     `json:"client"`
	Upstream              string     `json:"upstream"`
	Peer                  string     `json:"peer"`         // "" = none; unknown of those that have ended
	PeerAddress           string     `json:"peer_address"` // of those that have ended: every attempted one
	Phase                 string     `json:"phase"`
	Tries                 int        `json:"tries"`
	Started               time.Time  `json:"started"`
	AgeSeconds            float64    `json:"age_seconds"` // until it ended
	IdleSeconds           float64    `json:"idle_seconds"`
	BytesReceived         uint64     `json:"bytes_received"` // from the client
	BytesSent             uint64     `json:"bytes_sent"`     // to it
	UpstreamBytesSent     uint64     `json:"upstream_bytes_sent"`
	UpstreamBytesReceived uint64     `json:"upstream_bytes_received"`
	Ended                 *time.Time `json:"ended"`        // null = it runs
	CloseReason           string     `json:"close_reason"` // "" = it runs
	Status                int        `json:"status"`       // nginx's; 0 = it runs
	ConnectSeconds        *float64   `json:"upstream_connect_seconds"`
	FirstByteSeconds      *float64   `json:"upstream_first_byte_seconds"`
}

// SessionExplanation is the answer of /v1/sessions/ID.
type SessionExplanation struct {
	Session   Session    `json:"session"`
	Decisions []Decision `json:"decisions"`
	// Missing says why there are no decisions, or not all; "" = these are all.
	Missing string `json:"missing,omitempty"`
}

// Decision is a pick or a failed attempt.
type Decision struct {
	At       time.Time      `json:"at"`
	Sentence string         `json:"sentence"`
	Figures  map[string]any `json:"figures"` // as a JSON line of the decision log has them
}

// Candidate is a peer in the figures of a pick.
type Candidate struct {
	Peer          string   `json:"peer"`
	Address       string   `json:"address"`
	Backup        bool     `json:"backup"`
	Weight        int      `json:"weight"`
	Effective     int      `json:"effective"`
	CurrentBefore int      `json:"current_before"`
	Conns         int      `json:"conns"`
	MaxConns      int      `json:"max_conns"`
	Fails         int      `json:"fails"`
	MaxFails      int      `json:"max_fails"`
	Score         *float64 `json:"score"` // null = the method has none for it
	LeftOut       string   `json:"left_out"`
}

// Candidates returns the peers that a pick had to choose from.
func (d *Decision) Candidates() []Candidate {
	text, err := json.Marshal(d.Figures["candidates"])
	var out []Candidate
	if err != nil || json.Unmarshal(text, &out) != nil {
		return nil // a failed attempt has none
	}
	return out
}

// Forecast is the answer of /v1/explain.
type Forecast struct {
	Upstream string `json:"upstream"`
	Client   string `json:"client,omitempty"`
	Peer     string `json:"peer"` // "" = none
	Address  string `json:"address"`
	Decision
}

// RecordOrder is the body of POST /v1/record.
type RecordOrder struct {
	Record string `json:"record"` // "on", "off", or a duration
}

// ReloadOrder is the body of POST /v1/reload.
type ReloadOrder struct {
	RequireSafe bool `json:"require_safe"` // refuse a change that would end sessions
	DryRun      bool `json:"dry_run"`      // only tell
}

// Reload is what a reload has changed, or would.
type Reload struct {
	DryRun           bool    `json:"dry_run"`
	Changes          Changes `json:"changes"`
	SessionsAffected int     `json:"sessions_affected"` // of peers and listeners that go
	SessionsEnded    int     `json:"sessions_ended"`    // among them those that do not run on: by on_state, or of UDP, whose clients go on in others
	Diagnostics      string  `json:"diagnostics,omitempty"`
}

// UpgradeOrder is the body of POST /v1/upgrade.
type UpgradeOrder struct {
	Binary string `json:"binary"` // "" = the running one's file; another one can be named over a unix socket only
	Drain  bool   `json:"drain"`  // leave the sessions to the old process
}

// Upgrade is what has come of an upgrade.
type Upgrade struct {
	Pid   int `json:"pid"`  // of the new process
	From  int `json:"from"` // and of the old one
	Moved int `json:"sessions_moved"`
	Left  int `json:"sessions_left"` // in the old one, until they end
}

// Changes lists what differs.
type Changes struct {
	Opened   []string `json:"opened"`
	Closed   []string `json:"closed"`
	Changed  []string `json:"changed"`
	Added    []string `json:"added"`
	Removed  []string `json:"removed"`
	Altered  []string `json:"altered"`
	Settings []string `json:"settings"`
	Workers  [2]int   `json:"workers"` // before and after
}

// None reports whether nothing differs.
func (c *Changes) None() bool {
	return len(c.Opened)+len(c.Closed)+len(c.Changed)+len(c.Added)+len(c.Removed)+len(c.Altered)+len(c.Settings) == 0 && c.Workers[0] == c.Workers[1]
}

// Done is the answer to orders that have nothing to tell.
type Done struct {
	Done bool `json:"done"`
}

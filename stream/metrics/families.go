package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// family is one metric with all its label sets. README.md lists them.
type family struct {
	name   string
	help   string
	kind   kind
	labels []string
	desc   *prometheus.Desc
}

type kind string

const (
	gauge     kind = "gauge"
	counter   kind = "counter"
	histogram kind = "histogram"
)

// families are all metrics of the Collector.
var families []*family

func newFamily(k kind, name, help string, labels ...string) *family {
	f := &family{
		name:   name,
		help:   help,
		kind:   k,
		labels: labels,
		desc:   prometheus.NewDesc(name, help, labels, nil),
	}
	families = append(families, f)
	return f
}

// The labels of a peer. A name alone may stand for several addresses.
var peerLabels = []string{"upstream", "peer", "address"}

var (
	ready       = newFamily(gauge, "weir_ready", "Whether new clients are welcome: 1, or 0 while draining.")
	sessions    = newFamily(gauge, "weir_sessions", "Sessions that there are.")
	maxSessions = newFamily(gauge, "weir_max_sessions", "Sessions that there is room for.")
	leaving     = newFamily(gauge, "weir_workers_leaving", "Workers that a reload took out of service and that still have sessions.")
	steering    = newFamily(gauge, "weir_steering", "Whether new clients are steered to workers by eBPF: 1, or 0 for the kernel's hash.")

	listenerSessions = newFamily(gauge, "weir_listener_sessions", "Sessions that there are.", "listener", "protocol")
	listenerAccepted = newFamily(counter, "weir_listener_accepted_sessions_total", "Sessions begun.", "listener", "protocol")
	listenerClosed   = newFamily(counter, "weir_listener_closed_sessions_total", "Sessions ended, by the access log's close_reason.", "listener", "protocol", "reason")
	listenerBytes    = newFamily(counter, "weir_listener_relayed_bytes_total", "Payload moved: direction is to_peer or to_client; path is copy, splice or datagram.", "listener", "protocol", "direction", "path")
	listenerDelayed  = newFamily(counter, "weir_listener_delayed_accepts_total", "Times that accept_rate made connections wait in the accept queue.", "listener")
	listenerSlowed   = newFamily(counter, "weir_listener_slowed_total", "Times that upload_rate (direction to_peer) or download_rate (to_client) made a session wait.", "listener", "direction")

	acceptQueue    = newFamily(gauge, "weir_listener_accept_queue_connections", "Connections that wait to be accepted. Unix sockets are left out.", "listener", "worker")
	acceptQueueMax = newFamily(gauge, "weir_listener_accept_queue_max_connections", "Connections that can wait to be accepted; the kernel drops more.", "listener", "worker")
	receiveQueue   = newFamily(gauge, "weir_listener_receive_queue_bytes", "Memory taken by datagrams that wait to be received.", "listener", "worker")
	receiveMax     = newFamily(gauge, "weir_listener_receive_queue_max_bytes", "Memory that waiting datagrams may take; the kernel drops more.", "listener", "worker")
	receiveDropped = newFamily(counter, "weir_listener_receive_queue_dropped_datagrams_total", "Datagrams that the kernel dropped before weir saw them, since the sockets were opened.", "listener", "worker")

	udpReceived  = newFamily(counter, "weir_udp_received_datagrams_total", "Datagrams received, from clients and peers.")
	udpSent      = newFamily(counter, "weir_udp_sent_datagrams_total", "Datagrams sent, to clients and peers.")
	udpDropped   = newFamily(counter, "weir_udp_dropped_datagrams_total", "Datagrams not passed on: unsent (no room in a socket, or the kernel refused), refused (no room for a session, or no peer), truncated (too large), late (came when no session waited for them).", "reason")
	udpCoalesced = newFamily(counter, "weir_udp_coalesced_datagrams_total", "Datagrams received in one piece with others (UDP_GRO).")
	udpSegmented = newFamily(counter, "weir_udp_segmented_datagrams_total", "Datagrams sent in one piece with others (UDP_SEGMENT).")
	udpFallbacks = newFamily(counter, "weir_udp_offload_fallbacks_total", "Pieces that weir had to cut itself because the kernel would not.")
	udpReused    = newFamily(counter, "weir_udp_reused_sockets_total", "Sessions that needed no new socket to their peer.")

	noPeer  = newFamily(counter, "weir_upstream_no_peer_total", "Picks that found no peer: all were down, unavailable, full or already tried.", "upstream")
	connect = newFamily(histogram, "weir_upstream_connect_duration_seconds", "Time from a peer's pick until its TCP connection stood, to a turn of the worker's loop; failed attempts are not in it.", "upstream")

	peerAdmin       = newFamily(gauge, "weir_peer_admin_state", "The operator's word on the peer: 1 for the state it is in (up, drain or down), 0 for the others.", append(peerLabels, "state")...)
	peerAvailable   = newFamily(gauge, "weir_peer_available", "Whether live traffic has left the peer available (max_fails, fail_timeout): 1 or 0.", peerLabels...)
	peerBackup      = newFamily(gauge, "weir_peer_backup", "Whether the peer is a backup: 1 or 0.", peerLabels...)
	peerWeight      = newFamily(gauge, "weir_peer_weight", "Configured weight, or what the operator has set since.", peerLabels...)
	peerEffective   = newFamily(gauge, "weir_peer_effective_weight", "Weight that failures have left.", peerLabels...)
	peerCurrent     = newFamily(gauge, "weir_peer_current_weight", "Account of smooth weighted round robin.", peerLabels...)
	peerConns       = newFamily(gauge, "weir_peer_connections", "Sessions that hold the peer, connecting ones included.", peerLabels...)
	peerMaxConns    = newFamily(gauge, "weir_peer_max_connections", "max_conns; 0 is no limit.", peerLabels...)
	peerFails       = newFamily(gauge, "weir_peer_fails", "Failures since the last success that counted, held against max_fails.", peerLabels...)
	peerAxis        = newFamily(gauge, "weir_peer_axis", "Where the peer stands: 1 for the value that it has on each axis (admin, discovery, passive, active, role, capacity); other values are absent.", append(peerLabels, "axis", "value")...)
	peerTransitions = newFamily(counter, "weir_peer_transitions_total", "Changes on an axis since the peer came. Those of capacity are not counted.", append(peerLabels, "axis")...)
	peerEligible    = newFamily(gauge, "weir_peer_eligible", "Whether all axes allow the peer to be picked: 1 or 0.", peerLabels...)
	peerSlowStart   = newFamily(gauge, "weir_peer_slow_start_share", "Share of its part that slow start leaves the peer: 0 to 1.", peerLabels...)
	peerChecks      = newFamily(counter, "weir_peer_checks_total", "Health checks, by kind and result (passed or failed).", append(peerLabels, "check", "result")...)
	peerCheckTime   = newFamily(gauge, "weir_peer_check_duration_seconds", "Time that the last health check took.", append(peerLabels, "check")...)

	sourceServers  = newFamily(gauge, "weir_discovery_servers", "Servers that the source has for the upstream: kind is resolve, service or server_file.", "upstream", "kind", "source")
	sourceAge      = newFamily(gauge, "weir_discovery_age_seconds", "Age of the source's last good answer. Absent before the first.", "upstream", "kind", "source")
	sourceStale    = newFamily(gauge, "weir_discovery_stale", "Whether servers of an older answer are used because asking again has failed: 1 or 0.", "upstream", "kind", "source")
	sourceAnswers  = newFamily(counter, "weir_discovery_answers_total", "Good answers.", "upstream", "kind", "source")
	sourceFailures = newFamily(counter, "weir_discovery_failures_total", "Times that asking has failed.", "upstream", "kind", "source")

	groupPanic    = newFamily(gauge, "weir_upstream_panic", "Whether too few peers are healthy (panic_threshold), so that the sick are used too: 1 or 0.", "upstream")
	groupPanics   = newFamily(counter, "weir_upstream_panics_total", "Times that a panic began.", "upstream")
	groupConflict = newFamily(gauge, "weir_upstream_conflict", "Whether several peers claim what only one may have (exactly_one): 1 or 0.", "upstream")
	groupClashes  = newFamily(counter, "weir_upstream_conflicts_total", "Times that a conflict began.", "upstream")
	groupEpoch    = newFamily(gauge, "weir_upstream_epoch", "How many peers have had what only one may have, one after the other (exactly_one).", "upstream")

	loadSessions  = newFamily(gauge, "weir_upstream_sessions", "Sessions that hold a peer, of all listeners.", "upstream")
	loadPending   = newFamily(gauge, "weir_upstream_pending_sessions", "Attempts to connect that are under way.", "upstream")
	loadRetrying  = newFamily(gauge, "weir_upstream_retrying_sessions", "Sessions at a later attempt than their first, held against circuit_breaker.max_retries. Absent without a limit.", "upstream")
	retries       = newFamily(counter, "weir_upstream_retries_total", "Attempts after a failed one.", "upstream")
	deniedRetries = newFamily(counter, "weir_upstream_denied_retries_total", "Attempts after a failed one that circuit_breaker.max_retries did not allow.", "upstream")
	hedges        = newFamily(counter, "weir_upstream_hedges_total", "Second attempts beside one that takes long, by result: won (it connected first), lost, or denied (hedge.max did not allow it, or there was no other peer).", "upstream", "result")

	queueSessions = newFamily(gauge, "weir_upstream_queue_sessions", "Sessions that wait for a peer. Absent without a queue.", "upstream")
	queueMax      = newFamily(gauge, "weir_upstream_queue_max_sessions", "Sessions that may wait for a peer. Absent without a queue.", "upstream")
	queueWait     = newFamily(histogram, "weir_upstream_queue_wait_seconds", "Time that sessions waited in the queue, however that ended.", "upstream")

	circuitState  = newFamily(gauge, "weir_upstream_circuit_state", "The circuit breaker: 1 for the state it is in (closed, open or half_open), 0 for the others. Absent without one.", "upstream", "state")
	circuitOpened = newFamily(counter, "weir_upstream_circuit_opened_total", "Times that the circuit breaker has opened. Absent without one.", "upstream")

	limitNow        = newFamily(gauge, "weir_upstream_limit", "The adaptive limit. Absent without one, as are the others about it.", "upstream")
	limitInFlight   = newFamily(gauge, "weir_upstream_limit_in_flight", "Sessions, or turns, that count against the adaptive limit.", "upstream")
	limitWaiting    = newFamily(gauge, "weir_upstream_limit_waiting_turns", "Turns that the adaptive limit makes wait. Sessions that it makes wait are in the queue.", "upstream")
	limitLatency    = newFamily(gauge, "weir_upstream_limit_latency_seconds", "Latency that the adaptive limit has decided by last: aimd's percentile, or the mean.", "upstream")
	limitWindows    = newFamily(counter, "weir_upstream_limit_windows_total", "Decisions of the adaptive limit.", "upstream")
	limitEnforced   = newFamily(gauge, "weir_upstream_limit_enforced", "Whether the adaptive limit is enforced: 1, or 0 as it sees no turns.", "upstream")
	turnWait        = newFamily(histogram, "weir_upstream_turn_wait_seconds", "Time that turns waited for the adaptive limit, those that did wait.", "upstream")
	turnsUnanswered = newFamily(counter, "weir_upstream_unanswered_turns_total", "Turns given up for want of an answer.", "upstream")

	peerPicks    = newFamily(counter, "weir_peer_picks_total", "Picks of the peer, each the beginning of an attempt.", peerLabels...)
	peerFailures = newFamily(counter, "weir_peer_failures_total", "Failed attempts, whether they count against the peer or not.", peerLabels...)
	peerSent     = newFamily(counter, "weir_peer_sent_bytes_total", "Payload sent to the peer.", peerLabels...)
	peerReceived = newFamily(counter, "weir_peer_received_bytes_total", "Payload received from the peer.", peerLabels...)

	workerSessions  = newFamily(gauge, "weir_worker_sessions", "Sessions that the worker has.", "worker")
	workerAccepted  = newFamily(counter, "weir_worker_accepted_sessions_total", "Sessions begun.", "worker")
	workerAttempts  = newFamily(counter, "weir_worker_connect_attempts_total", "Attempts to connect to a peer.", "worker")
	workerFailures  = newFamily(counter, "weir_worker_connect_failures_total", "Attempts that failed, also those that were no peer's fault.", "worker")
	workerTurns     = newFamily(counter, "weir_worker_loop_turns_total", "Times that the event loop woke up.", "worker")
	workerStale     = newFamily(counter, "weir_worker_stale_events_total", "Events that came after what they were for had gone.", "worker")
	workerCPU       = newFamily(counter, "weir_worker_cpu_seconds_total", "Time that the worker's thread ran: its rate is the worker's busy share.", "worker")
	workerWait      = newFamily(counter, "weir_worker_cpu_wait_seconds_total", "Time that the worker's thread was ready to run and had no CPU. Absent where the kernel does not count it (CONFIG_SCHED_INFO).", "worker")
	workerPauses    = newFamily(counter, "weir_worker_accept_pauses_total", "Times that accepting paused for want of room or descriptors.", "worker")
	workerPipes     = newFamily(gauge, "weir_worker_pipes", "Pipes for splicing, lent or pooled.", "worker")
	workerBuffers   = newFamily(gauge, "weir_worker_buffers", "Buffers for what slow readers leave and what clients say before the connect, lent or pooled.", "worker")
	workerFallbacks = newFamily(counter, "weir_worker_splice_fallbacks_total", "Times that a pipe of full size could not be had.", "worker")

	lostLines = newFamily(counter, "weir_log_lost_lines_total", "Lines lost because the log was too slow or failed: log is access or decisions.", "log")

	listenOverflows = newFamily(counter, "weir_netns_listen_overflows_total", "Connections that found an accept queue full, anybody's in this network namespace (TcpExt ListenOverflows).")
	listenDrops     = newFamily(counter, "weir_netns_listen_drops_total", "Connections that were dropped on their way to an accept queue for any reason, anybody's in this network namespace (TcpExt ListenDrops).")
)

worker {
  count            = "auto"
  steering         = "auto"
  max_sessions     = "auto"
  shutdown_timeout = "30s"
}

log {
  level     = "info"
  format    = "text"
  access    = "stdout"
  decisions = "off"
  fields    = ["time", "listener", "remote_addr", "upstream", "upstream_addr", "tries", "status", "close_reason", "bytes_received", "bytes_sent", "upstream_connect_time", "session_time"]
}

# admin: none

resolver {
  # servers: those of the system
  timeout = "5s"
  valid   = "ttl"
}

upstream "a" {
  balance "hash" {
    key        = "${remote_addr}:${server_port}"
    consistent = true
  }
  server "10.0.0.1:80" {
    name         = "10.0.0.1:80"
    weight       = 1
    max_fails    = 1
    fail_timeout = "10s"
    max_conns    = 0
    slow_start   = "off"
    backup       = false
    down         = false
    resolve      = false
    service      = false
  }
  server "10.0.0.2:80" {
    name         = "10.0.0.2:80"
    weight       = 1
    max_fails    = 1
    fail_timeout = "10s"
    max_conns    = 0
    slow_start   = "off"
    backup       = false
    down         = false
    resolve      = false
    service      = false
  }
  # server_file: none
  # congestion: the system's
  # health_check: none
  exactly_one = false
  on_state {
    # unhealthy: TCP sessions run on, UDP clients go elsewhere
    # standby: TCP sessions run on, UDP clients go elsewhere
    # lagging: TCP sessions run on, UDP clients go elsewhere
    # drained: TCP sessions run on, UDP clients go elsewhere
    # removed: TCP sessions run on, UDP clients go elsewhere
    pace = "200/s"
  }
  # outlier_detection: none
  panic_threshold = "off"
  # queue: none: nobody waits for a server
  # circuit_breaker: none
  # adaptive_limit: none
}

listener "a" {
  listen   = ["127.0.0.1:1000"]
  protocol = "tcp"
  upstream = "a"
  # profile: none
  connect_timeout    = "3s"
  idle_timeout       = "10m"
  half_close_timeout = "1m"
  dead_peer_timeout  = "30s"
  # congestion: the system's
  priority = 1
  next_upstream {
    tries             = 0
    timeout           = "off"
    backoff           = "off"
    before_first_byte = false
  }
  # hedge: none
  limits {
    sessions            = 0
    sessions_per_client = 0
    # ipv4_prefix, ipv6_prefix: clients are not told apart
    accept_rate   = "off"
    upload_rate   = "off"
    download_rate = "off"
  }
}

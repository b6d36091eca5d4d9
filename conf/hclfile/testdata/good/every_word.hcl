worker {
  count            = 2
  max_sessions     = 5000
  shutdown_timeout = "off"
  steering         = "least_sessions"
}

log {
  level     = "warn"
  format    = "json"
  access    = "/var/log/weir/access.log"
  decisions = "failures"
  fields    = ["time", "remote_addr", "remote_port", "status", "upstream_first_byte_time"]
}

admin {
  listen  = "unix:/run/weir/admin.sock"
  group   = "weir"
  metrics = "0.0.0.0:9090"
}

upstream "orders" {
  balance "round_robin" {}
  congestion = "cubic"

  server "10.0.0.11:5432" {
    name         = "a"
    weight       = 10
    max_fails    = 2
    fail_timeout = "30s"
    max_conns    = 200
    backup       = false
    down         = false
  }
  server "[fd00::1]:5432" {
    max_fails    = 0
    fail_timeout = "0s"
    down         = true
  }
  server "db.example:5432" { weight = 65535 }
  server "unix:/run/postgresql/.s.PGSQL.5432" { backup = true }
}

listener "orders" {
  listen   = ["0.0.0.0:5432", "[::]:5432", "0.0.0.0:6000-6010", "unix:/run/weir/orders.sock"]
  protocol = "tcp"
  upstream = "orders"

  connect_timeout    = "1500ms"
  idle_timeout       = "off"
  half_close_timeout = "1h30m"
  dead_peer_timeout  = "1d"
  congestion         = "bbr"

  next_upstream {
    tries   = 3
    timeout = "10s"
  }
}

upstream "names" {
  server "10.0.0.53:53" {}
}

listener "names" {
  listen   = ["0.0.0.0:53"]
  protocol = "udp"
  upstream = "names"

  udp {
    idle_timeout = "30s"
    requests     = 100
    responses    = 1
    max_sessions = 1000
    quarantine   = "5s"
  }
}

upstream "orders" {
  server "10.0.0.11:5432" { max_conns = 200 }
  server "10.0.0.12:5432" {}

  queue {
    max     = 1000000
    timeout = "10m"
  }
  circuit_breaker {
    max_sessions = 1000
    max_pending  = 200
    max_retries  = 20
    failures     = 50
    window       = "30s"
    open_for     = "1s"
    probes       = 1
  }
  adaptive_limit "aimd" {
    min        = 10
    max        = 500
    initial    = 500
    target     = "200ms"
    percentile = 0.5
    window     = 10
    backoff    = 0.5
    measure    = "turn"
    apply_to   = "turn"
  }
}

listener "shop" {
  listen   = ["0.0.0.0:5432"]
  upstream = "orders"
  priority = 0

  next_upstream {
    tries             = 4
    backoff           = "1m"
    before_first_byte = true
  }
  hedge {
    after = "20ms"
    max   = "100%"
  }
  limits {
    sessions            = 10000
    sessions_per_client = 100
    ipv4_prefix         = 24
    ipv6_prefix         = 64
    accept_rate         = "500/s"
    upload_rate         = "10MiB/s"
    download_rate       = "off"
  }
}

listener "reports" {
  listen   = ["0.0.0.0:5433"]
  upstream = "orders"
  priority = 15

  next_upstream {
    backoff           = "off"
    before_first_byte = false
  }
  hedge {
    after = "p99.9"
    max   = 0.005
  }
  limits {
    sessions_per_client = 1
    accept_rate         = "0.5/s"
    upload_rate         = "1.5KiB/s"
    download_rate       = "1GiB/s"
  }
}

# PostgreSQL that is never asked for more than it can do. When it slows down,
# clients wait here and not there, the shop's before the reports'.

upstream "orders" {
  server "10.0.0.11:5432" {
    name      = "a"
    max_conns = 200 # below max_connections in postgresql.conf
  }
  server "10.0.0.12:5432" {
    name      = "b"
    max_conns = 200
  }
  server "10.0.0.13:5432" {
    name      = "c"
    max_conns = 200
  }

  # Sessions wait here while all servers are full, and so do a client's next
  # bytes while the limit below is reached.
  queue {
    max     = 100
    timeout = "2s"
  }

  # A server that fails is left alone for 5 s, and longer each time.
  circuit_breaker {
    max_retries = 20 # however many sessions fail, no more than these try again at once
    failures    = 50
    window      = "10s"
    open_for    = "5s"
  }

  # As many queries at once as are answered within 200 ms, 95 of 100 of them.
  # Idle sessions of a pool count for nothing.
  adaptive_limit "aimd" {
    min        = 10
    max        = 500
    initial    = 50
    target     = "200ms"
    percentile = 0.95
    measure    = "turn"
    apply_to   = "turn"
  }
}

listener "shop" {
  listen   = ["0.0.0.0:5432"]
  upstream = "orders"
  profile  = "postgres"
  priority = 0 # goes first

  next_upstream {
    tries   = 3
    timeout = "5s"
    backoff = "25ms"
  }
}

listener "reports" {
  listen   = ["0.0.0.0:5433"]
  upstream = "orders"
  profile  = "postgres"
  priority = 5 # waits while the shop needs the servers

  limits {
    sessions            = 50
    sessions_per_client = 10
    accept_rate         = "20/s"
    download_rate       = "10MiB/s"
  }
}

# PostgreSQL: sessions live for hours and are silent for most of it.

log {
  decisions = "failures" # why a session went elsewhere, on standard error
}

upstream "orders" {
  server "10.0.0.11:5432" {
    name         = "a"
    weight       = 2
    max_fails    = 2
    fail_timeout = "10s"
    max_conns    = 200 # below max_connections in postgresql.conf
  }

  server "10.0.0.12:5432" {
    name = "b"
  }

  # Only used when neither a nor b can be picked.
  server "10.0.0.13:5432" {
    name   = "spare"
    backup = true
  }
}

listener "orders" {
  listen   = ["0.0.0.0:5432", "[::]:5432"]
  upstream = "orders"

  connect_timeout = "2s"
  idle_timeout    = "off" # a pool's idle sessions stay

  # A client or server that vanished without a word is still noticed.
  dead_peer_timeout = "30s"

  next_upstream {
    tries   = 3
    timeout = "5s"
  }
}

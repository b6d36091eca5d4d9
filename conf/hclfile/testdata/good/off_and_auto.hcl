worker {
  count        = "auto"
  max_sessions = "auto"
}
log {
  access = "off"
}
upstream "db" {
  server "10.0.0.1:5432" {}
  # The same address twice is legal, and a warning.
  server "10.0.0.1:5432" {}
}
listener "db" {
  listen             = ["127.0.0.1:5432"]
  upstream           = "db"
  half_close_timeout = "off"
  dead_peer_timeout  = "off"
  next_upstream {
    tries   = 0
    timeout = "off"
  }
}

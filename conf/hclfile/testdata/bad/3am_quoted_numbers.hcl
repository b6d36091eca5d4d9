worker {
  count        = "2"
  max_sessions = "lots"
}
upstream "db" {
  server "10.0.0.1:5432" {
    weight    = "3"
    max_fails = "none"
    max_conns = "${env.WEIGHT}0"
    backup    = "true"
    down      = "yes"
  }
}
listener "db" {
  listen       = "0.0.0.0:5432"
  upstream     = ["db"]
  idle_timeout = 600
  dead_peer_timeout = false
  next_upstream {
    tries = "3"
  }
}

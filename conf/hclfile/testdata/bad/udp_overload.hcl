upstream "names" {
  server "10.0.0.1:53" { max_conns = 10 }
  queue {}
  circuit_breaker { max_sessions = 10 }
  adaptive_limit "vegas" {}
}
listener "tcp" {
  listen   = ["0.0.0.0:53"]
  upstream = "names"
}
listener "udp" {
  listen   = ["0.0.0.0:53"]
  protocol = "udp"
  upstream = "names"
  priority = 0
  hedge {}
  limits {
    sessions = 10
  }
  next_upstream {
    backoff = "25ms"
  }
}

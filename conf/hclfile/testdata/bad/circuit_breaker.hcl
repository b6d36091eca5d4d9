upstream "a" {
  server "10.0.0.1:5000" { max_conns = 10 }
  circuit_breaker {
    max_sessions = -1
    max_pending  = "auto"
    max_retries  = 1.5
    failures     = 3000000000
    window       = "off"
    open_for     = 5
    probes       = 0
    max_tries    = 3
  }
}
listener "a" {
  listen   = ["0.0.0.0:1"]
  upstream = "a"
  max_retries = 3
  failures    = 3
}

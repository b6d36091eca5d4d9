upstream "a" {
  server "10.0.0.1:5000" { max_conns = 10 }
  circuit_breaker {
    max_sessions = 100
    window       = "10s"
    open_for     = "5s"
    probes       = 3
  }
}
listener "a" {
  listen   = ["0.0.0.0:1"]
  upstream = "a"
}

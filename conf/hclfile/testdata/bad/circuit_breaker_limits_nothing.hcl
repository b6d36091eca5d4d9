upstream "empty" {
  server "10.0.0.1:5000" {}
  circuit_breaker {}
}
upstream "zeros" {
  server "10.0.0.1:5001" {}
  circuit_breaker {
    max_sessions = 0
    max_pending  = 0
    max_retries  = 0
    failures     = 0
    open_for     = "1s"
  }
}
# What is wrong may be what limits.
upstream "typo" {
  server "10.0.0.1:5002" {}
  circuit_breaker {
    max_sesions = 10
  }
}
listener "empty" {
  listen   = ["0.0.0.0:1"]
  upstream = "empty"
}
listener "zeros" {
  listen   = ["0.0.0.0:2"]
  upstream = "zeros"
}
listener "typo" {
  listen   = ["0.0.0.0:3"]
  upstream = "typo"
}

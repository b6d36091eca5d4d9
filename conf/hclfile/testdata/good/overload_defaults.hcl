upstream "a" {
  server "10.0.0.1:5000" { max_conns = 10 }
  server "10.0.0.2:5000" {}
  queue {}
  circuit_breaker { failures = 1 }
  adaptive_limit "aimd" { target = "1s" }
}
listener "a" {
  listen   = ["0.0.0.0:1"]
  upstream = "a"
  next_upstream {}
  hedge {}
  limits {}
}
upstream "b" {
  server "10.0.0.1:5001" {}
  queue {}
  circuit_breaker { max_sessions = 10 }
  adaptive_limit "gradient" {}
}
listener "b" {
  listen   = ["0.0.0.0:2"]
  upstream = "b"
}
upstream "c" {
  server "10.0.0.1:5002" {}
  circuit_breaker { max_pending = 10 }
  adaptive_limit "vegas" { measure = "first_byte" }
}
listener "c" {
  listen   = ["0.0.0.0:3"]
  upstream = "c"
  priority = 2
}
upstream "d" {
  server "10.0.0.1:5003" {}
  circuit_breaker { max_retries = 10 }
  adaptive_limit "vegas" {
    max     = 5
    measure = "connect"
  }
}
listener "d" {
  listen   = ["0.0.0.0:4"]
  upstream = "d"
}

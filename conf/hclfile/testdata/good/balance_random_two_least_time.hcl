upstream "a" {
  balance "random" {
    choices  = 2
    by       = "least_time"
    time     = "connect"
    inflight = true
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

listener "a" {
  listen   = ["127.0.0.1:1000"]
  upstream = "a"
}

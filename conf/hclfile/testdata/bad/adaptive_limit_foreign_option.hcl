upstream "u0" {
  server "10.0.0.1:5000" {}
  queue {}
  adaptive_limit "vegas" {
    target = "200ms"
    percentile = 0.95
    backoff = 0.9
    alpha = 3
  }
}
listener "u0" {
  listen   = ["0.0.0.0:1"]
  upstream = "u0"
}
upstream "u1" {
  server "10.0.0.1:5001" {}
  queue {}
  adaptive_limit "gradient" {
    backoff = 0.9
    min_limit = 10
  }
}
listener "u1" {
  listen   = ["0.0.0.0:2"]
  upstream = "u1"
}
